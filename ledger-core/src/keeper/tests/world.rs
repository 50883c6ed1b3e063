//! A world for one scenario: a ledger, two clocks that are moved by hand, and an executor that runs until all stand
//! still. Nothing in it waits for real time.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_executor::{LocalPool, LocalSpawner};
use futures_util::future::BoxFuture;
use futures_util::task::LocalSpawnExt;

use super::ledger::{Fault, ScriptedLedger, gate};
use super::{BUG, Bug, CLOCK};
use crate::keeper::{
    Counts, Driver, End, Keeper, LocalClock, Loss, ManualLocalClock, Moment, State, Terms, Wait, Writer,
};
use crate::{
    Append, FencedLedger, Holder, LedgerError, ManualClock, NewEvent, Note, Observation, PartitionId, Reason, Ttl,
};

/// How a scenario ends: what was expected, and what was seen.
pub(crate) type Outcome = Result<(), String>;

pub(crate) struct World {
    pub(crate) ledger: Arc<ScriptedLedger>,
    pub(crate) local: ManualLocalClock,
    pub(crate) jobs: PartitionId,
    pub(crate) bug: Option<Bug>,
    /// How long a clock that stops in a suspension is behind.
    asleep: Arc<Mutex<Duration>>,
    store: ManualClock,
    executor: LocalPool,
    spawner: LocalSpawner,
}

/// The local clock. A keeper with a bug may wait for a moment that is over, again and again: it must not stop the
/// test's own time by that, so no timer of its fires at once.
#[derive(Debug)]
pub(crate) struct KeepersClock {
    clock: ManualLocalClock,
    never_at_once: bool,
    asleep: Arc<Mutex<Duration>>,
}

impl KeepersClock {
    fn asleep(&self) -> Duration {
        *self.asleep.lock().expect("no test panics under this lock")
    }
}

impl LocalClock for KeepersClock {
    fn now(&self) -> Moment {
        self.clock.now().before(self.asleep())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let earliest = if self.never_at_once { self.now().after(ms(1)) } else { moment };
        self.clock.sleep_until(moment.max(earliest).after(self.asleep()))
    }
}

/// What a task gave, when it has ended.
pub(crate) struct Slot<T>(Rc<RefCell<Option<T>>>);

