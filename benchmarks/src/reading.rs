//! Reading 100,000 events as a user does, by `events`, against the rows of the same table through the engine's driver.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use ledger_core::{EventKind, FencedLedger, FencedLedgerExt, Lease, PageSize, PartitionId, Position};
use ledger_postgres::{Options, Schema};
use ledger_sqlite::SqliteLedger;
use rusqlite::Connection;
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Executor, PgConnection, Row as _};

use crate::report::{Report, Row};
use crate::{Plan, Result, fenced, postgres};

/// All that stands in a row, owned, as a reader without the ledger's types would keep it.
type Owned = (i64, String, String, String, Option<[u8; 16]>, i64, i64, String, [u8; 16], i64, Vec<u8>, Vec<u8>);

const SQLITE_ROWS: &str = "SELECT position, kind, payload, metadata, entry_id, first, generation, holder, acquisition, \
     recorded_at, content, chain FROM fenced_log WHERE partition = 1 ORDER BY position";
/// Without sqlx's feature for it, json is read as text.
const POSTGRES_ROWS: &str = "select position, kind, payload::text, metadata::text, entry_id, first, generation, holder, \
     acquisition, recorded_at, content, chain from fenced_ledger.log where partition = 1 order by position";

pub(crate) async fn sqlite(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir_in(&plan.folder)?;
    let file = folder.path().join("ledger.db");
    let ledger: Arc<dyn FencedLedger> = Arc::new(SqliteLedger::open(&file)?);
    let partition = fill(&ledger, plan.events).await?;
    run("SQLite", "rusqlite, the same rows", plan, &*ledger, &partition, async |keep| rows_of_sqlite(&file, keep)).await
}

pub(crate) async fn postgres(plan: &Plan, arguments: &postgres::Arguments) -> Result<Report> {
    let server = postgres::start(plan, arguments)?;
    Schema::default().migrate_url(&server.url()).await?;
    // Together, so that the filling takes seconds; it changes nothing about the rows.
    let ledger: Arc<dyn FencedLedger> = Arc::new(Options::new().coalesce(true).connect(&server.url()).await?);
    let partition = fill(&ledger, plan.events).await?;
    let mut connection = PgConnection::connect(&server.url()).await?;
    connection.execute("vacuum analyze fenced_ledger.log").await?;
    let mut plain = async |keep| rows_of_postgres(&mut connection, keep).await;
    run("PostgreSQL", "sqlx stream of the same rows", plan, &*ledger, &partition, &mut plain).await
}

