//! Many appends at once on PostgreSQL: fenced ones, together and one by one, against plain inserts through a pool.
//!
//! The server is one of its own, on the disk, with fsync on and its own defaults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{Append, FencedLedger, Lease, NewEvent};
use ledger_postgres::{Options, Schema};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};
use test_postgres::Wanted;

use crate::fenced::{self, PAYLOAD};
use crate::report::{Report, Row};
use crate::{Plan, Result};

const WRITERS: usize = 64;
const BATCH: usize = 100;

/// Two indexes, as the fenced log has: the key and the id of the append.
const TABLE: &str = "create table plain (partition bigint not null, position bigint generated always as identity,
    id uuid not null, kind text not null, metadata json not null, payload json not null,
    recorded_at timestamptz not null default clock_timestamp(), primary key (partition, position), unique (id))";
const INSERT: &str = "insert into plain (partition, id, kind, metadata, payload)
    values ($1, gen_random_uuid(), 'result', '{}', $2::text::json)";
const INSERT_BATCH: &str = "insert into plain (partition, id, kind, metadata, payload)
    select $1, gen_random_uuid(), 'result', '{}', p::json from unnest($2::text[]) p";

async fn plain(pool: &PgPool, writers: usize, batch: usize, time: Duration) -> Result<f64> {
    let start = Instant::now();
    let tasks = (0..writers).map(|writer| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let partition = i64::try_from(writer)?;
            let mut written = 0_usize;
            while start.elapsed() < time {
                let query = if batch == 1 {
                    sqlx::query(INSERT).bind(partition).bind(PAYLOAD)
                } else {
                    sqlx::query(INSERT_BATCH).bind(partition).bind(vec![PAYLOAD; batch])
                };
                query.execute(&pool).await?;
                written += 1;
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(written)
        })
    });
    let written: usize = try_join_all(tasks).await?.into_iter().sum::<Result<usize>>()?;
    Ok(written as f64 / start.elapsed().as_secs_f64())
}

async fn batches(ledger: &Arc<dyn FencedLedger>, lease: &Lease, time: Duration) -> Result<f64> {
    let (start, mut written) = (Instant::now(), 0_usize);
    while start.elapsed() < time {
        let kind = ledger_core::EventKind::new("result")?;
        let event = NewEvent::new(kind, ledger_core::Json::new(PAYLOAD)?);
        ledger.append(lease, &Append::new(vec![event; BATCH])?).await?;
        written += 1;
    }
    Ok(written as f64 / start.elapsed().as_secs_f64())
}

pub(crate) async fn run(plan: &Plan) -> Result<Report> {
    let server = test_postgres::Options::new(Wanted::Any).start()?;
    if server.is_in_memory() {
        return Err("the server's folder is in memory: name one on a disk by TEST_POSTGRES_TMP".into());
    }
    let url = server.url();
    Schema::default().migrate_url(&url).await?;
    let pool = PgPoolOptions::new().max_connections(16).min_connections(16).connect(&url).await?;
    pool.execute(TABLE).await?;
    let together: Arc<dyn FencedLedger> = Arc::new(Options::new().coalesce(true).connect(&url).await?);
    let singly: Arc<dyn FencedLedger> = Arc::new(Options::new().connections(16).connect(&url).await?);
    let leases = fenced::claim_all(&*together).await?;
    let one = &leases[..1];

    let mut rows = [
        Row::new("64 writers: plain insert, pool of 16", None),
        Row::new("64 writers, 64 partitions: together", Some("64 writers: plain insert, pool of 16")),
        Row::new("64 writers, 64 partitions: one by one", Some("64 writers: plain insert, pool of 16")),
        Row::new("64 writers, 1 partition: one by one", None),
        Row::new("64 writers, 1 partition: together", Some("64 writers, 1 partition: one by one")),
        Row::new("1 writer: plain insert, pool", None),
        Row::new("1 writer: fenced", Some("1 writer: plain insert, pool")),
        Row::new("1 writer, batches of 100: one unnest insert", None),
        Row::new("1 writer, batches of 100: fenced", Some("1 writer, batches of 100: one unnest insert")),
    ];
    for _ in 0..plan.rounds {
        rows[0].rounds.push(plain(&pool, WRITERS, 1, plan.time).await?);
        rows[1].rounds.push(fenced::appends(&together, &leases, WRITERS, plan.time).await?);
        rows[2].rounds.push(fenced::appends(&singly, &leases, WRITERS, plan.time).await?);
        rows[3].rounds.push(fenced::appends(&singly, one, WRITERS, plan.time).await?);
        rows[4].rounds.push(fenced::appends(&together, one, WRITERS, plan.time).await?);
        rows[5].rounds.push(plain(&pool, 1, 1, plan.time).await?);
        rows[6].rounds.push(fenced::appends(&together, one, 1, plan.time).await?);
        rows[7].rounds.push(plain(&pool, 1, BATCH, plan.time).await?);
        rows[8].rounds.push(batches(&together, &leases[0], plan.time).await?);
    }
    Ok(Report { title: "calls".to_owned(), unit: "a second", rows: rows.into() })
}
