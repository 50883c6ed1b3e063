//! The terms on which a lease is kept: how long, how often renewed, how far trusted.

use std::time::Duration;

use crate::{Invalid, Ttl};

/// How a keeper keeps a lease. Checked when a [`Keeper`](super::Keeper) is made.
///
/// ```
/// use ledger_core::{Ttl, keeper::Terms};
/// use std::time::Duration;
///
/// let terms = Terms::new(Ttl::from_millis(3_000)?);
/// assert_eq!(terms.renew_every, Duration::from_secs(1));
/// assert_eq!(terms.margin, Duration::from_millis(300));
/// assert_eq!(terms.try_for, Duration::from_millis(500));
///
/// // 2.6 s + 2 x 0.5 s do not fit into 2.7 s of trust: one failed try would be the end.
/// assert!(terms.with_renew_every(Duration::from_millis(2_600)).check().is_err());
/// # Ok::<(), ledger_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// For how long the store is asked to grant (T5).
    pub ttl: Ttl,
    /// By how much trust ends before the grant does. It covers the drift of the local clock against the store's, and
    /// the time that an append needs to get there. A tenth of the TTL unless said otherwise.
    pub margin: Duration,
    /// From the start of one granted request to the next renewal. A third of the TTL unless said otherwise.
    pub renew_every: Duration,
    /// How long one try of a renewal, or of an append that is being settled, may take before it counts as unknown. A
    /// sixth of the TTL unless said otherwise.
    pub try_for: Duration,
}

impl Terms {
    /// The usual terms for a TTL.
    pub fn new(ttl: Ttl) -> Self {
        let whole = ttl.as_duration();
        Self { ttl, margin: whole / 10, renew_every: whole / 3, try_for: whole / 6 }
    }

    /// The same terms with another margin.
    #[must_use]
    pub fn with_margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// The same terms with another interval.
    #[must_use]
    pub fn with_renew_every(mut self, interval: Duration) -> Self {
        self.renew_every = interval;
        self
    }

    /// The same terms with another time for one try.
    #[must_use]
    pub fn with_try_for(mut self, time: Duration) -> Self {
        self.try_for = time;
        self
    }

    /// Checks that one try of a renewal can fail and the next one still come in time (K2):
    /// `renew_every` + 2 x `try_for` fit into `ttl` - `margin`, and none of the three is zero.
    ///
    /// # Errors
    ///
    /// [`Invalid::Unusable`] says which does not fit.
    pub fn check(&self) -> Result<(), Invalid> {
        let unusable = |what, problem| Err(Invalid::Unusable { what, problem });
        if self.renew_every.is_zero() || self.try_for.is_zero() {
            return unusable("terms of a keeper", "the interval and the time of one try are more than zero".to_owned());
        }
        let trust = self.ttl.as_duration().saturating_sub(self.margin);
        let needed = self.renew_every.saturating_add(self.try_for.saturating_mul(2));
        if needed > trust {
            let problem = format!(
                "a renewal every {:?} with two tries of {:?} needs {needed:?}; TTL less margin is {trust:?}: no room \
                 for one failed try",
                self.renew_every, self.try_for
            );
            return unusable("renewal interval", problem);
        }
        Ok(())
    }

    /// How long to wait after a try that failed at once.
    pub(crate) fn pause(&self) -> Duration {
        self.try_for / 4
    }

    /// How long a grant can be trusted at most.
    pub(super) fn longest_trust(&self) -> Duration {
        self.ttl.as_duration().saturating_sub(self.margin)
    }
}

/// The terms for the default TTL of 3 seconds.
impl Default for Terms {
    fn default() -> Self {
        Self::new(Ttl::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_room_for_one_failed_try_is_refused() {
        let terms = Terms::default();
        let (at, over) = (Duration::from_millis(1_700), Duration::from_millis(1_701));
        assert_eq!(terms.with_renew_every(at).check(), Ok(()));
        let refused = terms.with_renew_every(over).check().expect_err("1,701 + 2 x 500 > 2,700 ms");
        assert!(refused.to_string().contains("no room for one failed try"), "{refused}");
        assert!(terms.with_renew_every(terms.ttl.as_duration()).check().is_err(), "the TTL itself");
        assert!(terms.with_margin(terms.ttl.as_duration()).check().is_err(), "nothing is left to trust");
        assert!(terms.with_try_for(Duration::ZERO).check().is_err());
        assert!(terms.with_renew_every(Duration::ZERO).check().is_err());
        assert!(terms.with_margin(Duration::MAX).with_try_for(Duration::MAX).check().is_err(), "no overflow");
        assert!(Terms::new(Ttl::from_micros(1).expect("a TTL")).check().is_ok(), "a third of a microsecond is a time");
        assert_eq!(Terms::new(Ttl::MAX).check(), Ok(()));
    }
}
