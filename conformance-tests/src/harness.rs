//! What a backend's author writes: how to get a fresh storage, how to open it, and the faults that it can be put to.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::{
    Append, Appended, Clock, FencedLedger, Generation, Holder, Lease, LedgerWitness, ManualClock, PartitionId,
    Position, RequestBook, Timestamp, Witness, Witnessed,
};

use crate::Line;
use crate::book::CoreBook;

/// Why a harness could not do its part. Any error of the backend's fits.
pub type HarnessError = Box<dyn Error + Send + Sync>;

/// Provides storages to run cases on. The one thing that a backend's author has to write, with [`Storage`].
#[async_trait]
pub trait Harness: Send + Sync {
    /// Makes a fresh, empty ledger that nobody else uses: a new file, a new schema. Dropping the storage removes it.
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError>;

    /// Makes a fresh ledger for a case that will [crash](Storage::crash) its store. As
    /// [`provision`](Self::provision), if not said otherwise; who puts many ledgers into one server gives a server of
    /// its own here.
    async fn provision_to_crash(&self) -> Result<Box<dyn Storage>, HarnessError> {
        self.provision().await
    }

    /// Whether cases that count run with their full figures: where the environment has `FENCED_LEDGER_FULL`, if not
    /// said otherwise. A second way into a store that is tested in full may say no.
    fn full(&self) -> bool {
        std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0")
    }
}

/// One storage with one ledger in it.
///
/// Only [`open`](Self::open) must be written. The others are hooks: what is left out is named as a skip in the
/// report, with its reason, and never counted as passed.
#[async_trait]
pub trait Storage: Send + Sync {
    /// Opens another handle on the ledger, as independent of the earlier ones as two processes are: it shares no
    /// connection, cache or lock with them, as far as the backend can do without.
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError>;

    /// The book of requests over a handle. No hook, and not to be written: the core's, which every ledger has. Only who
    /// has another book of the same rules puts it in its place.
    fn book(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn RequestBook> {
        Arc::new(CoreBook(ledger))
    }

    /// A handle that compares its store with a witness. No hook, and not to be written: the core's, as [`book`](Self::book).
    fn witnessed(&self, ledger: Arc<dyn FencedLedger>, witness: Arc<dyn Witness>) -> Arc<dyn FencedLedger> {
        Arc::new(Witnessed::new(ledger, witness))
    }

    /// A witness that keeps its marks in a ledger. No hook, and not to be written: the core's, as [`book`](Self::book).
    fn witness(&self, marks: Arc<dyn FencedLedger>) -> Arc<dyn Witness> {
        Arc::new(LedgerWitness::new(marks, Holder::new("witness").expect("a plain word is a holder's name")))
    }

    /// What a shadow asks. No hook, and not to be written: the handle itself. Only who has another shadow of the same
    /// rules puts it in its place.
    fn shadowed(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn FencedLedger> {
        ledger
    }

    /// The store's clock, where it can be set and stands still between two steps.
    ///
    /// Without it, cases wait for expiry by the store's own clock, and those of exact boundaries and of clock steps
    /// are skipped.
    fn clock(&self) -> Option<&dyn ClockControl> {
        None
    }

    /// Ends everything that keeps the ledger in memory, so that the next [`open`](Self::open) finds only what is
    /// durable. The case has dropped its handles before it calls this.
    async fn restart(&self) -> Hooked<()> {
        Err(HookError::unsupported("the harness does not implement `restart`"))
    }

    /// Takes the store's lock for a partition and changes nothing under it: what a foreign transaction does that
    /// stalls. It may hold more than that partition, but no read may have to wait for it.
    async fn hold_lock(&self, partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        let _ = partition;
        Err(HookError::unsupported("the harness does not implement `hold_lock`"))
    }

    /// Edits what is stored behind the ledger's back, as somebody with the engine's own shell can.
    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        let _ = (partition, edit);
        Err(HookError::unsupported("the harness does not implement `tamper`"))
    }

    /// Ends the store without any of its own endings, while handles are open and calls may be on their way: a kill, or
    /// a loss of power. The next [`open`](Self::open) finds what was durable at that moment.
    ///
    /// A handle that was open before may find the store again, or answer every call with an error; or it goes on with
    /// a copy that nobody sees any more, as long as nothing of it reaches the next handle.
    async fn crash(&self) -> Hooked<()> {
        Err(HookError::unsupported("the harness does not implement `crash`"))
    }

    /// Opens another handle, over a line that can be disturbed. A store within the caller's process has
    /// [`InProcessLine`](crate::InProcessLine).
    async fn line(&self) -> Hooked<Box<dyn Line>> {
        Err(HookError::unsupported("the harness does not implement `line`"))
    }

    /// Makes an append, and holds its commit: when this returns, it is judged and written, and nobody can see it.
    async fn hold_commit(&self, lease: &Lease, append: &Append) -> Hooked<Box<dyn HeldCommit>> {
        let _ = (lease, append);
        Err(HookError::unsupported("the harness does not implement `hold_commit`"))
    }

    /// From now on, until the guard is released, the `nth` write of a row in each transaction of the store fails in the
    /// engine, as on a full disk. Counted from 1.
    async fn fail_write(&self, nth: u32) -> Hooked<Box<dyn LockGuard>> {
        let _ = nth;
        Err(HookError::unsupported("the harness does not implement `fail_write`"))
    }

    /// Takes a copy of the whole ledger as it stands: what a backup is to the engine. Handles may be open, now and when
    /// it is put back.
    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        Err(HookError::unsupported("the harness does not implement `snapshot`"))
    }
}

