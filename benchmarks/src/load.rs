//! Throughput and latency of a ledger against the number of writers, as curves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{FencedLedger, Lease};
use ledger_memory::MemoryLedger;
use ledger_postgres::{Options, Schema};
use ledger_sqlite::SqliteLedger;

use crate::plot::{Plot, Series};
use crate::{Plan, Result, fenced, postgres};

/// So many at once, each on a partition of its own up to 64.
const WRITERS: [usize; 7] = [1, 2, 4, 8, 16, 64, 256];

/// The curves of all backends: two plots each.
pub(crate) async fn run(plan: &Plan, arguments: &postgres::Arguments) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    plots.extend(of("memory", "memory", Arc::new(MemoryLedger::new()), &plan.in_memory()).await?);
    let folder = tempfile::tempdir_in(&plan.folder)?;
    let sqlite = SqliteLedger::open(folder.path().join("ledger.db"))?;
    plots.extend(of("sqlite", "SQLite, synchronous=FULL", Arc::new(sqlite), plan).await?);
    let server = postgres::start(plan, arguments)?;
    Schema::default().migrate_url(&server.url()).await?;
    let postgres = Options::new().coalesce(true).connect(&server.url()).await?;
    plots.extend(of("postgres", "PostgreSQL, appends that wait travel together", Arc::new(postgres), plan).await?);
    Ok(plots)
}

async fn of(file: &str, name: &str, ledger: Arc<dyn FencedLedger>, plan: &Plan) -> Result<[Plot; 2]> {
    let leases = fenced::claim_all(&*ledger).await?;
    let mut measured: Vec<Vec<Load>> = WRITERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        for (writers, loads) in WRITERS.iter().zip(&mut measured) {
            loads.push(measure(&ledger, &leases, *writers, plan.time).await?);
        }
    }
    let medians: Vec<Load> = measured.into_iter().map(median).collect();
    let writers = WRITERS.iter().map(|writers| *writers as f64);
    let rate = Series::new("appends a second", writers.zip(medians.iter().map(|load| load.rate)));
    let against_load =
        |name, latency: fn(&Load) -> f64| Series::new(name, medians.iter().map(|load| (load.rate, latency(load))));
    let latencies = vec![against_load("median", |load| load.median), against_load("99th percentile", |load| load.slow)];
    Ok([
        Plot::new(
            &format!("{file}-throughput"),
            &format!("{name}: throughput"),
            ("writers", "appends a second"),
            [rate],
        ),
        Plot::new(&format!("{file}-latency"), &format!("{name}: latency"), ("appends a second", "us"), latencies),
    ])
}

/// What a number of writers reached.
#[derive(Clone, Copy)]
struct Load {
    rate: f64,
    /// Microseconds.
    median: f64,
    /// The 99th percentile.
    slow: f64,
}

/// The round of the median rate.
fn median(mut loads: Vec<Load>) -> Load {
    loads.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    loads[loads.len() / 2]
}

async fn measure(ledger: &Arc<dyn FencedLedger>, leases: &[Lease], writers: usize, time: Duration) -> Result<Load> {
    let start = Instant::now();
    let tasks = (0..writers).map(|writer| {
        let (ledger, lease) = (ledger.clone(), leases[writer % leases.len()].clone());
        tokio::spawn(async move {
            let mut samples = Vec::new();
            while start.elapsed() < time || samples.is_empty() {
                let append = fenced::one_event()?;
                let sent = Instant::now();
                ledger.append(&lease, &append).await?;
                samples.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(samples)
        })
    });
    let mut samples = try_join_all(tasks).await?.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let rate = samples.len() as f64 / start.elapsed().as_secs_f64();
    samples.sort_by(f64::total_cmp);
    Ok(Load { rate, median: samples[samples.len() / 2], slow: samples[samples.len() * 99 / 100] })
}
