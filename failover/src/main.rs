//! Writers on a PostgreSQL whose primary is killed, and what is in the ledger afterwards.
//!
//! `cargo run -p failover -- by-hand` starts a primary and a standby, kills the one and promotes the other while real
//! processes write, with a synchronous and with an asynchronous standby, and prints a table. The same writers and the
//! same check run on a cluster of any other making, as `tools/patroni/run` does: `install`, then some `worker`s, then
//! `check`.

mod by_hand;
mod check;
mod journal;
mod place;
mod report;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Errors of this program are for people to read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Kill the primary under load, and look at what the ledger has.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Starts servers, kills primaries, promotes standbys, and prints what was acknowledged, lost and refused.
    ByHand(by_hand::Arguments),
    /// Installs the ledger on a cluster that runs already.
    Install(place::Place),
    /// One writer: takes partitions in turn until its time is over, and keeps a journal of what it was told.
    Worker(worker::Arguments),
    /// Compares the journals of writers that have ended with the ledger; ends with 1 where they contradict each other.
    Check(check::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().role {
        Role::ByHand(arguments) => by_hand::run(arguments).await,
        Role::Install(place) => place.install().await,
        Role::Worker(arguments) => worker::run(arguments).await,
        Role::Check(arguments) => check::run(arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failover: {error}");
            ExitCode::FAILURE
        }
    }
}
