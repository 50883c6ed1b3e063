//! A ledger at the other end of the network.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Failure, FailureKind, Fate,
    FencedLedger, Generation, Lease, LedgerError, Note, Observation, Page, PageSize, PartitionId, PartitionPage,
    PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

use super::executor::{Slot, State};
use super::{Faults, SimNetwork};
use crate::Violation;

#[derive(Debug)]
pub(super) struct SimRemote {
    network: SimNetwork,
    ledger: Arc<dyn FencedLedger>,
}

/// What a message asks the ledger for, as often as it arrives.
type Call<T> = Arc<dyn Fn(Arc<dyn FencedLedger>) -> BoxFuture<'static, Result<T>> + Send + Sync>;

/// What the oracle makes of an answer, and the number by which it stands in the trace.
type Watch<T> = Arc<dyn Fn(&mut State, &T) -> Result<i64, Violation> + Send + Sync>;

impl SimRemote {
    pub(super) fn new(network: SimNetwork, ledger: Arc<dyn FencedLedger>) -> Self {
        Self { network, ledger }
    }

    /// Sends a request, once or twice, and waits for the first answer or for the time-out.
    async fn send<T: Send + 'static>(&self, code: u64, call: Call<T>, watch: Watch<T>, writes: bool) -> Result<T> {
        let answer = Slot::default();
        let (faults, times) = self.depart();
        for time in times {
            let (call, watch, answer, ledger) = (call.clone(), watch.clone(), answer.clone(), self.ledger.clone());
            let arrive = move |network: &SimNetwork| arrive(network, code, ledger, &call, &watch, answer);
            self.network.after(time, Box::new(arrive));
        }
        let late = answer.clone();
        let failure = Failure::new(FailureKind::Unavailable, "no answer came");
        let error = if writes { LedgerError::Unknown(failure) } else { LedgerError::NotWritten(failure) };
        self.network.after(faults.time_out, Box::new(move |_| late.fill(Err(error))));
        answer.await
    }

    /// The faults, and when each copy of a request will arrive.
    fn depart(&self) -> (Faults, Vec<std::time::Duration>) {
        let mut state = self.network.lock();
        let faults = state.faults;
        let copies = 1 + u8::from(state.happens(faults.doubled));
        state.figures.doubled += u64::from(copies - 1);
        (faults, (0..copies).filter_map(|_| travel(&mut state, faults.request_lost)).collect())
    }

    /// Sends a read, of which nothing is watched.
    async fn look<T: Send + 'static>(&self, code: u64, call: Call<T>) -> Result<T> {
        self.send(code, call, Arc::new(|_, _| Ok(0)), false).await
    }
}

/// How long a message takes, or `None` where it is lost.
fn travel(state: &mut State, lost: u16) -> Option<std::time::Duration> {
    let faults = state.faults;
    if state.happens(lost) {
        state.figures.lost += 1;
        return None;
    }
    let most = if state.happens(faults.delayed) { faults.late } else { faults.usual };
    Some(state.time_up_to(most))
}

/// The ledger gets a request, does it at once, and the answer is sent.
fn arrive<T: Send + 'static>(
    network: &SimNetwork,
    code: u64,
    ledger: Arc<dyn FencedLedger>,
    call: &Call<T>,
    watch: &Watch<T>,
    answer: Slot<Result<T>>,
) {
    // A store with threads of its own may take real time for it; the network's time stands still meanwhile.
    let result = futures_executor::block_on(call(ledger));
    let mut state = network.lock();
    state.figures.calls += 1;
    let (outcome, number) = match &result {
        Ok(value) => match watch(&mut state, value) {
            Ok(number) => (0, number),
            Err(violation) => {
                state.violation.get_or_insert(violation);
                (0, -1)
            }
        },
        Err(LedgerError::Rejected(rejection)) => (1 + rejection.reason as u64, rejection.judged.time.as_micros()),
        Err(_) => (100, 0),
    };
    state.note([code, outcome, number.cast_unsigned()]);
    let lost = state.faults.answer_lost;
    let time = travel(&mut state, lost);
    drop(state);
    if let Some(time) = time {
        network.after(time, Box::new(move |_| answer.fill(result)));
    }
}

