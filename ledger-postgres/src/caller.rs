//! Appends inside a caller's own transaction: business tables and ledger in one commit.

use ledger_core::{Append, Appended, Lease, RecordState, Refused, Rejection, Remark, Result};
use sqlx::PgConnection;

use crate::append;
use crate::call::{self, Call, Value, Way};
use crate::classify;
use crate::ledger::PostgresLedger;
use crate::row::Fields;

impl PostgresLedger {
    /// Appends inside the transaction that `connection` is in: the same judgement, and one commit with what else the
    /// transaction writes. What is answered holds once that commit has succeeded, and not before.
    ///
    /// **The transaction holds the partition from here to its end.** The holder's other appends and its renewals wait
    /// for it, and so does a takeover, also after the lease has expired: an append that was judged in time may still
    /// commit, and is then in the log before the next `$claimed` (C6). So append last and commit at once. A transaction
    /// that stalls is ended by the server: this lowers its `idle_in_transaction_session_timeout` to that of
    /// [`Options::idle_in_transaction`](crate::Options::idle_in_transaction) for the rest of the transaction.
    ///
    /// A refusal is an answer, and leaves the transaction usable. Nothing is written of it: it says
    /// [`Carried`](RecordState::Carried); give it to [`record_rejection`](Self::record_rejection) once the transaction
    /// has ended. A refusal as [`Expired`](ledger_core::Reason::Expired) above all: the time that it rests on (T2) is
    /// stored with the transaction, and is gone where that is rolled back, until `record_rejection` has stored it. A
    /// server's clock that steps back meanwhile gives the lease its time again.
    ///
    /// Waits for the partition as long as the session's own `lock_timeout` lets it. In a transaction above read
    /// committed whose snapshot is too old for the judgement it fails with 40001, as
    /// [`NotWritten`](ledger_core::LedgerError::NotWritten) of the kind [`Busy`](ledger_core::FailureKind::Busy): try the transaction
    /// again as a whole. Nothing is tried again here.
    ///
    /// Cancel safe as far as the transaction is: a dropped future leaves it to be rolled back.
    ///
    /// # Errors
    ///
    /// As [`append`](ledger_core::FencedLedger::append). After any error but a refusal the transaction can only be
    /// rolled back.
    pub async fn append_in(&self, connection: &mut PgConnection, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.id())?;
        let content = append.content();
        let call = append::call(lease, append, content.as_bytes(), Some(self.shared.idle));
        let way = Way::new(self.shared.simple, false);
        let rows = call.run(connection, &self.shared.runner.statements, way, None).await;
        let rows = rows.map_err(|error| classify::write(error).error)?;
        append::appended(&rows, lease, append, |_| RecordState::Carried)
    }

    /// Stores the record of a refusal that a caller's transaction carried out of itself (E2), and says what became of
    /// it. A refusal that is no evidence stores nothing, nor one whose record is stored or counted already, which is said.
    ///
    /// Of a lease that had expired it stores the time too (T2), by the server's clock at this call, for which it waits for
    /// the partition; if that clock has stepped back below the expiry, the lease is good again, and nothing is stored but
    /// the record.
    ///
    /// Not idempotent: each call with the same refusal counts once. Cancel safe: a dropped future has stored all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`NotWritten`](ledger_core::LedgerError::NotWritten) or [`Unknown`](ledger_core::LedgerError::Unknown).
    pub async fn record_rejection(&self, rejection: &Rejection) -> Result<RecordState> {
        let Some(refused) = Refused::of(rejection) else { return Ok(RecordState::NotEvidence) };
        if let known @ (RecordState::Stored | RecordState::Counted) = &rejection.record {
            return Ok(known.clone());
        }
        let (holder, acquisition, expires_at) = match &refused.current {
            Some((holder, acquisition, expires_at)) => (Some(holder.as_str()), Some(acquisition), Some(expires_at)),
            None => (None, None, None),
        };
        let values = vec![
            Value::Text(Some(rejection.partition.as_str())),
            Value::Big(rejection.current.as_ref().map(|current| current.generation.get())),
            Value::Text(Some(refused.operation.as_str())),
            Value::Text(Some(refused.reason.as_str())),
            Value::Text(Some(refused.holder.as_str())),
            Value::Big(Some(refused.generation.map_or(0, ledger_core::Generation::get))),
            Value::Text(refused.remark.as_ref().map(Remark::as_str)),
            Value::Uuid(Some(refused.acquisition.as_uuid())),
            Value::Uuid(refused.append.map(|id| id.as_uuid())),
            Value::Text(holder),
            Value::Uuid(acquisition.map(|acquisition| acquisition.as_uuid())),
            Value::Big(expires_at.map(|time| time.as_micros())),
            Value::Big(Some(i64::try_from(refused.revision.get()).unwrap_or(i64::MAX))),
            Value::Big(Some(rejection.judged.time.as_micros())),
        ];
        let call = Call { function: &call::RECORD_REJECTION, values };
        let rows = self.shared.runner.run(&call, false).await?;
        let state = rows.first().map(|row| Fields::of(row).optional_text()).transpose();
        match state.map_err(|bad| bad.at(Some(&rejection.partition), None))?.flatten() {
            Some("Stored") => Ok(RecordState::Stored),
            Some(_) => Ok(RecordState::Counted),
            None => Ok(RecordState::Missing { cause: "the ledger has no such partition and generation".to_owned() }),
        }
    }
}
