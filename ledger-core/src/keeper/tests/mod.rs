//! Every rule of the keeper as a scenario in virtual time, and keepers that are broken on purpose, each with one bug
//! and the scenario that must fail on it.

mod handing_back;
pub(crate) mod ledger;
mod settling;
mod trust;
pub(crate) mod world;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::clock::{LocalClock, ManualLocalClock, Moment};
use world::{Outcome, World};

/// What is wrong with a keeper: with one of its rules (`rules.rs`), with its clock (`world.rs`), with what it sends
/// (`ledger.rs`), or with how it is put together (`world.rs`, `handing_back.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    TrustFromTheReply,
    TrustByTheTtl,
    NoMargin,
    ValidAtTheEnd,
    UnknownIsALoss,
    GoesOnWhileUnknown,
    RefusalIsNoEnd,
    RenewalRevives,
    StoreThatWentBackIsTrusted,
    WhatWasAcknowledgedIsForgotten,
    AppendBehindIsTrusted,
    DropOfTheDriverUnnoticed,
    ClockStopsInASuspension,
    ReleaseBeforeTheDrain,
    AppendsWhileDraining,
    AnswersAreNotWaitedFor,
    RenewsAfterTheRelease,
    RenewsAfterTheDrop,
    EndsAreNotTold,
    NewIdOnTheSecondTry,
    UndecidedIsNever,
    StoreThatWentBackProvesAbsence,
    SettlesByAppendingWithoutTrust,
    NewAcquisitionOnTheSecondTry,
    PoolDrivesOneAfterAnother,
    LossesAreNotCounted,
    BookGoesPastTheWriter,
    KeepsLateAnswersBack,
}

thread_local! {
    /// The bug of the world that runs on this thread, and its clock.
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    static CLOCK: RefCell<ManualLocalClock> = RefCell::default();
}

/// The bug that is switched on.
pub(super) fn bug() -> Option<Bug> {
    BUG.get()
}

/// The keeper's time, for a rule that should not look at it.
pub(super) fn now() -> Moment {
    CLOCK.with_borrow(LocalClock::now)
}

struct Scenario {
    name: &'static str,
    run: fn(World) -> Outcome,
}

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const SCENARIOS: &[Scenario] = &[$(Scenario { name: stringify!($name), run: $module::$name }),*];

        /// One test a scenario, on a keeper without a bug.
        mod sound {
            $(#[test]
            fn $name() {
                if let Err(violation) = super::$module::$name(super::World::new(None)) {
                    panic!("{violation}");
                }
            })*
        }
    };
}

scenarios! {
    trust::trust_counts_from_before_the_request,
    trust::trust_never_outlives_the_grant,
    trust::trust_has_ended_at_its_end,
    trust::renewals_keep_the_lease,
    trust::unknown_renewal_is_tried_again,
    trust::stops_when_renewals_stay_unknown,
    trust::refused_append_ends_the_writer,
    trust::refused_renewal_ends_the_writer,
    trust::late_answer_does_not_revive,
    trust::store_that_went_back_is_noticed,
    trust::head_that_a_renewal_told_is_not_forgotten,
    trust::append_behind_what_was_acknowledged_is_noticed,
    trust::answers_in_another_order_are_no_loss,
    trust::dropped_driver_ends_the_writer,
    trust::suspended_writer_finds_its_time_gone,
    trust::waiting_does_not_shorten_the_trust,
    trust::lost_grant_is_asked_for_again,
    trust::lost_grant_that_has_run_out_is_followed_by_another,
    trust::grant_that_comes_too_late_is_none,
    trust::counters_tell_what_happened,
    trust::request_book_goes_by_the_writer,
    handing_back::release_waits_for_what_is_in_flight,
    handing_back::answer_during_a_drain_is_waited_for,
    handing_back::nothing_is_renewed_once_the_release_is_sent,
    handing_back::lost_answer_to_a_release_is_asked_for_again,
    handing_back::dropped_writer_is_abandoned_and_not_released,
    handing_back::every_subscriber_gets_every_change,
    handing_back::loss_of_one_does_not_disturb_another,
    settling::lost_answer_is_asked_for_again,
    settling::not_written_is_sent_again_and_proven_at_the_end,
    settling::refusal_tells_that_it_had_landed,
    settling::fate_is_final_after_a_takeover,
    settling::without_trust_it_stays_undecided,
    settling::conflict_after_an_unknown_try_is_final,
    settling::written_where_the_store_went_back_is_undecided,
    settling::release_waits_for_a_settlement,
}

