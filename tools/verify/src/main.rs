//! `cargo verify`: every test and doctest of the workspace with its full figures. CI runs just this.
//!
//! The everyday `cargo test` runs the same tests with small counts.

use std::process::{Command, ExitCode};

/// Read by the tests that have a small and a full figure.
const FULL: &str = "FENCED_LEDGER_FULL";

fn main() -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tests = Command::new(cargo).args(["test", "--workspace", "--no-fail-fast"]).env(FULL, "1").status();
    match tests {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify: cargo could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}
