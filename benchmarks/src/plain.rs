//! The contestants without a fence: the same rows, written with rusqlite alone.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Result;
use crate::fenced::{PARTITIONS, PAYLOAD};

/// Inserts for a while, so many a transaction, and returns how many a second.
pub(crate) fn inserts(database: &Path, per_transaction: usize, time: Duration) -> Result<f64> {
    let mut connection = Connection::open(database)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS plain (
           partition INTEGER NOT NULL, position INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
           metadata TEXT NOT NULL, recorded_at INTEGER NOT NULL, PRIMARY KEY (partition, position)
         ) STRICT, WITHOUT ROWID",
    )?;
    let next: i64 = connection.query_row("SELECT coalesce(max(position), 0) + 1 FROM plain", [], |row| row.get(0))?;
    let partitions = i64::try_from(PARTITIONS)?;
    let (start, mut written) = (Instant::now(), 0_usize);
    while start.elapsed() < time {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO plain VALUES (?1, ?2, 'result', ?3, '{}', ?4)")?;
            for _ in 0..per_transaction {
                let number = i64::try_from(written)?;
                insert.execute(params![number % partitions, next + number / partitions, PAYLOAD, number])?;
                written += 1;
            }
        }
        transaction.commit()?;
    }
    Ok(written as f64 / start.elapsed().as_secs_f64())
}
