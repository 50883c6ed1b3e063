//! A ledger that compares its store with a witness.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;

use super::Witness;
use super::compare::{compare, newest};
use crate::{
    AcquisitionId, Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Digest, Ended,
    EventKind, Failure, FailureKind, Fate, FencedLedger, Generation, LazyPage, Lease, LedgerError, LedgerId, Mark,
    Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position, Reason, RecordPage,
    RecordSlot, Released, Renewal, Result, Rewind, RolledBack, Ttl, chain,
};

/// When marks are kept beside those of claims and advances. What was acknowledged after the last mark can be lost without
/// any later claim noticing; its holder still does, as long as it lives (R2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "closed: an answer is marked or it is not")]
pub enum Marking {
    /// At each renewal, and before a release: one write to the witness for each. The default.
    #[default]
    Renewals,
    /// At each append too, before it is answered: what was acknowledged is marked. One write to the witness an append.
    Appends,
}

/// A ledger whose store is compared with a [`Witness`] (I3). Itself a [`FencedLedger`]: keeper, request book and all
/// other conveniences work over it.
///
/// An answer that is to be marked is given when its mark is kept. Where the witness fails:
///
/// - before a claim, an advance or a release was sent: [`NotWritten`](LedgerError::NotWritten), and the store is not asked;
/// - after a call was granted: [`Unknown`](LedgerError::Unknown). It stands in the log; the same call sent again is answered
///   as before and tries the mark again. A keeper so loses its trust when its witness stays away for longer than its
///   lease.
///
/// Whoever is told [`RolledBack`](LedgerError::RolledBack) stops. A claim that was refused so has written nothing; a call
/// whose answer showed it (`written`) stands in a history that went wrong before it. A lease that was refused so once is
/// not sent to the store again by this handle.
///
/// Cost: a claim reads the witness, observes the partition and reads one event at the mark before and after the grant; a
/// renewal, an append or a release compares in memory.
#[derive(Debug)]
pub struct Witnessed {
    ledger: Arc<dyn FencedLedger>,
    witness: Arc<dyn Witness>,
    marking: Marking,
    id: OnceLock<LedgerId>,
    held: Mutex<HashMap<PartitionId, Held>>,
}

/// What this handle knows of a lease.
#[derive(Clone, Debug)]
struct Held {
    acquisition: AcquisitionId,
    /// The newest entry that the store has acknowledged.
    acknowledged: Mark,
    /// The newest mark that was kept.
    kept: Option<Mark>,
    rolled_back: Option<RolledBack>,
}

impl Witnessed {
    /// Compares `ledger` with `witness`.
    pub fn new(ledger: Arc<dyn FencedLedger>, witness: Arc<dyn Witness>) -> Self {
        Self { ledger, witness, marking: Marking::default(), id: OnceLock::new(), held: Mutex::default() }
    }

    /// The same, with another choice of when marks are kept.
    #[must_use]
    pub fn marking(mut self, marking: Marking) -> Self {
        self.marking = marking;
        self
    }

