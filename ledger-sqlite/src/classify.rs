//! SQLite's errors, told apart by what they prove (U1).
//!
//! Measured on SQLite 3.51.3, each with a real cause:
//!
//! | error | where | what it proves |
//! |---|---|---|
//! | `FULL` | a statement or COMMIT | not written: the transaction is rolled back, and no frame of it comes back |
//! | `IOERR_FSYNC` and other I/O errors | COMMIT | nothing: invisible now, but a crash may bring it back |
//! | `BUSY` | BEGIN, COMMIT | not written |
//! | `CORRUPT`, `NOTADB`, a constraint | anywhere | the file is not what was written; the transaction is rolled back |
//! | anything else | before COMMIT | not written |

use ledger_core::{Failure, FailureKind, LedgerError};
use rusqlite::ffi::{self, ErrorCode};

/// What stopped a step below the answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The engine's error.
    Engine(rusqlite::Error),
    /// An error that says already what it proves.
    Answer(LedgerError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<LedgerError> for Trouble {
    fn from(error: LedgerError) -> Self {
        Self::Answer(error)
    }
}

impl Trouble {
    /// The answer to a call that was stopped before its COMMIT: nothing was written.
    pub(crate) fn before_commit(self) -> LedgerError {
        match self {
            Self::Engine(error) => before_commit(error),
            Self::Answer(error) => error,
        }
    }
}

/// What an error before COMMIT proves.
pub(crate) fn before_commit(error: rusqlite::Error) -> LedgerError {
    if is_corrupt(&error) {
        let detail = detail(&error);
        return LedgerError::Corrupt {
            partition: None,
            position: None,
            detail,
            source: Some(std::sync::Arc::new(error)),
        };
    }
    LedgerError::NotWritten(failure(error))
}

/// What an error of COMMIT itself proves.
pub(crate) fn at_commit(error: rusqlite::Error) -> LedgerError {
    match code(&error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull | ErrorCode::ReadOnly) => {
            before_commit(error)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => {
            before_commit(error)
        }
        _ => LedgerError::Unknown(failure(error)),
    }
}

/// Whether another connection has the lock that was asked for.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the transaction reads a snapshot that is no longer the newest, so that it can never write.
pub(crate) fn is_stale_snapshot(error: &rusqlite::Error) -> bool {
    extended(error) == Some(ffi::SQLITE_BUSY_SNAPSHOT)
}

/// Whether a table that a statement names is not there.
pub(crate) fn is_no_such_table(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.starts_with("no such table"),
        rusqlite::Error::SqlInputError { msg, .. } => msg.starts_with("no such table"),
        _ => false,
    }
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    let engine = matches!(
        code(error),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation)
    );
    // A table or column of ours that is not there any more answers with the generic error.
    let schema = match error {
        E::SqliteFailure(_, Some(message)) => message.starts_with("no such "),
        E::SqlInputError { msg, .. } => msg.starts_with("no such "),
        _ => false,
    };
    engine
        || schema
        || extended(error) == Some(ffi::SQLITE_IOERR_CORRUPTFS)
        || matches!(
            error,
            E::FromSqlConversionFailure(..)
                | E::IntegralValueOutOfRange(..)
                | E::Utf8Error(..)
                | E::InvalidColumnType(..)
                | E::QueryReturnedNoRows
                | E::QueryReturnedMoreThanOneRow
                | E::StatementChangedRows(_)
        )
}

fn failure(error: rusqlite::Error) -> Failure {
    let kind = match code(&error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FailureKind::Busy,
        Some(ErrorCode::DiskFull) => FailureKind::StorageFull,
        Some(ErrorCode::ReadOnly) => FailureKind::ReadOnly,
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure) => {
            FailureKind::Unavailable
        }
        _ => FailureKind::Other,
    };
    Failure::new(kind, detail(&error)).with_source(error)
}