/// Writes so many events, each an entry of its own: the most facts a row.
async fn fill(ledger: &Arc<dyn FencedLedger>, events: usize) -> Result<PartitionId> {
    let partition = PartitionId::new("bench/read")?;
    let lease = fenced::claim(&**ledger, &partition, "owner").await?;
    let writers = (0..64).map(|writer| {
        let (ledger, lease): (_, Lease) = (ledger.clone(), lease.clone());
        tokio::spawn(async move {
            for _ in (1 + writer..events).step_by(64) {
                ledger.append(&lease, &fenced::one_event()?).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        })
    });
    try_join_all(writers).await?.into_iter().collect::<Result<()>>()?;
    Ok(partition)
}

async fn run(
    engine: &str,
    plain_name: &str,
    plan: &Plan,
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    mut plain: impl AsyncFnMut(bool) -> Result<usize>,
) -> Result<Report> {
    let kept_name = format!("{plain_name}, all kept");
    let mut rows = [
        Row::new(plain_name, None),
        Row::new("events(), as the user reads it", Some(plain_name)).goal(0.95),
        Row::new(&kept_name, None),
        Row::new("events(), all kept", Some(&kept_name)),
        Row::new("read(), pages of 1,000", Some(plain_name)),
        Row::new("read_back(), pages of 1,000", Some(plain_name)),
        Row::new("read_kind(), events looked at for 1 that matches", None),
    ];
    for round in 0..=plan.rounds {
        let start = Instant::now();
        let mut figures = Vec::new();
        let mut took = |start: Instant, read: usize| {
            figures.push(plan.events as f64 / start.elapsed().as_secs_f64());
            if read == plan.events { Ok(()) } else { Err(format!("{read} events of {} were read", plan.events)) }
        };
        took(start, plain(false).await?)?;
        let start = Instant::now();
        took(start, ledger.events(partition, Position::FIRST).map(|event| event.map(|_| 1)).try_fold(0, sum).await?)?;
        let start = Instant::now();
        took(start, plain(true).await?)?;
        let start = Instant::now();
        let events: Vec<_> = ledger.events(partition, Position::FIRST).try_collect().await?;
        let count = events.len();
        // Freeing is part of it, as it is where each is dropped before the next.
        drop(events);
        took(start, count)?;
        let start = Instant::now();
        took(start, pages(ledger, partition).await?)?;
        let start = Instant::now();
        took(start, pages_back(ledger, partition).await?)?;
        let start = Instant::now();
        let (kind, mut from, mut found) = (EventKind::stored("$claimed")?, Some(Position::FIRST), 0);
        while let Some(position) = from {
            let page = ledger.read_kind(partition, &kind, position, PageSize::default()).await?;
            (found, from) = (found + page.events.len(), page.next);
        }
        took(start, if found == 1 { plan.events } else { found })?;
        // The first round warms the engine's cache.
        if round > 0 {
            rows.iter_mut().zip(figures).for_each(|(row, figure)| row.rounds.push(figure));
        }
    }
    let title = format!("reading {} events, {engine}", plan.events);
    Ok(Report { title, unit: "events a second", rows: rows.into() })
}

async fn sum(left: usize, right: usize) -> ledger_core::Result<usize> {
    Ok(left + right)
}

async fn pages(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<usize> {
    let (mut read, mut from) = (0, Some(Position::FIRST));
    while let Some(position) = from {
        let page = ledger.read(partition, position, PageSize::default()).await?;
        (read, from) = (read + page.events.len(), page.next);
    }
    Ok(read)
}

async fn pages_back(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<usize> {
    let page = ledger.read_back(partition, None, PageSize::default()).await?;
    let (mut read, mut from) = (page.events.len(), page.next);
    while let Some(position) = from {
        let page = ledger.read_back(partition, Some(position), PageSize::default()).await?;
        (read, from) = (read + page.events.len(), page.next);
    }
    Ok(read)
}

/// Reads all rows, and drops each before the next or keeps them, as `events()` beside it does.
fn rows_of_sqlite(file: &Path, keep: bool) -> Result<usize> {
    let connection = Connection::open(file)?;
    let mut statement = connection.prepare(SQLITE_ROWS)?;
    let mut rows = statement.query([])?;
    let (mut read, mut kept) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        let owned: Owned = (
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
            row.get(7)?,
            row.get(8)?,
            row.get(9)?,
            row.get(10)?,
            row.get(11)?,
        );
        if keep {
            kept.push(owned);
        } else {
            std::hint::black_box(owned);
        }
        read += 1;
    }
    std::hint::black_box(kept);
    Ok(read)
}

async fn rows_of_postgres(connection: &mut PgConnection, keep: bool) -> Result<usize> {
    let mut rows = sqlx::query(POSTGRES_ROWS).fetch(connection);
    let (mut read, mut kept) = (0, Vec::new());
    while let Some(row) = rows.try_next().await? {
        let owned: Owned = (
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            Some(uuid(&row, 4)?),
            row.try_get(5)?,
            row.try_get(6)?,
            row.try_get(7)?,
            uuid(&row, 8)?,
            row.try_get(9)?,
            row.try_get(10)?,
            row.try_get(11)?,
        );
        if keep {
            kept.push(owned);
        } else {
            std::hint::black_box(owned);
        }
        read += 1;
    }
    std::hint::black_box(kept);
    Ok(read)
}

fn uuid(row: &PgRow, column: usize) -> Result<[u8; 16]> {
    Ok(row.try_get_raw(column)?.as_bytes()?.try_into()?)
}
