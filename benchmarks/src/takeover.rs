//! How long it takes until a partition whose holder has died is held again, and how long until a holder that was stopped
//! past its lease knows so when it goes on: real processes, for several TTLs, on each store.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use futures_util::{StreamExt, future::try_join_all};
use ledger_core::keeper::{BootClock, End, LocalClock, Loss, Pool, State, Terms, Wait};
use ledger_core::{FencedLedger, Holder, PartitionId, Ttl};
use ledger_memory::MemoryLedger;
use ledger_postgres::Schema;
use ledger_sqlite::SqliteLedger;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use test_postgres::Server;

use crate::{Plan, Result, postgres};

/// How many partitions one holder has: so many samples a death. Their claims are spread over an interval of renewal.
const PARTITIONS: u32 = 32;
/// The TTLs, in milliseconds.
const TTLS: [u64; 3] = [300, 1_000, 3_000];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: postgres::Arguments,
}

/// A distribution, in milliseconds.
#[derive(Serialize)]
struct Row {
    store: &'static str,
    what: &'static str,
    ttl: u64,
    samples: usize,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

pub(crate) async fn run(plan: &Plan, arguments: &Arguments, json: Option<PathBuf>) -> Result<()> {
    let folder = tempfile::tempdir_in(&plan.folder)?;
    let server = postgres::start(plan, &arguments.server)?;
    let mut rows = Vec::new();
    for ttl in TTLS {
        let mut killed = [Vec::new(), Vec::new(), Vec::new()];
        let mut stopped = [Vec::new(), Vec::new()];
        for round in 0..plan.rounds {
            // A death at another moment of the interval each round.
            let alive = Duration::from_millis((round as u64 * 397) % (ttl / 3).max(1));
            let name = format!("{ttl}_{round}");
            killed[0].extend(aborted(ttl, alive).await?);
            let sqlite = Store::Sqlite { file: folder.path().join(&name) };
            killed[1].extend(takeovers(&sqlite, ttl, alive).await?);
            stopped[0].extend(wake_ups(&sqlite, ttl)?);
            let server = Store::install(&server, &format!("takeover_{name}")).await?;
            killed[2].extend(takeovers(&server, ttl, alive).await?);
            stopped[1].extend(wake_ups(&server, ttl)?);
        }
        let stores = ["memory, tasks", "SQLite", "PostgreSQL"];
        for (store, samples) in stores.into_iter().zip(killed) {
            rows.push(row(store, "holder killed until held again", ttl, samples)?);
        }
        for (store, samples) in ["SQLite", "PostgreSQL"].into_iter().zip(stopped) {
            rows.push(row(store, "SIGCONT until trust gone", ttl, samples)?);
        }
    }
    rows.sort_by_key(|row| (row.what, row.store, row.ttl));
    println!("{}", table(&rows));
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

fn row(store: &'static str, what: &'static str, ttl: u64, mut samples: Vec<Duration>) -> Result<Row> {
    samples.sort();
    let at = |share: usize| {
        let place = (samples.len() * share / 100).min(samples.len().saturating_sub(1));
        samples.get(place).map(|time| time.as_secs_f64() * 1e3).ok_or("no samples: `--rounds` must be at least 1")
    };
    Ok(Row { store, what, ttl, samples: samples.len(), p50: at(50)?, p90: at(90)?, p99: at(99)?, max: at(100)? })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["milliseconds", "store", "TTL", "p50", "p90", "p99", "max", "p50 / TTL", "max / TTL", "samples"]);
    for row in rows {
        let digits = usize::from(row.p50 < 100.0);
        let time = |time: f64| format!("{time:.digits$}");
        let share = |time: f64| format!("{:.2}", time / row.ttl as f64);
        table.add_row([
            row.what.to_owned(),
            row.store.to_owned(),
            row.ttl.to_string(),
            time(row.p50),
            time(row.p90),
            time(row.p99),
            time(row.max),
            share(row.p50),
            share(row.max),
            row.samples.to_string(),
        ]);
    }
    table
}

/// Where the ledger is; told to the process that holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Store {
    Sqlite { file: PathBuf },
    Postgres { url: String, schema: String },
}

impl Store {
    async fn install(server: &Server, schema: &str) -> Result<Self> {
        Schema::new(schema)?.migrate_url(&server.url()).await?;
        Ok(Self::Postgres { url: server.url(), schema: schema.to_owned() })
    }

    async fn open(&self) -> Result<Arc<dyn FencedLedger>> {
        Ok(match self {
            Self::Sqlite { file } => Arc::new(SqliteLedger::open(file)?),
            Self::Postgres { url, schema } => {
                let options = ledger_postgres::Options::new().schema(Schema::new(schema)?);
                Arc::new(options.connect(url).await?)
            }
        })
    }
}

fn terms(ttl: u64) -> Result<Terms> {
    Ok(Terms::new(Ttl::try_from(Duration::from_millis(ttl))?))
}

