//! The contestants without a fence: the same rows, written with rusqlite alone.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Result;
use crate::fenced::{PARTITIONS, PAYLOAD};

/// Inserts for a while, so many a transaction, and returns how many a second.
pub(crate) fn inserts(database: &Path, per_transaction: usize, time: Duration) -> Result<f64> {
    let mut connection = open(database)?;
    let next: i64 = connection.query_row("SELECT coalesce(max(position), 0) + 1 FROM plain", [], |row| row.get(0))?;
    let partitions = i64::try_from(PARTITIONS)?;
    let (start, mut written) = (Instant::now(), 0_usize);
    while start.elapsed() < time {
        transaction(&mut connection, per_transaction, || {
            let number = i64::try_from(written)?;
            written += 1;
            Ok((number % partitions, next + number / partitions))
        })?;
    }
    Ok(written as f64 / start.elapsed().as_secs_f64())
}

/// A table of many partitions.
pub(crate) struct Many {
    connection: Connection,
    /// The next position of each.
    next: Vec<i64>,
}

impl Many {
    /// So many partitions of one row each, as a claim leaves them.
    pub(crate) fn create(database: &Path, partitions: usize) -> Result<Self> {
        let mut connection = open(database)?;
        let mut number = 0..;
        transaction(&mut connection, partitions, || Ok((number.next().unwrap_or_default(), 1)))?;
        Ok(Self { connection, next: vec![2; partitions] })
    }

    /// Inserts for a while, one row for each of so many walkers a transaction. They are spread over the partitions, and
    /// each goes from one to the next.
    pub(crate) fn inserts(&mut self, walkers: usize, time: Duration) -> Result<f64> {
        let Self { connection, next } = self;
        let (start, mut written) = (Instant::now(), 0_usize);
        while start.elapsed() < time {
            transaction(connection, walkers, || {
                let (walker, step) = (written % walkers, written / walkers);
                written += 1;
                let partition = (walker * next.len() / walkers + step) % next.len();
                next[partition] += 1;
                Ok((i64::try_from(partition)?, next[partition] - 1))
            })?;
        }
        Ok(written as f64 / start.elapsed().as_secs_f64())
    }
}

fn open(database: &Path) -> Result<Connection> {
    let connection = Connection::open(database)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS plain (
           partition INTEGER NOT NULL, position INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
           metadata TEXT NOT NULL, recorded_at INTEGER NOT NULL, PRIMARY KEY (partition, position)
         ) STRICT, WITHOUT ROWID",
    )?;
    Ok(connection)
}

/// Inserts so many rows in one transaction, each at the partition and position that are given.
fn transaction(connection: &mut Connection, count: usize, mut place: impl FnMut() -> Result<(i64, i64)>) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO plain VALUES (?1, ?2, 'result', ?3, '{}', ?4)")?;
        for number in 0..i64::try_from(count)? {
            let (partition, position) = place()?;
            insert.execute(params![partition, position, PAYLOAD, number])?;
        }
    }
    Ok(transaction.commit()?)
}