    async fn id(&self) -> Result<LedgerId> {
        match self.id.get() {
            Some(id) => Ok(*id),
            None => Ok(*self.id.get_or_init({
                let id = self.ledger.describe().await?.ledger;
                move || id
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PartitionId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The witness's mark, before the store is asked for anything: both only grow, so the store must reach it.
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>> {
        let unread = |failure: Failure| {
            let detail = format!("the store was not asked, as its witness can not be read: {failure}");
            LedgerError::NotWritten(Failure { detail, ..failure })
        };
        self.witness.mark(ledger, partition).await.map_err(unread)
    }

    /// Keeps a mark of something that was granted.
    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<()> {
        let unwritten = |failure: Failure| {
            let detail = format!("a mark of what the store has granted could not be kept: {failure}");
            LedgerError::Unknown(Failure { detail, ..failure })
        };
        let kept = self.witness.keep(ledger, partition, mark).await.map_err(unwritten)?;
        // Another who shares the lease, or who took over since, has kept a later one. If it is of this history, the store
        // has it.
        if kept != mark && !mark.is_later_than(&kept) {
            let seen = newest(&self.ledger.observe(partition).await.map_err(once_granted)?);
            compare(&*self.ledger, partition, kept, seen, true).await.map_err(once_granted)?;
        }
        Ok(())
    }

    /// Keeps the newest acknowledged entry of a lease as a mark, if it is not kept yet.
    async fn keep_newest(&self, lease: &Lease) -> Result<()> {
        let Some(held) = self.known(lease) else { return Ok(()) };
        if held.kept == Some(held.acknowledged) {
            return Ok(());
        }
        // As a claim reads it: of several ledgers behind one handle, the lease names the one that it is on.
        self.keep(self.id().await.map_err(once_granted)?, &lease.partition, held.acknowledged)
            .await
            .inspect_err(|error| self.note(lease, error))?;
        if let Some(now) = self.lock().get_mut(&lease.partition).filter(|now| now.acquisition == lease.acquisition) {
            now.kept = now.kept.filter(|kept| kept.is_later_than(&held.acknowledged)).or(Some(held.acknowledged));
        }
        Ok(())
    }

    fn known(&self, lease: &Lease) -> Option<Held> {
        self.lock().get(&lease.partition).filter(|held| held.acquisition == lease.acquisition).cloned()
    }

    /// What is known of a lease before a call under it is sent; refused where the store has shown that it went back.
    fn before(&self, lease: &Lease) -> Result<Option<Mark>> {
        match self.known(lease) {
            Some(Held { rolled_back: Some(back), .. }) => Err(RolledBack { written: false, ..back }.into()),
            known => Ok(known.map(|held| held.acknowledged)),
        }
    }

    /// Takes in what the store has acknowledged under a lease.
    fn acknowledged(&self, lease: &Lease, mark: Mark) {
        let mut all = self.lock();
        let new = Held { acquisition: lease.acquisition, acknowledged: mark, kept: None, rolled_back: None };
        match all.get_mut(&lease.partition) {
            Some(held) if held.acquisition == lease.acquisition => {
                if mark.is_later_than(&held.acknowledged) {
                    held.acknowledged = mark;
                }
            }
            // A call under an older lease was answered late.
            Some(held) if held.acknowledged.generation > mark.generation => {}
            _ => drop(all.insert(lease.partition.clone(), new)),
        }
    }

    /// The error of a store that went back under a lease, noted.
    fn stop(&self, lease: &Lease, mark: Mark, seen: Option<Mark>, written: bool) -> LedgerError {
        let behind = seen.is_none_or(|seen| seen.position < mark.position);
        let rewind = if behind { Rewind::Behind } else { Rewind::OtherHistory };
        let error = RolledBack { partition: lease.partition.clone(), mark, seen, rewind, written }.into();
        self.note(lease, &error);
        error
    }

    /// Notes that the store went back: the lease is not sent to it again.
    fn note(&self, lease: &Lease, error: &LedgerError) {
        let LedgerError::RolledBack(back) = error else { return };
        tracing::warn!(partition = %lease.partition, generation = lease.generation.get(), %back, "rolled back");
        if let Some(held) = self.lock().get_mut(&lease.partition).filter(|held| held.acquisition == lease.acquisition) {
            held.rolled_back = Some(back.as_ref().clone());
        }
    }

    /// A refusal that the store can not give to a lease which it has granted, unless it went back.
    async fn refused(&self, lease: &Lease, known: Option<Mark>, error: LedgerError) -> LedgerError {
        let impossible = matches!(
            error.rejection().map(|rejection| rejection.reason),
            Some(Reason::NeverClaimed | Reason::UnknownGeneration | Reason::WrongAcquisition)
        );
        let Some(mark) = known.filter(|_| impossible) else { return error };
        match self.ledger.observe(&lease.partition).await {
            Ok(state) => self.stop(lease, mark, newest(&state), false),
            Err(_) => error,
        }
    }

    /// Begins with a lease that was just granted, whatever was known of another before.
    fn forget_and_hold(&self, lease: &Lease, granted: Mark) {
        self.forget(&lease.partition);
        self.acknowledged(lease, granted);
    }

    fn forget(&self, partition: &PartitionId) {
        self.lock().remove(partition);
    }
}

#[async_trait]
impl FencedLedger for Witnessed {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger.observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let (ledger, partition) = (&*self.ledger, &claim.partition);
        let mark = self.mark(self.id().await?, partition).await?;
        if let Some(mark) = mark {
            compare(ledger, partition, mark, newest(&ledger.observe(partition).await?), false).await?;
        }
        let claimed = ledger.claim(claim).await?;
        let lease = &claimed.lease;
        let known = self.before(lease)?;
        let granted = Mark::new(lease.generation, claimed.head, claimed.chain);
        // The store may have gone back between the comparison and the grant.
        if let Some(mark) = mark {
            compare(ledger, partition, mark, Some(granted), !claimed.replayed).await.map_err(once_granted)?;
        }
        match known {
            // Asked for again.
            Some(known) if is_behind(granted, known) => return Err(self.stop(lease, known, Some(granted), false)),
            Some(_) => self.acknowledged(lease, granted),
            None => self.forget_and_hold(lease, granted),
        }
        self.keep_newest(lease).await?;
        Ok(claimed)
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let known = self.before(lease)?;
        let renewal = match self.ledger.renew(lease, ttl).await {
            Ok(renewal) => renewal,
            Err(error) => return Err(self.refused(lease, known, error).await),
        };
        let seen = Mark::new(lease.generation, renewal.head, renewal.chain);
        if let Some(known) = known.filter(|known| is_behind(seen, *known)) {
            return Err(self.stop(lease, known, Some(seen), true));
        }
        self.acknowledged(lease, seen);
        self.keep_newest(lease).await?;
        Ok(renewal)
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        let known = self.before(lease)?;
        self.keep_newest(lease).await.map_err(|error| match error {
            LedgerError::Unknown(failure) => LedgerError::NotWritten(failure),
            LedgerError::RolledBack(back) => RolledBack { written: false, ..*back }.into(),
            other => other,
        })?;
        let released = match self.ledger.release(lease).await {
            Ok(released) => released,
            Err(error) => return Err(self.refused(lease, known, error).await),
        };
        if let (Some(known), Released::Now { position, .. }) = (known, &released)
            && *position <= known.position
        {
            // The answer tells no chain value.
            let seen = newest(&self.ledger.observe(&lease.partition).await.map_err(once_granted)?);
            return Err(self.stop(lease, known, seen, true));
        }
        if self.known(lease).is_some() {
            self.forget(&lease.partition);
        }
        Ok(released)
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger.end_tenure(partition, observed, reason).await
    }

    /// Beside the contract: a step that would leave the partition behind its witness is refused as
    /// [`RolledBack`](LedgerError::RolledBack), which names the generation to go above.
    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let (ledger, partition) = (self.id().await?, &advance.partition);
        if let Some(mark) = self.mark(ledger, partition).await?
            && advance.above < Some(mark.generation)
        {
            let seen = newest(&self.ledger.observe(partition).await?);
            compare(&*self.ledger, partition, mark, seen, false).await?;
        }
        let advanced = self.ledger.advance(advance).await?;
        self.forget(partition);
        self.keep(ledger, partition, advanced.mark()).await?;
        Ok(advanced)
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        let known = self.before(lease)?;
        let appended = match self.ledger.append(lease, append).await {
            Ok(appended) => appended,
            Err(error) => return Err(self.refused(lease, known, error).await),
        };
        let entry = &appended.entry;
        if let (Some(known), false) = (known, appended.replayed)
            && (entry.first <= known.position || !follows(known, lease, entry))
        {
            return Err(self.stop(lease, known, Some(Mark::of(entry)), true));
        }
        if entry.generation == lease.generation {
            self.acknowledged(lease, Mark::of(entry));
        }
        if self.marking == Marking::Appends {
            self.keep_newest(lease).await?;
        }
        Ok(appended)
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger.read(partition, from, limit).await
    }

    async fn read_lazily(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<LazyPage> {
        self.ledger.read_lazily(partition, from, limit).await
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        self.ledger.read_kind(partition, kind, from, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.ledger.read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.ledger.partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.ledger.rejections(partition, after, limit).await
    }
}

/// The error of a look that came after a grant: what it proves of itself is not so of the call.
fn once_granted(error: LedgerError) -> LedgerError {
    match error {
        back @ LedgerError::RolledBack(_) => back,
        LedgerError::NotWritten(failure) | LedgerError::Unknown(failure) => LedgerError::Unknown(failure),
        other => {
            let detail = format!("granted by the store, but the comparison with the witness failed: {other}");
            LedgerError::Unknown(Failure::new(FailureKind::Other, detail).with_source(other))
        }
    }
}

/// Whether a store that shows `seen` under a lease has lost what is known of it (R2).
fn is_behind(seen: Mark, known: Mark) -> bool {
    seen.position < known.position || (seen.position == known.position && seen.chain != known.chain)
}

/// Whether an entry that stands right after what is known goes on from its chain value. Of one further on nothing can be
/// said without a read.
fn follows(known: Mark, lease: &Lease, entry: &crate::Entry) -> bool {
    let chained = |chain: Digest| chain::next(chain, lease.ledger, &lease.partition, entry);
    known.position.next() != Some(entry.first) || chained(known.chain) == entry.chain
}
