//! What a simulation has done.

use std::time::Duration;

/// Counts of a [`Simulation`](super::Simulation) that found nothing wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Calls that the ledger has got.
    pub calls: u64,
    /// Requests and answers that were lost.
    pub lost: u64,
    /// Requests that came twice.
    pub doubled: u64,
    /// Claims that were granted after another tenure.
    pub takeovers: u64,
    /// Appends that were written.
    pub written: u64,
    /// Appends of a generation that had been followed: all were refused.
    pub stale: u64,
    /// Appends whose outcome a writer did not know. Each was found to be right after a last takeover.
    pub unknown: u64,
    /// Appends that a writer was told to have landed, or never to land, by `fate`.
    pub settled_by_fate: u64,
    /// Requests to another system that were recorded.
    pub requests: u64,
    /// Virtual time for which leases were held.
    pub leased: Duration,
    /// Virtual time in all.
    pub time: Duration,
    /// A hash over every event, in order.
    pub trace: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.takeovers += other.takeovers;
        self.written += other.written;
        self.stale += other.stale;
        self.unknown += other.unknown;
        self.settled_by_fate += other.settled_by_fate;
        self.requests += other.requests;
        self.leased += other.leased;
        self.time += other.time;
        self.trace = self.trace.rotate_left(1) ^ other.trace;
    }
}
