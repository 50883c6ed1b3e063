//! `cargo verify`: fetches the PostgreSQL servers that are missing, then runs every test and doctest of the workspace
//! with its full figures, then a short campaign with real processes. CI runs just this.
//!
//! The everyday `cargo test` runs the same tests with small counts and fetches nothing.

use std::process::{Command, ExitCode};

/// Read by the tests that have a small and a full figure.
const FULL: &str = "FENCED_LEDGER_FULL";

fn main() -> ExitCode {
    let steps: [&[&str]; 3] = [
        &["run", "--quiet", "--package", "test-postgres", "--", "fetch"],
        &["test", "--workspace", "--no-fail-fast"],
        &["run", "--quiet", "--package", "campaign", "--", "--minutes", "2", "--json", "target/campaign.json"],
    ];
    for step in steps {
        if let Err(problem) = cargo(step) {
            eprintln!("verify: `cargo {}` {problem}", step.join(" "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(cargo).args(arguments).env(FULL, "1").status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("could not be started: {error}")),
    }
}
