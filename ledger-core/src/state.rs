//! What a store holds of a claimed partition: the input of the judgement.

use std::sync::Arc;

use crate::{
    AcquisitionId, Digest, Entry, Generation, Holder, Lease, LedgerId, PartitionId, Position, Revision, Succession,
    TenureEnd, TenureState, Timestamp, Ttl, Vacancy,
};

/// The lease as a store keeps it: a view of the log (G4), changed by claims, renewals, releases and operator steps
/// alone. An append does not change it.
///
/// Its serde form is for stores that keep it as one value, and part of no interface: a store that has columns uses
/// those.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct StoredLease {
    /// The current generation.
    pub generation: Generation,
    /// Its holder.
    pub holder: Holder,
    /// Its acquisition.
    pub acquisition: AcquisitionId,
    /// Its TTL.
    pub ttl: Ttl,
    /// Its expiry.
    pub expires_at: Timestamp,
    /// Why the partition is vacant, if it is.
    pub vacancy: Option<Vacancy>,
    /// How many renewals the partition has seen. With the head it makes the revision (J2).
    pub renewals: u64,
    /// The latest judged time stored here; the newest entry may have a later one.
    pub recorded_at: Timestamp,
    /// The position of the newest event as of this lease's own last change.
    pub head: Position,
    /// The chain value as of this lease's own last change.
    pub chain: Digest,
}

impl StoredLease {
    /// For a backend: a lease as it is stored.
    #[allow(clippy::too_many_arguments, reason = "the stored facts of a lease, which a backend reads all at once")]
    pub fn new(
        (generation, holder, acquisition): (Generation, Holder, AcquisitionId),
        (ttl, expires_at): (Ttl, Timestamp),
        vacancy: Option<Vacancy>,
        renewals: u64,
        recorded_at: Timestamp,
        (head, chain): (Position, Digest),
    ) -> Self {
        Self { generation, holder, acquisition, ttl, expires_at, vacancy, renewals, recorded_at, head, chain }
    }

    /// The lease that its holder was given.
    pub fn lease(&self, ledger: LedgerId, partition: &PartitionId) -> Lease {
        Lease::new(
            ledger,
            partition.clone(),
            self.holder.clone(),
            self.generation,
            self.acquisition,
            self.ttl,
            self.expires_at,
        )
    }
}

/// A claimed partition: its stored lease and its newest entry, read in one view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// The stored lease.
    pub lease: StoredLease,
    /// The newest entry of the log. `None` only where the log was lost: that is [`Reason::Diverged`](crate::Reason).
    pub tip: Option<Arc<Entry>>,
}

impl Standing {
    /// For a backend.
    pub fn new(lease: StoredLease, tip: Option<Arc<Entry>>) -> Self {
        Self { lease, tip }
    }

    /// The position of the newest event.
    pub fn head(&self) -> Position {
        self.tip.as_ref().map_or(self.lease.head, |tip| tip.last)
    }

    /// The chain value of the newest entry.
    pub fn chain(&self) -> Digest {
        self.tip.as_ref().map_or(self.lease.chain, |tip| tip.chain)
    }

    /// The recorded time: the latest judged time stored in the lease or in the log.
    pub fn recorded_at(&self) -> Timestamp {
        let in_log = self.tip.as_ref().map_or(self.lease.recorded_at, |tip| tip.recorded_at);
        in_log.max(self.lease.recorded_at)
    }

    /// The revision: the head position plus the count of renewals.
    pub fn revision(&self) -> Revision {
        Revision::new(self.head().get().unsigned_abs() + self.lease.renewals)
    }

    /// Whether log and lease contradict each other (G4), seen from the newest entry alone.
    ///
    /// Every change of the ledger's own is written with the lease. So where the newest entry is one, the lease must
    /// know it: that tells a lease which was rewound behind its own claim, release or end.
    pub fn has_diverged(&self) -> bool {
        let lease = &self.lease;
        let Some(tip) = &self.tip else { return true };
        let is_claim = tip.id == Some(tip.acquisition.into());
        let is_end = tip.id.is_none();
        tip.generation != lease.generation
            || tip.acquisition != lease.acquisition
            || tip.holder != lease.holder
            || tip.last < lease.head
            || (tip.last == lease.head && tip.chain != lease.chain)
            || ((is_claim || is_end) && tip.last != lease.head)
            || is_end != lease.vacancy.is_some()
    }

    /// Whether `generation` has visibly ended: a committed fact that never un-ends (E4, U2).
    pub fn has_visibly_ended(&self, generation: Generation) -> bool {
        generation < self.lease.generation
            || (generation == self.lease.generation
                && (self.lease.vacancy.is_some() || self.recorded_at() >= self.lease.expires_at))
    }

    /// The answer part of [`observe`](crate::FencedLedger::observe).
    ///
    /// Where the log falls short of what the lease knows, it is the lease that says where the log should end: so
    /// [`verify`](crate::FencedLedgerExt::verify) finds a tail that was cut.
    pub fn tenure(&self, ledger: LedgerId, partition: &PartitionId) -> TenureState {
        let lease = &self.lease;
        let (head, chain) =
            if self.head() < lease.head { (lease.head, lease.chain) } else { (self.head(), self.chain()) };
        TenureState::new(lease.lease(ledger, partition), lease.vacancy.clone(), self.recorded_at(), head, chain)
    }
}

/// Where a log ends, whatever the lease says: what an advance goes on from (I4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tail {
    /// The newest position. Beyond the end of `entry` where the newest entry lost its own end; `None` where there is no
    /// event.
    pub last: Option<Position>,
    /// The newest entry that has its end.
    pub entry: Option<Arc<Entry>>,
}

impl Tail {
    /// For a backend.
    pub fn new(last: Option<Position>, entry: Option<Arc<Entry>>) -> Self {
        Self { last, entry }
    }

    /// For a store whose log can not be cut within an entry.
    pub fn of(standing: Option<&Standing>) -> Self {
        let entry = standing.and_then(|standing| standing.tip.clone());
        Self { last: entry.as_ref().map(|entry| entry.last), entry }
    }
}

/// An earlier tenure, as its `$claimed` entry and the one that followed it tell: what a release of a lease of an
/// older generation is judged by (R3).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastTenure {
    /// Who held it.
    pub holder: Holder,
    /// The acquisition by which it was held.
    pub acquisition: AcquisitionId,
    /// How it ended.
    pub end: TenureEnd,
}

impl PastTenure {
    /// For a backend.
    pub fn new(holder: Holder, acquisition: AcquisitionId, end: TenureEnd) -> Self {
        Self { holder, acquisition, end }
    }

    /// For a backend: the tenure of a holder and an acquisition as the claim after it tells its end, or else, where an
    /// operator's advance is all that came after it, the stored lease (I4). `None` where neither does: the log was
    /// edited.
    pub fn before(
        (holder, acquisition): (Holder, AcquisitionId),
        next: Option<&Succession>,
        lease: &StoredLease,
    ) -> Option<Self> {
        let end = match (next, &lease.vacancy) {
            (Some(next), _) => TenureEnd::from(next),
            (None, Some(vacancy @ Vacancy::Advanced { .. })) => TenureEnd::new(vacancy.into()),
            (None, _) => return None,
        };
        Some(Self { holder, acquisition, end })
    }
}
