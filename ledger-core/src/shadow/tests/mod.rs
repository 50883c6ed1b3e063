//! The shadow's own rules as scenarios in virtual time, and shadows that are broken on purpose, each with one bug and the
//! scenario that must fail on it. What it does to a store is checked on every store, by the family `shadow` of
//! `conformance-tests`.

mod bounds;
mod judged;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Limits, Shadow, ShadowCounts, ShadowDriver};
use crate::keeper::tests::world::{Outcome, World, equal};
use crate::{Append, EventKind, Holder, Json, NewEvent};

/// What is wrong with a shadow: see `rules.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    AnyNumberWaits,
    AnySizeWaits,
    WaitsForRoom,
    JudgesWhatIsOld,
    ClaimsWhereOthersEnforce,
}

thread_local! {
    /// The bug of the scenario that runs on this thread.
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug that is switched on.
pub(super) fn bug() -> Option<Bug> {
    BUG.get()
}

type Scenario = fn(World) -> Outcome;

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const SCENARIOS: &[(&str, Scenario)] = &[$((stringify!($name), $module::$name)),*];

        /// One test a scenario, on a shadow without a bug.
        mod sound {
            $(#[test]
            fn $name() {
                if let Err(violation) = super::run(super::$module::$name, None) {
                    panic!("{violation}");
                }
            })*
        }
    };
}

scenarios! {
    bounds::handing_over_does_not_wait,
    bounds::bytes_that_wait_are_bounded_too,
    bounds::waiting_for_room_ends_in_its_time,
    bounds::dropped_call_is_counted,
    bounds::what_has_become_too_old_is_not_judged,
    bounds::dropped_driver_is_not_noticed_by_the_writer,
    bounds::last_handle_lets_what_waits_be_judged,
    judged::paused_writer_is_judged_under_the_lease_that_it_had,
    judged::lease_is_renewed_beside_a_long_queue,
    judged::lost_grant_is_asked_for_again_and_renewed,
    judged::lost_answer_counts_once_and_no_answer_is_unknown,
    judged::release_comes_in_its_order,
    judged::nothing_is_claimed_where_a_holder_enforced,
}

/// A bug, the scenario that must fail on it, and words that its violation must contain.
const BROKEN: &[(Bug, &str, &str)] = &[
    (Bug::AnyNumberWaits, "handing_over_does_not_wait", "what waits"),
    (Bug::AnySizeWaits, "bytes_that_wait_are_bounded_too", "dropped for want of room"),
    (Bug::WaitsForRoom, "waiting_for_room_ends_in_its_time", "the wait"),
    (Bug::JudgesWhatIsOld, "what_has_become_too_old_is_not_judged", "too old"),
    (Bug::ClaimsWhereOthersEnforce, "nothing_is_claimed_where_a_holder_enforced", "the claims"),
];

fn run(scenario: Scenario, bug: Option<Bug>) -> Outcome {
    BUG.set(bug);
    let outcome = scenario(World::new(None));
    BUG.set(None);
    outcome
}

#[test]
fn each_broken_shadow_fails_its_scenario_and_few_others() {
    for (bug, name, says) in BROKEN {
        let mut failed = 0;
        for (scenario, function) in SCENARIOS {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(*function, Some(*bug))));
            let outcome = outcome.unwrap_or_else(|_| Err("a panic".to_owned()));
            failed += usize::from(outcome.is_err());
            if scenario == name {
                assert!(outcome.as_ref().is_err_and(|text| text.contains(says)), "{bug:?}, {name}: {outcome:?}");
                println!("{bug:?} is caught by {name}");
            }
        }
        assert!(failed * 2 < SCENARIOS.len(), "{bug:?}: {failed} of {} fail", SCENARIOS.len());
    }
}

/// Room for 4 appends of 1,000 bytes, an age of 1 s, a wait of 200 ms; a try of 500 ms, and 125 ms after one that failed.
fn limits(w: &World) -> Limits {
    Limits::new(w.terms()).with_room(4, 1_000).with_wait(std::time::Duration::from_millis(200))
}

fn shadow(w: &World, name: &str) -> (Shadow, ShadowDriver) {
    let (writer, clock) = (Holder::new(name).expect("a name"), w.local.clone());
    let made = Shadow::with_clock(w.ledger.clone(), w.jobs.clone(), &writer, limits(w), clock);
    made.expect("the limits are usable")
}

/// An append of so many bytes.
fn append(bytes: usize) -> Append {
    let text = format!("\"{}\"", "x".repeat(bytes - 5));
    let event = NewEvent::new(EventKind::new("k").expect("a kind"), Json::new(text).expect("JSON"));
    Append::new([event]).expect("small")
}

/// Every append that was handed over is in one place.
fn all_counted(counts: &ShadowCounts) -> Outcome {
    let sum = counts.granted + counts.would_be_refusals() + counts.unknown + counts.dropped() + counts.waiting;
    equal("all that was handed over", sum, counts.offered)
}
