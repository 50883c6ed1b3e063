//! Virtual time: one queue of events, one thread, one seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use ledger_core::keeper::{LocalClock, Moment};
use ledger_core::{Clock, FencedLedger, ManualClock, Timestamp};

use super::oracle::Oracle;
use super::remote::SimRemote;
use super::{Faults, Figures};
use crate::Violation;

/// A network with its own time, its clients' tasks and one source of chance. Clones are the same network.
#[derive(Clone)]
pub struct SimNetwork(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ready: Mutex<VecDeque<usize>>,
    /// The ledger's clock: moved with the time of the network.
    store: ManualClock,
    start: Timestamp,
}

/// What an event does when its time has come.
pub(super) type Event = Box<dyn FnOnce(&SimNetwork) + Send>;

pub(super) struct State {
    now: Duration,
    /// Events in the order of their time, and of being planned.
    events: BTreeMap<(Duration, u64), Event>,
    planned: u64,
    tasks: Vec<Task>,
    pub(super) random: fastrand::Rng,
    pub(super) faults: Faults,
    pub(super) figures: Figures,
    pub(super) oracle: Oracle,
    pub(super) violation: Option<Violation>,
}

struct Task {
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
}

impl SimNetwork {
    /// A network whose chance comes from `seed` alone. It moves `store`, the clock of the ledger that is connected.
    pub fn new(seed: u64, faults: Faults, store: ManualClock) -> Self {
        let state = State {
            now: Duration::ZERO,
            events: BTreeMap::new(),
            planned: 0,
            tasks: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            faults,
            figures: Figures::default(),
            oracle: Oracle::default(),
            violation: None,
        };
        let start = store.now();
        Self(Arc::new(Shared { state: Mutex::new(state), ready: Mutex::default(), store, start }))
    }

    /// A client's handle on a ledger, over this network.
    pub fn connect(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn FencedLedger> {
        Arc::new(SimRemote::new(self.clone(), ledger))
    }

    /// The clock of the clients: goes with the network's time. Its timers are events of the network.
    pub fn clock(&self) -> SimClock {
        SimClock(self.clone())
    }

    /// Begins a task of a client.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        let id = state.tasks.len();
        let waker = Waker::from(Arc::new(ReadyTask { id, network: Arc::downgrade(&self.0) }));
        state.tasks.push(Task { future: Some(Box::pin(future)), waker });
        drop(state);
        self.ready().push_back(id);
    }

    /// Lets the network's time go on by `time`, with all that happens in it. Ends early where something was found to
    /// be wrong.
    pub fn run(&self, time: Duration) {
        let until = self.lock().now.saturating_add(time);
        loop {
            while let Some(id) = { self.ready().pop_front() } {
                self.poll(id);
            }
            let mut state = self.lock();
            let due = state.violation.is_none().then(|| state.events.first_entry()).flatten();
            let Some(entry) = due.filter(|entry| entry.key().0 <= until) else {
                state.now = until;
                break;
            };
            let ((now, _), event) = entry.remove_entry();
            state.now = now;
            drop(state);
            self.set_store_clock(now);
            event(self);
        }
        self.set_store_clock(until);
    }

    /// A hash over every event so far: where two runs have the same one, they were the same.
    pub fn trace(&self) -> u64 {
        self.lock().figures.trace
    }

    /// Ends all tasks and drops what is still under way. To be called at the end: tasks hold the network that holds them.
    pub fn stop(&self) {
        let mut state = self.lock();
        let tasks: Vec<_> = state.tasks.iter_mut().filter_map(|task| task.future.take()).collect();
        let events = std::mem::take(&mut state.events);
        drop(state);
        // Their drops ask the network for its lock.
        drop((tasks, events));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.lock().now
    }

    /// Plans an event.
    pub(super) fn after(&self, time: Duration, event: Event) {
        let mut state = self.lock();
        state.planned += 1;
        let key = (state.now.saturating_add(time), state.planned);
        state.events.insert(key, event);
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.0.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, id: usize) {
        let mut state = self.lock();
        let task = &mut state.tasks[id];
        // A task that has ended may still be woken.
        let Some(mut future) = task.future.take() else { return };
        let waker = task.waker.clone();
        drop(state);
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.lock().tasks[id].future = Some(future);
        }
    }

    fn set_store_clock(&self, now: Duration) {
        let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.0.store.set(Timestamp::from_micros(self.0.start.as_micros().saturating_add(micros)));
    }
}

impl std::fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimNetwork").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl State {
    /// Takes an event into the trace.
    pub(super) fn note(&mut self, what: [u64; 3]) {
        let now = u64::try_from(self.now.as_nanos()).unwrap_or(u64::MAX);
        for word in [now, what[0], what[1], what[2]] {
            // FNV-1a, a word at a time.
            self.figures.trace = (self.figures.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
        }
    }

    /// Whether what happens to `chance` of 1,000 happens now.
    pub(super) fn happens(&mut self, chance: u16) -> bool {
        self.random.u16(0..1000) < chance
    }

    /// A time up to `most`, in whole microseconds.
    pub(super) fn time_up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.u64(0..=most))
    }
}

struct ReadyTask {
    id: usize,
    network: std::sync::Weak<Shared>,
}

impl Wake for ReadyTask {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.network.upgrade() {
            shared.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.id);
        }
    }
}

/// The network's time, as a keeper's clock.
#[derive(Clone, Debug)]
pub struct SimClock(SimNetwork);

impl LocalClock for SimClock {
    fn now(&self) -> Moment {
        Moment::from_start(self.0.now())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let left = moment.since(self.now());
        let slot = Slot::default();
        if left.is_zero() {
            slot.fill(());
        } else {
            let fired = slot.clone();
            self.0.after(left, Box::new(move |_| fired.fill(())));
        }
        Box::pin(slot)
    }
}

/// A value that comes once.
pub(super) struct Slot<T>(Arc<Mutex<Waiting<T>>>);

struct Waiting<T> {
    value: Option<T>,
    waker: Option<Waker>,
    has_come: bool,
}

impl<T> Slot<T> {
    /// The first value stays; a later one is dropped.
    pub(super) fn fill(&self, value: T) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.has_come {
            slot.value = Some(value);
            slot.has_come = true;
            if let Some(waker) = slot.waker.take() {
                drop(slot);
                waker.wake();
            }
        }
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Waiting { value: None, waker: None, has_come: false })))
    }
}

impl<T> Future for Slot<T> {
    type Output = T;

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
