//! An import on real processes. One worker is paused in the middle, another takes over, the first wakes up and is
//! refused by the store.
//!
//! `cargo run -p zombie` imports a small file that is shipped; `cargo run -p zombie -- FILE` another JSON Lines file;
//! `--kill` kills the first holder instead of pausing it.

mod director;
mod report;
mod store;
mod summary;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Errors of this program are for people to read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Watch a paused process wake up and be refused.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A JSON Lines file to import: one JSON value a line. Without it, a small file that is shipped.
    file: Option<PathBuf>,
    /// Kill the first holder (SIGKILL) instead of pausing it.
    #[arg(long)]
    kill: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// What the parent starts two of.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(Role::Worker(worker)) => worker::run(worker).await,
        None => director::run(arguments.file, arguments.kill).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zombie: {error}");
            ExitCode::FAILURE
        }
    }
}
