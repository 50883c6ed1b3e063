//! The generated page: which families fail on which broken ledger, and what a random run finds.
//!
//! `UPDATE=1 cargo test -p conformance-tests --test broken matrix` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use conformance_tests::random::{EPISODE, differential};
use conformance_tests::{CASES, Report};

use crate::bugs::Bug;
use crate::harness::ReferenceHarness;
use crate::list::{ALL, Broken};
use crate::unseen::Unseen;
use crate::{RUNS, in_a_runtime, run};

/// How many seeds a random run has, of one episode each.
const SEEDS: u64 = 31;

/// Bugs that show in some schedules of tasks alone, or in how long something takes: of these the page names the
/// families of the cases that must fail, which they do each time, and no others.
const BY_SCHEDULE: &[Bug] = &[
    Bug::AcknowledgedBeforeDurable,
    Bug::BatchWrittenInTwoSteps,
    Bug::BusyAtOnce,
    Bug::CheckAndWriteInTwoSteps,
    Bug::ClockReadBeforeTheLock,
    Bug::CloseTakesTheLastEntry,
    Bug::CommitOutsideTheLock,
    Bug::GenerationSharedByAllPartitions,
    Bug::LockKeptByADroppedCall,
    Bug::ObservedInTwoSteps,
    Bug::ReadsServedFromASnapshot,
    Bug::ReadsWaitForTheLock,
    Bug::RefusalsQueueForTheLock,
];

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/broken-ledgers.md");

#[test]
fn matrix_is_up_to_date() {
    let mut runs = RUNS.clone();
    let mut page = self::page(&runs);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, page).expect("the page is written");
        return;
    }
    let stored = std::fs::read_to_string(FILE).unwrap_or_default();
    // A row that has changed is the same in each run; one that a busy machine has changed is not. Of many, the page is old.
    for _ in 0..2 {
        let differs = |bug: &Bug| {
            let row = format!("| {bug:?} | ");
            page.lines().zip(stored.lines()).any(|(new, old)| new != old && new.starts_with(&row))
        };
        let differing: Vec<Bug> = runs.iter().map(|(bug, _)| *bug).filter(differs).collect();
        for (bug, report) in runs.iter_mut().filter(|(bug, _)| differing.len() < 10 && differing.contains(bug)) {
            *report = in_a_runtime(run(Some(*bug)));
        }
        page = self::page(&runs);
    }
    let differing: Vec<_> = page.lines().zip(stored.lines()).filter(|(new, old)| new != old).take(5).collect();
    assert!(
        page == stored,
        "docs/broken-ledgers.md is out of date: `UPDATE=1 cargo test -p conformance-tests --test broken matrix` \
         writes it anew; it differs in {differing:#?}"
    );
}

