//! What the fence costs: `cargo run --release -p benchmarks -- all` measures, and writes `docs/benchmarks.md`; the other
//! commands measure a part of it.
//!
//! `… -- takeover`: how long a partition is without a holder when one dies, and how soon one that was stopped knows.
//! `… -- history`: the check of a history of 1,000,000 calls.
//!
//! Contestants take turns, round by round, so that a slow minute of the machine meets all of them. What counts is the
//! ratio to the plain contestant of the same run.

mod all;
mod fenced;
mod growth;
mod history;
mod load;
mod memory;
mod plain;
mod plot;
mod postgres;
mod reading;
mod report;
mod sqlite;
mod takeover;
mod zombie;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Errors of this program are for people to read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What the fence costs.
#[derive(Parser)]
struct Arguments {
    /// How often each contestant runs: 5 times unless said otherwise.
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// How long one contestant runs in a round, in milliseconds: 1,000 unless said otherwise.
    #[arg(long, global = true)]
    millis: Option<u64>,
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
    /// All of them but `postgres-costs`, `postgres-load`, `takeover` and `history`; writes `docs/benchmarks.md`, its JSON and its plots.
    All(all::Arguments),
    /// Appends a second on SQLite, against plain rusqlite.
    Sqlite,
    /// Appends a second in memory, against a locked `Vec`.
    Memory,
    /// Reading 100,000 events on SQLite and PostgreSQL, against the rows of the engine's driver.
    Reading(postgres::Arguments),
    /// Appends a second as a partition, and the number of partitions, grows.
    Growth,
    /// What checking a history costs.
    History(history::Size),
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
    pub(crate) time: Duration,
    pub(crate) folder: PathBuf,
    /// So many are read.
    pub(crate) events: usize,
    /// Growth is measured up to 10 to this power.
    pub(crate) decades_of_events: u32,
    pub(crate) decades_of_partitions: u32,
}

impl Plan {
    /// The same plan for a ledger in memory, where a second more is a gigabyte more.
    pub(crate) fn in_memory(&self) -> Self {
        Self { time: self.time.min(Duration::from_millis(100)), folder: self.folder.clone(), ..*self }
    }
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
    let quick = matches!(&arguments.benchmark, Benchmark::All(all) if all.quick);
    let plan = Plan {
        rounds: arguments.rounds.unwrap_or(if quick { 3 } else { 5 }),
        time: Duration::from_millis(arguments.millis.unwrap_or(if quick { 120 } else { 1_000 })),
        folder,
        events: if quick { 20_000 } else { 100_000 },
        decades_of_events: if quick { 5 } else { 6 },
        decades_of_partitions: if quick { 4 } else { 5 },
    };
    let reports = match arguments.benchmark {
        Benchmark::All(all) => return all::run(&plan, all).await,
        Benchmark::Sqlite => vec![sqlite::run(&plan).await?],
        Benchmark::Memory => vec![memory::run(&plan).await?],
        Benchmark::Reading(server) => vec![reading::sqlite(&plan).await?, reading::postgres(&plan, &server).await?],
        Benchmark::Growth => growth::run(&plan).await?,
        Benchmark::History(size) => vec![history::run(&size, plan.rounds).await?],
        Benchmark::Zombie => vec![zombie::run(&plan).await?],
        Benchmark::Server(benchmark) => return benchmark.run(&plan, arguments.json).await,
        Benchmark::Takeover(takeover) => return takeover::run(&plan, &takeover, arguments.json).await,
        Benchmark::Hammer(hammer) => return hammer.run().await,
        Benchmark::Hold(hold) => return hold.run().await,
    };
    reports.iter().for_each(|report| println!("{report}\n"));
    if let Some(file) = arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(&reports)?)?;
    }
    Ok(())
}