/// A bug, the scenario that must fail on it, and words that its violation must contain.
const BROKEN: &[(Bug, &str, &str)] = &[
    (Bug::TrustFromTheReply, "trust_counts_from_before_the_request", "trust from before the claim"),
    (Bug::TrustByTheTtl, "trust_never_outlives_the_grant", "what was granted"),
    (Bug::NoMargin, "trust_has_ended_at_its_end", "nothing left at the end itself"),
    (Bug::ValidAtTheEnd, "trust_has_ended_at_its_end", "expected a loss"),
    (Bug::UnknownIsALoss, "unknown_renewal_is_tried_again", "no loss by an unknown renewal"),
    (Bug::GoesOnWhileUnknown, "stops_when_renewals_stay_unknown", "expected a loss, unrenewed"),
    (Bug::RefusalIsNoEnd, "refused_append_ends_the_writer", "one append that was sent"),
    (Bug::RenewalRevives, "late_answer_does_not_revive", "expected a loss, unrenewed"),
    (Bug::StoreThatWentBackIsTrusted, "store_that_went_back_is_noticed", "expected a loss, went_back"),
    (Bug::WhatWasAcknowledgedIsForgotten, "head_that_a_renewal_told_is_not_forgotten", "expected a loss, went_back"),
    (Bug::AppendBehindIsTrusted, "append_behind_what_was_acknowledged_is_noticed", "expected a loss, went_back"),
    (Bug::DropOfTheDriverUnnoticed, "dropped_driver_ends_the_writer", "expected a loss, unkept"),
    (Bug::ClockStopsInASuspension, "suspended_writer_finds_its_time_gone", "not sent after a suspension"),
    (Bug::ReleaseBeforeTheDrain, "release_waits_for_what_is_in_flight", "while an append is in flight"),
    (Bug::AppendsWhileDraining, "release_waits_for_what_is_in_flight", "no new append during the drain"),
    (Bug::AnswersAreNotWaitedFor, "answer_during_a_drain_is_waited_for", "while an answer is in flight"),
    (Bug::RenewsAfterTheRelease, "nothing_is_renewed_once_the_release_is_sent", "renewals after the release"),
    (Bug::RenewsAfterTheDrop, "dropped_writer_is_abandoned_and_not_released", "renewals after the drop"),
    (Bug::EndsAreNotTold, "every_subscriber_gets_every_change", "the changes, read as they came"),
    (Bug::NewIdOnTheSecondTry, "lost_answer_is_asked_for_again", "how often it is in the log: 1"),
    (Bug::UndecidedIsNever, "without_trust_it_stays_undecided", "that nobody knows"),
    (Bug::StoreThatWentBackProvesAbsence, "written_where_the_store_went_back_is_undecided", "expected no proof"),
    (Bug::SettlesByAppendingWithoutTrust, "without_trust_it_stays_undecided", "sent without trust"),
    (Bug::NewAcquisitionOnTheSecondTry, "lost_grant_is_asked_for_again", "outcome unknown"),
    (Bug::PoolDrivesOneAfterAnother, "loss_of_one_does_not_disturb_another", "what is held when one was lost"),
    (Bug::LossesAreNotCounted, "counters_tell_what_happened", "losses by reason"),
    (Bug::BookGoesPastTheWriter, "request_book_goes_by_the_writer", "no request without trust"),
    (Bug::KeepsLateAnswersBack, "request_book_goes_by_the_writer", "a late answer"),
];

#[test]
fn each_broken_keeper_fails_its_scenario_with_a_readable_text() {
    let mut wrong = Vec::new();
    for (bug, name, says) in BROKEN {
        let found: Vec<_> = SCENARIOS.iter().filter(|scenario| scenario.name == *name).collect();
        // A name may stand in two modules; the bug is caught where one of them fails as it should.
        let outcomes = found.iter().map(|scenario| {
            catch_unwind(AssertUnwindSafe(|| (scenario.run)(World::new(Some(*bug)))))
                .unwrap_or_else(|_| Err("a panic".to_owned()))
        });
        let outcomes: Vec<Outcome> = outcomes.collect();
        match outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).find(|violation| violation.contains(says)) {
            Some(_) => println!("{bug:?} is caught by {name}"),
            None => wrong.push(format!("{bug:?}, {name}: {outcomes:?}")),
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}

/// Bugs alone would not show that a keeper is otherwise as it should be: most scenarios do not mind a given bug.
#[test]
fn a_bug_is_one_bug() {
    for (bug, ..) in BROKEN {
        let survived = SCENARIOS.iter().filter(|scenario| {
            let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run)(World::new(Some(*bug)))));
            matches!(outcome, Ok(Ok(())))
        });
        let survived = survived.count();
        assert!(survived * 2 > SCENARIOS.len(), "{bug:?}: only {survived} of {} pass", SCENARIOS.len());
    }
}
