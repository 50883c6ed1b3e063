//! What the checks share: few schedules by day, many in full; a clock that is moved by hand.

use std::sync::Arc;

use schedules::{
    Append, Claim, Clock, EventKind, FencedLedger, Holder, Json, MemoryLedger, NewEvent, Observation, PageSize,
    PartitionId, Position, Timestamp, Ttl,
};
use shuttle::sync::atomic::{AtomicI64, Ordering};

/// Runs a check under random schedules, and under those of PCT with up to three changes of priority.
pub(crate) fn check(run: impl Fn() + Send + Sync + 'static) {
    let full = std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    let schedules = if full { 2_000 } else { 100 };
    let run = Arc::new(run);
    let again = run.clone();
    shuttle::check_random(move || again(), schedules);
    shuttle::check_pct(move || run(), schedules, 3);
}

/// A clock whose readings are places where the scheduler may switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepClock(Arc<AtomicI64>);

impl StepClock {
    /// A second: just what a lease lasts.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1_000_000, Ordering::SeqCst);
    }
}

impl Clock for StepClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) fn place() -> PartitionId {
    PartitionId::new("place").expect("a name")
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder::new(name).expect("a name")
}

pub(crate) fn claim(name: &str, observed: Observation) -> Claim {
    Claim::new(place(), holder(name), Ttl::from_millis(1_000).expect("a second"), observed)
}

pub(crate) fn append(note: u32) -> Append {
    let event = NewEvent::new(EventKind::new("noted").expect("a kind"), Json::new(note.to_string()).expect("JSON"));
    Append::new([event]).expect("one small event")
}

/// Kind and holder of every event.
pub(crate) fn names_of(ledger: &MemoryLedger) -> Vec<String> {
    let page = shuttle::future::block_on(ledger.read(&place(), Position::FIRST, PageSize::MAX)).expect("a read");
    page.events.iter().map(|event| format!("{} {}", event.kind, event.entry.holder)).collect()
}
