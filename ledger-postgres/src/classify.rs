//! PostgreSQL's errors, told apart by what they prove (U1).
//!
//! | error | what it proves |
//! |---|---|
//! | no connection, or none in time | not written |
//! | an error that the server answered to a lone autocommit call | not written: the call was its whole transaction |
//! | but `40003` and class `08` | nothing: they speak of an uncertain commit |
//! | a FATAL or PANIC error, so all of `57P01` to `57P05` | nothing: it may have come after the commit |
//! | a lost connection, a broken protocol, a time-out after sending | nothing |
//! | class `23` of a constraint of the schema's own, `XX001`, `XX002` | the store contradicts itself: corrupt, and not written |
//! | class `23` of anything else, such as a column that a newer version does not leave empty | not written, tried again |
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
            Some(refused) => refused_at_connect(refused.code(), refused.message()),
            None => "the server refused the connection".to_owned(),
        },
        _ => "the server can not be reached".to_owned(),
    };
    // Start-up, shutdown, too many connections, or nobody there yet: worth a try within the budget.
    let again = match database(&error) {
        Some(refused) => may_pass(refused.code()),
        None => kind == FailureKind::Unavailable,
    };
    let error = LedgerError::NotWritten(Failure::new(kind, detail).with_source(error));
    Classified { error, again, keep: false }
}

/// An error of a call that may write.
pub(crate) fn write(error: sqlx::Error) -> Classified {
    let Some(found) = database(&error) else { return lost(error) };
    let fatal = matches!(found.severity(), PgSeverity::Fatal | PgSeverity::Panic);
    let (kind, detail) = (kind(found.code()), detail(found.code(), found.constraint()));
    let Verdict { proof, again, keep } = verdict(found.code(), found.constraint(), fatal);
    let error = match proof {
        Proof::Corrupt => {
            let source: ledger_core::Source = Arc::new(error);
            LedgerError::Corrupt { partition: None, position: None, detail, source: Some(source) }
        }
        Proof::Nothing => LedgerError::Unknown(Failure::new(kind, detail).with_source(error)),
        Proof::NotWritten => LedgerError::NotWritten(Failure::new(kind, detail).with_source(error)),
    };
    Classified { error, again, keep }
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

/// A read that was answered by a server which has not come as far as an earlier answer.
pub(crate) fn behind() -> Classified {
    let failure = Failure::new(FailureKind::Unavailable, "the server is behind the one that answered before");
    Classified { error: LedgerError::NotWritten(failure), again: true, keep: false }
}

/// What an error that the server answered proves of a call that may have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Corrupt,
    Nothing,
    NotWritten,
}

/// The constraints and unique indexes of the schema, by name. The functions keep to them, so a row that one refuses
/// contradicts what is stored.
const CONSTRAINTS: &[&str] = &[
    "evidence_budget_key",
    "ledger_is_one",
    "ledger_key",
    "log_entry",
    "log_key",
    "migration_key",
    "partition_key",
    "partition_name",
    "partition_sizes",
    "partition_vacancy",
    "rejection_bound",
    "rejection_key",
    "rejection_slot",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    proof: Proof,
    again: bool,
    keep: bool,
}