#[async_trait]
impl FencedLedger for SimRemote {
    async fn describe(&self) -> Result<Description> {
        self.look(1, Arc::new(|ledger| Box::pin(async move { ledger.describe().await }))).await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let partition = partition.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let partition = partition.clone();
            Box::pin(async move { ledger.observe(&partition).await })
        };
        self.look(2, Arc::new(call)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let claim = claim.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let claim = claim.clone();
            Box::pin(async move { ledger.claim(&claim).await })
        };
        let watch = |state: &mut State, claimed: &Claimed| {
            state.figures.takeovers += u64::from(state.oracle.claimed(claimed)?);
            Ok(claimed.lease.generation.get())
        };
        self.send(3, Arc::new(call), Arc::new(watch), true).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let (lease, presented) = (lease.clone(), lease.clone());
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let lease = lease.clone();
            Box::pin(async move { ledger.renew(&lease, ttl).await })
        };
        let watch = move |state: &mut State, renewal: &Renewal| {
            state.oracle.renewed(&presented, renewal)?;
            Ok(renewal.lease.expires_at.as_micros())
        };
        self.send(4, Arc::new(call), Arc::new(watch), true).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        let (lease, presented) = (lease.clone(), lease.clone());
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let lease = lease.clone();
            Box::pin(async move { ledger.release(&lease).await })
        };
        let watch = move |state: &mut State, released: &Released| {
            state.oracle.released(&presented, released)?;
            Ok(released.judged().time.as_micros())
        };
        self.send(5, Arc::new(call), Arc::new(watch), true).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let (partition, reason) = (partition.clone(), reason.clone());
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let (partition, reason) = (partition.clone(), reason.clone());
            Box::pin(async move { ledger.end_tenure(&partition, observed, &reason).await })
        };
        self.send(6, Arc::new(call), Arc::new(|_, _| Ok(0)), true).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let advance = advance.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let advance = advance.clone();
            Box::pin(async move { ledger.advance(&advance).await })
        };
        self.send(13, Arc::new(call), Arc::new(|_, _| Ok(0)), true).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        let (lease, append) = (lease.clone(), append.clone());
        let presented = lease.clone();
        let network = self.network.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let mut state = network.lock();
            state.figures.stale += u64::from(state.oracle.is_stale(&lease));
            drop(state);
            let (lease, append) = (lease.clone(), append.clone());
            Box::pin(async move { ledger.append(&lease, &append).await })
        };
        let watch = move |state: &mut State, appended: &Appended| {
            state.figures.written += u64::from(state.oracle.appended(&presented, appended)?);
            Ok(appended.entry.last.get())
        };
        self.send(7, Arc::new(call), Arc::new(watch), true).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let partition = partition.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let partition = partition.clone();
            Box::pin(async move { ledger.fate(&partition, id, generation).await })
        };
        self.look(8, Arc::new(call)).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        let partition = partition.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let partition = partition.clone();
            Box::pin(async move { ledger.read(&partition, from, limit).await })
        };
        self.look(9, Arc::new(call)).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let partition = partition.clone();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let partition = partition.clone();
            Box::pin(async move { ledger.read_back(&partition, from, limit).await })
        };
        self.look(10, Arc::new(call)).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let after = after.cloned();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let after = after.clone();
            Box::pin(async move { ledger.partitions(after.as_ref(), limit).await })
        };
        self.look(11, Arc::new(call)).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        let partition = partition.cloned();
        let call = move |ledger: Arc<dyn FencedLedger>| -> BoxFuture<'static, _> {
            let partition = partition.clone();
            Box::pin(async move { ledger.rejections(partition.as_ref(), after, limit).await })
        };
        self.look(12, Arc::new(call)).await
    }
}