fn partitions(of: &str) -> Result<Vec<PartitionId>> {
    (0..PARTITIONS).map(|nth| Ok(PartitionId::new(format!("{of}/{nth}"))?)).collect()
}

/// Claims all partitions, one after the other over one interval of renewal.
async fn hold(pool: &Pool, terms: &Terms, of: &str) -> Result<()> {
    for partition in partitions(of)? {
        pool.claim(&partition, Wait::No).await?;
        tokio::time::sleep(terms.renew_every / PARTITIONS).await;
    }
    Ok(())
}

/// The process that holds, until it is killed. Prints `held`, and for each loss when it was noticed.
#[derive(clap::Args)]
pub(crate) struct Hold {
    /// The store, as JSON.
    #[arg(long)]
    store: String,
    #[arg(long)]
    ttl: u64,
    #[arg(long)]
    of: String,
}

impl Hold {
    pub(crate) async fn run(self) -> Result<()> {
        let ledger = serde_json::from_str::<Store>(&self.store)?.open().await?;
        let terms = terms(self.ttl)?;
        let (pool, driver) = Pool::new(ledger, Holder::new("old")?, terms)?;
        tokio::spawn(driver);
        let mut changes = pool.subscribe();
        hold(&pool, &terms, &self.of).await?;
        println!("held");
        while let Some(change) = changes.next().await {
            if let State::Ended(end) = &change.state
                && matches!(**end, End::Lost(Loss::Expired | Loss::Unrenewed(_)))
            {
                println!("{}", change.at.since_start().as_nanos());
            }
        }
        Ok(())
    }
}

struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts one, and waits until it holds.
    fn start(store: &Store, ttl: u64, of: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["hold", "--store", &serde_json::to_string(store)?, "--ttl", &ttl.to_string(), "--of", of])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("a process without standard output")?).lines();
        let mut process = Self { child, lines };
        match process.line()?.as_str() {
            "held" => Ok(process),
            other => Err(format!("the holder said {other}").into()),
        }
    }

    fn line(&mut self) -> Result<String> {
        Ok(self.lines.next().ok_or("the holder has ended")??)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself only where it failed, and it has said so then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The times from a kill of the holder until each partition is held by another, who has waited for it.
async fn takeovers(store: &Store, ttl: u64, alive: Duration) -> Result<Vec<Duration>> {
    let ledger = store.open().await?;
    let process = tokio::task::block_in_place(|| Process::start(store, ttl, "killed"))?;
    let died = wait_for_death(ledger, ttl, "killed", async || {
        tokio::time::sleep(alive).await;
        let now = Instant::now();
        drop(process);
        Ok(now)
    });
    died.await
}

/// The same in one process and in memory: the holder's tasks are gone.
async fn aborted(ttl: u64, alive: Duration) -> Result<Vec<Duration>> {
    let (ledger, terms): (Arc<dyn FencedLedger>, _) = (Arc::new(MemoryLedger::new()), terms(ttl)?);
    let (pool, driver) = Pool::new(ledger.clone(), Holder::new("old")?, terms)?;
    let driver = tokio::spawn(driver);
    hold(&pool, &terms, "aborted").await?;
    let died = wait_for_death(ledger, ttl, "aborted", async || {
        tokio::time::sleep(alive).await;
        let now = Instant::now();
        driver.abort();
        Ok(now)
    });
    died.await
}

/// Waits for all partitions at once, lets their holder die, and gives how long after that each was held.
async fn wait_for_death(
    ledger: Arc<dyn FencedLedger>,
    ttl: u64,
    of: &str,
    die: impl AsyncFnOnce() -> Result<Instant>,
) -> Result<Vec<Duration>> {
    let (pool, driver) = Pool::new(ledger, Holder::new("new")?, terms(ttl)?)?;
    let (pool, driver) = (Arc::new(pool), tokio::spawn(driver));
    let waiting = partitions(of)?.into_iter().map(|partition| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.claim(&partition, Wait::Forever).await.map(|_| Instant::now()) })
    });
    let waiting: Vec<_> = waiting.collect();
    let died = die().await?;
    let mut times = Vec::new();
    for held in try_join_all(waiting).await? {
        times.push(held?.saturating_duration_since(died));
    }
    pool.release_all().await;
    driver.abort();
    Ok(times)
}

/// The times from the SIGCONT of a holder that was stopped past its leases until it has noticed the end of each.
fn wake_ups(store: &Store, ttl: u64) -> Result<Vec<Duration>> {
    let mut process = Process::start(store, ttl, "stopped")?;
    process.signal(Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(ttl + ttl / 5));
    // The same clock as the holder's: it is the machine's.
    let woken = BootClock.now();
    process.signal(Signal::CONT)?;
    let noticed = (0..PARTITIONS).map(|_| {
        let nanos: u64 = process.line()?.parse()?;
        Ok(Duration::from_nanos(nanos).saturating_sub(woken.since_start()))
    });
    noticed.collect()
}
