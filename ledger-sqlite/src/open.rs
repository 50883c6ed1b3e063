//! Opening a ledger: everything is looked at before anything is changed, and checked after it was (S1).

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ledger_core::Durability;
use rusqlite::ffi::{self, ErrorCode};

use crate::classify;
use crate::connection::{self, Role};
use crate::evidence::Evidence;
use crate::file::{self, Watch};
use crate::ledger::SqliteLedger;
use crate::open_error::OpenError;
use crate::options::SqliteOptions;
use crate::reader::Readers;
use crate::schema;
use crate::shared::{Ended, Shared};
use crate::writer::Writer;

/// The first SQLite that does not lose data when two connections write and checkpoint at once.
const OLDEST_LIBRARY: (i32, &str) = (3_051_003, "3.51.3");

/// SQLite counts milliseconds in 32 bits.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// Opens the ledger in a file.
pub(crate) fn open(options: &SqliteOptions, path: &Path) -> Result<SqliteLedger, OpenError> {
    check_library(rusqlite::version_number(), rusqlite::version())?;
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Err(OpenError::NotAFile { path: path.to_owned() });
    }
    if !matches!(options.durability, Durability::MachineCrash | Durability::ProcessCrash) {
        return Err(OpenError::Durability { wanted: options.durability });
    }
    if options.busy_timeout > LONGEST_WAIT {
        return Err(OpenError::BusyTimeout { wanted: options.busy_timeout, most: LONGEST_WAIT });
    }
    check_file_system(options, path)?;

    let mut writer = connection::connect(path, Role::Writer)?;
    // From here on the path is to name the same file.
    let watch = Watch::new(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    writer.busy_timeout(options.busy_timeout).map_err(|error| failed(path, error))?;
    let found = schema::inspect(&mut writer, path, options)?;
    connection::configure(&writer, path, Role::Writer, options)?;
    schema::migrate(&mut writer, path, options, found)?;
    schema::check(&writer, path)?;
    let ledger = schema::ledger_id(&writer, path)?;

    let mut readers = Vec::new();
    for _ in 0..options.readers {
        let reader = connection::connect(path, Role::Reader)?;
        connection::configure(&reader, path, Role::Reader, options)?;
        let seen = schema::ledger_id(&reader, path)?;
        if seen != ledger {
            return Err(OpenError::Replaced { path: path.to_owned() });
        }
        readers.push(reader);
    }
    if watch.check().is_err() {
        return Err(OpenError::Replaced { path: path.to_owned() });
    }

    let shared = Arc::new(Shared {
        ledger,
        clock: options.clock.clone(),
        durability: options.durability,
        busy_timeout: options.busy_timeout,
        watch,
        evidence: Evidence::default(),
        ended: Ended::default(),
        is_closed: AtomicBool::new(false),
    });
    let (queue, jobs) = mpsc::channel();
    let readers = Readers::start(readers, shared.clone()).map_err(OpenError::Thread)?;
    let writer = Writer::new(writer, shared.clone(), jobs);
    std::thread::Builder::new()
        .name("fenced-writer".to_owned())
        .spawn(move || writer.run())
        .map_err(OpenError::Thread)?;
    Ok(SqliteLedger::new(shared, queue, readers))
}

fn check_library(number: i32, version: &str) -> Result<(), OpenError> {
    let (oldest, needed) = OLDEST_LIBRARY;
    if number >= oldest { Ok(()) } else { Err(OpenError::LibraryTooOld { found: version.to_owned(), needed }) }
}

fn check_file_system(options: &SqliteOptions, path: &Path) -> Result<(), OpenError> {
    let found = (options.probe)(&file::probed(path)).and_then(file::network_file_system);
    match found {
        Some(kind) if !options.allows_network => Err(OpenError::NetworkFileSystem { path: path.to_owned(), kind }),
        Some(kind) => {
            tracing::warn!(file = %path.display(), kind, "a ledger on a network file system, as was asked for");
            Ok(())
        }
        None => Ok(()),
    }
}

/// What an error of SQLite means while a file is being opened.
pub(crate) fn failed(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path, source },
        Some(ErrorCode::DatabaseCorrupt) => {
            OpenError::Damaged { path, detail: "a page can not be read".to_owned(), source: Some(source) }
        }
        // The file itself is open; what SQLite could not open or extend is its log or the log's index.
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => OpenError::NoLog { path, source },
        Some(ErrorCode::ReadOnly) if classify::extended(&source) == Some(ffi::SQLITE_READONLY_DIRECTORY) => {
            OpenError::NoLog { path, source }
        }
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy { path, source },
        Some(ErrorCode::DiskFull) => OpenError::StorageFull { path, source },
        _ => OpenError::Other { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_loses_data_is_refused_by_its_version() {
        assert!(check_library(3_051_003, "3.51.3").is_ok());
        assert!(check_library(3_054_001, "3.54.1").is_ok());
        let refused = check_library(3_051_002, "3.51.2").expect_err("the bug is in it");
        assert!(refused.to_string().contains("3.51.2") && refused.to_string().contains("3.51.3"), "{refused}");
    }

    #[test]
    fn the_library_that_is_linked_will_do() {
        check_library(rusqlite::version_number(), rusqlite::version()).expect("the bundled one");
    }
}
