//! A real PostgreSQL server for tests and benchmarks.
//!
//! ```no_run
//! use test_postgres::{Options, Wanted};
//!
//! # fn main() -> Result<(), test_postgres::Error> {
//! let server = Options::new(Wanted::OLDEST).start()?; // 0.3 s
//! server.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")?;
//! server.crash()?;
//! server.start()?;
//! assert_eq!(server.value("SELECT n FROM t")?, "1");
//! let url = server.url(); // for a driver
//! # Ok(())
//! # }
//! ```
//!
//! # Where the server comes from
//!
//! The first of these that has the wanted version:
//!
//! 1. [`ENV_URL`], the URL of a running server (`TEST_POSTGRES_URL` where any version will do, `TEST_POSTGRES_URL_15` for 15). Only
//!    [`Shared`] can use one; whoever wants to crash a server gets [`Error::External`].
//! 2. [`ENV_BIN`], folders with `postgres` and `initdb`, separated by `:`.
//! 3. `PATH`.
//! 4. `/usr/lib/postgresql/*/bin`, newest first.
//! 5. What was fetched before, newest first.
//!
//! A test installs nothing. [`FETCH_COMMAND`] does, and the error of a test that finds no server names it.
//!
//! # How it runs
//!
//! As root: as the user `postgres`, or `nobody` where there is none; otherwise as oneself. On a Unix socket in a folder of its own, with
//! no TCP port, so that any number run side by side. A small `sh` supervisor starts it and holds the reading end of a pipe; when the test
//! process is gone, also by `kill -9`, the supervisor kills the server and removes the folder. What would be left: the folder, if the
//! supervisor itself or the whole machine is killed.
//!
//! Linux only: the server's processes are found through `/proc`.
//!
//! # Faults
//!
//! [`Server`] crashes, pauses, kills, restarts and promotes. [`Proxy`] sits on the wire: it counts messages and round trips, and it loses
//! replies, holds requests and cuts connections where the test says. [`Pooler`] is a real PgBouncer in front of a server. [`Clock`] steps the
//! clock of a server that runs.

mod client;
mod error;
mod faketime;
mod fetch;
mod install;
mod pooler;
mod proxy;
mod server;
mod shared;
mod supervisor;
mod user;

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

pub use client::{Client, Row, ServerMessage};
pub use error::Error;
pub use faketime::{Clock, fetch_faketime};
pub use fetch::{Fetched, fetch, fetch_pooler};
pub use install::{Installation, Wanted, cache_folder};
pub use pooler::Pooler;
pub use proxy::{Armed, Counts, Fault, Proxy, Trigger};
pub use server::{Options, Server, Shutdown, Signal};
pub use shared::Shared;

/// Names a running server by its URL; with `_15` at its end, one for tests that ask for 15.
pub const ENV_URL: &str = "TEST_POSTGRES_URL";
/// Names folders with PostgreSQL's programs, separated by `:`.
pub const ENV_BIN: &str = "TEST_POSTGRES_BIN";
/// Names the parent of the throw-away folders.
pub const ENV_FOLDER: &str = "TEST_POSTGRES_TMP";
/// Names the folder that fetched installations are kept in.
pub const ENV_CACHE: &str = "TEST_POSTGRES_CACHE";
/// The command that fetches what the tests need.
pub const FETCH_COMMAND: &str = "cargo run -p test-postgres -- fetch";

/// A short name that no other call in any process gives.
pub(crate) fn unique() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    // RandomState is seeded by the operating system; the rest guards against that changing.
    let hash = RandomState::new().hash_one((std::process::id(), count, SystemTime::now()));
    format!("{:010x}", hash & 0xff_ffff_ffff)
}

pub(crate) fn fresh_name(prefix: &str) -> String {
    format!("{prefix}_{}_{}", std::process::id(), unique())
}

/// A connection string for a server behind a Unix socket.
pub(crate) fn url(folder: &Path, user: &str, database: &str) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let folder: String = folder.as_os_str().as_bytes().iter().map(encode).collect();
    format!("postgresql:///{database}?host={folder}&user={user}")
}
