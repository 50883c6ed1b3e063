//! `cargo run -p report`: the conformance suite on every backend, side by side, and a random run on each; with `--json`
//! each backend's whole report. Ends with 1 where a case or a random run failed.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use conformance_tests::{CASES, Harness, Outcome, Report, Suite};

// The harnesses that the backends' own tests use.
#[path = "../../../ledger-memory/tests/common/harness.rs"]
mod memory;
#[path = "../../../ledger-postgres/tests/common/mod.rs"]
mod postgres;
#[path = "../../../ledger-sqlite/tests/common/harness.rs"]
mod sqlite;

use postgres::Wanted;
use postgres::harness::{Door, Postgres};

#[tokio::main]
async fn main() -> ExitCode {
    // The two majors that CI runs on; each starts a server of its own.
    let (oldest, newest) = (Postgres::shared(Wanted::OLDEST, Door::Own), Postgres::shared(Wanted::NEWEST, Door::Own));
    let reports = [
        ("memory", run(&memory::MemoryHarness).await),
        ("SQLite", run(&sqlite::SqliteHarness).await),
        ("PostgreSQL 15", run(&oldest).await),
        ("PostgreSQL 18", run(&newest).await),
    ];
    if std::env::args().any(|argument| argument == "--json") {
        let reports: Vec<&Report> = reports.iter().map(|(_, report)| report).collect();
        println!("{}", serde_json::to_string_pretty(&reports).expect("a report has nothing that JSON lacks"));
        return if reports.iter().all(|report| report.is_clean()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    println!("{}\n", table(&reports));
    for (name, report) in &reports {
        let (passed, failed, skipped) = report.counts();
        let version = report.backend.as_ref().map_or("?", |backend| backend.version.as_str());
        println!("{name} {version}: {passed} passed, {failed} failed, {skipped} skipped");
        if let Some(random) = &report.random {
            println!(
                "    random run, seed {}, {} operations: {}",
                random.seed,
                random.operations,
                word(&random.outcome)
            );
        }
        for reason in reasons(report) {
            println!("    skipped for want of {reason}");
        }
        for (case, violation) in report.failed() {
            println!("    {}: {violation}", case.id);
        }
    }
    let all_passed = reports.iter().all(|(_, report)| report.is_clean());
    if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(harness: &dyn Harness) -> Report {
    Suite::new().random(1, 600).run(harness).await
}

fn table(reports: &[(&str, Report)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "rules"].into_iter().chain(reports.iter().map(|(name, _)| *name)));
    for (nth, case) in CASES.iter().enumerate() {
        let outcomes = reports.iter().map(|(_, report)| word(&report.cases[nth].outcome).to_owned());
        table.add_row([case.id.to_owned(), case.rules.join(" ")].into_iter().chain(outcomes));
    }
    table
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed { .. } => "FAILED",
        Outcome::Skipped { .. } => "skipped",
    }
}

/// Each hook that is missing, with the reason, once.
fn reasons(report: &Report) -> Vec<String> {
    let mut reasons: Vec<String> = report
        .cases
        .iter()
        .filter_map(|case| match &case.outcome {
            Outcome::Skipped { hook, reason } => Some(format!("{hook}: {reason}")),
            Outcome::Passed | Outcome::Failed { .. } => None,
        })
        .collect();
    reasons.sort();
    reasons.dedup();
    reasons
}
