//! The ledger: partitions under their locks, every decision taken by `ledger-core`.

use async_trait::async_trait;
use ledger_core::decide::{self, Decision, Subject};
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Clock, Description, Durability, Ended, EventKind,
    Fate, FencedLedger, Generation, Lease, LedgerId, Note, Observation, Page, PageSize, PartitionId, PartitionPage,
    PartitionState, Position, RecordBudget, RecordPage, RecordSlot, Released, Renewal, Result, Standing, SystemClock,
    Tail, Ttl, judge,
};

use crate::copy::MemoryCopy;
use crate::partition::{Partition, ahead};
use crate::partitions::{Partitions, lock};
use crate::sync::{Arc, Mutex};

/// A ledger in memory. `Clone` is a second handle on the same ledger.
///
/// Every call ends at its first poll and holds a partition's lock only while it computes, so no call waits for
/// another's answer.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: LedgerId,
    clock: Arc<dyn Clock>,
    partitions: Partitions,
    /// The evidence about partitions that were never claimed: one budget for all (E3).
    never_claimed: Mutex<RecordBudget>,
}

impl MemoryLedger {
    /// A new, empty ledger on the host's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// A new, empty ledger on a clock of the caller's.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        let shared = Shared {
            id: LedgerId::mint(),
            clock: Arc::new(clock),
            partitions: Partitions::new(),
            never_claimed: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Copies the whole ledger as it stands. Nobody may write meanwhile; a partition is copied at one moment all the same.
    pub fn copy(&self) -> MemoryCopy {
        let never_claimed = lock(&self.shared.never_claimed).clone();
        MemoryCopy { partitions: self.shared.partitions.copy(), never_claimed }
    }

    /// Puts the ledger back to what a copy of it has, under every handle. What is written just then may go into the state
    /// that is thrown away, as with a store on disk.
    pub fn restore(&self, copy: &MemoryCopy) {
        self.shared.partitions.replace(&copy.partitions);
        *lock(&self.shared.never_claimed) = copy.never_claimed.clone();
    }

    /// The partition, where it was claimed before. No lock is held afterwards.
    fn find(&self, partition: &PartitionId) -> Option<Arc<Mutex<Partition>>> {
        self.shared.partitions.find(partition)
    }

