//! The positive control: writers that look first and write then, in two steps and without a fence, under the same faults.
//! A round in which they wrote nothing stale was not hard enough to prove anything of the others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use sqlx::{Connection as _, Executor, PgConnection, Row};

use crate::Result;
use crate::store::Store;

const TABLE: &str =
    "create table if not exists control (id bigint primary key, generation bigint not null, claim boolean not null)";
const PG_TABLE: &str = "create table if not exists public.control \
    (id bigint generated always as identity primary key, generation bigint not null, claim boolean not null)";
const CHECK: &str = "select coalesce(max(generation), 0) from control";

/// Makes the table.
pub(crate) async fn install(store: &Store) -> Result<()> {
    match store {
        Store::Sqlite { control, .. } => {
            let connection = open(control)?;
            connection.execute_batch(&TABLE.replace("bigint primary", "integer primary"))?;
        }
        Store::Postgres { direct, .. } => {
            PgConnection::connect(direct).await?.execute(PG_TABLE).await?;
        }
    }
    Ok(())
}

/// Writes until told to stop.
pub(crate) async fn run(store: Store, seed: u64, stop: Arc<AtomicBool>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    match store {
        Store::Sqlite { control, .. } => {
            let blocking = move || {
                while !stop.load(Ordering::Relaxed) {
                    // Another process may hold the file; the next step comes soon.
                    let _ = sqlite_step(&control, &mut rng);
                    std::thread::sleep(Duration::from_millis(rng.u64(5..20)));
                }
            };
            // It ends with the process.
            let _ = tokio::task::spawn_blocking(blocking).await;
        }
        Store::Postgres { direct, .. } => {
            let mut connection = None;
            while !stop.load(Ordering::Relaxed) {
                if connection.is_none() {
                    connection = PgConnection::connect(&direct).await.ok();
                }
                if let Some(open) = &mut connection
                    && postgres_step(open, &mut rng).await.is_err()
                {
                    // The server may be down; a new connection is tried.
                    connection = None;
                }
                tokio::time::sleep(Duration::from_millis(rng.u64(5..20))).await;
            }
        }
    }
}

fn sqlite_step(file: &Path, rng: &mut fastrand::Rng) -> Result<()> {
    let connection = open(file)?;
    let generation: i64 = connection.query_row(CHECK, [], |row| row.get(0))?;
    // The window, in which another may take over: also by a pause.
    std::thread::sleep(Duration::from_micros(rng.u64(..3_000)));
    let claims = rng.u8(..4) == 0;
    let sql = "insert into control (generation, claim) values (?1, ?2)";
    connection.execute(sql, (generation + i64::from(claims), claims))?;
    Ok(())
}

async fn postgres_step(connection: &mut PgConnection, rng: &mut fastrand::Rng) -> Result<()> {
    let generation: i64 = sqlx::query_scalar(CHECK).fetch_one(&mut *connection).await?;
    tokio::time::sleep(Duration::from_micros(rng.u64(..3_000))).await;
    let claims = rng.u8(..4) == 0;
    let insert = sqlx::query("insert into control (generation, claim) values ($1, $2)");
    insert.bind(generation + i64::from(claims)).bind(claims).execute(connection).await?;
    Ok(())
}

/// How many writes stand behind a claim of a greater generation than their own.
pub(crate) async fn stale(store: &Store) -> Result<u64> {
    let sql = "select generation, claim from control order by id";
    let rows: Vec<(i64, bool)> = match store {
        Store::Sqlite { control, .. } => {
            let connection = open(control)?;
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()?
        }
        Store::Postgres { direct, .. } => {
            let mut connection = PgConnection::connect(direct).await?;
            let rows = sqlx::query(sql).fetch_all(&mut connection).await?;
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        }
    };
    let (mut newest, mut stale) = (0, 0);
    for (generation, claims) in rows {
        if claims {
            newest = newest.max(generation);
        } else {
            stale += u64::from(generation < newest);
        }
    }
    Ok(stale)
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(2))?;
    // Durability is not what the control shows.
    connection.execute_batch("pragma journal_mode = wal; pragma synchronous = off")?;
    Ok(connection)
}
