//! How much a shadow may take of its writer's memory and time.

use std::time::Duration;

use crate::Invalid;
use crate::keeper::Terms;

/// The bounds of a [`Shadow`](super::Shadow), and the terms on which it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// On which terms it keeps its leases: those on which the writer is to enforce later, so that the trial shows what
    /// they would do. Of its margin nothing is used: a shadow has no trust that could end.
    pub terms: Terms,
    /// How many appends may wait to be judged. 1,024 unless said otherwise.
    pub appends: usize,
    /// How many bytes of kinds, payloads and metadata they may have together. 16 MiB unless said otherwise.
    pub bytes: usize,
    /// How long [`Shadow::append`](super::Shadow::append) may wait for room among them. Not at all unless said
    /// otherwise.
    pub wait: Duration,
    /// How old an append may become before it is judged: what a later judgement says is true of another moment. A third
    /// of the TTL unless said otherwise.
    pub oldest: Duration,
}

impl Limits {
    /// The usual limits on these terms.
    pub fn new(terms: Terms) -> Self {
        let oldest = terms.ttl.as_duration() / 3;
        Self { terms, appends: 1_024, bytes: 16 * 1024 * 1024, wait: Duration::ZERO, oldest }
    }

    /// The same limits, with room for other numbers of appends and of bytes.
    #[must_use]
    pub fn with_room(mut self, appends: usize, bytes: usize) -> Self {
        (self.appends, self.bytes) = (appends, bytes);
        self
    }

    /// The same limits with another time to wait for room.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same limits with another age.
    #[must_use]
    pub fn with_oldest(mut self, oldest: Duration) -> Self {
        self.oldest = oldest;
        self
    }

    /// Checks that anything can be judged: there is room for one append, and it may become older than nothing.
    ///
    /// # Errors
    ///
    /// [`Invalid::OutOfRange`] or [`Invalid::Unusable`] says what does not fit; [`Terms::check`]'s.
    pub fn check(&self) -> Result<(), Invalid> {
        self.terms.check()?;
        for (what, actual) in [("appends that wait for a shadow", self.appends), ("bytes that wait for it", self.bytes)]
        {
            if actual == 0 {
                return Err(Invalid::OutOfRange { what, min: 1, max: i128::from(u64::MAX), actual: 0 });
            }
        }
        if self.oldest.is_zero() {
            let problem = "no append is younger than nothing".to_owned();
            return Err(Invalid::Unusable { what: "age at which a shadow judges no more", problem });
        }
        Ok(())
    }
}

/// The limits on the default [`Terms`].
impl Default for Limits {
    fn default() -> Self {
        Self::new(Terms::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_let_nothing_through_are_refused() {
        let limits = Limits::default();
        assert_eq!(limits.check(), Ok(()));
        assert!(limits.with_room(0, 1).check().is_err() && limits.with_room(1, 0).check().is_err());
        assert!(limits.with_room(1, 1).with_wait(Duration::MAX).check().is_ok());
        assert!(limits.with_oldest(Duration::ZERO).check().is_err());
        let terms = limits.terms.with_renew_every(limits.terms.ttl.as_duration());
        assert!(Limits::new(terms).check().is_err(), "the terms are checked too");
    }
}
