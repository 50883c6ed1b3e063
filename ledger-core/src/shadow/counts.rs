//! What a shadow counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Reason;

/// Counters of one shadow, as of one moment (W2). Those of a process; what the store knows is in the
/// [`ShadowReport`](super::ShadowReport).
///
/// Each append that was handed over is in exactly one place: `offered` = `granted` + the sum of `refused` + `unknown` +
/// [`dropped`](Self::dropped) + `waiting`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShadowCounts {
    /// Appends that were handed over.
    pub offered: u64,
    /// Appends that the ledger accepted.
    pub granted: u64,
    /// Appends that it would have refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Appends that were sent, and whose judgement nobody knows: the store failed or did not answer.
    pub unknown: u64,
    /// Appends that were not judged, because there was no room for them.
    pub dropped_full: u64,
    /// Appends that were not judged, because they had become too old.
    pub dropped_old: u64,
    /// Appends that were not judged, because the driver had ended or was dropped.
    pub dropped_undriven: u64,
    /// Appends that wait, and the one that is being judged.
    pub waiting: u64,
    /// Claims that were granted.
    pub claims: u64,
    /// What went wrong last with the store.
    pub trouble: Option<String>,
    /// How long callers were held up, all calls together.
    pub time_lost: Duration,
    /// How long one call was held up at most.
    pub longest: Duration,
    /// How old an append was at most when its judgement was known.
    pub oldest: Duration,
}

impl ShadowCounts {
    /// Appends that were not judged.
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_old + self.dropped_undriven
    }

    /// Appends that would have been refused.
    pub fn would_be_refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Adds the counts of another shadow.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.offered, other.offered),
            (&mut self.granted, other.granted),
            (&mut self.unknown, other.unknown),
            (&mut self.dropped_full, other.dropped_full),
            (&mut self.dropped_old, other.dropped_old),
            (&mut self.dropped_undriven, other.dropped_undriven),
            (&mut self.waiting, other.waiting),
            (&mut self.claims, other.claims),
        ] {
            *sum += more;
        }
        for (reason, count) in &other.refused {
            *self.refused.entry(*reason).or_default() += count;
        }
        if other.trouble.is_some() {
            self.trouble.clone_from(&other.trouble);
        }
        self.time_lost = self.time_lost.saturating_add(other.time_lost);
        self.longest = self.longest.max(other.longest);
        self.oldest = self.oldest.max(other.oldest);
    }

    pub(super) fn held_up(&mut self, time: Duration) {
        self.time_lost = self.time_lost.saturating_add(time);
        self.longest = self.longest.max(time);
    }
}
