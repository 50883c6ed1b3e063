//! The suite tested: ledgers that are broken on purpose, each with one bug, and the case that must fail on each.

mod book;
mod bugs;
mod disk;
mod harness;
mod records;
mod reference;
mod shadow;
mod witness;

use std::collections::BTreeSet;
use std::time::Duration;

use conformance_tests::{CASES, Outcome, Report, Suite};
use futures_util::stream::{self, StreamExt};

use bugs::Bug;
use harness::ReferenceHarness;

/// A broken ledger, the case that must fail on it, a text that the violation must contain, and a family that has
/// nothing to do with the bug and must stay green.
struct Broken {
    bug: Bug,
    case: &'static str,
    says: &'static str,
    green: &'static str,
}

const fn broken(bug: Bug, case: &'static str, says: &'static str, green: &'static str) -> Broken {
    Broken { bug, case, says, green }
}

const ALL: &[Broken] = &[
    broken(Bug::CheckAndWriteInTwoSteps, "tko05_one_of_32_racers_takes_an_expired_lease", "exactly 1 of 32", "payload"),
    broken(Bug::HolderNotCompared, "stw03_other_holder_is_refused", "is refused as WrongHolder", "takeover"),
    broken(
        Bug::AcquisitionNotCompared,
        "stw04_other_acquisition_is_refused",
        "refused as WrongAcquisition",
        "takeover",
    ),
    broken(Bug::GenerationNotCompared, "stw01_generation_before_is_refused", "refused as StaleGeneration", "reading"),
    broken(Bug::LaterGenerationAccepted, "stw02_generation_ahead_is_refused", "UnknownGeneration", "takeover"),
    broken(
        Bug::ValidAtExpiry,
        "clk01_boundary_table",
        "an append at 0 µs from expiry is refused as Expired",
        "idempotency",
    ),
    broken(Bug::ExpiryNotCompared, "stw05_expired_though_nobody_followed", "is refused as Expired", "idempotency"),
    broken(
        Bug::ExpiryJudgedFirst,
        "jud01_append_names_the_first_that_fails",
        "on partition `Expired`: Expired",
        "payload",
    ),
    broken(
        Bug::ExpiryNotRecorded,
        "stw05_expired_though_nobody_followed",
        "has recorded that the lease is expired",
        "append",
    ),
    broken(
        Bug::ClockReadBeforeTheLock,
        "stw10_expiry_passes_while_waiting_for_the_lock",
        "refused as Expired",
        "append",
    ),
    broken(Bug::ClockStepBackBelieved, "clk05_times_never_fall_along_the_log", "recorded times never fall", "append"),
    broken(
        Bug::GenerationReusedAfterRelease,
        "rel01_frees_at_once_and_keeps_the_generation",
        "the next claim: 2",
        "payload",
    ),
    broken(
        Bug::GenerationResetOnReopen,
        "rst02_generation_survives_release_and_restart",
        "after a restart: 2",
        "release",
    ),
    broken(Bug::ObservationIgnored, "tko04_observation_must_be_current", "refused as ObservationOutdated", "append"),
    broken(Bug::LiveLeaseTakenByTheSameName, "tko08_own_name_does_not_renew_by_claiming", "refused as Held", "append"),
    broken(Bug::AcquisitionsForgotten, "tko10_spent_acquisition_is_refused_for_ever", "AcquisitionSpent", "append"),
    broken(Bug::LeaseCachedInTheHandle, "stw06_paused_holder_wakes_on_its_own_handle", "StaleGeneration", "payload"),
    broken(Bug::RenewalRevives, "rnw03_expired_is_not_revived", "is refused as Expired", "append"),
    broken(Bug::RenewalShortens, "rnw02_never_shortens", "the expiry after a renewal for less", "append"),
    broken(
        Bug::LateReleaseEndsTheSuccessor,
        "rel05_late_release_leaves_the_successor_alone",
        "unchanged by a late",
        "append",
    ),
    broken(Bug::RefusalUsesUpAPosition, "app01_positions_have_no_gap", "right after the ones before", "reading"),
    broken(Bug::BatchWrittenInTwoSteps, "can01_dropped_append_is_whole_or_absent", "whole or absent", "takeover"),
    broken(Bug::AnswerIsNotWhatIsStored, "app07_answer_is_what_is_stored", "when it was written", "release"),
    broken(Bug::IdsNotLookedUp, "idm01_same_content_is_answered_again", "PositionConflict", "takeover"),
    broken(Bug::IdsComparedWithoutContent, "idm02_other_content_is_refused", "refused as AppendIdReused", "takeover"),
    broken(Bug::IdsForgottenAfterAThousand, "idm05_known_after_many_others", "the entry after 2000 others", "takeover"),
    broken(Bug::IdsScopedToTheLedger, "idm06_ids_belong_to_their_partition", "the call succeeds", "takeover"),
    broken(
        Bug::ReplayBeforeTheFence,
        "jud05_append_id_used_by_a_fenced_caller",
        "taken over is refused as StaleGeneration",
        "takeover",
    ),
    broken(Bug::RefusalWithoutRecord, "evd01_refusal_leaves_its_record", "its record is stored or counted", "reading"),
    broken(Bug::RecordRolledBackWithTheWrite, "evd01_refusal_leaves_its_record", "one record when", "takeover"),
    broken(Bug::RecordsInMemory, "evd08_records_survive_a_restart", "the first record of each key", "takeover"),
    broken(Bug::RecordsWithoutBound, "evd04_bound_of_256_keys_then_a_count", "forger 256, round 1", "takeover"),
    broken(Bug::RepeatsCountedTwice, "evd02_repeats_are_counted_in_one_record", "count 20 refusals", "takeover"),
    broken(Bug::RefusalsQueueForTheLock, "evd09_zombie_is_refused_without_the_lock", "waits for no lock", "takeover"),
    broken(
        Bug::NeverByTheClockAlone,
        "fat04_expiry_that_has_merely_passed_is_not_never",
        "nobody was told",
        "takeover",
    ),
    broken(Bug::OwnEventsHidden, "red06_ledgers_own_events_are_read", "the kinds in the log", "fate"),
    broken(Bug::PayloadsReadAsValues, "pay01_json_text_is_kept_byte_for_byte", "the payload", "takeover"),
    broken(Bug::NamesFolded, "pay04_partition_names_are_bytes", "ObservationOutdated", "takeover"),
    broken(Bug::TakenOneMomentTooEarly, "tko02_valid_lease_is_held", "refused as Held", "append"),
    broken(Bug::NotTakenAtExpiry, "tko03_granted_at_expiry", "Held", "append"),
    broken(Bug::LedgerNotCompared, "stw12_lease_of_another_ledger_is_invalid", "invalid input", "takeover"),
    broken(Bug::ReleaseNotCompared, "stw07_released_lease_writes_nothing", "refused as Released", "takeover"),
    broken(Bug::DivergenceNotSeen, "int06_lease_that_contradicts_the_log_is_diverged", "Diverged", "takeover"),
    broken(Bug::OperatorNeedsNoObservation, "rel08_operator_ends_only_what_was_observed", "Outdated", "takeover"),
    broken(Bug::RenewalAddsToTheOldExpiry, "rnw01_extends_from_the_judged_time", "judged time plus the TTL", "append"),
    broken(Bug::RenewalKeepsItsTtl, "rnw06_ttl_of_one_call_does_not_stay", "by the TTL of the claim", "append"),
    broken(Bug::RenewalTellsTheHeadOfTheLease, "rnw05_tells_head_and_chain", "head and chain in a renewal", "append"),
    broken(
        Bug::RenewalWithoutRevision,
        "jud07_revisions_order_what_was_granted",
        "a renewal moves the revision",
        "append",
    ),
    broken(Bug::ReleaseAfterExpiryIsWritten, "rel04_after_expiry_is_answered_as_ended", "had ended before", "append"),
    broken(Bug::SuccessionNotKept, "tko11_succession_names_the_tenure_before", "a tenure before", "append"),
    broken(Bug::GenerationSharedByAllPartitions, "par02_first_claims_of_200_at_once", "generation and head", "reading"),
    broken(Bug::ExpectationIgnored, "app03_expected_position_is_the_head", "refused as PositionConflict", "takeover"),
    broken(Bug::BatchReversed, "app02_batch_is_one_entry_in_its_order", "the event", "takeover"),
    broken(Bug::BatchCutAtAThousand, "app09_ten_thousand_events_in_one", "10002", "takeover"),
    broken(Bug::PayloadCut, "pay02_one_megabyte", "a payload of 65536 bytes", "takeover"),
    broken(Bug::LargeAppendsNotWritten, "pay03_append_of_exactly_four_mebibytes", "the call succeeds", "takeover"),
    broken(Bug::KindsFolded, "pay06_kinds_and_notes_are_bytes", "the kinds", "takeover"),
    broken(Bug::RefusalNamesNobody, "jud06_refusal_tells_both_sides", "what is true", "renewal"),
    broken(Bug::BusyAtOnce, "par01_writers_of_64_partitions_do_not_meet", "the call succeeds", "limits"),
    broken(Bug::LockKeptByADroppedCall, "can03_dropped_renewal_and_release", "in time", "takeover"),
    broken(Bug::ClaimsUnknownToFate, "fat07_claim_is_settled_by_its_acquisition", "is its entry", "takeover"),
    broken(Bug::FateOnlyUnderItsOwnGeneration, "fat01_recorded_is_told_to_anyone", "that landed", "takeover"),
    broken(Bug::AbsentIsNever, "fat02_undecided_while_the_tenure_lasts", "under a valid lease", "takeover"),
    broken(Bug::ReadsWaitForTheLock, "red09_reading_goes_on_while_a_lock_is_held", "no read waits", "takeover"),
    broken(Bug::ReadsServedFromASnapshot, "red05_own_writes_on_every_handle", "right after its append", "limits"),
    broken(Bug::ReadStartsAfterThePosition, "red02_pages_join_without_seam", "page from", "renewal"),
    broken(Bug::BackwardReadKeepsBatchesForward, "red03_backward_is_forward_reversed", "the events back", "takeover"),
    broken(Bug::AheadOfTheLogIsEmpty, "red04_ahead_of_the_log_is_an_error", "is ahead of the log", "takeover"),
    broken(Bug::ObservedInTwoSteps, "red08_observing_shows_one_moment", "belongs to the head", "payload"),
    broken(Bug::ListingStartsAtThePosition, "par03_listing_gives_each_name_once", "the names in pages", "takeover"),
    broken(Bug::AskingListsAName, "stw13_nothing_is_written_before_the_first_claim", "creates none", "takeover"),
    broken(Bug::IdentityOfEachHandle, "par04_ledger_says_what_it_is", "on another handle", "takeover"),
    broken(Bug::CloseTakesTheLastEntry, "rst06_handles_come_and_go", "", "payload"),
    broken(Bug::LeaseLostOnReopen, "rst01_lease_survives_a_restart", "unchanged by a restart", "takeover"),
    broken(Bug::RemarkNotKept, "evd13_remark_is_kept_with_the_refusal_alone", "a record for each remark", "takeover"),
    broken(Bug::LastRemarkOfAKey, "req10_late_answer_is_refused_and_shown", "the late answers to `one`", "takeover"),
    broken(Bug::SentBeforeItIsRecorded, "req01_is_recorded_before_it_is_sent", "stands in the log", "takeover"),
    broken(Bug::SecondRequestSends, "req02_second_request_sends_nothing", "sends nothing", "takeover"),
    broken(
        Bug::KeyOfAnotherRequestAccepted,
        "req03_same_key_for_another_request_is_refused",
        "of another request is refused",
        "takeover",
    ),
    broken(Bug::IdsForgottenWithTheTenure, "req02_second_request_sends_nothing", "the successor's request", "payload"),
    broken(Bug::UnknownTreatedAsFailed, "req05_unknown_stays_open_until_it_is_settled", "the state", "takeover"),
    broken(Bug::SettledOneChanges, "req06_settled_never_changes", "does not change what is settled", "takeover"),
    broken(Bug::OwnerChangesTheState, "req08_owner_and_note_of_an_open_one", "is what it was", "takeover"),
    broken(
        Bug::SentAgainUnderAnotherKey,
        "req09_sent_again_under_its_own_key_by_the_holder",
        "which sending it is: 2",
        "takeover",
    ),
    broken(Bug::LateAnswerSettles, "req10_late_answer_is_refused_and_shown", "a late answer is refused", "takeover"),
    broken(Bug::OpenOnesOfTheNewestPage, "req12_open_ones_of_a_long_log", "as they were made", "takeover"),
    broken(
        Bug::LastSenderShownAsTheFirst,
        "req09_sent_again_under_its_own_key_by_the_holder",
        "first generation",
        "takeover",
    ),
    broken(Bug::HandoverOfTheNewest, "hnd01_first_claim_follows_nobody", "never granted", "requests"),
    broken(Bug::HandoverNamesNoBasis, "hnd02_tells_who_was_before_and_why_that_ended", "the basis", "requests"),
    broken(Bug::HandoverAsOfNow, "hnd03_shows_nothing_that_came_after_the_claim", "of the handover, later", "requests"),
    broken(
        Bug::OnlyThePredecessorsRequests,
        "hnd04_open_request_is_carried_on_over_takeovers",
        "what `c` finds: it, once",
        "requests",
    ),
    broken(Bug::RejectionsOfAnybody, "hnd05_shows_what_the_predecessor_tried_since", "rejections at first", "requests"),
    broken(
        Bug::RenewalTellsTheHeadOfTheLease,
        "kep01_renews_and_appends_in_one_tenure",
        "held after a renewal",
        "takeover",
    ),
    broken(
        Bug::GenerationNotCompared,
        "kep02_takeover_ends_the_writer_at_the_first_refusal",
        "an append after a takeover",
        "reading",
    ),
    broken(
        Bug::GenerationReusedAfterRelease,
        "kep03_release_comes_after_what_was_in_flight",
        "the generation",
        "payload",
    ),
    broken(Bug::IdsNotLookedUp, "kep04_lost_answers_leave_each_append_once", "a replay", "takeover"),
    broken(
        Bug::EarlierTenureStaysUndecided,
        "kep05_fate_settles_an_append_after_a_takeover",
        "settled by its fate",
        "takeover",
    ),
    broken(Bug::NotTakenAtExpiry, "kep06_waits_for_the_expiry", "", "append"),
    broken(
        Bug::LateReleaseEndsTheSuccessor,
        "kep07_release_of_a_lost_writer_leaves_the_successor_alone",
        "had ended before",
        "append",
    ),
    broken(Bug::ShadowWithoutAMark, "shd01_bears_its_mark_in_the_log", "the holder of claim and appends", "takeover"),
    broken(Bug::ShadowJudgesByItself, "shd02_stale_write_is_recorded_by_the_store", "the store's records", "evidence"),
    broken(
        Bug::ShadowWithoutALeaseIsSilent,
        "shd03_write_beside_a_holder_is_recorded_by_the_store",
        "the store's records",
        "evidence",
    ),
    broken(Bug::ShadowClaimsBeforeItIsRefused, "shd04_claims_anew_where_it_is_free", "would have been refused", "fate"),
    broken(
        Bug::ShadowClaimsWhereOthersEnforced,
        "shd05_gives_way_to_who_enforces_and_stays_away",
        "the last of the log",
        "takeover",
    ),
    broken(Bug::IdsNotLookedUp, "shd06_each_append_is_counted_once_on_a_bad_line", "in the log, each once", "takeover"),
    broken(Bug::RepeatsCountedTwice, "shd07_report_sums_up_what_the_store_has", "would have been refused", "takeover"),
    broken(
        Bug::GenerationSharedByAllPartitions,
        "kep08_pool_loses_one_and_keeps_the_others",
        "the generation of a first claim",
        "reading",
    ),
    broken(
        Bug::AdvanceAboveTheStoredAlone,
        "rbk01_advance_goes_on_above_every_generation",
        "the generation: Generation(42)",
        "takeover",
    ),
    broken(Bug::AdvanceKeepsTheTenure, "rbk01_advance_goes_on_above_every_generation", "why it is vacant", "takeover"),
    broken(
        Bug::AdvanceOfTheRowAlone,
        "rbk01_advance_goes_on_above_every_generation",
        "`$advanced` event stands",
        "takeover",
    ),
    broken(Bug::AdvanceNotLookedUp, "rbk02_advance_is_safe_to_retry", "is answered as before", "takeover"),
    broken(Bug::AdvanceUnderAnyId, "rbk02_advance_is_safe_to_retry", "refused as AcquisitionSpent", "takeover"),
    broken(
        Bug::AdvanceAboveTheStoredAlone,
        "rbk03_advance_creates_what_this_copy_never_had",
        "the generation: Generation(10)",
        "takeover",
    ),
    broken(Bug::AdvanceWraps, "rbk04_no_generation_above_the_ceiling", "GenerationExhausted", "takeover"),
    broken(Bug::AdvanceFromTheRow, "rbk05_advance_ends_what_has_diverged", "generation and position", "takeover"),
    broken(Bug::AdvancesNotToldInHandover, "rbk06_handover_tells_of_the_advance", "the advances", "requests"),
    broken(Bug::WitnessNotAsked, "wit01_store_behind_its_mark_is_not_claimed", "RolledBack", "takeover"),
    broken(Bug::PositionsComparedAlone, "wit02_other_history_is_told_apart", "RolledBack", "takeover"),
    broken(Bug::AcknowledgedForgotten, "wit03_holder_notices_at_its_next_answer", "RolledBack", "takeover"),
    broken(Bug::AdvanceLiftsNoMark, "wit04_advance_lets_every_witness_go_on", "", "takeover"),
    broken(Bug::MarksGoBack, "wit05_marks_in_a_ledger_never_go_back", "an earlier position", "takeover"),
    broken(Bug::WitnessFailsOpen, "wit06_witness_that_fails_stops_its_holder", "is NotWritten", "takeover"),
    broken(Bug::AcknowledgedForgotten, "wit07_answers_are_marked_before_they_are_given", "at a renewal", "takeover"),
    broken(
        Bug::AcknowledgedForgotten,
        "wit08_keeper_stops_over_a_store_that_went_back",
        "tells that the store went back",
        "takeover",
    ),
];

