//! Why a ledger could not be opened.

use std::path::PathBuf;

/// Why a ledger could not be opened: one variant for each cause (S1). Nothing was written to the file, unless a variant
/// says so.
///
/// Open: a new check may bring a new variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The linked SQLite is older than the first one without the bug that loses data when two connections write and
    /// checkpoint at once.
    #[error("SQLite {found} is linked: at least {needed} is needed, which no longer loses data of two writers")]
    LibraryTooOld {
        /// The version that is linked.
        found: String,
        /// The oldest version that will do.
        needed: &'static str,
    },
    /// The path names no file: it is empty, or one of SQLite's names for a database in memory.
    #[error("`{path}` names no file: a ledger is for many processes")]
    NotAFile {
        /// The path given.
        path: PathBuf,
    },
    /// The durability asked for is none that SQLite gives.
    #[error("SQLite has no durability {wanted:?}: ask for MachineCrash or ProcessCrash")]
    Durability {
        /// What was asked for.
        wanted: ledger_core::Durability,
    },
    /// The time to wait for the lock is longer than SQLite can count.
    #[error("a busy time-out of {wanted:?} is longer than SQLite can count: at most {most:?}")]
    BusyTimeout {
        /// What was asked for.
        wanted: std::time::Duration,
        /// The most that can be had.
        most: std::time::Duration,
    },
    /// The file lies on a network file system, where SQLite's write-ahead log loses data.
    /// [`allow_network_file_system`](crate::SqliteOptions::allow_network_file_system) opens it all the same.
    #[error("`{path}` lies on {kind}: SQLite's write-ahead log loses data on network file systems")]
    NetworkFileSystem {
        /// The file.
        path: PathBuf,
        /// The file system.
        kind: &'static str,
    },
    /// The file can not be opened or made: its directory is missing, or it is no file, or access is denied.
    #[error("`{path}` can not be opened or made")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file may only be read.
    #[error("`{path}` may only be read: a ledger must be written")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// SQLite can not make its `-wal` and `-shm` files beside the database: the directory admits no new file, or the
    /// disk is full.
    #[error("no write-ahead log can be made beside `{path}`: is its directory read-only, or the disk full?")]
    NoLog {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file is no SQLite database.
    #[error("`{path}` is no SQLite database")]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file is a database of another application.
    #[error("`{path}` is no ledger: {found}")]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        found: String,
    },
    /// The file was written by a newer version of this crate.
    #[error("`{path}` has layout {found}: this version knows layouts up to {supported}")]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The layout of the file.
        found: i64,
        /// The newest layout that this version knows.
        supported: i64,
    },
    /// The ledger's tables or indexes are not those that were installed, or a trigger was put on them.
    #[error("`{path}`: {object} is not what the ledger has installed")]
    AlteredSchema {
        /// The file.
        path: PathBuf,
        /// The table, index or trigger.
        object: String,
    },
    /// A setting can not be had.
    #[error("`{path}`: PRAGMA {name} is {actual}, where {wanted} is needed")]
    Pragma {
        /// The file.
        path: PathBuf,
        /// The setting.
        name: &'static str,
        /// What is needed.
        wanted: String,
        /// What SQLite answered.
        actual: String,
    },
    /// Another connection held the file for as long as the busy time-out allows.
    #[error("`{path}` is locked by another")]
    Busy {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// There is no room for the ledger.
    #[error("no room is left for `{path}`")]
    StorageFull {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A page that was read is damaged, or what stands in it contradicts itself.
    #[error("`{path}` is damaged: {detail}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
        /// SQLite's error, where there was one.
        source: Option<rusqlite::Error>,
    },
    /// The file was replaced while it was being opened.
    #[error("`{path}` was replaced while it was being opened")]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A thread could not be started.
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    /// Anything else: see the source.
    #[error("`{path}` could not be made ready")]
    Other {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}
