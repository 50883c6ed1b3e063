use std::io;
use std::path::PathBuf;

use crate::Wanted;
use crate::client::ServerMessage;

/// Why there is no server, or why it did not do what it was told. The messages are for the person who reads a failed test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No installation of the wanted major was found, and a test installs nothing.
    #[error(
        "no PostgreSQL found ({wanted}).\n  Fetch one with:  {}\n  or name one: {}=<folder with `postgres` and `initdb`> \
         (several with `:`), {}=<URL of a running server>.\n  Looked at:{looked_at}",
        crate::FETCH_COMMAND,
        crate::ENV_BIN,
        crate::ENV_URL
    )]
    NotFound {
        /// What was asked for.
        wanted: Wanted,
        /// One line for each place, with what was wrong there.
        looked_at: String,
    },
    /// The environment gives a URL; such a server can be used, not started, crashed or copied.
    #[error("{} gives a server that is not ours to start or crash; unset it, or use `Shared`", crate::ENV_URL)]
    External,
    /// No place for the throw-away folder.
    #[error(
        "no place for the server's folder: it must be writable by user {user} and short enough for a socket path; tried{tried}"
    )]
    NoFolder {
        /// The user the server runs as.
        user: String,
        /// What was tried, and what was wrong with it.
        tried: String,
    },
    /// The server, or a program of its installation, failed; the end of the log is shown.
    #[error("{what} failed\n--- end of the server's log ---\n{log}")]
    Failed {
        /// What was attempted.
        what: String,
        /// The end of the server's log.
        log: String,
    },
    /// The server's process is not running, and the call needs one that does.
    #[error("the server is not running")]
    NotRunning,
    /// Something did not happen in time.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The server answered with an error.
    #[error("PostgreSQL refused")]
    Refused(#[from] ServerMessage),
    /// The connection, a file or a process failed.
    #[error("input or output failed: {what}")]
    Io {
        /// What was attempted.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A program of the system failed or is missing (in `fetch`).
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command line.
        command: String,
        /// The end of what it printed.
        output: String,
    },
    /// The path has no place in a socket address.
    #[error("the socket path {0} is longer than 107 bytes")]
    PathTooLong(PathBuf),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
