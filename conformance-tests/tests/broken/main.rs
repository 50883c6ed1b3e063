//! The suite tested: ledgers that are broken on purpose, each with one bug, and the case that must fail on each.
//!
//! The whole suite runs once on each broken ledger, and once in all; every test looks at the same runs.

mod book;
mod bugs;
mod calls;
mod disk;
mod harness;
mod list;
mod matrix;
mod records;
mod reference;
mod shadow;
mod unseen;
mod witness;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use conformance_tests::{CASES, Outcome, Report, Suite};
use futures_util::stream::{self, StreamExt};

use bugs::Bug;
use harness::ReferenceHarness;
use list::{ALL, Broken};

async fn run(bug: Option<Bug>) -> Report {
    // A bug may make a case hang, which is one way to fail. Without one, a loaded machine gets all the time it needs.
    let time_out = Duration::from_secs(if bug.is_some() { 30 } else { 120 });
    // What a bug does shows in small counts, and there are many bugs.
    Suite::new().full(false).at_once(16).time_out(time_out).run(&ReferenceHarness { bug }).await
}

/// The whole suite on each broken ledger, in the order of the list, each ledger once.
static RUNS: LazyLock<Vec<(Bug, Report)>> = LazyLock::new(|| {
    let mut bugs: Vec<Bug> = Vec::new();
    for broken in ALL {
        if !bugs.contains(&broken.bug) {
            bugs.push(broken.bug);
        }
    }
    let runs = bugs.into_iter().enumerate().map(|(nth, bug)| async move { (nth, bug, run(Some(bug)).await) });
    // Not in order: on some ledgers a case hangs until its time is over, and the others go on meanwhile.
    let mut runs: Vec<_> = in_a_runtime(stream::iter(runs).buffer_unordered(8).collect());
    runs.sort_by_key(|(nth, ..)| *nth);
    runs.into_iter().map(|(_, bug, report)| (bug, report)).collect()
});

fn in_a_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("two threads can be started");
    let value = runtime.block_on(future);
    // What a broken ledger left hanging is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    value
}

/// Otherwise a case could fail on every ledger, and would prove nothing about a broken one.
#[test]
fn reference_without_a_bug_passes_every_case() {
    let report = in_a_runtime(run(None));
    assert_eq!(report.counts(), (CASES.len(), 0, 0), "\n{report}");
    assert!(!report.partial);
}

#[test]
fn each_broken_ledger_fails_its_case_with_a_readable_text() {
    let mut wrong = Vec::new();
    for Broken { bug, case, says, green } in ALL {
        let (_, report) = RUNS.iter().find(|(known, _)| known == bug).expect("each bug of the list has a run");
        for result in report.cases.iter().filter(|result| result.id == *case || result.family == *green) {
            let as_it_should = match &result.outcome {
                Outcome::Failed { violation } if result.id == *case => violation.to_string().contains(says),
                Outcome::Passed => result.id != *case,
                _ => false,
            };
            if !as_it_should {
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

/// The page that says which mistake is made by which broken ledger names none that is not there.
#[test]
fn broken_ledgers_of_the_verification_page_exist() {
    let page = include_str!("../../../docs/verification.md");
    let (_, section) = page.split_once("\n## Broken ledgers\n").expect("the page has its section");
    let (section, _) = section.split_once("\n## ").expect("another section follows");
    let known: BTreeSet<String> = ALL.iter().map(|broken| format!("{:?}", broken.bug)).collect();
    let is_name = |word: &&str| word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric);
    let named: BTreeSet<&str> = section.split('`').skip(1).step_by(2).filter(is_name).collect();
    let wrong: Vec<_> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(named.len() > 50 && wrong.is_empty(), "{} names, not there: {wrong:?}", named.len());
}

/// No case may be one that can not fail. What no broken ledger can break is named.
#[test]
fn every_case_fails_on_some_broken_ledger() {
    // The core refuses invalid input itself, the same for every backend.
    let unbreakable = ["lim01_invalid_input_reaches_no_store"];
    let mut never: BTreeSet<&str> = CASES.iter().map(|case| case.id).collect();
    for (case, _) in RUNS.iter().flat_map(|(_, report)| report.failed()) {
        never.remove(case.id);
    }
    let never: Vec<_> = never.into_iter().collect();
    assert_eq!(never, unbreakable);
}
