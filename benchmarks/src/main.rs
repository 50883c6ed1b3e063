//! `cargo run --release -p benchmarks -- sqlite`: appends a second against plain inserts, in one run.
//!
//! `cargo run --release -p benchmarks -- zombie`: the latency of a holder's append beside a process that hammers the
//! same file with stale ones.
//!
//! `… -- postgres` and `… -- postgres-costs`: the same on a real PostgreSQL server, and what each append costs there.
//!
//! `… -- takeover`: how long a partition is without a holder when one dies, and how soon one that was stopped knows.
//!
//! Contestants take turns, round by round, so that a slow minute of the machine meets all of them. What counts is the
//! ratio to the plain contestant of the same run.

mod fenced;
mod plain;
mod postgres;
mod postgres_many;
mod report;
mod sqlite;
mod takeover;
mod zombie;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Errors of this program are for people to read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What the fence costs.
#[derive(Parser)]
struct Arguments {
    /// How often each contestant runs.
    #[arg(long, default_value_t = 5, global = true)]
    rounds: usize,
    /// How long one contestant runs in a round, in milliseconds.
    #[arg(long, default_value_t = 2_000, global = true)]
    millis: u64,
    /// Where to put the databases: a folder on the disk that is to be measured. Without it, the target folder.
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
    /// Writes the result as JSON too.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Appends a second on SQLite and in memory, against plain rusqlite.
    Sqlite,
    /// Many appends at once on PostgreSQL, together and one by one, against plain inserts.
    PostgresMany,
    /// A holder's latency beside a process of stale writes.
    Zombie,
    /// From a holder's death until its partitions are held again, and from its SIGCONT until it knows.
    Takeover(takeover::Arguments),
    #[command(flatten)]
    Server(postgres::Benchmark),
    /// What `zombie` starts beside the holder.
    #[command(hide = true)]
    Hammer(zombie::Hammer),
    /// What `takeover` starts, kills and stops.
    #[command(hide = true)]
    Hold(takeover::Hold),
}

/// How a benchmark is to run.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) time: std::time::Duration,
    pub(crate) folder: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benchmarks: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    // Not the temporary folder of the system, which is in memory on some machines: a flush must reach a disk.
    let folder = arguments.folder.unwrap_or_else(|| PathBuf::from("target/benchmarks"));
    std::fs::create_dir_all(&folder)?;
    let plan = Plan { rounds: arguments.rounds, time: std::time::Duration::from_millis(arguments.millis), folder };
    let json = arguments.json;
    let report = match arguments.benchmark {
        Benchmark::Sqlite => sqlite::run(&plan).await?,
        Benchmark::PostgresMany => postgres_many::run(&plan).await?,
        Benchmark::Zombie => zombie::run(&plan).await?,
        Benchmark::Server(benchmark) => return benchmark.run(&plan, json).await,
        Benchmark::Takeover(arguments) => return takeover::run(&plan, &arguments, json).await,
        Benchmark::Hammer(hammer) => return hammer.run().await,
        Benchmark::Hold(hold) => return hold.run().await,
    };
    println!("{report}");
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}
