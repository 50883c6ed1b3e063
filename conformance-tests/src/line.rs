//! The line between a handle and its store, and what a case does to it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Failure, FailureKind, Fate,
    FencedLedger, Generation, Lease, LedgerError, Note, Observation, Page, PageSize, PartitionId, PartitionPage,
    PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};
use tokio::sync::Semaphore;

use crate::HarnessError;

/// A handle whose line to the store is disturbed, one call at a time.
///
/// A disturbance strikes the next call that may change something (`claim`, `renew`, `release`, `end_tenure`, `advance`, `append`),
/// once. Looks and reads pass.
#[async_trait]
pub trait Line: Send + Sync {
    /// The handle.
    fn ledger(&self) -> Arc<dyn FencedLedger>;

    /// The store does what the next call asks, to its end, and the answer is lost.
    async fn lose_reply(&self) -> Result<(), HarnessError>;

    /// The next call does not reach the store, and its caller is not told so.
    async fn lose_request(&self) -> Result<(), HarnessError>;

    /// The next call stays on its way until the gate is opened.
    async fn hold_request(&self) -> Result<Box<dyn Gate>, HarnessError>;
}

/// Where a call is held on its way to the store.
#[async_trait]
pub trait Gate: Send {
    /// Waits until the call stands at the gate.
    async fn reached(&mut self) -> Result<(), HarnessError>;

    /// Lets the call go on to the store.
    async fn open(self: Box<Self>) -> Result<(), HarnessError>;
}

/// A [`Line`] to a store that lives in the caller's process and has no line that could break.
///
/// It stands for what a program does to itself: it gives a call up and forgets the answer, or is late with it. It shows
/// what the store makes of that, and not how the store tells a broken connection, since there is none.
#[derive(Clone, Debug)]
pub struct InProcessLine(Arc<Disturbed>);

impl InProcessLine {
    /// A line over a handle.
    pub fn new(ledger: Arc<dyn FencedLedger>) -> Self {
        Self(Arc::new(Disturbed { ledger, next: Mutex::default() }))
    }

    fn arm(&self, disturbance: Disturbance) {
        *self.0.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(disturbance);
    }
}

#[async_trait]
impl Line for InProcessLine {
    fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.0.clone()
    }

    async fn lose_reply(&self) -> Result<(), HarnessError> {
        self.arm(Disturbance::LoseReply);
        Ok(())
    }

    async fn lose_request(&self) -> Result<(), HarnessError> {
        self.arm(Disturbance::LoseRequest);
        Ok(())
    }

    async fn hold_request(&self) -> Result<Box<dyn Gate>, HarnessError> {
        let (reached, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        self.arm(Disturbance::Hold { reached: reached.clone(), open: open.clone() });
        Ok(Box::new(InProcessGate { reached, open }))
    }
}

struct InProcessGate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

#[async_trait]
impl Gate for InProcessGate {
    async fn reached(&mut self) -> Result<(), HarnessError> {
        self.reached.acquire().await?.forget();
        Ok(())
    }

    async fn open(self: Box<Self>) -> Result<(), HarnessError> {
        self.open.add_permits(1);
        Ok(())
    }
}

#[derive(Debug)]
enum Disturbance {
    LoseReply,
    LoseRequest,
    Hold { reached: Arc<Semaphore>, open: Arc<Semaphore> },
}

#[derive(Debug)]
struct Disturbed {
    ledger: Arc<dyn FencedLedger>,
    next: Mutex<Option<Disturbance>>,
}

impl Disturbed {
    async fn carry<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let disturbance = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        match disturbance {
            None => call.await,
            Some(Disturbance::LoseRequest) => Err(lost()),
            Some(Disturbance::LoseReply) => {
                // Whatever it answers, nobody hears it.
                drop(call.await);
                Err(lost())
            }
            Some(Disturbance::Hold { reached, open }) => {
                reached.add_permits(1);
                // The gate was dropped without being opened: the call goes on too.
                drop(open.acquire().await);
                call.await
            }
        }
    }
}

fn lost() -> LedgerError {
    LedgerError::Unknown(Failure::new(FailureKind::Unavailable, "the answer was lost"))
}

#[async_trait]
impl FencedLedger for Disturbed {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger.observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.carry(self.ledger.claim(claim)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.carry(self.ledger.renew(lease, ttl)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.carry(self.ledger.release(lease)).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.carry(self.ledger.end_tenure(partition, observed, reason)).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.carry(self.ledger.advance(advance)).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.carry(self.ledger.append(lease, append)).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger.read(partition, from, limit).await
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
