//! PostgreSQL's errors, told apart by what they prove (U1).
//!
//! | error | what it proves |
//! |---|---|
//! | no connection, or none in time | not written |
//! | an error that the server answered to a lone autocommit call | not written: the call was its whole transaction |
//! | but `40003` and class `08` | nothing: they speak of an uncertain commit |
//! | a FATAL or PANIC error, so all of `57P01` to `57P05` | nothing: it may have come after the commit |
//! | a lost connection, a broken protocol, a time-out after sending | nothing |
//! | class `23` (a constraint), `XX001`, `XX002` | the store contradicts itself: corrupt, and not written |
//!
//! A cancel by an operator during the wait for a synchronous standby is answered as a success with a warning: see the
//! crate's documentation.

use std::sync::Arc;

use ledger_core::{Failure, FailureKind, LedgerError};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// An error with what it means for the connection and for another try.
#[derive(Debug)]
pub(crate) struct Classified {
    /// What the caller is told.
    pub(crate) error: LedgerError,
    /// Whether trying the whole operation again may help (U4); only ever where nothing was written.
    pub(crate) again: bool,
    /// Whether the connection can serve the next call.
    pub(crate) keep: bool,
}

/// An error before anything was sent.
pub(crate) fn connect(error: sqlx::Error) -> Classified {
    let kind = match &error {
        sqlx::Error::PoolTimedOut => FailureKind::Busy,
        sqlx::Error::PoolClosed => FailureKind::Closed,
        sqlx::Error::Configuration(_) => FailureKind::Other,
        _ => FailureKind::Unavailable,
    };
    let detail = match &error {
        sqlx::Error::PoolTimedOut => "no connection became free in time".to_owned(),
        sqlx::Error::PoolClosed => "the pool was closed".to_owned(),
        sqlx::Error::Database(_) => match database(&error) {
            Some(refused) => refused_at_connect(refused),
            None => "the server refused the connection".to_owned(),
        },
        _ => "the server can not be reached".to_owned(),
    };
    // Start-up, shutdown, too many connections, or nobody there yet: worth a try within the budget.
    let again = match database(&error) {
        Some(refused) => matches!(class(refused.code()), "57" | "53" | "08") && refused.code() != "08P01",
        None => kind == FailureKind::Unavailable,
    };
    let error = LedgerError::NotWritten(Failure::new(kind, detail).with_source(error));
    Classified { error, again, keep: false }
}

/// An error of a call that may write.
pub(crate) fn write(error: sqlx::Error) -> Classified {
    let Some(found) = database(&error) else { return lost(error) };
    let code = found.code().to_owned();
    let fatal = matches!(found.severity(), PgSeverity::Fatal | PgSeverity::Panic);
    let detail = detail(found);
    if class(&code) == "23" || matches!(code.as_str(), "XX001" | "XX002") {
        let source: ledger_core::Source = Arc::new(error);
        let error = LedgerError::Corrupt { partition: None, position: None, detail, source: Some(source) };
        return Classified { error, again: false, keep: !fatal };
    }
    let failure = Failure::new(kind(&code), detail).with_source(error);
    if fatal || code == "40003" || class(&code) == "08" {
        return Classified { error: LedgerError::Unknown(failure), again: false, keep: false };
    }
    // 55P03 is not among them: the wait has been made. 2D000 and 25P02 are a transaction that somebody left open in the
    // pool, and 26000 and 42P05 a statement that is another session's: with another connection it goes on. 25006
    // is a server that is no primary any more: what is opened anew leads to the one that is.
    let foreign = matches!(code.as_str(), "2D000" | "25P02" | "25001" | "26000" | "42P05" | "25006");
    let again = foreign || matches!(code.as_str(), "40001" | "40P01");
    Classified { error: LedgerError::NotWritten(failure), again, keep: !foreign }
}

/// An error of a call that only reads: the read did not happen, whatever it was.
pub(crate) fn read(error: sqlx::Error) -> Classified {
    let Classified { error, again, keep } = write(error);
    match error {
        // A lost connection is worth another try: there is nothing that could be done twice.
        LedgerError::Unknown(failure) => Classified { error: LedgerError::NotWritten(failure), again: true, keep },
        error => Classified { error, again, keep },
    }
}

/// A call whose time ran out after it was sent.
pub(crate) fn timed_out(writes: bool) -> Classified {
    let failure = Failure::new(FailureKind::Busy, "the server did not answer in time");
    let error = if writes { LedgerError::Unknown(failure) } else { LedgerError::NotWritten(failure) };
    Classified { error, again: false, keep: false }
}

fn lost(error: sqlx::Error) -> Classified {
    // Encoding comes before sending; everything else may come after it.
    let sent = !matches!(error, sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_));
    let (kind, detail) = match &error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => (FailureKind::Unavailable, "the connection was lost"),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => (FailureKind::Other, "the call can not be sent"),
        _ => (FailureKind::Other, "the server's answer was not understood"),
    };
    let failure = Failure::new(kind, detail).with_source(error);
    let error = if sent { LedgerError::Unknown(failure) } else { LedgerError::NotWritten(failure) };
    Classified { error, again: false, keep: false }
}

fn kind(code: &str) -> FailureKind {
    match code {
        "40001" | "40P01" | "55P03" | "57014" => FailureKind::Busy,
        "53100" => FailureKind::StorageFull,
        "25006" => FailureKind::ReadOnly,
        _ if matches!(class(code), "53" | "57" | "08") => FailureKind::Unavailable,
        _ => FailureKind::Other,
    }
}

/// What happened, for people. The server's own words stand in the source.
fn detail(error: &PgDatabaseError) -> String {
    let code = error.code();
    let what = match code {
        "40001" => "the transaction saw an older state: try it again as a whole",
        "40P01" => "a deadlock was broken",
        "55P03" => "the wait for a lock took too long",
        "57014" => "the statement was cancelled",
        "53100" => "no room is left on the server",
        "25006" => "the server may only be read",
        "42501" => "the role lacks a right: see `Schema::grants`",
        "3F000" | "42P01" | "42883" => {
            "the schema is not installed, or it is of another version: see `Schema::migrate`"
        }
        "2D000" | "25P02" | "25001" => "a connection of the pool was left inside a transaction",
        "26000" | "42P05" => {
            "a prepared statement is another session's: behind a transaction pooler, open with `transaction_pooler`"
        }
        _ => match class(code) {
            "23" => match error.constraint() {
                Some(constraint) => return format!("a row contradicts the constraint `{constraint}` ({code})"),
                None => "a row contradicts a constraint",
            },
            "08" => "the connection failed",
            "57" => "the server is going away",
            "53" => "the server lacks resources",
            _ => "PostgreSQL refused a statement",
        },
    };
    format!("{what} ({code})")
}

fn refused_at_connect(error: &PgDatabaseError) -> String {
    if error.message().contains("startup parameter") {
        return "a pooler refuses the settings of a session: open with `transaction_pooler`".to_owned();
    }
    match error.code() {
        "53300" => "the server has no connection left (53300)".to_owned(),
        "28P01" | "28000" => format!("the server does not know the role or its password ({})", error.code()),
        "3D000" => "the database does not exist (3D000)".to_owned(),
        code => format!("the server refused the connection ({code})"),
    }
}

fn database(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()
}

fn class(code: &str) -> &str {
    code.get(..2).unwrap_or_default()
}
