//! Ways through the model are walked on the backends, with their clock moved by hand: each call must be answered as in
//! the model, and lease, time and log must be what the model says after it.
//!
//! A backend decides and commits an append in one call, so a way has no other step in between; and restores are not
//! walked here.

mod driver;
#[path = "../../ledger-postgres/tests/common/mod.rs"]
mod postgres;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use conformance_tests::Harness;
use driver::Driven;
use ledger_core::{Durability, ManualClock};
use ledger_memory::MemoryLedger;
use ledger_sqlite::SqliteLedger;
use model::{Action, Bounds, Protocol, State};
use postgres::Wanted;
use postgres::harness::{Door, Postgres};

/// All ways up to a number of steps are walked within these.
const SHORT: Protocol = Protocol { bounds: Bounds { restores: 0, ..Bounds::FULL }, bug: None };

/// Long ways have room for many tenures.
const LONG: Protocol = Protocol {
    bounds: Bounds { holders: 2, clock: 30, acquisitions: 8, ids: 6, log: 60, restores: 0, ttl: 3 },
    bug: None,
};

#[tokio::test]
async fn memory_answers_as_the_model_on_every_short_way_and_on_long_ones() {
    let clock = ManualClock::default();
    let driven = Driven::new(Arc::new(MemoryLedger::with_clock(clock.clone())), &clock).await;
    let (steps, ways) = if is_full() { (6, 20) } else { (4, 4) };
    walk_all(&driven, steps).await;
    walk_at_random(&driven, ways, 100).await;
}

#[tokio::test]
async fn sqlite_answers_as_the_model_on_every_short_way_and_on_long_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::default();
    // What is durable is tested elsewhere; here it would only cost time.
    let options = SqliteLedger::options().clock(clock.clone()).durability(Durability::ProcessCrash);
    let ledger = options.open(folder.path().join("ledger.db")).expect("a new file");
    let driven = Driven::new(Arc::new(ledger), &clock).await;
    let (steps, ways) = if is_full() { (4, 20) } else { (2, 1) };
    walk_all(&driven, steps).await;
    walk_at_random(&driven, ways, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_model_on_every_short_way_and_on_long_ones() {
    for wanted in Wanted::BOTH {
        let storage = Postgres::shared(wanted, Door::Own).provision().await.expect("a schema");
        let ledger = storage.open().await.expect("opened");
        let driven = Driven::new(ledger, storage.clock().expect("its clock can be set")).await;
        let (steps, ways) = if is_full() { (3, 10) } else { (2, 1) };
        walk_all(&driven, steps).await;
        walk_at_random(&driven, ways, 100).await;
    }
}

/// From every state within so many steps: each call that the most general client can send, by itself where it changes
/// something.
async fn walk_all(driven: &Driven<'_>, steps: usize) {
    let mut seen = HashSet::from([State::default()]);
    let mut queue = VecDeque::from([(State::default(), Vec::new())]);
    let (mut answers, mut ways) = (0, 0);
    while let Some((state, way)) = queue.pop_front() {
        let mut here = driven.walk(&SHORT, &way).await;
        for action in SHORT.calls(&state).into_iter().chain([Action::Forward, Action::Back]) {
            answers += 1;
            let Some(after) = next(&SHORT, &state, action) else {
                here.step(&SHORT, action).await;
                continue;
            };
            let mut onward = way.clone();
            onward.push(action);
            if way.len() + 1 == steps || !seen.insert(after.clone()) {
                driven.walk(&SHORT, &onward).await;
                ways += 1;
            } else {
                queue.push_back((after, onward));
            }
        }
        here.check().await;
    }
    println!(
        "{}: {} states within {steps} steps, {ways} ways to their ends, {answers} answers",
        driven.name,
        seen.len()
    );
}

async fn walk_at_random(driven: &Driven<'_>, ways: u64, steps: usize) {
    for seed in 0..ways {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut way = Vec::new();
        let mut state = State::default();
        for _ in 0..steps {
            let calls = LONG.calls(&state);
            // Half of the calls are such that they change something, which few of all are.
            let telling: Vec<Action> =
                calls.iter().copied().filter(|call| next(&LONG, &state, *call).is_some()).collect();
            let action = match random.u8(0..10) {
                0 | 1 => Action::Forward,
                2 => Action::Back,
                3..=6 if !telling.is_empty() => telling[random.usize(..telling.len())],
                _ => calls[random.usize(..calls.len())],
            };
            way.push(action);
            state = next(&LONG, &state, action).unwrap_or(state);
        }
        driven.walk(&LONG, &way).await;
    }
    println!("{}: {ways} ways of {steps} steps", driven.name);
}

/// The state after a step, an append with its commit; `None` where nothing changes.
fn next(protocol: &Protocol, state: &State, action: Action) -> Option<State> {
    let after = protocol.after(state, action)?;
    if after.pending.is_some() { protocol.after(&after, Action::Commit) } else { Some(after) }
}

fn is_full() -> bool {
    std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}
