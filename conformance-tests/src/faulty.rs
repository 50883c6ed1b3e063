//! A ledger with a bad connection: answers to renewals and appends get lost, as a script says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, EventKind, Failure, FailureKind,
    Fate, FencedLedger, Generation, Lease, LedgerError, Note, Observation, Page, PageSize, PartitionId, PartitionPage,
    PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

/// What happens to renewals and appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nothing.
    Good = 0,
    /// Of every two calls, the first is done and its answer is lost.
    EverySecondAnswerLost = 1,
    /// Appends are done, and their answers are lost.
    AppendAnswersLost = 2,
    /// Appends do not arrive, and nobody is told so.
    AppendsLost = 3,
}

#[derive(Debug)]
pub(crate) struct Faulty {
    ledger: Arc<dyn FencedLedger>,
    line: AtomicU8,
    renewals: AtomicUsize,
    appends: AtomicUsize,
    in_flight: AtomicUsize,
}

/// A call that the store has, until it answers or its future is dropped.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Faulty {
    pub(crate) fn new(ledger: Arc<dyn FencedLedger>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            line: AtomicU8::new(Line::Good as u8),
            renewals: AtomicUsize::new(0),
            appends: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
        })
    }

    pub(crate) fn set(&self, line: Line) {
        self.line.store(line as u8, Ordering::SeqCst);
    }

    /// How many appends were sent.
    pub(crate) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    /// Whether the store has no renewal, append or fate to answer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }

    fn is(&self, line: Line) -> bool {
        self.line.load(Ordering::SeqCst) == line as u8
    }

    /// The answer, or its loss.
    fn carry<T>(&self, nth: usize, answer: Result<T>) -> Result<T> {
        if self.is(Line::EverySecondAnswerLost) && nth.is_multiple_of(2) { Err(lost()) } else { answer }
    }
}

fn lost() -> LedgerError {
    LedgerError::Unknown(Failure::new(FailureKind::Unavailable, "the connection was lost"))
}

#[async_trait]
impl FencedLedger for Faulty {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger.observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.ledger.claim(claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let _in_flight = InFlight::new(&self.in_flight);
        let nth = self.renewals.fetch_add(1, Ordering::SeqCst);
        self.carry(nth, self.ledger.renew(lease, ttl).await)
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.ledger.release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger.advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        let _in_flight = InFlight::new(&self.in_flight);
        let nth = self.appends.fetch_add(1, Ordering::SeqCst);
        if self.is(Line::AppendsLost) {
            return Err(lost());
        }
        let answer = self.ledger.append(lease, append).await;
        if self.is(Line::AppendAnswersLost) { Err(lost()) } else { self.carry(nth, answer) }
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let _in_flight = InFlight::new(&self.in_flight);
        self.ledger.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger.read(partition, from, limit).await
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
