//! What a keeper counts.

use std::time::Duration;

use super::end::Loss;
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of a keeper or a pool, over all of its tenures, as of one moment (K11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Claims that were granted.
    pub claims: u64,
    /// Appends that were sent; an append that is settled counts once, however often it is sent.
    pub appends: u64,
    /// Appends that were refused here, because the writer's time had ended or a release had begun.
    pub not_sent: u64,
    /// The least time that was left of the trust when an append was sent.
    pub least_left: Option<Duration>,
    /// All times left when appends were sent, added up: divided by `appends` it is the mean.
    pub total_left: Duration,
    /// Renewals that the store granted.
    pub renewals: u64,
    /// Tries of a renewal that failed or stayed unanswered, and were not refused.
    pub renewals_failed: u64,
    /// Tenures that were released.
    pub releases: u64,
    /// Tenures that were abandoned.
    pub abandoned: u64,
    /// Losses: [`Refused`](Loss::Refused).
    pub lost_refused: u64,
    /// Losses: [`Expired`](Loss::Expired).
    pub lost_expired: u64,
    /// Losses: [`Unrenewed`](Loss::Unrenewed).
    pub lost_unrenewed: u64,
    /// Losses: [`WentBack`](Loss::WentBack) and [`RolledBack`](Loss::RolledBack).
    pub lost_went_back: u64,
    /// Losses: [`Unkept`](Loss::Unkept).
    pub lost_unkept: u64,
}

impl Counts {
    /// All losses.
    pub fn losses(&self) -> u64 {
        self.lost_refused + self.lost_expired + self.lost_unrenewed + self.lost_went_back + self.lost_unkept
    }

    pub(super) fn append(&mut self, left: Duration) {
        self.appends += 1;
        self.total_left = self.total_left.saturating_add(left);
        self.least_left = Some(self.least_left.map_or(left, |least| least.min(left)));
    }

    pub(super) fn loss(&mut self, loss: &Loss) {
        let count = match loss {
            Loss::Refused(_) => &mut self.lost_refused,
            Loss::Expired => &mut self.lost_expired,
            Loss::Unrenewed(_) => &mut self.lost_unrenewed,
            Loss::WentBack { .. } | Loss::RolledBack(_) => &mut self.lost_went_back,
            Loss::Unkept => &mut self.lost_unkept,
        };
        *count += 1;
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Counts>);

impl Counters {
    pub(super) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
