//! The checker tested: on histories of clients that really ran, sabotaged ones among them, against a slow search.

mod generate;
mod misread;
mod sabotage;
mod scenes;
mod search;

#[path = "../broken/bugs.rs"]
#[allow(dead_code, reason = "the suite's own test uses the rest")]
mod bugs;
#[path = "../broken/calls.rs"]
#[allow(dead_code, reason = "the suite's own test uses the rest")]
mod calls;
#[path = "../broken/disk.rs"]
#[allow(dead_code, reason = "the suite's own test uses the rest")]
mod disk;
#[path = "../broken/records.rs"]
#[allow(dead_code, reason = "the suite's own test uses the rest")]
mod records;
#[path = "../broken/reference.rs"]
#[allow(dead_code, reason = "the suite's own test uses the rest")]
mod reference;

use conformance_tests::history::{Call, Findings, Kind, check};
use ledger_core::ManualClock;
use ledger_memory::MemoryLedger;

use std::sync::Arc;

use bugs::Bug;
use disk::Disk;
use generate::{Generated, generate};
use reference::Reference;

/// A figure by day, and the full one where `FENCED_LEDGER_FULL` asks for it.
fn scale(by_day: u64, full: u64) -> u64 {
    let is_full = std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    if is_full { full } else { by_day }
}

#[test]
fn the_checker_and_the_slow_search_say_the_same() {
    let threads: u64 = std::thread::available_parallelism().map_or(1, |count| count.get().min(4) as u64);
    // One of them again: `HISTORY_SEED=3386 cargo test -p conformance-tests --test history same`.
    if let Some(seed) = std::env::var("HISTORY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        compare(std::iter::once(seed));
        return;
    }
    let histories = scale(2_000, 100_000);
    let all: Vec<Compared> = std::thread::scope(|scope| {
        let compare =
            |thread| scope.spawn(move || compare((thread..histories).filter(|seed| seed % threads == thread)));
        let running: Vec<_> = (0..threads).map(compare).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic but that of an assertion")).collect()
    });
    let sum = |of: fn(&Compared) -> u64| all.iter().map(of).sum::<u64>();
    let (right, wrong, stricter) = (sum(|c| c.right), sum(|c| c.wrong), sum(|c| c.stricter));
    let (looser, unseen) = (sum(|c| c.looser), sum(|c| c.unseen));
    println!(
        "{histories} histories: {right} right and {wrong} wrong by both; wrong by the checker alone {stricter}, \
         by the search alone {looser}, and {unseen} more that only some time of the clock contradicts"
    );
    assert!(wrong * 5 > right, "enough of them are wrong");
    assert_eq!(stricter, 0, "the checker accuses nobody whom the search acquits");
    assert_eq!(looser, 0, "the checker misses nothing that the search finds");
    // The search knows each time that the clock showed. Of a renewal whose answer was lost the checker knows it in bounds.
    assert!(unseen * 20_000 <= histories, "{unseen} of {histories} are missed for the time of an unseen renewal");
}

#[derive(Default)]
struct Compared {
    right: u64,
    wrong: u64,
    stricter: u64,
    looser: u64,
    /// Missed, in a history with a renewal whose answer was lost.
    unseen: u64,
}