async fn run(bug: Option<Bug>, keep: impl Fn(&conformance_tests::Case) -> bool) -> Report {
    // A bug may make a case hang, which is one way to fail. Without one, a loaded machine gets all the time it needs.
    let time_out = Duration::from_secs(if bug.is_some() { 6 } else { 120 });
    // What a bug does shows in small counts, and there are many bugs.
    Suite::new().full(false).only(keep).at_once(16).time_out(time_out).run(&ReferenceHarness { bug }).await
}

/// Otherwise a case could fail on every ledger, and would prove nothing about a broken one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reference_without_a_bug_passes_every_case() {
    let report = run(None, |_| true).await;
    assert_eq!(report.counts(), (CASES.len(), 0, 0), "\n{report}");
    assert!(!report.partial);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_ledger_fails_its_case_with_a_readable_text() {
    let runs = ALL.iter().map(|broken| async move {
        (broken, run(Some(broken.bug), |known| known.id == broken.case || known.family == broken.green).await)
    });
    let reports: Vec<_> = stream::iter(runs).buffered(4).collect().await;
    let mut wrong = Vec::new();
    for (Broken { bug, case, says, .. }, report) in reports {
        for result in report.cases {
            let as_it_should = match &result.outcome {
                Outcome::Failed { violation } if result.id == *case => violation.to_string().contains(says),
                Outcome::Passed => result.id != *case,
                _ => false,
            };
            if as_it_should && result.id == *case {
                println!("{bug:?} is caught by {case}");
            } else if !as_it_should {
                wrong.push(format!("{bug:?}, {}: {:?}", result.id, result.outcome));
            }
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}

#[test]
fn list_names_cases_that_exist_outside_of_the_green_family() {
    for Broken { bug, case, green, .. } in ALL {
        let found = CASES.iter().find(|known| known.id == *case);
        assert!(found.is_some_and(|found| found.family != *green), "{bug:?}: {case} and {green}");
        assert!(CASES.iter().any(|known| known.family == *green), "{bug:?}: {green}");
    }
}

/// No case may be one that can not fail. What no broken ledger can break is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_fails_on_some_broken_ledger() {
    // The core refuses invalid input itself, the same for every backend.
    let unbreakable = ["lim01_invalid_input_reaches_no_store"];
    let mut never: BTreeSet<&str> = CASES.iter().map(|case| case.id).collect();
    for broken in ALL {
        let report = run(Some(broken.bug), |case| never.contains(case.id)).await;
        for (case, _) in report.failed() {
            never.remove(case.id);
        }
    }
    let never: Vec<_> = never.into_iter().collect();
    assert_eq!(never, unbreakable);
}
