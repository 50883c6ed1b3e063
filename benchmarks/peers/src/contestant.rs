//! Who appends one event at a time, and how.

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use cqrs_es::persist::{PersistedEventRepository, SerializedEvent};
use disintegrate::EventStore;
use disintegrate_postgres::PgEventStore;
use disintegrate_serde::serde::json::Json as AsJson;
use ledger_core::{Append, Claim, EventKind, FencedLedger, Holder, Json, Lease, NewEvent, PartitionId, Ttl};
use ledger_postgres::{Options, PostgresLedger, Schema};
use postgres_es::PostgresEventRepository;
use sqlite_es::SqliteEventRepository;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};

use crate::Error;
use crate::domain::{Done, Job, PAYLOAD};

const STREAMS: usize = 64;

const TABLE: &str = "create table plain (stream bigint not null, position bigint not null, kind text not null,
    payload json not null, metadata json not null, primary key (stream, position))";
const INSERT: &str = "insert into plain values ($1, $2, 'Done', $3::json, '{}')";
const INSERT_TEXT: &str = "insert into plain values ($1, $2, 'Done', $3, '{}')";

/// The tables that the peers' own SQL makes, for both engines.
const EVENTS: &str = "create table events (aggregate_type text not null, aggregate_id text not null,
    sequence bigint not null check (sequence >= 0), event_type text not null, event_version text not null,
    payload json not null, metadata json not null, primary key (aggregate_type, aggregate_id, sequence))";

pub(crate) enum Contestant {
    PlainPostgres(PgPool, Next),
    PlainSqlite(SqlitePool, Next),
    CqrsPostgres(PostgresEventRepository, Next),
    CqrsSqlite(SqliteEventRepository, Next),
    Disintegrate(PgEventStore<Done, AsJson<Done>>),
    Fenced(PostgresLedger, Vec<Lease>),
}

/// The next position of each stream.
pub(crate) struct Next(Vec<AtomicUsize>);

impl Next {
    fn new() -> Self {
        Self((0..STREAMS).map(|_| AtomicUsize::new(1)).collect())
    }

    fn take(&self, stream: usize) -> usize {
        self.0[stream].fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) async fn on_postgres(url: &str) -> Result<Vec<Contestant>, Error> {
    let pool = PgPoolOptions::new().max_connections(16).min_connections(16).connect(url).await?;
    for table in [TABLE, EVENTS] {
        sqlx::query(table).execute(&pool).await?;
    }
    Schema::default().migrate_url(url).await?;
    let ledger = Options::new().coalesce(true).connect(url).await?;
    let mut leases = Vec::new();
    for stream in 0..STREAMS {
        let partition = PartitionId::new(format!("bench/{stream}"))?;
        let observed = ledger.observe(&partition).await?.observation();
        leases.push(ledger.claim(&Claim::new(partition, Holder::new("owner")?, Ttl::MAX, observed)).await?.lease);
    }
    Ok(vec![
        Contestant::PlainPostgres(pool.clone(), Next::new()),
        Contestant::Fenced(ledger, leases),
        Contestant::CqrsPostgres(PostgresEventRepository::new(pool.clone()), Next::new()),
        Contestant::Disintegrate(PgEventStore::try_new(pool, AsJson::default()).await?),
    ])
}

pub(crate) async fn on_sqlite(folder: &Path) -> Result<Vec<Contestant>, Error> {
    let mut pools = Vec::new();
    for (name, table) in [("plain.db", TABLE.replace("json", "text")), ("cqrs.db", EVENTS.replace("json", "text"))] {
        let url = format!("sqlite://{}", folder.join(name).display());
        let options = SqliteConnectOptions::from_str(&url)?.create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        // One, since SQLite has one writer, and those that meet are turned away.
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        sqlx::query(&table).execute(&pool).await?;
        pools.push(pool);
    }
    let (cqrs, plain) = (pools.pop().expect("two were made"), pools.pop().expect("two were made"));
    Ok(vec![
        Contestant::PlainSqlite(plain, Next::new()),
        Contestant::CqrsSqlite(SqliteEventRepository::new(cqrs), Next::new()),
    ])
}

impl Contestant {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::PlainPostgres(..) | Self::PlainSqlite(..) => "plain INSERT, sqlx pool",
            Self::CqrsPostgres(..) => "postgres-es 0.5 (cqrs-es), not fenced",
            Self::CqrsSqlite(..) => "sqlite-es 0.5 (cqrs-es), not fenced",
            Self::Disintegrate(_) => "disintegrate-postgres 4, without validation, not fenced",
            Self::Fenced(..) => "FencedLedger",
        }
    }

    /// Appends one event.
    pub(crate) async fn append(&self, writer: usize) -> Result<(), Error> {
        let stream = writer % STREAMS;
        match self {
            Self::PlainPostgres(pool, next) => {
                let (stream, position) = (i64::try_from(stream)?, i64::try_from(next.take(stream))?);
                sqlx::query(INSERT).bind(stream).bind(position).bind(PAYLOAD).execute(pool).await?;
            }
            Self::PlainSqlite(pool, next) => {
                let (stream, position) = (i64::try_from(stream)?, i64::try_from(next.take(stream))?);
                sqlx::query(INSERT_TEXT).bind(stream).bind(position).bind(PAYLOAD).execute(pool).await?;
            }
            Self::CqrsPostgres(repository, next) => {
                repository.persist::<Job>(&[serialized(stream, next.take(stream))?], None).await?;
            }
            Self::CqrsSqlite(repository, next) => {
                repository.persist::<Job>(&[serialized(stream, next.take(stream))?], None).await?;
            }
            Self::Disintegrate(store) => {
                let done = Done { stream: stream.to_string(), result: PAYLOAD.to_owned() };
                store.append_without_validation(vec![done]).await?;
            }
            Self::Fenced(ledger, leases) => {
                let event = NewEvent::new(EventKind::new("Done")?, Json::new(PAYLOAD)?);
                ledger.append(&leases[stream], &Append::new([event])?).await?;
            }
        }
        Ok(())
    }
}

fn serialized(stream: usize, position: usize) -> Result<SerializedEvent, Error> {
    let (payload, metadata) = (serde_json::from_str(PAYLOAD)?, serde_json::json!({}));
    let text = str::to_owned;
    Ok(SerializedEvent::new(stream.to_string(), position, text("job"), text("Done"), text("1"), payload, metadata))
}