/// An append that is judged and written, and that nobody can see yet.
#[async_trait]
pub trait HeldCommit: Send {
    /// Lets it commit, and gives its answer.
    async fn commit(self: Box<Self>) -> ledger_core::Result<Appended>;
}

/// A copy of a store, which can be put back.
#[async_trait]
pub trait StoreCopy: Send + Sync {
    /// Puts the store back to just what it was when the copy was taken, under the handles that are open. The clock goes
    /// on.
    async fn restore(&self) -> Result<(), HarnessError>;
}

/// A store's clock in the hands of a case.
#[async_trait]
pub trait ClockControl: Send + Sync {
    /// What the clock shows.
    async fn now(&self) -> Timestamp;

    /// Sets it, forward or back.
    async fn set(&self, time: Timestamp);

    /// Moves it forward.
    async fn advance(&self, by: Duration) {
        self.set(moved(self.now().await, micros(by))).await;
    }

    /// Moves it back.
    async fn step_back(&self, by: Duration) {
        self.set(moved(self.now().await, -micros(by))).await;
    }
}

#[async_trait]
impl ClockControl for ManualClock {
    async fn now(&self) -> Timestamp {
        Clock::now(self)
    }

    async fn set(&self, time: Timestamp) {
        ManualClock::set(self, time);
    }
}

/// A lock or a fault, kept until it is released.
#[async_trait]
pub trait LockGuard: Send {
    /// Ends it. Dropping the guard must let a lock go too, sooner or later.
    async fn release(self: Box<Self>) -> Result<(), HarnessError>;
}

/// An edit of what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// Replaces the payload of an event, without a change of its digest.
    Payload {
        /// The event.
        position: Position,
        /// The new text.
        text: String,
    },
    /// Replaces the metadata of an event.
    Metadata {
        /// The event.
        position: Position,
        /// The new text.
        text: String,
    },
    /// Replaces the kind of an event.
    Kind {
        /// The event.
        position: Position,
        /// The new kind.
        text: String,
    },
    /// Replaces the recorded time of the entry that starts at a position.
    RecordedAt {
        /// The entry's first event.
        position: Position,
        /// The new time.
        time: Timestamp,
    },
    /// Replaces the holder of the entry that starts at a position.
    Holder {
        /// The entry's first event.
        position: Position,
        /// The new holder.
        holder: Holder,
    },
    /// Removes an entry of one event, and closes no gap.
    Remove {
        /// The entry's only event.
        position: Position,
    },
    /// Exchanges kind, payload and metadata of two events.
    Swap {
        /// One event.
        one: Position,
        /// The other.
        other: Position,
    },
    /// Removes all entries that start after a position, and leaves the lease as it is.
    CutTail {
        /// The last position to keep.
        after: Position,
    },
    /// Replaces the holder in the stored lease.
    LeaseHolder {
        /// The new holder.
        holder: Holder,
    },
    /// Says in the stored lease that the tenure goes on, though it was released.
    LeaseUnreleased,
    /// Replaces the generation in the stored lease.
    LeaseGeneration {
        /// The new generation.
        generation: Generation,
    },
    /// Replaces the generation of the entry that starts at a position.
    Generation {
        /// The entry's first event.
        position: Position,
        /// The new generation.
        generation: Generation,
    },
}

/// The result of a hook.
pub type Hooked<T> = Result<T, HookError>;

/// Why a hook did nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum HookError {
    /// The backend has no such thing: the case is skipped.
    Unsupported {
        /// Why, for the report.
        reason: String,
    },
    /// The hook failed: the case fails.
    Failed(HarnessError),
}

impl HookError {
    /// A hook that the backend does not have, and why.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported { reason: reason.into() }
    }
}

impl<E: Into<HarnessError>> From<E> for HookError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A hook of [`Storage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// [`Storage::clock`].
    Clock,
    /// [`Storage::restart`].
    Restart,
    /// [`Storage::hold_lock`].
    HoldLock,
    /// [`Storage::tamper`].
    Tamper,
    /// [`Storage::crash`].
    Crash,
    /// [`Storage::line`].
    Line,
    /// [`Storage::hold_commit`].
    HoldCommit,
    /// [`Storage::fail_write`].
    FailWrite,
    /// [`Storage::snapshot`].
    Snapshot,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Clock,
        Self::Restart,
        Self::HoldLock,
        Self::Tamper,
        Self::Crash,
        Self::Line,
        Self::HoldCommit,
        Self::FailWrite,
        Self::Snapshot,
    ];

    /// The hook's name, as in [`conformance_tests!`](crate::conformance_tests).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Restart => "restart",
            Self::HoldLock => "hold_lock",
            Self::Tamper => "tamper",
            Self::Crash => "crash",
            Self::Line => "line",
            Self::HoldCommit => "hold_commit",
            Self::FailWrite => "fail_write",
            Self::Snapshot => "snapshot",
        }
    }
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn moved(time: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}
