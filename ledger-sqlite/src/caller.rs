//! Appends inside a caller's own transaction: business tables and ledger in one commit.

use std::path::Path;
use std::time::Instant;

use ledger_core::{
    Append, Appended, Durability, Failure, FailureKind, Invalid, Lease, LedgerError, LedgerId, Reason, RecordState,
    Rejection, Result,
};
use rusqlite::{Connection, Transaction};

use crate::classify::{self, Trouble};
use crate::ledger::SqliteLedger;
use crate::row;
use crate::statement;
use crate::store::{self, Found, Writes};
use crate::task::ObserveExpiry;
use crate::work::{View, Work, Write};

impl SqliteLedger {
    /// Appends inside a transaction of the caller's, on a connection of the caller's to this ledger's file.
    ///
    /// The judgement is the same as in [`append`](ledger_core::FencedLedger::append), and is made under the
    /// transaction's write lock, which this call takes if the transaction has not yet. So the append is in the log when
    /// the transaction commits, together with the caller's own rows, and is gone when it rolls back. Nothing is durable
    /// before that commit, whatever this call answered. The lock is held until then: keep it short, no other writer of
    /// the file goes on meanwhile.
    ///
    /// A refusal leaves the transaction usable; whether to commit the rest is the caller's choice. No record of it is
    /// written yet ([`RecordState::Carried`]): once the transaction has ended, give it to
    /// [`record_rejection`](Self::record_rejection).
    ///
    /// Begin the transaction as [`Immediate`](rusqlite::TransactionBehavior::Immediate), and give the connection a busy
    /// time-out. A deferred one that has read before may be told that its snapshot is too old, and can then only be
    /// rolled back and begun anew.
    ///
    /// This blocks, so in an asynchronous program call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// As [`append`](ledger_core::FencedLedger::append), but never
    /// [`Unknown`](LedgerError::Unknown); beside them [`Invalid::Unusable`] where the transaction is of another
    /// database, or its connection's `synchronous` is weaker than what this ledger was opened with.
    pub fn append_in(&self, transaction: &Transaction<'_>, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.shared().ledger)?;
        self.check_open()?;
        self.shared().watch.check()?;
        check_connection(transaction, self)?;
        lock(transaction)?;
        check_ledger(transaction, self.shared().ledger)?;
        let write = Write { lease: lease.clone(), append: append.clone() };
        // A statement that fails half-way must not leave half an append to a caller who commits all the same (A3).
        transaction.execute_batch("SAVEPOINT fenced_append").map_err(classify::before_commit)?;
        match self.judge_in(transaction, &write) {
            Ok(answer) => {
                transaction.execute_batch("RELEASE fenced_append").map_err(classify::before_commit)?;
                answer.map_err(|rejection| self.refused_in(*rejection))
            }
            Err(trouble) => {
                // After some errors SQLite has rolled the whole transaction back, and the savepoint with it.
                let _ = transaction.execute_batch("ROLLBACK TO fenced_append; RELEASE fenced_append");
                Err(trouble.before_commit())
            }
        }
    }

    fn judge_in(&self, connection: &Connection, write: &Write) -> Result<Result<Appended, Box<Rejection>>, Trouble> {
        let shared = self.shared();
        let partition = write.partition();
        // Never from memory: what the caller's transaction has changed is seen by itself alone.
        let mut found: Option<Found> = store::find(connection, partition)?;
        let view = View { connection, ledger: shared.ledger, clock: &*shared.clock, found: found.as_ref() };
        let decision = write.decide(&view)?;
        let rejection = match decision.answer {
            Ok(answer) => {
                Writes::new(connection).write(partition, &mut found, decision.write)?;
                return Ok(Ok(answer));
            }
            Err(rejection) => rejection,
        };
        // The time of an expiry. No record: held by an open transaction, it could stall the holder (E2).
        Writes::new(connection).write(partition, &mut found, decision.write)?;
        let state = if rejection.is_evidence() { RecordState::Carried } else { RecordState::NotEvidence };
        Ok(Err(Box::new(rejection.with_record(state))))
    }

    fn refused_in(&self, rejection: Rejection) -> LedgerError {
        if rejection.reason == Reason::Expired
            && let Some(generation) = rejection.presented.generation
        {
            // The transaction has stored the time, but may roll back (T2). The writer stores it when that has ended.
            self.submit_unanswered(Box::new(ObserveExpiry {
                partition: rejection.partition.clone(),
                generation,
                at: rejection.judged.time,
                since: Instant::now(),
            }));
        }
        rejection.into()
    }
}

/// Takes the write lock: before anything is read (A1) and before the clock is (T4).
fn lock(transaction: &Transaction<'_>) -> Result<()> {
    let locked = transaction.prepare_cached(statement::LOCK).and_then(|mut lock| lock.execute([]));
    let Err(error) = locked else { return Ok(()) };
    if classify::is_stale_snapshot(&error) {
        let detail = "the transaction has read a state that is no longer the newest: roll it back and begin it anew, \
                      as BEGIN IMMEDIATE";
        return Err(LedgerError::NotWritten(Failure::new(FailureKind::Busy, detail).with_source(error)));
    }
    if classify::is_no_such_table(&error) {
        return Err(unusable("the database of its connection has no ledger"));
    }
    Err(classify::before_commit(error))
}

fn check_connection(connection: &Connection, ledger: &SqliteLedger) -> Result<()> {
    let shared = ledger.shared();
    if connection.path().is_none_or(|path| !shared.watch.is(Path::new(path))) {
        return Err(unusable("its connection has another file open than the ledger"));
    }
    let synchronous: i64 =
        connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(classify::before_commit)?;
    let wanted = if shared.durability >= Durability::MachineCrash { 2 } else { 1 };
    if synchronous < wanted {
        let problem = format!(
            "its connection has `PRAGMA synchronous` {synchronous}, weaker than the ledger's {wanted}: what the ledger \
             acknowledges as durable would not be"
        );
        return Err(unusable(problem));
    }
    Ok(())
}

fn check_ledger(connection: &Connection, wanted: LedgerId) -> Result<()> {
    let found = connection
        .prepare_cached(statement::LEDGER_ID)
        .and_then(|mut statement| statement.query_row([], |row| Ok(row::ledger_id(row))))
        .map_err(classify::before_commit)?;
    match found {
        Ok(found) if found == wanted => Ok(()),
        Ok(found) => Err(unusable(format!("its connection has ledger {found} open: this is ledger {wanted}"))),
        Err(unreadable) => Err(unreadable.at(None, None)),
    }
}

fn unusable(problem: impl Into<String>) -> LedgerError {
    LedgerError::Invalid(Invalid::Unusable { what: "the transaction", problem: problem.into() })
}
