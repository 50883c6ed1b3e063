//! `cargo verify`: fetches the PostgreSQL servers that are missing, then runs every test and doctest of the workspace
//! with its full figures; then a short campaign with real processes, and beside it those of `examples/custom-backend`, a
//! project of its own, with the everyday ones. CI runs just this.
//!
//! The everyday `cargo test` runs the same tests with small counts and fetches nothing.

use std::process::{Command, ExitCode, ExitStatus};
use std::thread::available_parallelism;

/// Read by the tests that have a small and a full figure.
const FULL: &str = "FENCED_LEDGER_FULL";

/// Read by Rust's test harness: how many tests of a binary run at once. Without it, as many as there are cores.
const AT_ONCE: &str = "RUST_TEST_THREADS";

/// Most tests wait: for a disk, another process or the end of a lease. On two cores, two at once leave both idle.
const AT_LEAST: usize = 4;

const FETCH: &[&str] = &["run", "--quiet", "--package", "test-postgres", "--", "fetch"];
const TESTS: &[&str] = &["test", "--workspace", "--no-fail-fast"];
const CAMPAIGN: &[&str] =
    &["run", "--quiet", "--package", "campaign", "--", "--minutes", "2", "--json", "target/campaign.json"];
// The dependencies that are the same are not built twice.
const CUSTOM_BACKEND: &[&str] =
    &["test", "--locked", "--manifest-path", "examples/custom-backend/Cargo.toml", "--target-dir", "target"];

fn main() -> ExitCode {
    match verify() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("verify: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn verify() -> Result<(), String> {
    shown(FETCH)?;
    shown(TESTS)?;
    // The campaign goes by its own clock and leaves the machine time for the other.
    let (campaign, custom_backend) = std::thread::scope(|scope| {
        let custom_backend = scope.spawn(|| cargo(CUSTOM_BACKEND, "").output());
        let campaign = shown(CAMPAIGN);
        (campaign, custom_backend.join())
    });
    let output = custom_backend.map_err(|_| "a thread of its own panicked".to_owned())?;
    let output =
        output.map_err(|error| format!("`cargo {}` could not be started: {error}", CUSTOM_BACKEND.join(" ")))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    campaign?;
    ended(CUSTOM_BACKEND, output.status)
}

/// Runs a step whose output is shown as it comes, with full figures.
fn shown(step: &[&str]) -> Result<(), String> {
    let status = cargo(step, "1").status();
    ended(step, status.map_err(|error| format!("`cargo {}` could not be started: {error}", step.join(" ")))?)
}

fn ended(step: &[&str], status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` ended with {status}", step.join(" "))) }
}

fn cargo(step: &[&str], full: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(step).env(FULL, full);
    // Who asks for another number gets it.
    if std::env::var_os(AT_ONCE).is_none() {
        let cores = available_parallelism().map_or(1, usize::from);
        command.env(AT_ONCE, cores.max(AT_LEAST).to_string());
    }
    command
}
