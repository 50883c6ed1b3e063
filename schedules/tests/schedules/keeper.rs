//! The keeper under schedules: its driver, its writers and those who wait for its end are tasks of one scheduler.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{StepClock, append, check, holder, place};
use async_trait::async_trait;
use schedules::keeper::{End, Keeper, ManualLocalClock, State, Terms, Wait, Writer};
use schedules::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Fate, FencedLedger, Generation,
    Lease, MemoryLedger, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position,
    RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};
use shuttle::future::{block_on, spawn};
use shuttle::sync::Mutex;
use shuttle::thread;

#[test]
fn a_release_waits_for_what_is_in_flight_and_nothing_follows_it() {
    check(|| released_while_others_append(|writer, _| async move { drop(writer.append(&append(1)).await) }));
}

#[test]
fn a_writer_that_is_passed_by_is_found() {
    let found = std::panic::catch_unwind(|| {
        check(|| {
            released_while_others_append(|writer, ledger| async move {
                // Past the writer, with its lease: no release can wait for that.
                drop(ledger.append(&writer.lease(), &append(1)).await);
            });
        });
    });
    assert!(found.is_err(), "no schedule was found in which the release overtakes the append");
}

/// Two tasks append, one releases, the driver renews, and a thread moves the time.
fn released_while_others_append<F>(act: impl Fn(Writer, Arc<Seen>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (ledger, local) = (Arc::new(Seen::new()), ManualLocalClock::default());
    let (writer, driver) = block_on(keeper(&ledger, &local).claim(Wait::No)).expect("nobody else claims");
    let driver = spawn(driver);
    let appends = [(); 2].map(|()| spawn(act(writer.clone(), ledger.clone())));
    let time = thread::spawn(move || {
        for _ in 0..2 {
            local.advance(Duration::from_secs(1));
        }
    });
    block_on(writer.release()).expect("the lease is valid");
    for task in appends {
        block_on(task).expect("the task ends well");
    }
    time.join().expect("the thread ends well");
    let end = block_on(driver).expect("the task ends well");
    assert!(matches!(*end, End::Released(_)), "{end:?}");
    let steps = ledger.steps();
    let sent = steps.iter().position(|step| *step == Step::Release).expect("it was sent");
    let (before, after) = steps.split_at(sent);
    let count = |step| before.iter().filter(|seen| **seen == step).count();
    assert_eq!(count(Step::Begin), count(Step::End), "in flight when the release was sent: {steps:?}");
    assert!(!after.contains(&Step::Begin), "after the release was sent: {steps:?}");
}

#[test]
fn a_tenure_ends_once_and_all_see_the_same_end() {
    check(|| {
        let (ledger, local) = (Arc::new(Seen::new()), ManualLocalClock::default());
        let (writer, driver) = block_on(keeper(&ledger, &local).claim(Wait::No)).expect("nobody else claims");
        let waiting = [writer.signal(), writer.signal()].map(|signal| spawn(async move { signal.ended().await }));
        let (other, releasing) = (writer.clone(), writer.clone());
        let tasks = [
            spawn(async move { drop(driver) }),
            spawn(async move { drop(releasing.release().await) }),
            spawn(async move { drop(other.append(&append(1)).await) }),
        ];
        let time = thread::spawn(move || local.advance(Duration::from_secs(3)));
        for task in tasks {
            block_on(task).expect("the task ends well");
        }
        time.join().expect("the thread ends well");
        let [one, two] = waiting.map(|task| block_on(task).expect("the task ends well"));
        assert!(Arc::ptr_eq(&one, &two), "{one:?} and {two:?}");
        match writer.state() {
            State::Ended(end) => assert!(Arc::ptr_eq(&end, &one), "{end:?} and {one:?}"),
            state => panic!("{state:?} after {one:?}"),
        }
    });
}

fn keeper(ledger: &Arc<Seen>, local: &ManualLocalClock) -> Keeper {
    let terms = Terms::new(Ttl::default());
    let keeper = Keeper::new(ledger.clone(), place(), holder("a"), terms).expect("the usual terms");
    keeper.with_clock(local.clone())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// An append or a renewal was sent.
    Begin,
    /// It was answered, or given up.
    End,
    /// A release was sent.
    Release,
}

/// The in-memory ledger, a turn of the scheduler away in both directions, and what was sent to it.
#[derive(Debug)]
struct Seen {
    ledger: MemoryLedger,
    steps: Mutex<Vec<Step>>,
}

impl Seen {
    fn new() -> Self {
        Self { ledger: MemoryLedger::with_clock(StepClock::default()), steps: Mutex::new(Vec::new()) }
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().expect("nothing panics with it").clone()
    }

    fn note(&self, step: Step) {
        self.steps.lock().expect("nothing panics with it").push(step);
    }

    async fn carry<T>(&self, answer: impl Future<Output = T>) -> T {
        let _in_flight = InFlight::new(self);
        turn().await;
        let answer = answer.await;
        turn().await;
        answer
    }
}

/// A call until its answer, or until it is given up: no release waits for one that its caller has dropped.
struct InFlight<'a>(&'a Seen);

impl<'a> InFlight<'a> {
    fn new(seen: &'a Seen) -> Self {
        seen.note(Step::Begin);
        Self(seen)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.note(Step::End);
    }
}

/// Lets others run.
async fn turn() {
    let mut waited = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[async_trait]
impl FencedLedger for Seen {
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
        self.carry(self.ledger.renew(lease, ttl)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.note(Step::Release);
        turn().await;
        self.ledger.release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger.advance(advance).await
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
