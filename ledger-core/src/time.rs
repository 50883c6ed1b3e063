//! Time: whole microseconds, read from the store's clock (T1).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use crate::Invalid;

/// A moment by a store's clock: whole microseconds since 1970-01-01T00:00:00Z, negative before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A moment, in microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment plus `ttl`; stays at the largest moment rather than wrap.
    #[must_use]
    pub fn after(self, ttl: Ttl) -> Self {
        Self(self.0.saturating_add(ttl.as_micros()))
    }

    /// How long from `earlier` to this moment; zero where `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// Whole microseconds; the rest is cut off, towards the past.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_nanos().div_ceil(1000)).map_or(i64::MIN, std::ops::Neg::neg)
            }
        };
        Self(micros)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        if time.0 < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        Self(time.as_microsecond())
    }
}

/// Fails for moments outside the years -9999 to 9999.
impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = jiff::Error;
    fn try_from(time: Timestamp) -> Result<Self, jiff::Error> {
        jiff::Timestamp::from_microsecond(time.0)
    }
}

/// RFC 3339 in UTC, or the bare number of microseconds where the calendar does not reach.
impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{} us", self.0),
        }
    }
}

/// How long a lease lasts from its grant or renewal: more than zero and at most 24 hours, in whole
/// microseconds. The default is 3 seconds (T5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Ttl(i64);

impl Ttl {
    /// The longest: 24 hours.
    pub const MAX: Self = Self(24 * 60 * 60 * 1_000_000);

    /// Checks a TTL in microseconds.
    ///
    /// # Errors
    ///
    /// [`Invalid::OutOfRange`] for zero, a negative value, or more than 24 hours.
    pub fn from_micros(micros: i64) -> Result<Self, Invalid> {
        Self::checked(i128::from(micros))
    }

    /// Checks a TTL in milliseconds.
    ///
    /// # Errors
    ///
    /// As [`Ttl::from_micros`].
    pub fn from_millis(millis: i64) -> Result<Self, Invalid> {
        Self::checked(i128::from(millis) * 1000)
    }

    /// The TTL in microseconds.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// The TTL as a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_micros(self.0.unsigned_abs())
    }

    fn checked(micros: i128) -> Result<Self, Invalid> {
        let max = i128::from(Self::MAX.0);
        let refused = Invalid::OutOfRange { what: "TTL in microseconds", min: 1, max, actual: micros };
        if (1..=max).contains(&micros) { i64::try_from(micros).map(Self).map_err(|_| refused) } else { Err(refused) }
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(3_000_000)
    }
}

/// Refuses zero, more than 24 hours, and a fraction of a microsecond: a TTL is never rounded.
impl TryFrom<Duration> for Ttl {
    type Error = Invalid;
    fn try_from(duration: Duration) -> Result<Self, Invalid> {
        let nanoseconds = duration.as_nanos();
        if !nanoseconds.is_multiple_of(1000) {
            return Err(Invalid::FractionOfMicrosecond { what: "TTL", nanoseconds });
        }
        Self::checked(i128::try_from(nanoseconds / 1000).unwrap_or(i128::MAX))
    }
}

impl TryFrom<i64> for Ttl {
    type Error = Invalid;
    fn try_from(micros: i64) -> Result<Self, Invalid> {
        Self::from_micros(micros)
    }
}

impl From<Ttl> for i64 {
    fn from(ttl: Ttl) -> i64 {
        ttl.0
    }
}

/// The clock of a store that has no server of its own (T1).
///
/// A reading may go back; the judgement copes with that (T2). It must not block.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The host's wall clock. Wall and not monotonic, because several processes and restarts share a ledger.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// A clock that stands still until a test moves it, forward or back. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.step(i64::try_from(by.as_micros()).unwrap_or(i64::MAX));
    }

    /// Moves the clock back.
    pub fn step_back(&self, by: Duration) {
        self.step(i64::try_from(by.as_micros()).map_or(i64::MIN, std::ops::Neg::neg));
    }

    fn step(&self, micros: i64) {
        // The closure always returns Some, so the update can not fail.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(micros)));
    }
}

/// Stands at the start of 2020, a moment that no test mistakes for now.
impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Timestamp::from_micros(1_577_836_800_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_more_than_zero_at_most_a_day_and_never_rounded() {
        assert_eq!(Ttl::default().as_duration(), Duration::from_millis(3000));
        assert_eq!(Ttl::try_from(Duration::from_secs(86_400)), Ok(Ttl::MAX));
        for refused in [0, -1, i64::MIN, Ttl::MAX.as_micros() + 1, i64::MAX] {
            assert!(Ttl::from_micros(refused).is_err(), "{refused} us was accepted");
        }
        assert!(Ttl::from_millis(i64::MAX).is_err());
        assert!(Ttl::try_from(Duration::from_nanos(1500)).is_err());
        assert!(Ttl::try_from(Duration::MAX).is_err());
        assert!(serde_json::from_str::<Ttl>("0").is_err());
    }

    #[test]
    fn times_convert_without_loss_at_the_microsecond() {
        for micros in [0, 1, -1, 1_577_836_800_123_456, -62_135_596_800_000_000] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
        assert_eq!(Timestamp::from_micros(1_577_836_800_000_001).to_string(), "2020-01-01T00:00:00.000001Z");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), format!("{} us", i64::MAX));
        assert_eq!(Timestamp::from_micros(i64::MAX).after(Ttl::default()), Timestamp::from_micros(i64::MAX));
        assert_eq!(Timestamp::from_micros(1).since(Timestamp::from_micros(2)), Duration::ZERO);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand_and_is_shared_by_its_clones() {
        let clock = ManualClock::default();
        let (start, other) = (clock.now(), clock.clone());
        other.advance(Duration::from_secs(2));
        assert_eq!(clock.now().since(start), Duration::from_secs(2));
        other.step_back(Duration::from_secs(3));
        assert_eq!(start.since(clock.now()), Duration::from_secs(1));
    }
}