fn compare(seeds: impl Iterator<Item = u64>) -> Compared {
    let mut compared = Compared::default();
    for seed in seeds {
        let mut generated = run(seed);
        // Every second history is sabotaged, in turn by each of the kinds that concern answers and log, or the next
        // of them that finds a place.
        let sabotages: Vec<_> = sabotage::all().filter(|sabotage| sabotage.kind != Kind::Evidence).collect();
        let nth = usize::try_from(seed / 2).expect("a small number") % sabotages.len();
        let mut turn = sabotages.iter().cycle().skip(nth).take(sabotages.len());
        let mut rng = fastrand::Rng::with_seed(seed);
        let name = if seed % 2 == 1 {
            turn.find(|sabotage| (sabotage.apply)(&mut generated, &mut rng)).map_or("nothing", |sabotage| sabotage.name)
        } else {
            "nothing"
        };
        let findings = check(&generated.history, &generated.content);
        let accused = findings.violations.iter().any(|violation| violation.kind != Kind::Evidence);
        let explained = search::explains(&generated);
        let calls = &generated.history.invocations;
        let has_unseen = calls.iter().any(|call| call.is_open() && matches!(call.call, Call::Renew { .. }));
        let both = match (accused, explained) {
            (false, true) => &mut compared.right,
            (true, false) => &mut compared.wrong,
            (true, true) => &mut compared.stricter,
            (false, false) if has_unseen => &mut compared.unseen,
            (false, false) => &mut compared.looser,
        };
        *both += 1;
        if accused == explained {
            println!("seed {seed}, {name}: accused {accused}, explained {explained}\n{findings}");
            let mut calls: Vec<_> = generated.history.invocations.iter().collect();
            calls.sort_by_key(|call| call.called_at);
            calls.iter().for_each(|call| println!("  {} {call:?}", call.called_at));
            generated.content.partitions[0].log.iter().for_each(|logged| println!("  {logged:?}"));
        }
    }
    compared
}

/// A small history on a right ledger.
fn run(seed: u64) -> Generated {
    let clock = ManualClock::default();
    let ledger = MemoryLedger::with_clock(clock.clone());
    now(generate(&ledger, &clock, seed, (3, 10)))
}

/// Runs a future to its end, on a runtime that each thread makes once.
fn now<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

#[test]
fn a_right_ledger_is_not_accused() {
    for seed in 0..scale(40, 200) {
        let clock = ManualClock::default();
        let ledger = MemoryLedger::with_clock(clock.clone());
        let generated = now(generate(&ledger, &clock, seed, (8, 300)));
        let findings = check(&generated.history, &generated.content);
        assert!(findings.violations.is_empty(), "seed {seed}: {findings}");
        assert!(findings.counts.refusals > 20 && findings.counts.unknown > 3, "{:?}", findings.counts);
    }
}

#[test]
fn each_sabotage_is_found_and_named() {
    for sabotage in sabotage::all() {
        let found: Vec<Findings> = (0..scale(60, 200))
            .filter_map(|seed| {
                let clock = ManualClock::default();
                let ledger = MemoryLedger::with_clock(clock.clone());
                let mut generated = now(generate(&ledger, &clock, seed, (4, 60)));
                let applied = (sabotage.apply)(&mut generated, &mut fastrand::Rng::with_seed(seed));
                applied.then(|| check(&generated.history, &generated.content))
            })
            .collect();
        let named = |findings: &&Findings| {
            findings.of(sabotage.kind).any(|finding| finding.to_string().contains(sabotage.says))
        };
        let count = found.iter().filter(named).count();
        println!("{}: {count} of {}", sabotage.name, found.len());
        let example = found.first().map(ToString::to_string);
        assert!(found.len() >= 3, "`{}` can be applied", sabotage.name);
        assert!(
            count * 100 >= found.len() * sabotage.least,
            "`{}`: {count} of {}\n{example:?}",
            sabotage.name,
            found.len()
        );
    }
}

