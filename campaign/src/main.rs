//! `cargo run --release -p campaign -- --minutes 10`: worker processes on SQLite and on PostgreSQL, faults of every kind,
//! and at the end of each round the check of everything that every process was told against what the store then holds.
//!
//! Each round draws its own mixture from the seed. The scheduling of processes is the machine's, so a seed repeats what
//! is drawn and not what happens; what has happened is kept where a check fails, and `campaign check FOLDER` judges it
//! again. What a campaign proves and what not: docs/verification.md.

mod checked;
mod clock;
mod control;
mod disk;
mod field;
mod nemesis;
mod plan;
mod restore;
mod round;
mod store;
mod verdict;
mod work;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use plan::{Engine, Plan};
use verdict::Verdict;

/// Errors of this program are for people to read.
pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Real processes, real faults, and a verdict.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How long it runs, all included.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Which stores.
    #[arg(long, default_value = "both")]
    store: Stores,
    /// What the rounds are drawn from; without it, one that is told.
    #[arg(long)]
    seed: Option<u64>,
    /// Writes the verdict there, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only this round of the seed.
    #[arg(long)]
    round: Option<u64>,
    /// Where rounds work, and where a round that failed is kept.
    #[arg(long, default_value = "target/campaign")]
    folder: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    Both,
}

impl Stores {
    fn engines(self) -> &'static [Engine] {
        match self {
            Self::Sqlite => &[Engine::Sqlite],
            Self::Postgres => &[Engine::Postgres],
            Self::Both => &[Engine::Sqlite, Engine::Postgres],
        }
    }
}

#[derive(Subcommand)]
enum Role {
    /// Judges the history of a round that was kept.
    Check {
        /// Its folder.
        folder: PathBuf,
    },
    /// What a round starts several of.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.role {
        Some(Role::Worker(worker)) => worker::run(worker).await.map(|()| ExitCode::SUCCESS),
        Some(Role::Check { folder }) => checked::again(folder),
        None => campaign(&arguments).await,
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("campaign: {error}");
        ExitCode::FAILURE
    })
}

async fn campaign(arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("campaign of {} minutes, seed {seed}", arguments.minutes);
    std::fs::create_dir_all(&arguments.folder)?;
    let folder = arguments.folder.canonicalize()?;
    let mut verdict = Verdict::new(seed, arguments.minutes, arguments.store.engines());
    let engines = arguments.store.engines();
    let mut longest = Duration::ZERO;
    for number in arguments.round.unwrap_or(0).. {
        let begun = Instant::now();
        let engine = engines[usize::try_from(number % engines.len() as u64)?];
        let plan = Plan::draw(seed, number, engine, time);
        let report = round::run(&plan, &folder).await?;
        println!("{report}");
        verdict.add(report);
        longest = longest.max(begun.elapsed());
        // Another one as long as the longest so far must fit in.
        if arguments.round.is_some() || start.elapsed() + longest > time {
            break;
        }
    }
    println!("{verdict}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(&verdict.told())?)?;
    }
    Ok(verdict.exit_code())
}
