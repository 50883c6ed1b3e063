//! `cargo verify`: fetches the PostgreSQL servers that are missing, then runs every test and doctest of the workspace
//! with its full figures, then a short campaign with real processes; then those of `examples/custom-backend`, a project
//! of its own, with the everyday ones. CI runs just this.
//!
//! The everyday `cargo test` runs the same tests with small counts and fetches nothing.

use std::process::{Command, ExitCode};
use std::thread::available_parallelism;

/// Read by the tests that have a small and a full figure.
const FULL: &str = "FENCED_LEDGER_FULL";

/// Read by Rust's test harness: how many tests of a binary run at once. Without it, as many as there are cores.
const AT_ONCE: &str = "RUST_TEST_THREADS";

/// Most tests wait: for a disk, another process or the end of a lease. On two cores, two at once leave both idle.
const AT_LEAST: usize = 4;

fn main() -> ExitCode {
    let steps: [(&[&str], &str); 4] = [
        (&["run", "--quiet", "--package", "test-postgres", "--", "fetch"], "1"),
        (&["test", "--workspace", "--no-fail-fast"], "1"),
        // The dependencies that are the same are not built twice.
        (&["test", "--locked", "--manifest-path", "examples/custom-backend/Cargo.toml", "--target-dir", "target"], ""),
        (&["run", "--quiet", "--package", "campaign", "--", "--minutes", "2", "--json", "target/campaign.json"], "1"),
    ];
    for (step, full) in steps {
        if let Err(problem) = cargo(step, full) {
            eprintln!("verify: `cargo {}` {problem}", step.join(" "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn cargo(arguments: &[&str], full: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).env(FULL, full);
    // Who asks for another number gets it.
    if std::env::var_os(AT_ONCE).is_none() {
        let cores = available_parallelism().map_or(1, usize::from);
        command.env(AT_ONCE, cores.max(AT_LEAST).to_string());
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("could not be started: {error}")),
    }
}
