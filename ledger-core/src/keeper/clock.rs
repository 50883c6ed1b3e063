//! The keeper's own clock: one that goes on while the machine is suspended, and timers on it.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use futures_timer::Delay;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};

/// A moment by a [`LocalClock`]: nanoseconds since some start that is the clock's own.
///
/// Two moments can be compared where they come from one clock. They mean nothing to another machine and nothing to a
/// store: no such moment enters a judgement (T1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment so long after the clock's start.
    pub const fn from_start(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's start this is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The moment so much later; stays at the largest moment rather than wrap.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// The moment so much earlier; stays at the start rather than wrap.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How long from `earlier` to this moment; zero where `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clock by which a keeper measures its trust, with timers on it (K1).
///
/// It must never go back, and it must go on while the machine is suspended: plain monotonic time stops then, and a
/// holder that slept past its TTL would still trust itself. Reading it must not block.
pub trait LocalClock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Moment;

    /// Ends when the clock has reached `moment`, or somewhat later; at once where it has already.
    ///
    /// Dropping the future gives the timer up.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;
}

/// What a future gives by `moment`; it is polled at least once.
pub(crate) async fn within<T>(clock: &dyn LocalClock, moment: Moment, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), clock.sleep_until(moment)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// How long a timer of [`BootClock`] sleeps at most before it looks at the clock again: after a suspension, that late
/// it may notice the time.
pub const SLICE: Duration = Duration::from_millis(250);

/// The host's clock that goes on during a suspension; what a keeper uses unless told otherwise.
///
/// - **Linux and Android:** `CLOCK_BOOTTIME`.
/// - **Elsewhere**, the best there is without unsafe code: monotonic time, moved on by as much as the wall clock was
///   ever seen to run ahead of it. A wall clock that is set ahead can only shorten a trust. One that is set back
///   during the very suspension hides as much of it.
///
/// Timers come from `futures-timer`, whose clock stops during a suspension. So they sleep at most [`SLICE`] at a time.
/// An append does not wait for a timer: it reads the clock itself (K6).
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl LocalClock for BootClock {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let part = |value: i64| u64::try_from(value).unwrap_or(0);
        Moment(Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec)))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn now(&self) -> Moment {
        use std::sync::OnceLock;
        use std::time::{Instant, SystemTime};
        static START: OnceLock<(Instant, SystemTime)> = OnceLock::new();
        static AHEAD: Ahead = Ahead::new();
        let (monotonic, wall) = START.get_or_init(|| (Instant::now(), SystemTime::now()));
        AHEAD.now(monotonic.elapsed(), wall.elapsed().unwrap_or_default())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = *self;
        async move {
            loop {
                let left = moment.since(clock.now());
                if left.is_zero() {
                    return;
                }
                Delay::new(left.min(SLICE)).await;
            }
        }
        .boxed()
    }
}

/// Monotonic time, moved on by the most that wall time was ever seen ahead of it.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
#[derive(Debug)]
struct Ahead(std::sync::atomic::AtomicU64);

#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
impl Ahead {
    const fn new() -> Self {
        Self(std::sync::atomic::AtomicU64::new(0))
    }

    fn now(&self, monotonic: Duration, wall: Duration) -> Moment {
        let ahead = u64::try_from(wall.saturating_sub(monotonic).as_nanos()).unwrap_or(u64::MAX);
        let most = self.0.fetch_max(ahead, std::sync::atomic::Ordering::SeqCst).max(ahead);
        Moment(monotonic.saturating_add(Duration::from_nanos(most)))
    }
}

/// A local clock that stands still until a test moves it, and whose timers fire only then. Clones are the same clock.
///
/// One [`advance`](Self::advance) over a long time is a suspension: nothing ran in between.
#[derive(Clone, Debug, Default)]
pub struct ManualLocalClock(Arc<Mutex<Manual>>);

#[derive(Debug, Default)]
struct Manual {
    now: Moment,
    next: u64,
    sleepers: BTreeMap<u64, (Moment, Waker)>,
}

impl ManualLocalClock {
    /// Moves the clock forward and wakes whoever slept until then.
    pub fn advance(&self, by: Duration) {
        let mut manual = self.lock();
        manual.now = manual.now.after(by);
        let now = manual.now;
        let woken = manual.sleepers.extract_if(.., |_, (until, _)| *until <= now);
        let woken: Vec<Waker> = woken.map(|(_, (_, waker))| waker).collect();
        drop(manual);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The moment of the earliest timer that somebody waits for.
    pub fn next_timer(&self) -> Option<Moment> {
        self.lock().sleepers.values().map(|(until, _)| *until).min()
    }

    fn lock(&self) -> MutexGuard<'_, Manual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalClock for ManualLocalClock {
    fn now(&self) -> Moment {
        self.lock().now
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let mut manual = self.lock();
        manual.next += 1;
        Box::pin(Sleep { clock: self.clone(), id: manual.next, until: moment })
    }
}

struct Sleep {
    clock: ManualLocalClock,
    id: u64,
    until: Moment,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut manual = self.clock.lock();
        if manual.now >= self.until {
            return Poll::Ready(());
        }
        manual.sleepers.insert(self.id, (self.until, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_does_not_go_back_and_its_timers_are_not_early() {
        let start = BootClock.now();
        let until = start.after(Duration::from_millis(3));
        futures_executor::block_on(BootClock.sleep_until(until));
        assert!(BootClock.now() >= until);
        futures_executor::block_on(BootClock.sleep_until(start));
    }

    #[test]
    fn elsewhere_a_suspension_is_seen_by_the_wall_clock_and_never_unseen() {
        let (ahead, second) = (Ahead::new(), Duration::from_secs(1));
        assert_eq!(ahead.now(second, second), Moment(second));
        assert_eq!(ahead.now(second, second * 9), Moment(second * 9), "the machine slept for 8 seconds");
        assert_eq!(ahead.now(second * 2, second), Moment(second * 10), "the wall clock was set back");
    }

    #[test]
    fn a_manual_timer_fires_when_the_clock_is_moved_and_not_before() {
        let clock = ManualLocalClock::default();
        let mut sleep = clock.sleep_until(clock.now().after(Duration::from_secs(2)));
        assert!(futures_util::FutureExt::now_or_never(&mut sleep).is_none());
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.next_timer(), Some(Moment::from_start(Duration::from_secs(2))));
        clock.advance(Duration::from_secs(1));
        assert!(futures_util::FutureExt::now_or_never(&mut sleep).is_some());
        drop(sleep);
        assert_eq!(clock.next_timer(), None);
    }
}
