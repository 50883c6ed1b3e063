//! An import on real processes. One worker is paused in the middle, another takes over, the first wakes up and is
//! refused by the store. Then the second is paused with a request on its way to a bank; a third finds it, looks it up
//! and settles it, and the second's late answer is refused and kept.
//!
//! `cargo run -p zombie` imports a small file that is shipped; `cargo run -p zombie -- FILE` another JSON Lines file;
//! `--kill` kills them instead of pausing them; `--postgres` or `--postgres URL` does it on PostgreSQL.

mod bank;
mod director;
mod report;
mod request;
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
    /// Kill the holders (SIGKILL) instead of pausing them.
    #[arg(long)]
    kill: bool,
    /// On PostgreSQL instead of SQLite: on the server of this URL, in a schema that is removed afterwards, or without a
    /// URL on a server that is started for this run.
    #[arg(long, value_name = "URL", num_args = 0..=1, value_parser = url)]
    postgres: Option<Option<String>>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// What the parent starts two of.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

/// Tells a URL from a file that was put behind `--postgres`.
fn url(text: &str) -> std::result::Result<String, &'static str> {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    if is_url { Ok(text.to_owned()) } else { Err("no URL of PostgreSQL; a file to import stands before `--postgres`") }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(Role::Worker(worker)) => worker::run(worker).await,
        None => director::run(arguments.file, arguments.kill, arguments.postgres).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zombie: {error}");
            ExitCode::FAILURE
        }
    }
}
