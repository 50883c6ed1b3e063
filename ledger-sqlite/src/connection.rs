//! Connections, with their settings set and checked (S1).

use std::path::Path;
use std::time::Duration;

use ledger_core::Durability;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::classify;
use crate::open::failed;
use crate::open_error::OpenError;
use crate::options::SqliteOptions;
use crate::pace::Pace;

/// More than there are statements, so that none is prepared twice.
const CACHED_STATEMENTS: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
}

/// Opens a connection, and changes nothing yet.
pub(crate) fn connect(path: &Path, role: Role) -> Result<Connection, OpenError> {
    // No URI: a file may be named `file:x`. No mutex: each connection stays on one thread.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if role == Role::Writer {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let cannot_open = |source| OpenError::CannotOpen { path: path.to_owned(), source };
    let connection = Connection::open_with_flags(path, flags).map_err(cannot_open)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Where the file or its file system is read-only, SQLite opens it so, without a word.
    if connection.is_readonly("main").map_err(cannot_open)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    Ok(connection)
}

/// Makes a connection ready for its role: every setting is set, and then read back.
pub(crate) fn configure(
    connection: &Connection,
    path: &Path,
    role: Role,
    options: &SqliteOptions,
) -> Result<(), OpenError> {
    let fail = |error| failed(path, error);
    connection.busy_timeout(options.busy_timeout).map_err(fail)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(fail)?;
    if role == Role::Writer {
        set_wal(connection, options.busy_timeout).map_err(fail)?;
    }
    check(connection, path, "encoding", "UTF-8")?;
    check(connection, path, "journal_mode", "wal")?;
    check(connection, path, "locking_mode", "normal")?;
    let synchronous = if options.durability >= Durability::MachineCrash { 2 } else { 1 };
    set(connection, path, "synchronous", synchronous)?;
    // For macOS, where fsync alone leaves the data in the drive's cache.
    set(connection, path, "fullfsync", 1)?;
    set(connection, path, "checkpoint_fullfsync", 1)?;
    // The file may come from elsewhere: no functions from its schema, no memory map that a truncation would tear.
    set(connection, path, "trusted_schema", 0)?;
    set(connection, path, "mmap_size", 0)?;
    set(connection, path, "cell_size_check", 1)?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages).map_err(fail)?;
    }
    match role {
        // A guard against mistakes; what may write is decided by who has the file.
        Role::Reader => set(connection, path, "query_only", 1),
        // The writer waits with a loop of its own, which is fair (see `pace`).
        Role::Writer => connection.busy_timeout(Duration::ZERO).map_err(fail),
    }
}

/// Turns the write-ahead log on. SQLite's busy handler is not asked for this, so it is tried again here.
fn set_wal(connection: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    let mut pace = Pace::new();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(error) if classify::is_busy(&error) && pace.waited() < timeout => pace.pause(),
            done => return done,
        }
    }
}

fn set(connection: &Connection, path: &Path, name: &'static str, value: i64) -> Result<(), OpenError> {
    connection.pragma_update(None, name, value).map_err(|error| failed(path, error))?;
    check(connection, path, name, &value.to_string())
}

fn check(connection: &Connection, path: &Path, name: &'static str, wanted: &str) -> Result<(), OpenError> {
    use rusqlite::types::Value;
    let actual = connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| failed(path, error))?;
    let actual = match actual {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    if actual == wanted {
        return Ok(());
    }
    Err(OpenError::Pragma { path: path.to_owned(), name, wanted: wanted.to_owned(), actual })
}