/// Broken ledgers of the suite, and what the checker finds of a history on each. Those that need clients which are
/// carried out at once, a restart, or a moment to the microsecond are not among them.
const BROKEN: &[(Bug, Kind)] = &[
    (Bug::HolderNotCompared, Kind::StaleWrite),
    (Bug::AcquisitionNotCompared, Kind::StaleWrite),
    (Bug::GenerationNotCompared, Kind::WrongAnswer),
    (Bug::LaterGenerationAccepted, Kind::StaleWrite),
    (Bug::ExpiryNotCompared, Kind::StaleWrite),
    (Bug::ExpiryJudgedFirst, Kind::WrongRefusal),
    (Bug::ExpiryNotRecorded, Kind::Fate),
    (Bug::ClockStepBackBelieved, Kind::Log),
    (Bug::GenerationReusedAfterRelease, Kind::Log),
    (Bug::ObservationIgnored, Kind::WrongAnswer),
    (Bug::LiveLeaseTakenByTheSameName, Kind::StaleWrite),
    (Bug::AcquisitionsForgotten, Kind::WrongRefusal),
    (Bug::RenewalRevives, Kind::StaleWrite),
    (Bug::RenewalShortens, Kind::WrongAnswer),
    (Bug::LateReleaseEndsTheSuccessor, Kind::Lost),
    (Bug::RefusalUsesUpAPosition, Kind::Log),
    (Bug::AnswerIsNotWhatIsStored, Kind::Lost),
    (Bug::IdsNotLookedUp, Kind::Log),
    (Bug::IdsComparedWithoutContent, Kind::WrongAnswer),
    (Bug::IdsForgottenWithTheTenure, Kind::Log),
    (Bug::ReplayBeforeTheFence, Kind::WrongAnswer),
    (Bug::RefusalWithoutRecord, Kind::Evidence),
    (Bug::RecordRolledBackWithTheWrite, Kind::Evidence),
    (Bug::RepeatsCountedTwice, Kind::Evidence),
    (Bug::RemarkNotKept, Kind::Evidence),
    (Bug::LastRemarkOfAKey, Kind::Evidence),
    (Bug::OwnEventsHidden, Kind::Log),
    (Bug::NotTakenAtExpiry, Kind::WrongRefusal),
    (Bug::ReleaseNotCompared, Kind::WrongRefusal),
    (Bug::OperatorNeedsNoObservation, Kind::Lost),
    (Bug::RenewalAddsToTheOldExpiry, Kind::WrongAnswer),
    (Bug::RenewalKeepsItsTtl, Kind::WrongAnswer),
    (Bug::RenewalWithoutRevision, Kind::WrongAnswer),
    (Bug::ReleaseAfterExpiryIsWritten, Kind::StaleWrite),
    (Bug::SuccessionNotKept, Kind::Log),
    (Bug::ExpectationIgnored, Kind::WrongAnswer),
    (Bug::BatchReversed, Kind::Log),
    (Bug::RefusalNamesNobody, Kind::WrongRefusal),
    (Bug::ClaimsUnknownToFate, Kind::Fate),
    (Bug::FateOnlyUnderItsOwnGeneration, Kind::Fate),
    (Bug::AbsentIsNever, Kind::Fate),
    (Bug::EarlierTenureStaysUndecided, Kind::Fate),
    (Bug::ReadsServedFromASnapshot, Kind::Log),
    (Bug::ReadStartsAfterThePosition, Kind::WrongAnswer),
    (Bug::BackwardReadKeepsBatchesForward, Kind::WrongAnswer),
    (Bug::AppendExtendsTheLease, Kind::WrongRefusal),
    (Bug::ExpectationOffByOne, Kind::WrongAnswer),
    (Bug::FenceSkippedForBatches, Kind::WrongAnswer),
    (Bug::ReleaseWithoutEffect, Kind::Lost),
    (Bug::OldGenerationsHidden, Kind::Lost),
    (Bug::ReadDropsTheLast, Kind::Lost),
    (Bug::AdvanceNotLookedUp, Kind::Log),
    (Bug::AdvanceUnderAnyId, Kind::Log),
    (Bug::AdvanceAboveTheStoredAlone, Kind::Lost),
    (Bug::AdvanceOfTheRowAlone, Kind::Lost),
    (Bug::AdvanceKeepsTheTenure, Kind::Log),
];

#[test]
fn broken_ledgers_are_found_out() {
    for (bug, kind) in BROKEN {
        let found = (0..300).find_map(|seed| {
            let disk = Arc::new(Disk::new(Some(*bug)));
            let ledger = Reference::open(disk.clone());
            let generated = now(generate(&ledger, &disk.clock, seed, (6, 120)));
            let findings = check(&generated.history, &generated.content);
            findings.of(*kind).next().map(|finding| (seed, finding.to_string()))
        });
        let Some((seed, finding)) = found else { panic!("{bug:?} is not found out as {kind:?}") };
        println!("{bug:?}: seed {seed}, {finding}");
    }
}
