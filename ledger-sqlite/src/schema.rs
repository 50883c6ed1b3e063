//! The layout in a file: what is found, installed and checked (S1, S3).

use std::collections::BTreeMap;
use std::path::Path;

use ledger_core::{LedgerId, SystemClock};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::classify;
use crate::open::failed;
use crate::open_error::OpenError;
use crate::options::SqliteOptions;
use crate::pace::Pace;
use crate::{row, statement};

/// Marks a file as a ledger's: `FLED`. `user_version` is left to the business tables beside the ledger, whose
/// migration tools count in it; the ledger's version stands in `fenced_migration`.
pub(crate) const APPLICATION_ID: i32 = 0x464C_4544;

/// The steps from nothing to the newest layout; the version is their number. A step is never changed: a new layout is
/// a new step.
const STEPS: [&str; 2] = statement::VERSIONS;

/// What stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// No ledger; it may be installed.
    None,
    /// A ledger of that layout, marked as one or not.
    Ledger { version: i64, is_marked: bool },
}

/// The newest layout that this version knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Looks what stands in the file, and changes nothing: called before any setting that is kept in the file.
pub(crate) fn inspect(connection: &mut Connection, path: &Path, options: &SqliteOptions) -> Result<Content, OpenError> {
    let fail = |error| failed(path, error);
    // One snapshot, because another process may be installing.
    let transaction = connection.transaction().map_err(fail)?;
    content(&transaction, path, options)
}

fn content(connection: &Connection, path: &Path, options: &SqliteOptions) -> Result<Content, OpenError> {
    let fail = |error| failed(path, error);
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(fail)?;
    let foreign = |found| Err(OpenError::ForeignFile { path: path.to_owned(), found });
    if application != 0 && application != APPLICATION_ID {
        return foreign(format!("its application id is {application:#010x}"));
    }
    let is_marked = application == APPLICATION_ID;
    let tables = "SELECT count(*), coalesce(sum(name = 'fenced_migration'), 0) FROM main.sqlite_schema";
    let (objects, ledgers): (i64, i64) =
        connection.query_row(tables, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(fail)?;
    if ledgers == 0 {
        return match (is_marked, objects) {
            (true, _) => altered(path, "table fenced_migration"),
            (false, 0) => Ok(Content::None),
            (false, _) if options.allows_other_tables => Ok(Content::None),
            (false, _) => foreign(format!("it has {objects} tables and other objects, but none of a ledger")),
        };
    }
    let version: Option<i64> = connection
        .prepare(statement::SCHEMA_VERSION)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(fail)?;
    match version {
        None => altered(path, "table fenced_migration"),
        Some(found) if found > newest() => {
            Err(OpenError::NewerSchema { path: path.to_owned(), found, supported: newest() })
        }
        Some(version) => Ok(Content::Ledger { version, is_marked }),
    }
}

/// Brings the file to the newest layout, if it is not there yet.
///
/// Many processes may do so at once, with writers running: what is to be done is looked up again under the write lock,
/// and all of it is one transaction.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    options: &SqliteOptions,
    found: Content,
) -> Result<(), OpenError> {
    if found == (Content::Ledger { version: newest(), is_marked: true }) {
        return Ok(());
    }
    let fail = |error| failed(path, error);
    let mut pace = Pace::new();
    let transaction = loop {
        match rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if classify::is_busy(&error) && pace.waited() < options.busy_timeout => pace.pause(),
            begun => break begun.map_err(fail)?,
        }
    };
    let from = match content(&transaction, path, options)? {
        Content::None => 0,
        Content::Ledger { version, .. } => version,
    };
    let done = usize::try_from(from).unwrap_or(0);
    for (version, step) in (from + 1..).zip(STEPS.iter().skip(done)) {
        let now = ledger_core::Clock::now(&SystemClock).as_micros();
        transaction.execute_batch(step).map_err(fail)?;
        let by = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
        transaction.execute(statement::INSERT_MIGRATION, params![version, now, by]).map_err(fail)?;
    }
    if from == 0 {
        let id = LedgerId::mint();
        transaction.execute(statement::INSERT_LEDGER, [id.as_uuid().as_bytes()]).map_err(fail)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// Checks that the ledger's tables and indexes are those that were installed, and that nothing was put on them: a
/// missing index would let an id be used twice, a trigger would write what was not judged.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let fail = |error| failed(path, error);
    let expected = Connection::open_in_memory().map_err(fail)?;
    for step in STEPS {
        expected.execute_batch(step).map_err(fail)?;
    }
    let (expected, mut actual) = (objects(&expected).map_err(fail)?, objects(connection).map_err(fail)?);
    for (name, sql) in &expected {
        if actual.remove(name).as_ref() != Some(sql) {
            return altered(path, name);
        }
    }
    match actual.into_keys().next() {
        None => Ok(()),
        Some(name) => altered(path, &name),
    }
}

/// The ledger's id, as it stands in the file.
pub(crate) fn ledger_id(connection: &Connection, path: &Path) -> Result<LedgerId, OpenError> {
    let found = connection
        .query_row(statement::LEDGER_ID, [], |row| Ok(row::ledger_id(row)))
        .optional()
        .map_err(|error| failed(path, error))?;
    let damaged = |detail| OpenError::Damaged { path: path.to_owned(), detail, source: None };
    match found {
        None => Err(damaged("it names no ledger".to_owned())),
        Some(id) => id.map_err(|unreadable| damaged(unreadable.0)),
    }
}

/// Everything that stands on the ledger's tables: type and name, and the statement that made it.
fn objects(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Option<String>>> {
    let mut statement = connection.prepare(statement::SCHEMA_OBJECTS)?;
    let read = |row: &rusqlite::Row<'_>| {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let sql: Option<String> = row.get(2)?;
        Ok((format!("{kind} {name}"), sql.as_deref().map(without_comments)))
    };
    statement.query_map([], read)?.collect()
}

/// SQLite keeps the text of a statement with its comments, which a later version may word better.
fn without_comments(sql: &str) -> String {
    let code = sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn altered<T>(path: &Path, object: &str) -> Result<T, OpenError> {
    Err(OpenError::AlteredSchema { path: path.to_owned(), object: object.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_statement_does_is_compared() {
        let one = without_comments("CREATE TABLE t (\n  -- what x is\n  x TEXT, -- and y\n  y TEXT\n)");
        assert_eq!(one, "CREATE TABLE t ( x TEXT, y TEXT )");
        assert_ne!(one, without_comments("CREATE TABLE t ( x TEXT, y BLOB )"));
    }
}