/// What happened, without the engine's own words: those stand in the source.
fn detail(error: &rusqlite::Error) -> String {
    match code(error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "the database is locked by another".to_owned(),
        Some(ErrorCode::DiskFull) => "no room is left for the database".to_owned(),
        Some(ErrorCode::ReadOnly) => "the database may only be read".to_owned(),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => "the database can not be opened".to_owned(),
        Some(ErrorCode::SystemIoFailure) => "the file system failed".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => "a page of the database is damaged".to_owned(),
        Some(ErrorCode::NotADatabase) => "the file is no database".to_owned(),
        Some(ErrorCode::ConstraintViolation) => "a row contradicts what the ledger's rules allow".to_owned(),
        _ => "SQLite refused a statement".to_owned(),
    }
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// SQLite's extended error code.
pub(crate) fn extended(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(extended: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(extended), None)
    }

    #[test]
    fn an_io_error_of_commit_proves_nothing_and_a_full_disk_proves_that_nothing_was_written() {
        assert!(matches!(at_commit(error(ffi::SQLITE_IOERR_FSYNC)), LedgerError::Unknown(_)));
        assert!(matches!(at_commit(error(ffi::SQLITE_NOMEM)), LedgerError::Unknown(_)));
        for (code, kind) in [
            (ffi::SQLITE_FULL, FailureKind::StorageFull),
            (ffi::SQLITE_BUSY, FailureKind::Busy),
            (ffi::SQLITE_READONLY, FailureKind::ReadOnly),
        ] {
            let LedgerError::NotWritten(failure) = at_commit(error(code)) else { panic!("{code} is not written") };
            assert_eq!(failure.kind, kind);
        }
    }

    #[test]
    fn a_constraint_is_corruption_never_a_rejection() {
        for code in [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CORRUPT_INDEX]
        {
            assert!(matches!(before_commit(error(code)), LedgerError::Corrupt { .. }), "{code}");
            assert!(matches!(at_commit(error(code)), LedgerError::Corrupt { .. }), "{code}");
        }
    }

    #[test]
    fn only_a_stale_snapshot_is_one() {
        assert!(is_stale_snapshot(&error(ffi::SQLITE_BUSY_SNAPSHOT)));
        assert!(!is_stale_snapshot(&error(ffi::SQLITE_BUSY)));
        assert!(is_busy(&error(ffi::SQLITE_BUSY_SNAPSHOT)));
        assert!(!is_busy(&error(ffi::SQLITE_FULL)));
    }

    #[test]
    fn each_failure_has_its_kind_and_its_words() {
        for (code, kind, says) in [
            (ffi::SQLITE_BUSY, FailureKind::Busy, "locked by another"),
            (ffi::SQLITE_LOCKED, FailureKind::Busy, "locked by another"),
            (ffi::SQLITE_FULL, FailureKind::StorageFull, "no room is left"),
            (ffi::SQLITE_READONLY, FailureKind::ReadOnly, "may only be read"),
            (ffi::SQLITE_CANTOPEN, FailureKind::Unavailable, "can not be opened"),
            (ffi::SQLITE_PERM, FailureKind::Unavailable, "can not be opened"),
            (ffi::SQLITE_IOERR_READ, FailureKind::Unavailable, "the file system failed"),
            (ffi::SQLITE_NOMEM, FailureKind::Other, "refused a statement"),
        ] {
            let LedgerError::NotWritten(failure) = before_commit(error(code)) else { panic!("{code} is not written") };
            assert_eq!((failure.kind, failure.detail.contains(says)), (kind, true), "{code}: {failure}");
        }
        for (code, says) in [
            (ffi::SQLITE_CORRUPT, "a page of the database is damaged"),
            (ffi::SQLITE_NOTADB, "no database"),
            (ffi::SQLITE_CONSTRAINT, "contradicts"),
            (ffi::SQLITE_IOERR_CORRUPTFS, "the file system failed"),
        ] {
            let LedgerError::Corrupt { detail, .. } = before_commit(error(code)) else { panic!("{code} is corrupt") };
            assert!(detail.contains(says), "{code}: {detail}");
        }
    }

    /// SQLite says it in words alone.
    #[test]
    fn what_is_missing_from_the_schema_is_corruption() {
        let generic = |message: &str| {
            rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(message.to_owned()))
        };
        let input = |message: &str| rusqlite::Error::SqlInputError {
            error: ffi::Error::new(ffi::SQLITE_ERROR),
            msg: message.to_owned(),
            sql: String::new(),
            offset: 0,
        };
        for said in [generic as fn(&str) -> rusqlite::Error, input] {
            assert!(is_no_such_table(&said("no such table: fenced_log")));
            assert!(!is_no_such_table(&said("no such column: head")));
            assert!(is_corrupt(&said("no such column: head")) && is_corrupt(&said("no such table: fenced_log")));
            assert!(!is_corrupt(&said("near \"x\": syntax error")));
        }
        assert!(!is_no_such_table(&error(ffi::SQLITE_ERROR)) && !is_corrupt(&error(ffi::SQLITE_ERROR)));
        assert!(is_corrupt(&rusqlite::Error::QueryReturnedNoRows), "a row that is always there");
    }

    #[test]
    fn an_answer_that_is_known_already_stays_as_it_is() {
        let known = LedgerError::corrupt(None, None, "known");
        let told = Trouble::from(known).before_commit();
        assert!(matches!(told, LedgerError::Corrupt { ref detail, .. } if detail == "known"), "{told}");
        let told = Trouble::from(error(ffi::SQLITE_FULL)).before_commit();
        assert!(
            matches!(told, LedgerError::NotWritten(ref failure) if failure.kind == FailureKind::StorageFull),
            "{told}"
        );
    }
}