impl<T> Slot<T> {
    pub(crate) fn take(&self, what: &str) -> Result<T, String> {
        self.0.borrow_mut().take().ok_or_else(|| format!("expected that {what} ends; it has not"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Moment {
    Moment::from_start(ms(millis))
}

pub(crate) fn append() -> Append {
    Append::new([NewEvent::of("noted", &1).expect("a number is JSON")]).expect("one small event is an append")
}

pub(crate) fn equal<T: PartialEq + Debug>(what: &str, seen: T, expected: T) -> Outcome {
    if seen == expected { Ok(()) } else { Err(format!("expected {what}: {expected:?}; seen: {seen:?}")) }
}

pub(crate) fn ensure(holds: bool, expected: &str, seen: impl Debug) -> Outcome {
    if holds { Ok(()) } else { Err(format!("expected {expected}; seen: {seen:?}")) }
}

impl World {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        let (store, local, executor) = (ManualClock::default(), ManualLocalClock::default(), LocalPool::new());
        let ledger = Arc::new(ScriptedLedger::new(store.clone(), local.clone()));
        let jobs = PartitionId::new("jobs").expect("a name");
        let spawner = executor.spawner();
        BUG.set(bug);
        CLOCK.set(local.clone());
        Self { ledger, local, jobs, bug, asleep: Arc::default(), store, executor, spawner }
    }

    /// TTL 3 s, so: margin 300 ms, a renewal every second, a try of 500 ms, and 125 ms after one that failed.
    pub(crate) fn terms(&self) -> Terms {
        Terms::new(Ttl::from_millis(3_000).expect("a TTL"))
    }

    pub(crate) fn keeper(&self, name: &str) -> Keeper {
        let holder = Holder::new(name).expect("a name");
        let keeper = Keeper::new(self.ledger.clone(), self.jobs.clone(), holder, self.terms());
        keeper.expect("the usual terms").with_clock(self.clock())
    }

    /// The local clock, as a keeper or pool gets it.
    pub(crate) fn clock(&self) -> KeepersClock {
        let (clock, asleep) = (self.local.clone(), self.asleep.clone());
        KeepersClock { clock, never_at_once: self.bug.is_some(), asleep }
    }

    /// Begins something.
    pub(crate) fn start<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> Slot<T> {
        let slot = Rc::new(RefCell::new(None));
        let inner = slot.clone();
        let task = async move {
            let value = future.await;
            *inner.borrow_mut() = Some(value);
        };
        self.spawner.spawn_local(task).expect("the executor is there");
        self.run();
        Slot(slot)
    }

    /// Lets everything go on until it waits.
    pub(crate) fn run(&mut self) {
        self.executor.run_until_stalled();
    }

    /// Lets time pass, with everything running: in steps of 25 ms.
    pub(crate) fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 25 {
            self.step(25);
            self.run();
        }
    }

    /// Lets time pass with nothing running: the process is stopped, or the machine sleeps.
    pub(crate) fn suspend(&mut self, millis: u64) {
        self.step(millis);
        if self.bug == Some(Bug::ClockStopsInASuspension) {
            *self.asleep.lock().expect("no test panics under this lock") += ms(millis);
        }
    }

    fn step(&mut self, millis: u64) {
        self.store.advance(ms(millis));
        self.local.advance(ms(millis));
    }

    /// Claims, and lets the driver run.
    pub(crate) fn hold(&mut self, keeper: &Keeper) -> Result<(Writer, Slot<Arc<End>>), String> {
        let (writer, driver) = self.claim(keeper)?;
        if self.bug == Some(Bug::RenewsAfterTheDrop) {
            // A keeper that keeps a writer of its own.
            std::mem::forget(writer.clone());
        }
        Ok((writer, self.start(driver)))
    }

    /// What a request book is used on; one bug uses the ledger itself.
    pub(crate) fn ledger_of(&self, writer: &Writer) -> Arc<dyn FencedLedger> {
        if self.bug == Some(Bug::BookGoesPastTheWriter) { self.ledger.clone() } else { writer.ledger() }
    }

    /// Drops a driver; one bug keeps it somewhere, unpolled.
    pub(crate) fn drop_driver(&self, driver: Driver) {
        if self.bug == Some(Bug::DropOfTheDriverUnnoticed) { std::mem::forget(driver) } else { drop(driver) }
    }

    /// The counters; one bug has never counted a loss.
    pub(crate) fn counts(&self, keeper: &Keeper) -> Counts {
        let mut counts = keeper.counts();
        if self.bug == Some(Bug::LossesAreNotCounted) {
            counts.lost_expired = 0;
        }
        counts
    }

    pub(crate) fn claim(&mut self, keeper: &Keeper) -> Result<(Writer, Driver), String> {
        let keeper = keeper.clone();
        let claimed = self.start(async move { keeper.claim(Wait::No).await });
        claimed.take("a claim")?.map_err(|error| format!("expected that the claim is granted: {error}"))
    }

    /// A fault that lasts until the gate is opened.
    pub(crate) fn gate(
        &self,
        what: &'static str,
        fault: fn(futures_channel::oneshot::Receiver<()>) -> Fault,
    ) -> futures_channel::oneshot::Sender<()> {
        let (open, fault) = gate(fault);
        self.ledger.fault(what, &self.jobs, fault);
        open
    }

    /// So many faults, one after the other.
    pub(crate) fn faults(&self, what: &'static str, times: usize, fault: fn() -> Fault) {
        for _ in 0..times {
            self.ledger.fault(what, &self.jobs, fault());
        }
    }

    /// Ends the tenure as an operator.
    pub(crate) fn operator_ends(&mut self, writer: &Writer) -> Outcome {
        let (ledger, lease) = (self.ledger.clone(), writer.lease());
        let note = Note::new("a test").expect("a note");
        let ended = self
            .start(async move { ledger.end_tenure(&lease.partition, Observation::of(&lease), &note).await })
            .take("an operator's step")?;
        ended.map(drop).map_err(|error| format!("expected that the operator ends the tenure: {error}"))
    }

    pub(crate) fn now(&self) -> Moment {
        self.local.now()
    }
}

/// Demands that a writer has been lost for a reason.
pub(crate) fn expect_lost(writer: &Writer, reason: &str) -> Outcome {
    match writer.state() {
        State::Ended(end) => match &*end {
            End::Lost(loss) if loss.as_str() == reason => Ok(()),
            other => Err(format!("expected a loss, {reason}; seen: {other}")),
        },
        other => Err(format!("expected a loss, {reason}; seen: {other:?}")),
    }
}

/// The reason of a refusal that ended something.
pub(crate) fn refused_as(end: &End) -> Option<Reason> {
    match end {
        End::Lost(Loss::Refused(rejection)) => Some(rejection.reason),
        End::Lost(Loss::Unrenewed(LedgerError::Rejected(rejection))) => Some(rejection.reason),
        _ => None,
    }
}
