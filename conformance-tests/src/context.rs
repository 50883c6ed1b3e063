//! What a case works with: a fresh storage, handles on it, its clock, and shortcuts for the usual steps. A backend's own
//! tests may use the shortcuts too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger_core::{
    Append, AppendId, Claim, Claimed, Event, EventKind, FencedLedger, Generation, Holder, Json, Lease, NewEvent,
    Observation, PageSize, PartitionId, Position, RejectionRecord, RequestBook, Ttl, Witness,
};

use crate::{ClockControl, Edit, HeldCommit, Hook, Line, LockGuard, Stop, Storage, StoreCopy, Violation};

/// How long a case waits for something that must come: far more than any store needs, far less than for ever.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A fresh storage in the hands of a case.
pub struct Context {
    storage: Box<dyn Storage>,
    /// The first handle.
    ledger: Option<Arc<dyn FencedLedger>>,
    full: bool,
}

impl Context {
    pub(crate) async fn new(storage: Box<dyn Storage>, full: bool) -> Result<Self, Stop> {
        let ledger = Some(storage.open().await?);
        Ok(Self { storage, ledger, full })
    }

    /// The first handle. It is the same one at each call, until a restart.
    pub fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.ledger.clone().expect("only `restart` takes the handle, and it puts another in its place")
    }

    /// Another independent handle.
    pub async fn open(&self) -> Result<Arc<dyn FencedLedger>, Stop> {
        Ok(self.storage.open().await?)
    }

    /// The book of requests on the first handle.
    pub fn book(&self) -> Arc<dyn RequestBook> {
        self.book_on(self.ledger())
    }

    /// The book of requests on another handle.
    pub fn book_on(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn RequestBook> {
        self.storage.book(ledger)
    }

    /// Another independent handle, which compares the store with a witness.
    pub async fn witnessed(&self, witness: Arc<dyn Witness>) -> Result<Arc<dyn FencedLedger>, Stop> {
        Ok(self.storage.witnessed(self.open().await?, witness))
    }

    /// A witness that keeps its marks in a ledger.
    pub fn witness(&self, marks: Arc<dyn FencedLedger>) -> Arc<dyn Witness> {
        self.storage.witness(marks)
    }

    /// What a shadow over a handle asks.
    pub(crate) fn shadowed(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn FencedLedger> {
        self.storage.shadowed(ledger)
    }

    /// The clock, or a skip.
    pub fn clock(&self) -> Result<&dyn ClockControl, Stop> {
        let reason = "the store's clock can not be set";
        self.storage.clock().ok_or_else(|| Stop::Skip { hook: Hook::Clock, reason: reason.to_owned() })
    }

    /// Restarts the storage, or skips. All handles must have been dropped; this drops the first one.
    pub async fn restart(&mut self) -> Result<Arc<dyn FencedLedger>, Stop> {
        self.ledger = None;
        let restarted = self.storage.restart().await;
        self.ledger = Some(self.storage.open().await?);
        restarted.map_err(|error| Stop::of_hook(Hook::Restart, error))?;
        Ok(self.ledger())
    }

    /// Holds the store's lock of a partition, or skips.
    pub async fn hold_lock(&self, partition: &PartitionId) -> Result<Box<dyn LockGuard>, Stop> {
        self.storage.hold_lock(partition).await.map_err(|error| Stop::of_hook(Hook::HoldLock, error))
    }

    /// Edits what is stored, or skips.
    pub async fn tamper(&self, partition: &PartitionId, edit: Edit) -> Result<(), Stop> {
        self.storage.tamper(partition, &edit).await.map_err(|error| Stop::of_hook(Hook::Tamper, error))
    }

    /// Crashes the store, or skips. Handles may be open and calls on their way; this drops the first handle.
    pub async fn crash(&mut self) -> Result<Arc<dyn FencedLedger>, Stop> {
        self.ledger = None;
        let crashed = self.storage.crash().await;
        self.ledger = Some(self.storage.open().await?);
        crashed.map_err(|error| Stop::of_hook(Hook::Crash, error))?;
        Ok(self.ledger())
    }

    /// A handle over a line that can be disturbed, or a skip.
    pub async fn line(&self) -> Result<Box<dyn Line>, Stop> {
        self.storage.line().await.map_err(|error| Stop::of_hook(Hook::Line, error))
    }

    /// Makes an append and holds its commit, or skips.
    pub async fn hold_commit(&self, lease: &Lease, append: &Append) -> Result<Box<dyn HeldCommit>, Stop> {
        self.storage.hold_commit(lease, append).await.map_err(|error| Stop::of_hook(Hook::HoldCommit, error))
    }

    /// Lets the `nth` write of each transaction fail, or skips.
    pub async fn fail_write(&self, nth: u32) -> Result<Box<dyn LockGuard>, Stop> {
        self.storage.fail_write(nth).await.map_err(|error| Stop::of_hook(Hook::FailWrite, error))
    }

    /// Takes a copy of the store, or skips.
    pub async fn snapshot(&self) -> Result<Box<dyn StoreCopy>, Stop> {
        self.storage.snapshot().await.map_err(|error| Stop::of_hook(Hook::Snapshot, error))
    }

    /// How often to do something: the smaller figure by day, the full one where `FENCED_LEDGER_FULL` asks for it.
    pub fn scale(&self, by_day: usize, full: usize) -> usize {
        if self.full { full } else { by_day }
    }

    /// A TTL whose end the case means to see: 5 seconds of a clock that it can set, else 1 second of real time.
    pub fn short_ttl(&self) -> Ttl {
        if self.storage.clock().is_some() { seconds(5) } else { seconds(1) }
    }

    /// Lets a lease expire: by setting the clock to its expiry, or by waiting for the store's.
    pub async fn expire(&self, lease: &Lease) -> Result<(), Stop> {
        if let Some(clock) = self.storage.clock() {
            clock.set(lease.expires_at.max(clock.now().await)).await;
            return Ok(());
        }
        let wait = Wait::until("the store's clock reaches the expiry");
        while self.ledger().observe(&lease.partition).await?.judged.time < lease.expires_at {
            wait.a_moment().await?;
        }
        Ok(())
    }
}

/// Waits for something that must end.
///
/// # Errors
///
/// A violation, when [`PATIENCE`] is used up.
#[track_caller]
pub fn in_time<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = Result<T, Violation>> {
    let late = Violation::new(what, format!("not within {PATIENCE:?}"));
    async move { tokio::time::timeout(PATIENCE, future).await.map_err(|_| late) }
}

/// A task of a case, which ends with the case at the latest.
#[derive(Debug)]
pub struct Running<T>(tokio::task::JoinHandle<T>);

impl<T: Send + 'static> Running<T> {
    /// Begins it.
    pub fn start(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    /// What it gives.
    ///
    /// # Errors
    ///
    /// A violation where it does not end in time, or panics.
    #[track_caller]
    pub fn end(mut self, what: &str) -> impl Future<Output = Result<T, Violation>> {
        let late = Violation::new(what, format!("not within {PATIENCE:?}"));
        async move {
            match tokio::time::timeout(PATIENCE, &mut self.0).await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => {
                    Err(Violation { expected: "no panic in a call".to_owned(), seen: error.to_string(), at: late.at })
                }
                Err(_) => Err(late),
            }
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets other tasks run, in a loop that calls a ledger whose answers may be there at once.
pub async fn let_others_run() {
    tokio::task::yield_now().await;
}

/// A bounded wait for something that only real time, or another task, brings about.
#[derive(Debug)]
pub struct Wait<'a> {
    what: &'a str,
    start: Instant,
}

impl<'a> Wait<'a> {
    /// A wait that begins now, and ends when `what` holds.
    pub fn until(what: &'a str) -> Self {
        Self { what, start: Instant::now() }
    }

    /// Waits a moment before the next look.
    ///
    /// # Errors
    ///
    /// A violation, when [`PATIENCE`] is used up.
    #[track_caller]
    pub fn a_moment(&self) -> impl Future<Output = Result<(), Violation>> + Send + use<> {
        let waited = self.start.elapsed();
        let late = (waited > PATIENCE).then(|| Violation::new(self.what, format!("not within {waited:?}")));
        async move {
            // A pause between two looks: what is waited for is the condition, which the caller checks.
            tokio::time::sleep(Duration::from_millis(5)).await;
            late.map_or(Ok(()), Err)
        }
    }
}

/// Runs futures on a task each, begun at the same moment, and gives what they gave, in order.
///
/// # Errors
///
/// A violation, where one panicked.
pub async fn all_at_once<T, F>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>, Stop>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let futures: Vec<F> = futures.into_iter().collect();
    let start = Arc::new(tokio::sync::Barrier::new(futures.len()));
    let tasks: Vec<_> = futures
        .into_iter()
        .map(|future| {
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                future.await
            })
        })
        .collect();
    let mut values = Vec::new();
    for task in tasks {
        values.push(task.await.map_err(|error| Violation::new("no panic in a call", error.to_string()))?);
    }
    Ok(values)
}

