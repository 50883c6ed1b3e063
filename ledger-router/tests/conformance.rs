//! Goal: a router over several clusters is a ledger: the conformance suite holds on it, over clusters in memory,
//! and a part of it on real PostgreSQL servers of two majors.
//!
//! Method: each storage is two storages of another harness, with one clock, under a layout by hash. What a router can not
//! do is listed here with its reason, and shown to be so.

mod routed;

#[path = "../../ledger-memory/tests/common/harness.rs"]
mod memory;
#[path = "../../ledger-postgres/tests/common/mod.rs"]
mod postgres;

use conformance_tests::{Case, Hook, Outcome, Report, Suite};
use postgres::Wanted;
use postgres::harness::{Door, Postgres};
use routed::Routed;

/// The cases that ask for one ledger id, which a router does not have: leases and chains carry that of their cluster,
/// never-claimed partitions share a budget a cluster, a lease before its claim is of no cluster yet, and a witness keeps its
/// marks under the layout's id.
const ONE_LEDGER: [&str; 8] = [
    "evd06_never_claimed_ones_share_one_budget",
    "int01_chain_is_as_it_is_written_down",
    "int04_mark_finds_a_store_that_was_rewound",
    "par04_ledger_says_what_it_is",
    "rel09_release_that_overtakes_its_claim",
    "wit04_advance_lets_every_witness_go_on",
    "wit06_witness_that_fails_stops_its_holder",
    "wit07_answers_are_marked_before_they_are_given",
];

/// Faults of a store's own: a router has no store, and its clusters are put to them by their own suites.
const OF_A_STORE: [Hook; 4] = [Hook::Crash, Hook::Line, Hook::HoldCommit, Hook::FailWrite];

fn applies(case: &Case) -> bool {
    !ONE_LEDGER.contains(&case.id)
}

fn assert_all_hold(report: &Report, skipped: &[Hook], at_least: usize) {
    let wrong: Vec<_> = report
        .cases
        .iter()
        .filter(|case| match &case.outcome {
            Outcome::Passed => false,
            Outcome::Skipped { hook, .. } => !skipped.contains(hook),
            Outcome::Failed { .. } => true,
        })
        .collect();
    assert!(wrong.is_empty() && report.cases.len() >= at_least, "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_over_clusters_in_memory() {
    let harness = Routed { one: memory::MemoryHarness, other: memory::MemoryHarness };
    let report = Suite::new().only(applies).run(&harness).await;
    let of_a_disk = [Hook::Restart, Hook::HoldLock, Hook::Tamper];
    assert_all_hold(&report, &[&of_a_disk[..], &OF_A_STORE].concat(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_that_are_left_out_ask_for_one_ledger() {
    let harness = Routed { one: memory::MemoryHarness, other: memory::MemoryHarness };
    let report = Suite::new().only(|case| !applies(case)).run(&harness).await;
    assert_eq!(report.failed().count(), ONE_LEDGER.len(), "one that holds needs no exception: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_each_family_holds_over_two_servers() {
    let harness =
        Routed { one: Postgres::shared(Wanted::OLDEST, Door::Own), other: Postgres::shared(Wanted::NEWEST, Door::Own) };
    // The suite runs in whole on each of the two; here it is shown that nothing is lost on the way.
    let families: std::sync::Mutex<std::collections::HashMap<&str, usize>> = std::sync::Mutex::default();
    let first_three = |case: &Case| {
        let mut seen = families.lock().expect("nothing panics under it");
        let count = seen.entry(case.family).or_default();
        *count += 1;
        *count <= 3
    };
    let report = Suite::new().only(|case| applies(case) && first_three(case)).full(false).run(&harness).await;
    assert_all_hold(&report, &OF_A_STORE, 30);
}