fn verdict(code: &str, constraint: Option<&str>, fatal: bool) -> Verdict {
    let constrained = class(code) == "23";
    let own = constraint.is_some_and(|name| CONSTRAINTS.contains(&name));
    if (constrained && own) || matches!(code, "XX001" | "XX002") {
        return Verdict { proof: Proof::Corrupt, again: false, keep: !fatal };
    }
    if fatal || code == "40003" || class(code) == "08" {
        return Verdict { proof: Proof::Nothing, again: false, keep: false };
    }
    // 55P03 is not among them: the wait has been made. 2D000 and 25P02 are a transaction that somebody left open in the
    // pool, and 26000 and 42P05 a statement that is another session's: with another connection it goes on. 25006
    // is a server that is no primary any more: what is opened anew leads to the one that is.
    let foreign = matches!(code, "2D000" | "25P02" | "25001" | "26000" | "42P05" | "25006");
    // What another's constraint refuses, or a column that may not be empty, may pass: a function of an older version was on
    // its way while the schema was migrated.
    let again = foreign || constrained || matches!(code, "40001" | "40P01");
    Verdict { proof: Proof::NotWritten, again, keep: !foreign }
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
fn detail(code: &str, constraint: Option<&str>) -> String {
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
            "23" => match constraint {
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

/// Whether a refused connection is worth another try: at start-up, at shutdown, and where there are too many. Not one that
/// does not speak the protocol.
fn may_pass(code: &str) -> bool {
    matches!(class(code), "57" | "53" | "08") && code != "08P01"
}

fn refused_at_connect(code: &str, message: &str) -> String {
    if message.contains("startup parameter") {
        return "a pooler refuses the settings of a session: open with `transaction_pooler`".to_owned();
    }
    match code {
        "53300" => "the server has no connection left (53300)".to_owned(),
        "28P01" | "28000" => format!("the server does not know the role or its password ({code})"),
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

/// The server's own errors come from a real server, in `tests/errors.rs`.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_code_proves_and_what_it_asks_for() {
        let of = |proof, again, keep| Verdict { proof, again, keep };
        for (code, constraint) in [
            ("23505", Some("log_key")),
            ("23514", Some("rejection_bound")),
            ("XX001", None),
            ("XX001", Some("theirs")),
            ("XX002", None),
        ] {
            assert_eq!(verdict(code, constraint, false), of(Proof::Corrupt, false, true), "{code}");
            let gone = verdict(code, constraint, true);
            assert_eq!(gone, of(Proof::Corrupt, false, false), "{code}, and the session is gone");
        }
        for (code, constraint) in [("23502", None), ("23514", Some("theirs")), ("23505", Some("")), ("40001", None)] {
            assert_eq!(verdict(code, constraint, false), of(Proof::NotWritten, true, true), "{code}");
            assert_eq!(verdict(code, constraint, true), of(Proof::Nothing, false, false), "{code}, FATAL");
        }
        for code in ["40003", "08006", "08P01"] {
            assert_eq!(verdict(code, None, false), of(Proof::Nothing, false, false), "{code}");
        }
        for code in ["57P01", "57P05", "XX000"] {
            assert_eq!(verdict(code, None, true), of(Proof::Nothing, false, false), "{code}, FATAL");
        }
        assert_eq!(verdict("40P01", None, false), of(Proof::NotWritten, true, true));
        for code in ["2D000", "25P02", "25001", "26000", "42P05", "25006"] {
            assert_eq!(verdict(code, None, false), of(Proof::NotWritten, true, false), "{code}");
        }
        for code in ["55P03", "57014", "53100", "42501", "XX000", ""] {
            // No code but those of a constraint is told by its name.
            assert_eq!(verdict(code, Some("log_key"), false), of(Proof::NotWritten, false, true), "{code}");
        }
    }

    #[test]
    fn the_constraints_are_those_of_the_layout() {
        let layout: String = crate::statement::VERSIONS.concat().concat();
        let lines = layout.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
        let words: Vec<&str> = lines.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let mut there = std::collections::BTreeSet::new();
        for window in words.windows(3) {
            match window {
                ["drop", "constraint", name] => drop(there.remove(*name)),
                ["unique", "index", name] | [_, "constraint", name] => drop(there.insert(*name)),
                _ => {}
            }
        }
        assert_eq!(there.into_iter().collect::<Vec<_>>(), CONSTRAINTS);
    }

    #[test]
    fn each_code_has_its_kind_and_its_words() {
        for (code, of, says) in [
            ("40001", FailureKind::Busy, "older state"),
            ("40P01", FailureKind::Busy, "a deadlock was broken"),
            ("55P03", FailureKind::Busy, "took too long"),
            ("57014", FailureKind::Busy, "was cancelled"),
            ("53100", FailureKind::StorageFull, "no room"),
            ("25006", FailureKind::ReadOnly, "may only be read"),
            ("42501", FailureKind::Other, "lacks a right"),
            ("3F000", FailureKind::Other, "not installed"),
            ("42P01", FailureKind::Other, "not installed"),
            ("42883", FailureKind::Other, "not installed"),
            ("2D000", FailureKind::Other, "left inside a transaction"),
            ("25P02", FailureKind::Other, "left inside a transaction"),
            ("25001", FailureKind::Other, "left inside a transaction"),
            ("26000", FailureKind::Other, "another session's"),
            ("42P05", FailureKind::Other, "another session's"),
            ("08006", FailureKind::Unavailable, "the connection failed"),
            ("57P01", FailureKind::Unavailable, "going away"),
            ("53300", FailureKind::Unavailable, "lacks resources"),
            ("XX000", FailureKind::Other, "refused a statement"),
        ] {
            let words = detail(code, None);
            assert!(words.contains(says) && words.ends_with(&format!("({code})")), "{code}: {words}");
            assert_eq!(kind(code), of, "{code}");
        }
        assert_eq!(detail("23505", Some("log_pkey")), "a row contradicts the constraint `log_pkey` (23505)");
        assert_eq!(detail("23505", None), "a row contradicts a constraint (23505)");
    }

    #[test]
    fn a_refused_connection_says_why_and_whether_to_try_again() {
        for (code, again, says) in [
            ("53300", true, "no connection left"),
            ("28P01", false, "the role or its password"),
            ("28000", false, "the role or its password"),
            ("3D000", false, "the database does not exist"),
            ("57P03", true, "refused the connection (57P03)"),
            ("08006", true, "refused the connection (08006)"),
            ("08P01", false, "refused the connection (08P01)"),
        ] {
            let words = refused_at_connect(code, "no");
            assert!(words.contains(says), "{code}: {words}");
            assert_eq!(may_pass(code), again, "{code}");
        }
        let words = refused_at_connect("08P01", "unsupported startup parameter: options");
        assert!(words.contains("transaction_pooler"), "{words}");
    }

    #[test]
    fn what_never_reached_the_server_is_not_written() {
        let io = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        for (error, of, says, again) in [
            (sqlx::Error::PoolTimedOut, FailureKind::Busy, "no connection became free", false),
            (sqlx::Error::PoolClosed, FailureKind::Closed, "the pool was closed", false),
            (sqlx::Error::Configuration("x".into()), FailureKind::Other, "can not be reached", false),
            (io(), FailureKind::Unavailable, "can not be reached", true),
        ] {
            let found = connect(error);
            let LedgerError::NotWritten(failure) = found.error else { panic!("nothing was sent") };
            assert_eq!((failure.kind, failure.detail.contains(says)), (of, true), "{}", failure.detail);
            assert_eq!((found.again, found.keep), (again, false), "{}", failure.detail);
        }
        for error in [sqlx::Error::Encode("x".into()), sqlx::Error::InvalidArgument("x".into())] {
            let found = write(error);
            let LedgerError::NotWritten(failure) = found.error else { panic!("nothing was sent") };
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Other, "the call can not be sent"));
            assert!(!found.again && !found.keep);
        }
    }

    #[test]
    fn what_may_have_reached_it_is_unknown_of_a_write_and_tried_again_of_a_read() {
        let io = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        let tls = || sqlx::Error::Tls("x".into());
        let protocol = || sqlx::Error::Protocol("x".to_owned());
        for (error, of, says) in [
            (io as fn() -> sqlx::Error, FailureKind::Unavailable, "the connection was lost"),
            (tls, FailureKind::Unavailable, "the connection was lost"),
            (protocol, FailureKind::Other, "was not understood"),
        ] {
            let written = write(error());
            let LedgerError::Unknown(failure) = written.error else { panic!("it may have been written") };
            assert_eq!((failure.kind, failure.detail.contains(says)), (of, true), "{}", failure.detail);
            assert!(!written.again && !written.keep);
            let looked = read(error());
            assert!(matches!(looked.error, LedgerError::NotWritten(_)) && looked.again && !looked.keep);
        }
        let looked = read(sqlx::Error::Encode("x".into()));
        assert!(matches!(looked.error, LedgerError::NotWritten(_)) && !looked.again);
        let (written, looked) = (timed_out(true), timed_out(false));
        assert!(matches!(written.error, LedgerError::Unknown(ref failure) if failure.kind == FailureKind::Busy));
        assert!(matches!(looked.error, LedgerError::NotWritten(ref failure) if failure.kind == FailureKind::Busy));
        assert!(!written.again && !written.keep && !looked.again && !looked.keep);
    }
}