/// What a random run does not find is not left open: either it needs more than such a run has, or the run lacks something.
#[test]
fn what_the_random_run_does_not_find_has_its_reason() {
    let mut wrong = Vec::new();
    for (bug, found) in FOUND.iter() {
        match (Unseen::of(*bug), found) {
            (None, None) => wrong.push(format!("{bug:?} is not found, and no reason is given")),
            (Some(reason), Some(found)) => wrong.push(format!("{bug:?} is found after all: {found}, not {reason:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}

fn page(runs: &[(Bug, Report)]) -> String {
    let mut families: Vec<&str> = Vec::new();
    for case in CASES {
        if !families.contains(&case.family) {
            families.push(case.family);
        }
    }
    let short: BTreeMap<&str, &str> = CASES.iter().rev().map(|case| (case.family, &case.id[..3])).collect();
    let mut page = String::from(HEAD);
    let killed = FOUND.values().flatten().count();
    let _ = write!(
        page,
        "{} broken ledgers, {} cases that must fail on them, {} of {} cases of the suite in {} families fail on at least \
         one. The random run finds {killed}.\n\n",
        runs.len(),
        ALL.len(),
        CASES.len() - 1,
        CASES.len(),
        families.len(),
    );
    let _ = writeln!(
        page,
        "| broken ledger | {} | random run |",
        families.iter().map(|family| short[family]).collect::<Vec<_>>().join(" | ")
    );
    let _ = writeln!(page, "|---|{}---|", "---|".repeat(families.len()));
    for (bug, report) in runs {
        let cells: Vec<&str> = families.iter().map(|family| cell(*bug, report, family)).collect();
        let unseen = Unseen::of(*bug).map(|reason| format!("– {}", reason.name()));
        let random = FOUND.get(bug).cloned().flatten().or(unseen).unwrap_or_else(|| "–".to_owned());
        let _ = writeln!(page, "| {bug:?} | {} | {random} |", cells.join(" | "));
    }
    page.push_str("\n| not found | ledgers | because the bug |\n|---|---|---|\n");
    for reason in Unseen::ALL {
        let count = FOUND.iter().filter(|(bug, found)| found.is_none() && Unseen::of(**bug) == Some(reason)).count();
        let _ = writeln!(page, "| {} | {count} | {} |", reason.name(), reason.text());
    }
    page.push_str("\n## The case that must fail, and what it says\n\n| broken ledger | case | its text contains |\n|---|---|---|\n");
    for broken in ALL {
        let says = if broken.says.is_empty() { "any".to_owned() } else { format!("\"{}\"", broken.says) };
        let _ = writeln!(page, "| {:?} | {} | {says} |", broken.bug, broken.case);
    }
    page
}

/// `X` where a case must fail, `x` where one fails too.
fn cell(bug: Bug, report: &Report, family: &str) -> &'static str {
    let is_named = ALL
        .iter()
        .any(|broken| broken.bug == bug && CASES.iter().any(|case| case.id == broken.case && case.family == family));
    // How long something takes depends on the machine, so a case that has not ended in time is not shown.
    let in_time = |text: &str| !text.contains("still running after") && !text.contains("not within");
    let fails = report.failed().any(|(case, violation)| case.family == family && in_time(&violation.seen));
    match (is_named, fails) {
        (true, _) => "X",
        (false, true) if !BY_SCHEDULE.contains(&bug) => "x",
        _ => "",
    }
}

/// What a random run finds of each broken ledger.
static FOUND: LazyLock<BTreeMap<Bug, Option<String>>> = LazyLock::new(|| {
    in_a_runtime(async {
        let mut found = BTreeMap::new();
        for Broken { bug, .. } in ALL {
            if !found.contains_key(bug) {
                found.insert(*bug, random_run(*bug).await);
            }
        }
        found
    })
});

/// The first seed that finds a bug, and how many operations are left of the episode when it is shrunk.
async fn random_run(bug: Bug) -> Option<String> {
    for seed in 1..=SEEDS {
        if let Err(difference) = differential(&ReferenceHarness { bug: Some(bug) }, seed, EPISODE).await {
            return Some(format!("seed {seed}, {} steps", difference.operations.len()));
        }
    }
    None
}

const HEAD: &str = "# Broken ledgers

This page is generated: `UPDATE=1 cargo test -p conformance-tests --test broken matrix` writes it, and CI fails where it
is out of date.

Each row is a ledger with one bug, made of the reference in `conformance-tests/tests/broken`; without a bug the
reference passes every case. `X`: the family has the case that must fail on it. `x`: another case of the family fails too.
Where a bug shows in some schedules of tasks alone, the row has its `X` and nothing else, and a case that only failed to
end in time is no `x`.

The random run compares the ledger with the model of `conformance_tests::random`: seeds 1 to 31, one episode of 60
operations each, with forged leases. The cell has the first seed that finds the bug, and the number of operations that
are left when the episode is shrunk; `–` where no seed finds it, with the reason, which the table below the matrix explains. A
test fails where a ledger with a reason is found after all, or one that is not found has none.

";
