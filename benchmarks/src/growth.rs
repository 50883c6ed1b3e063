//! Whether a ledger slows down as it grows: with the events of a partition, and with the number of partitions. Beside
//! the latter stands plain rusqlite, since many places to write at cost the engine itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{Append, FencedLedger, Lease, PartitionId};
use ledger_memory::MemoryLedger;
use ledger_sqlite::SqliteLedger;

use crate::report::{Report, Row};
use crate::{Plan, Result, fenced, plain};

/// At once.
const CALLERS: usize = 64;

/// What may be lost of the rate of the smallest.
const GOAL: f64 = 0.95;

pub(crate) async fn run(plan: &Plan) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    let in_memory = plan.in_memory();
    for (engine, plan) in [("SQLite", plan), ("memory", &in_memory)] {
        reports.push(events(plan, engine).await?);
        reports.push(partitions(plan, engine).await?);
    }
    Ok(reports)
}

/// A ledger, and the folder of its file.
type Opened = (Arc<dyn FencedLedger>, Option<tempfile::TempDir>);

fn open(plan: &Plan, engine: &str) -> Result<Opened> {
    if engine == "memory" {
        return Ok((Arc::new(MemoryLedger::new()), None));
    }
    let folder = tempfile::tempdir_in(&plan.folder)?;
    Ok((Arc::new(SqliteLedger::open(folder.path().join("ledger.db"))?), Some(folder)))
}

/// Partitions of 10^3 events and more in one ledger; appends to each in turn.
async fn events(plan: &Plan, engine: &str) -> Result<Report> {
    let (ledger, _folder) = open(plan, engine)?;
    let sizes: Vec<usize> = (3..=plan.decades_of_events).map(|decade| 10_usize.pow(decade)).collect();
    let (mut leases, mut rows) = (Vec::new(), Vec::new());
    for size in &sizes {
        let lease = fenced::claim(&*ledger, &PartitionId::new(format!("events/{size}"))?, "owner").await?;
        for _ in 0..size / 1_000 {
            ledger.append(&lease, &Append::new(vec![fenced::event()?; 1_000])?).await?;
        }
        leases.push(vec![lease]);
        rows.push(row(format!("{size} events in the partition"), rows.first()));
    }
    let ledgers = vec![ledger; sizes.len()];
    for _ in 0..plan.rounds {
        measure(plan, &ledgers, &leases, &mut rows).await?;
    }
    Ok(Report { title: format!("growth, {engine}, {CALLERS} callers"), unit: "appends a second", rows })
}

/// Ledgers of 10 partitions and more; appends to all of theirs.
async fn partitions(plan: &Plan, engine: &str) -> Result<Report> {
    let sizes: Vec<usize> = (1..=plan.decades_of_partitions).map(|decade| 10_usize.pow(decade)).collect();
    let (mut ledgers, mut folders, mut leases, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for size in sizes.clone() {
        let (ledger, folder) = open(plan, engine)?;
        leases.push(claim_many(&ledger, size).await?);
        ledgers.push(ledger);
        folders.push(folder);
        rows.push(row(format!("{size} partitions"), rows.first()));
    }
    let plain_folder = tempfile::tempdir_in(&plan.folder)?;
    let (mut tables, mut plain_rows) = (Vec::new(), Vec::new());
    if engine == "SQLite" {
        for size in sizes {
            tables.push(plain::Many::create(&plain_folder.path().join(format!("{size}.db")), size)?);
            plain_rows
                .push(Row::new(&format!("plain, 64 inserts a transaction, {size} partitions"), first(&plain_rows)));
        }
    }
    for _ in 0..plan.rounds {
        measure(plan, &ledgers, &leases, &mut rows).await?;
        for (table, row) in tables.iter_mut().zip(&mut plain_rows) {
            row.rounds.push(table.inserts(CALLERS, plan.time)?);
        }
    }
    rows.append(&mut plain_rows);
    Ok(Report { title: format!("growth, {engine}, {CALLERS} callers"), unit: "appends a second", rows })
}

fn row(name: String, first: Option<&Row>) -> Row {
    match first {
        None => Row::new(&name, None),
        Some(first) => Row::new(&name, Some(&first.name)).goal(GOAL),
    }
}

fn first(rows: &[Row]) -> Option<&str> {
    rows.first().map(|row| row.name.as_str())
}

/// One round.
async fn measure(
    plan: &Plan,
    ledgers: &[Arc<dyn FencedLedger>],
    leases: &[Vec<Lease>],
    rows: &mut [Row],
) -> Result<()> {
    for ((ledger, leases), row) in ledgers.iter().zip(leases).zip(rows.iter_mut()) {
        row.rounds.push(appends_over(ledger, leases, plan.time).await?);
    }
    Ok(())
}

/// Appends for a while, each caller to one partition after the other.
async fn appends_over(ledger: &Arc<dyn FencedLedger>, leases: &[Lease], time: Duration) -> Result<f64> {
    let leases: Arc<[Lease]> = leases.into();
    let start = Instant::now();
    let tasks = (0..CALLERS).map(|caller| {
        let (ledger, leases) = (ledger.clone(), leases.clone());
        tokio::spawn(async move {
            // Far apart, so that the callers do not follow one another along the partitions.
            let (mut written, mut next) = (0_usize, caller * leases.len() / CALLERS);
            while start.elapsed() < time {
                ledger.append(&leases[next % leases.len()], &fenced::one_event()?).await?;
                (written, next) = (written + 1, next + 1);
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(written)
        })
    });
    let written: usize = try_join_all(tasks).await?.into_iter().sum::<Result<usize>>()?;
    Ok(written as f64 / start.elapsed().as_secs_f64())
}

async fn claim_many(ledger: &Arc<dyn FencedLedger>, count: usize) -> Result<Vec<Lease>> {
    let tasks = (0..CALLERS).map(|caller| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let mut leases = Vec::new();
            for number in (caller..count).step_by(CALLERS) {
                let partition = PartitionId::new(format!("many/{number}"))?;
                leases.push((number, fenced::claim(&*ledger, &partition, "owner").await?));
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(leases)
        })
    });
    let mut leases: Vec<_> = try_join_all(tasks).await?.into_iter().collect::<Result<Vec<_>>>()?.concat();
    // In the order in which they were made: callers that start far apart in this list then write far apart in the file.
    leases.sort_by_key(|(number, _)| *number);
    Ok(leases.into_iter().map(|(_, lease)| lease).collect())
}
