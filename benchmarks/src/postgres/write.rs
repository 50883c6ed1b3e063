//! The contestants: each writes so many events in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{AppendId, FencedLedger, Lease};
use ledger_postgres::{Options, PostgresLedger};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use test_postgres::Server;
use tokio::sync::Mutex;

use crate::Result;
use crate::fenced::{self, PARTITIONS, PAYLOAD};

const INSERT: &str = "insert into plain values ($1, $2, 'result', $3::text::json, '{}', $4)";
const INSERT_MANY: &str = "insert into plain select $1, $2 + u.n, 'result', u.payload::json, '{}', $4
                           from unnest($3::text[]) with ordinality u (payload, n)";

const INSERT_ID: &str = "insert into plain_id values ($1, $2, 'result', $3::text::json, '{}', $4, $5::text::uuid)";

/// Who writes.
#[derive(Clone)]
pub(crate) enum Writer {
    /// Plain INSERTs through an sqlx pool, as it comes.
    PlainPool(PgPool, Arc<Positions>),
    /// Plain INSERTs over connections that are kept, which spares the pool's questions to the server.
    PlainKept(Arc<Vec<Mutex<PgConnection>>>, Arc<Positions>),
    /// Appends.
    Fenced(PostgresLedger, Arc<Vec<Lease>>),
}

/// The next position of each partition, which a plain INSERT must bring along.
pub(crate) struct Positions {
    /// Several contestants share the table.
    base: i64,
    /// Whether each row has an id, unique in its partition.
    ids: bool,
    next: Vec<AtomicI64>,
}

impl Positions {
    fn new(base: i64, ids: bool) -> Self {
        Self { base, ids, next: (0..PARTITIONS).map(|_| AtomicI64::new(1)).collect() }
    }

    fn take(&self, writer: usize, events: usize) -> Result<(i64, i64)> {
        let partition = writer % PARTITIONS;
        let position = self.next[partition].fetch_add(i64::try_from(events)?, Ordering::Relaxed);
        Ok((self.base + i64::try_from(partition)?, position))
    }
}

impl Writer {
    /// Makes the table of the plain contestants: the columns of an event without which nobody could read it, and the
    /// same key. It has no id, and so no second index: a write whose answer was lost can not be tried again there.
    pub(crate) async fn prepare(server: &Server) -> Result<()> {
        let mut connection = PgConnection::connect(&server.url()).await?;
        connection
            .execute(
                "create table plain (
                   partition bigint not null, position bigint not null, kind text collate \"C\" not null,
                   payload json not null, metadata json not null, recorded_at bigint not null,
                   primary key (partition, position)
                 );
                 create table plain_id (like plain including all, id uuid not null, unique (partition, id))",
            )
            .await?;
        Ok(connection.close().await?)
    }

    pub(crate) async fn plain_pool(url: &str, connections: u32, base: i64) -> Result<Self> {
        Ok(Self::PlainPool(pool(url, connections).await?, Arc::new(Positions::new(base, false))))
    }

    /// As [`plain_kept`](Self::plain_kept), one event at a time and each with an id.
    pub(crate) async fn plain_id(url: &str, connections: usize, base: i64) -> Result<Self> {
        Self::kept(url, connections, Positions::new(base, true)).await
    }

    pub(crate) async fn plain_kept(url: &str, connections: usize, base: i64) -> Result<Self> {
        Self::kept(url, connections, Positions::new(base, false)).await
    }

    async fn kept(url: &str, connections: usize, positions: Positions) -> Result<Self> {
        let mut kept = Vec::new();
        for _ in 0..connections {
            kept.push(Mutex::new(PgConnection::connect(url).await?));
        }
        Ok(Self::PlainKept(Arc::new(kept), Arc::new(positions)))
    }

    /// Over connections of the library's own.
    pub(crate) async fn fenced(options: Options, url: &str) -> Result<Self> {
        Self::claimed(options.connect(url).await?).await
    }

    /// Over a pool that is given.
    pub(crate) async fn fenced_pool(options: Options, url: &str, connections: u32) -> Result<Self> {
        Self::claimed(options.open(pool(url, connections).await?).await?).await
    }

    async fn claimed(ledger: PostgresLedger) -> Result<Self> {
        let leases = fenced::claim_all(&ledger).await?;
        Ok(Self::Fenced(ledger, Arc::new(leases)))
    }

    /// Writes so many events in one transaction, to the partition of this writer.
    pub(crate) async fn write(&self, writer: usize, events: usize) -> Result<()> {
        match self {
            Self::PlainPool(pool, positions) => {
                let at = positions.take(writer, events)?;
                insert(&mut *pool.acquire().await?, at, events, false).await
            }
            Self::PlainKept(kept, positions) => {
                let at = positions.take(writer, events)?;
                insert(&mut *kept[writer % kept.len()].lock().await, at, events, positions.ids).await
            }
            Self::Fenced(ledger, leases) => {
                ledger.append(&leases[writer % leases.len()], &fenced::events(events)?).await?;
                Ok(())
            }
        }
    }

    /// Writes for a while with so many writers at once, each a task, on so many partitions; returns how many events a
    /// second.
    pub(crate) async fn rate(&self, writers: usize, partitions: usize, events: usize, time: Duration) -> Result<f64> {
        let start = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let this = self.clone();
                tokio::spawn(async move {
                    let mut written = 0_usize;
                    while start.elapsed() < time {
                        this.write(writer % partitions, events).await?;
                        written += events;
                    }
                    Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(written)
                })
            })
            .collect();
        let written: usize = try_join_all(tasks).await?.into_iter().sum::<Result<usize>>()?;
        Ok(written as f64 / start.elapsed().as_secs_f64())
    }

    /// Writes so many transactions, one after the other.
    pub(crate) async fn times(&self, times: usize, events: usize) -> Result<()> {
        for _ in 0..times {
            self.write(0, events).await?;
        }
        Ok(())
    }
}

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).min_connections(connections).connect(url).await?)
}

async fn insert(
    connection: &mut PgConnection,
    (partition, position): (i64, i64),
    events: usize,
    ids: bool,
) -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let text = if ids {
        INSERT_ID
    } else if events == 1 {
        INSERT
    } else {
        INSERT_MANY
    };
    let query = sqlx::query(text).bind(partition).bind(position);
    let query = if events == 1 { query.bind(PAYLOAD) } else { query.bind(vec![PAYLOAD; events]) };
    let query = query.bind(i64::try_from(now)?);
    let query = if ids { query.bind(AppendId::mint().to_string()) } else { query };
    query.execute(connection).await?;
    Ok(())
}