    /// Decides under the partition's lock, the clock read last (T4), and does what was decided.
    fn decide<A>(
        &self,
        partition: &PartitionId,
        decide: impl FnOnce(Subject<'_>, Option<&Partition>) -> Decision<A>,
    ) -> Result<A> {
        match self.find(partition) {
            Some(found) => {
                let mut found = lock(&found);
                let decision = decide(self.subject(partition, Some(&found.standing)), Some(&found));
                found.apply(decision.write);
                Ok(decision.answer.map_err(|rejection| found.evidence.keep(*rejection))?)
            }
            None => Ok(decide(self.subject(partition, None), None)
                .answer
                .map_err(|rejection| lock(&self.shared.never_claimed).keep(*rejection))?),
        }
    }

    fn subject<'a>(&self, partition: &'a PartitionId, standing: Option<&'a Standing>) -> Subject<'a> {
        Subject::new(self.shared.id, partition, standing, self.shared.clock.now())
    }

    /// Decides about a partition that was not there a moment ago: under a lock on its place, so that one of those that
    /// race is first (C2) and a refused one leaves nothing behind. `None` where the partition is there now.
    fn decide_first<A>(
        &self,
        partition: &PartitionId,
        decide: impl FnOnce(Subject<'_>) -> Decision<A>,
    ) -> Option<Result<A>> {
        self.shared.partitions.first(partition, || {
            let decision = decide(self.subject(partition, None));
            let first = match (decision.write.lease, decision.write.entry) {
                (Some(lease), Some((entry, events))) => Some(Partition::first(lease, entry, events)),
                _ => None,
            };
            let keep = |rejection: Box<_>| lock(&self.shared.never_claimed).keep(*rejection).into();
            (first, decision.answer.map_err(keep))
        })
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl FencedLedger for MemoryLedger {
    async fn describe(&self) -> Result<Description> {
        let version = env!("CARGO_PKG_VERSION");
        Ok(Description::new(self.shared.id, "memory", version, Durability::Volatile, Vec::new()))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let found = self.find(partition);
        let found = found.as_ref().map(|found| lock(found));
        let standing = found.as_ref().map(|found| &found.standing);
        let judged = judge::judged(standing, self.shared.clock.now());
        let tenure = standing.map(|standing| standing.tenure(self.shared.id, partition));
        Ok(PartitionState::new(self.shared.id, partition.clone(), tenure, judged))
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        if self.find(&claim.partition).is_none()
            && let Some(answer) = self.decide_first(&claim.partition, |subject| decide::claim(subject, None, claim))
        {
            return answer;
        }
        self.decide(&claim.partition, |subject, partition| {
            decide::claim(subject, partition.and_then(|partition| partition.entry(claim.acquisition.into())), claim)
        })
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        lease.check_ledger(self.shared.id)?;
        self.decide(&lease.partition, |subject, _| decide::renew(subject, lease, ttl))
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        lease.check_ledger(self.shared.id)?;
        self.decide(&lease.partition, |subject, partition| {
            let past = partition.and_then(|partition| partition.past(lease.generation));
            decide::release(subject, past.as_ref(), lease)
        })
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.decide(partition, |subject, _| decide::end_tenure(subject, observed, reason))
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let partition = &advance.partition;
        let first = |subject: Subject<'_>| decide::advance(subject, &Tail::default(), None, None, advance);
        if self.find(partition).is_none()
            && let Some(answer) = self.decide_first(partition, first)
        {
            return answer;
        }
        self.decide(partition, |subject, partition| {
            let taken = partition.and_then(|partition| partition.advance(advance.acquisition));
            let taken = taken.as_ref().map(|(entry, record)| (entry.as_ref(), record));
            let earlier = partition.and_then(|partition| partition.entry(advance.acquisition.into()));
            decide::advance(subject, &Tail::of(subject.standing), taken, earlier.map(Arc::as_ref), advance)
        })
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.shared.id)?;
        self.decide(&lease.partition, |subject, partition| {
            decide::append(subject, partition.and_then(|partition| partition.entry(append.id())), lease, append)
        })
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        Ok(self.find(partition).map_or(Fate::Undecided, |found| lock(&found).fate(id, generation)))
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        match self.find(partition) {
            Some(found) => lock(&found).page(from, None, limit),
            None if from > Position::FIRST => Err(ahead(from, None)),
            None => Ok(Page::forward(Vec::new(), None)),
        }
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        match self.find(partition) {
            Some(found) => lock(&found).page(from, Some(kind), limit),
            None if from > Position::FIRST => Err(ahead(from, None)),
            None => Ok(Page::forward(Vec::new(), None)),
        }
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        match (self.find(partition), from) {
            (Some(found), _) => lock(&found).page_back(from, limit),
            (None, Some(from)) => Err(ahead(from, None)),
            (None, None) => Ok(Page::backward(Vec::new(), None)),
        }
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let (page, more) = self.shared.partitions.names(after, size(limit));
        Ok(PartitionPage::new(page, more))
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        let limit = size(limit);
        let Some(name) = partition else { return Ok(lock(&self.shared.never_claimed).page(None, after, limit)) };
        // What was refused before the first claim stands first, under no generation.
        let mut page = lock(&self.shared.never_claimed).page(Some(name), after, limit);
        if let (None, Some(found)) = (page.next, self.find(name)) {
            // One more than there is room for, so that a page which is full already knows of what follows.
            let mut claimed = lock(&found).evidence.page(Some(name), after, limit + 1 - page.records.len());
            let more = claimed.next.is_some() || page.records.len() + claimed.records.len() > limit;
            claimed.records.truncate(limit - page.records.len());
            page.records.extend(claimed.records);
            page = RecordPage::new(page.records, more);
        }
        Ok(page)
    }
}

fn size(limit: PageSize) -> usize {
    usize::try_from(limit.get()).unwrap_or(usize::MAX)
}
