//! A clock that is stepped under all processes of a SQLite store: the host's, and what a file says that it is ahead.

use std::path::{Path, PathBuf};

use ledger_core::{Clock, SystemClock, Timestamp};

use crate::Result;

/// Reads the file at each call, as all processes must go by one clock.
#[derive(Debug)]
pub(crate) struct SteppedClock(PathBuf);

impl SteppedClock {
    pub(crate) fn new(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Sets the clock so many seconds ahead of the host's, or behind it.
    pub(crate) fn set(file: &Path, ahead: f64) -> Result<()> {
        // In one move: a reader finds the whole text.
        let new = file.with_extension("new");
        std::fs::write(&new, ahead.to_string())?;
        Ok(std::fs::rename(&new, file)?)
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        let ahead: f64 = std::fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "minutes in microseconds are far from the bounds")]
        let micros = (ahead * 1e6) as i64;
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_add(micros))
    }
}