/// A copy of a lease with a change in it, as a bug or a forger makes it.
pub fn edited(lease: &Lease, edit: impl FnOnce(&mut Lease)) -> Lease {
    let mut lease = lease.clone();
    edit(&mut lease);
    lease
}

/// The generation after another, or before it.
pub fn shifted(generation: Generation, by: i64) -> Generation {
    Generation::new(generation.get() + by).expect("cases shift within the range")
}

/// A partition's name that is known to be valid.
pub fn partition(name: &str) -> PartitionId {
    PartitionId::new(name).expect("cases use valid names, where they do not test the names")
}

/// A holder's name that is known to be valid.
pub fn holder(name: &str) -> Holder {
    Holder::new(name).expect("cases use valid names, where they do not test the names")
}

/// A TTL of so many seconds.
pub fn seconds(seconds: i64) -> Ttl {
    Ttl::from_millis(seconds * 1000).expect("cases use valid TTLs, where they do not test the TTL")
}

/// A TTL that no case outlives.
pub fn long_ttl() -> Ttl {
    seconds(600)
}

/// A position that is known to be valid.
pub fn at(position: i64) -> Position {
    Position::new(position).expect("cases count positions from 1")
}

/// An event of the kind `noted` whose payload is a JSON string.
pub fn event(note: &str) -> NewEvent {
    event_of(&serde_json::Value::from(note).to_string())
}

