//! `cargo verify`: fetches the PostgreSQL servers that are missing, then runs every test and doctest of the workspace
//! with its full figures, then a short campaign with real processes; then those of `examples/custom-backend`, a project
//! of its own, with the everyday ones. CI runs just this.
//!
//! The everyday `cargo test` runs the same tests with small counts and fetches nothing.

use std::process::{Command, ExitCode};

/// Read by the tests that have a small and a full figure.
const FULL: &str = "FENCED_LEDGER_FULL";

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
    match Command::new(cargo).args(arguments).env(FULL, full).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("could not be started: {error}")),
    }
}
