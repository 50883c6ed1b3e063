//! The trait that every store implements.

use async_trait::async_trait;

use crate::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, EventKind, Fate, Generation,
    LazyPage, Lease, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position,
    RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

/// How many events a read by kind looks at in one call: 100,000 (D7).
pub const MAX_LOOKED: u32 = 100_000;

/// A ledger whose store judges every write, in the atomic step that writes it.
///
/// Implement this for a store; use [`FencedLedgerExt`](crate::FencedLedgerExt) for the conveniences. The trait can be
/// used as `dyn FencedLedger`, so that the backend is picked at run time.
///
/// # Contract
///
/// The [contract](crate::contract) rules. Under each method stand the rules that an implementation must uphold, and
/// `conformance-tests` checks them. These hold for every method:
///
/// - Every answer carries [`Judged`](crate::Judged) or stored facts alone (J2).
/// - Bad input is [`LedgerError::Invalid`](crate::LedgerError::Invalid), before the store is asked (J4).
/// - A refusal of the right to write leaves its record, durable before the answer (E1, E2, E3).
/// - An error says what it proves (U1); the implementation tries again only what surely was not written (U4).
///
/// # Cancel safety
///
/// Dropping the future of any method, after any number of polls, leaves the whole effect or none, and a usable
/// handle (U3). Whether there was an effect is then unknown: send the same claim or append again, or ask
/// [`fate`](Self::fate).
#[async_trait]
pub trait FencedLedger: Send + Sync + std::fmt::Debug {
    /// Says what the store is.
    ///
    /// To be conformant: S4. The answer is the same over the life of the handle.
    async fn describe(&self) -> Result<Description>;

    /// Reads the state of a partition.
    ///
    /// To be conformant: takes no lock (D1); shows a state that was committed at one moment; the judged time is
    /// max(clock, recorded time) (T2).
    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState>;

    /// Claims a partition. The lease is valid at the judged time of the answer.
    ///
    /// To be conformant: C1 to C6; G1 to G4; T2 to T4; the order of J1. Exactly one of the claims that race from one
    /// observation is granted, the first claim of a new partition included. The same acquisition again is answered
    /// with the lease as it stands.
    async fn claim(&self, claim: &Claim) -> Result<Claimed>;

    /// Renews a lease, for `ttl` or else for the TTL that it was granted with.
    ///
    /// To be conformant: R1, R2; T2 to T4; the order of J1.
    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal>;

    /// Releases a partition. A tenure that has ended is answered as such, a success.
    ///
    /// To be conformant: R3; G4; T2 to T4.
    async fn release(&self, lease: &Lease) -> Result<Released>;

    /// Ends the tenure that was observed, as an operator: the way to free a partition whose lease a clock that had
    /// jumped ahead, or a mistake, keeps alive.
    ///
    /// To be conformant: C3, G4, C5 (the reason stands in the next `$claimed`).
    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended>;

    /// Lets a partition go on above every generation ever seen, as an operator: after a store went back in time, or where
    /// lease and log contradict each other. It needs no lease and ends whatever tenure there is; the partition is vacant
    /// afterwards. The same value again is answered as before.
    ///
    /// To be conformant: I4, G1, G4, C5 (the reason stands in the next `$claimed`); the order of J1. The log goes on from
    /// its last entry, whatever the lease says. A partition that was never claimed is created.
    async fn advance(&self, advance: &Advance) -> Result<Advanced>;

    /// Appends, if the lease is the current one and valid.
    ///
    /// To be conformant: A1 to A7; T2 to T4; G4; the order of J1; J3; E4; I1. Judged and written in one atomic step.
    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended>;

    /// Tells what became of an append that was sent under `generation`. Needs no lease.
    ///
    /// To be conformant: U2. The partition and the id are read in one snapshot, and no lock is taken.
    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate>;

    /// Reads events in ascending order, from a position on.
    ///
    /// To be conformant: D1, D2, D5, D6, A6. A start beyond the position after the head is
    /// [`AheadOfLog`](crate::LedgerError::AheadOfLog) (D4); just after the head it is an empty page.
    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page>;

    /// Reads the same page as [`read`](Self::read), its events made as they are taken:
    /// [`events`](crate::FencedLedgerExt::events) reads so.
    ///
    /// To be conformant: as [`read`](Self::read); where that is an error, so is this, before any event is taken. A store
    /// whose rows are read by the thread that consumes them leaves this method as it is.
    async fn read_lazily(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<LazyPage> {
        self.read(partition, from, limit).await.map(LazyPage::from)
    }

    /// Reads the events of one kind in ascending order, from a position on: the store leaves the others out.
    ///
    /// A call looks at [`MAX_LOOKED`] events at most, so a page may be empty though
    /// [`next`](Page::next) says where to go on. [`values`](crate::FencedLedgerExt::values) goes on by itself.
    ///
    /// To be conformant: as [`read`](Self::read), and D7. A store that can not filter leaves this method as it is: a
    /// page is read, and what does not match is left out.
    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        let mut page = self.read(partition, from, limit).await?;
        page.events.retain(|event| event.kind == *kind);
        Ok(page)
    }

    /// Reads events in descending order, from a position or else from the head.
    ///
    /// To be conformant: as [`read`](Self::read); a start beyond the head is
    /// [`AheadOfLog`](crate::LedgerError::AheadOfLog).
    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page>;

    /// Lists the partitions that were ever claimed, in the order of the bytes of their names.
    ///
    /// To be conformant: each exactly once over the pages, as far as it existed when the first page was read.
    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage>;

    /// Lists the rejection records of a partition; with `None` those of the budget that all never-claimed partitions
    /// share (E3). Where handles count in memory, counts of repeats may lag by a second.
    ///
    /// To be conformant: E1 to E3; ordered by slot.
    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage>;
}