/// An event of the kind `noted` whose payload is given as JSON text.
pub fn event_of(json: &str) -> NewEvent {
    let kind = EventKind::new("noted").expect("a plain word is a kind");
    NewEvent::new(kind, Json::new(json).expect("cases write valid JSON, where they do not test it"))
}

/// An append of one event under a new id.
pub fn append(note: &str) -> Append {
    append_as(AppendId::mint(), note)
}

/// An append of one event under a given id.
pub fn append_as(id: AppendId, note: &str) -> Append {
    Append::with_id(id, [event(note)]).expect("one small event is a valid append")
}

/// An append of `count` events.
pub fn batch(count: usize) -> Append {
    let events: Vec<NewEvent> = (0..count).map(|n| event(&n.to_string())).collect();
    Append::new(events).expect("cases use small batches, where they do not test the limits")
}

/// What a claim of a partition by a holder would be, from the state as it is now.
pub async fn prepare_claim(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    name: &str,
    ttl: Ttl,
) -> Result<Claim, Stop> {
    let observed = ledger.observe(partition).await?.observation();
    Ok(Claim::new(partition.clone(), holder(name), ttl, observed))
}

/// Observes and claims.
pub async fn claim(ledger: &dyn FencedLedger, partition: &PartitionId, name: &str, ttl: Ttl) -> Result<Claimed, Stop> {
    let claim = prepare_claim(ledger, partition, name, ttl).await?;
    Ok(ledger.claim(&claim).await?)
}

/// The first claim of a partition, without a look at it.
pub fn first_claim(partition: &PartitionId, name: &str, ttl: Ttl) -> Claim {
    Claim::new(partition.clone(), holder(name), ttl, Observation::NeverClaimed)
}

/// All events of a partition, page by page.
pub async fn read_all(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Vec<Event>, Stop> {
    let mut events = Vec::new();
    let mut from = Some(Position::FIRST);
    while let Some(start) = from {
        let page = ledger.read(partition, start, PageSize::MAX).await?;
        events.extend(page.events);
        if page.next.is_some_and(|next| next <= start) {
            return Err(Violation::new("the next page starts later", format!("{:?} after {start}", page.next)).into());
        }
        from = page.next;
    }
    Ok(events)
}

/// All rejection records of a partition, or of the never-claimed ones, page by page.
pub async fn records(ledger: &dyn FencedLedger, partition: Option<&PartitionId>) -> Result<Vec<RejectionRecord>, Stop> {
    let mut records: Vec<RejectionRecord> = Vec::new();
    let mut after = None;
    loop {
        let page = ledger.rejections(partition, after, PageSize::MAX).await?;
        records.extend(page.records);
        match page.next {
            None => return Ok(records),
            Some(next) if after.is_some_and(|after| next <= after) => {
                return Err(Violation::new("the next page starts later", format!("{next:?}")).into());
            }
            next => after = next,
        }
    }
}
