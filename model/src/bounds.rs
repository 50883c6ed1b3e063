//! How far the model goes.

/// The bounds of a run. A model has no end by itself: the clock would go on, and the log would grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a test names every bound")]
pub struct Bounds {
    /// Holders 1 to this.
    pub holders: u8,
    /// The clock shows 0 to this.
    pub clock: u8,
    /// Acquisitions 1 to this.
    pub acquisitions: u8,
    /// Appends have the ids 1 to this.
    pub ids: u8,
    /// Entries of the log, the ledger's own included.
    pub log: usize,
    /// How often an older copy is restored.
    pub restores: u8,
    /// Units of the clock that a grant or renewal lasts.
    pub ttl: u8,
}

impl Bounds {
    /// For every day.
    pub const SMALL: Self = Self { holders: 2, clock: 2, acquisitions: 3, ids: 2, log: 4, restores: 1, ttl: 1 };

    /// For CI: about two million states.
    pub const FULL: Self = Self { log: 6, clock: 3, ..Self::SMALL };

    /// The highest generation: what claims and advances reach, where a restore lets each acquisition be granted again.
    pub fn generations(&self) -> u8 {
        self.acquisitions * (1 + self.restores) + self.restores
    }
}
