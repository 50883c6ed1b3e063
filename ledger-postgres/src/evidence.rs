//! The evidence of refused appends (E1 to E3), as far as a handle keeps it in memory.
//!
//! The first record of a key is written by the call that refused it, and durable before the answer. What a handle knows
//! to be stored it counts in memory, and writes the counts twice a second: so a writer that was fenced off and tries
//! again in a loop writes nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger_core::{
    Generation, Holder, LedgerError, Operation, PartitionId, Reason, RecordState, Refused, Rejection, Remark, Timestamp,
};
use tokio::sync::Notify;

use crate::call::{self, Call, Value};
use crate::retry::Runner;

/// Counts are written after this time: with the rest, less than the second that a crash may cost (E3).
const FLUSH: Duration = Duration::from_millis(500);

/// So many partitions are remembered in which a tenure has ended; then all are forgotten.
const MAX_ENDED: usize = 4_096;

/// So many keys are remembered, and so many are counted at a time. With remarks as large as may be, they take 6 MiB.
const MAX_KEYS: usize = 2_048;

/// Of the record of a refused append: the partition and its current generation, and what `rejection_key` is made of.
type Key = (PartitionId, Generation, Reason, Holder, Option<Generation>, Option<Remark>);

/// Repeats that are not written yet.
#[derive(Debug)]
struct Repeats {
    count: i64,
    last_at: Timestamp,
    last: Refused,
}

#[derive(Debug, Default)]
struct State {
    /// Of a partition the greatest generation that this handle was told has visibly ended. A hint: what is stored
    /// decides.
    ended: HashMap<PartitionId, Generation>,
    stored: HashSet<Key>,
    pending: HashMap<Key, Repeats>,
    /// A task is about to write the counts.
    planned: bool,
}

/// What a handle keeps in memory of the evidence.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Whether it learns anything.
    is_on: bool,
    state: Mutex<State>,
    /// One write at a time, so that whoever waits for it knows that all is written.
    writing: tokio::sync::Mutex<()>,
    closing: Notify,
}

impl Evidence {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Whether a tenure is known to have ended, so that its appends are looked up first.
    pub(crate) fn has_ended(&self, partition: &PartitionId, generation: Generation) -> bool {
        self.lock().ended.get(partition).is_some_and(|ended| generation <= *ended)
    }

    /// Learns from a refusal that the server has judged and recorded.
    pub(crate) fn learn(&self, rejection: &Rejection) {
        let Some(generation) = rejection.presented.generation.filter(|_| self.is_on) else { return };
        let mut state = self.lock();
        if matches!(rejection.reason, Reason::StaleGeneration | Reason::Released | Reason::Expired) {
            if state.ended.len() >= MAX_ENDED {
                state.ended.clear();
            }
            let ended = state.ended.entry(rejection.partition.clone()).or_insert(generation);
            *ended = generation.max(*ended);
        }
        // Of what is judged under the lock no repeat is counted here.
        let is_looked_up = state.ended.get(&rejection.partition).is_some_and(|ended| generation <= *ended);
        let is_stored = matches!(rejection.record, RecordState::Stored | RecordState::Counted);
        let Some(key) = Refused::of(rejection).and_then(|refused| key(rejection, &refused)) else { return };
        if is_looked_up && is_stored {
            if state.stored.len() >= MAX_KEYS {
                state.stored.clear();
            }
            state.stored.insert(key);
        }
    }

    /// Counts a refusal whose record is known to be stored, and says whether it was counted.
    pub(crate) fn count(self: &Arc<Self>, rejection: &Rejection, runner: &Arc<Runner>) -> bool {
        let Some(last) = Refused::of(rejection) else { return false };
        let Some(key) = key(rejection, &last) else { return false };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return false };
        let mut state = self.lock();
        if !state.stored.contains(&key) || state.pending.len() >= MAX_KEYS && !state.pending.contains_key(&key) {
            return false;
        }
        add(&mut state.pending, key, Repeats { count: 1, last_at: rejection.judged.time, last });
        let starts = !std::mem::replace(&mut state.planned, true);
        drop(state);
        if starts {
            runtime.spawn(Writer { evidence: self.clone(), runner: runner.clone() }.run());
        }
        true
    }

    /// Writes what is counted by now, and waits for it. Cancel safe: a write that has begun goes on.
    pub(crate) async fn flush(self: &Arc<Self>, runner: &Arc<Runner>) {
        if self.lock().pending.is_empty() && self.writing.try_lock().is_ok() {
            return;
        }
        let (evidence, runner) = (self.clone(), runner.clone());
        // It fails where the runtime ends, and with it all that waits.
        let _ = tokio::spawn(async move { evidence.write(&runner).await }).await;
    }

    /// Where it surely was not written it is kept for the next time.
    async fn write(&self, runner: &Runner) {
        let _one = self.writing.lock().await;
        let counts = std::mem::take(&mut self.lock().pending);
        if counts.is_empty() {
            return;
        }
        let counts: Vec<_> = counts.into_iter().collect();
        match runner.run(&call(&counts), false).await {
            Ok(_) => {}
            Err(LedgerError::NotWritten(_)) => {
                let mut state = self.lock();
                counts.into_iter().for_each(|(key, repeats)| put_back(&mut state.pending, key, repeats));
            }
            // Written or not: counting them again might count them twice.
            Err(error) => tracing::warn!(%error, records = counts.len(), "fenced_ledger.counts_in_doubt"),
        }
    }

    /// The last handle is gone: what is counted is written at once.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts and hints stay whole whatever a holder did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that writes counts while there are any. It holds no handle, and ends soon after the last one.
struct Writer {
    evidence: Arc<Evidence>,
    runner: Arc<Runner>,
}

/// Where a runtime ends while it waits: the next count plans another.
impl Drop for Writer {
    fn drop(&mut self) {
        self.evidence.lock().planned = false;
    }
}

impl Writer {
    async fn run(self) {
        loop {
            let is_last = tokio::select! {
                () = tokio::time::sleep(FLUSH) => false,
                () = self.evidence.closing.notified() => true,
            };
            self.evidence.write(&self.runner).await;
            let mut state = self.evidence.lock();
            if is_last || state.pending.is_empty() {
                // Under one lock with the look at what is counted: nothing stays behind without a task.
                state.planned = false;
                return;
            }
        }
    }
}

fn key(rejection: &Rejection, refused: &Refused) -> Option<Key> {
    // Of appends to what was never claimed there is no tenure that has ended.
    let current = rejection.current.as_ref().filter(|_| refused.operation == Operation::Append)?;
    let of = (rejection.partition.clone(), current.generation);
    Some((of.0, of.1, refused.reason, refused.holder.clone(), refused.generation, refused.remark.clone()))
}

/// Counts later repeats. A time that a stepped-back clock read does not win (E3).
fn add(into: &mut HashMap<Key, Repeats>, key: Key, more: Repeats) {
    match into.get_mut(&key) {
        None => {
            into.insert(key, more);
        }
        Some(repeats) => {
            repeats.count += more.count;
            repeats.last_at = repeats.last_at.max(more.last_at);
            repeats.last = more.last;
        }
    }
}

/// Counts earlier repeats, which were not written: the facts of a later one stay.
fn put_back(into: &mut HashMap<Key, Repeats>, key: Key, earlier: Repeats) {
    match into.get_mut(&key) {
        None => {
            into.insert(key, earlier);
        }
        Some(repeats) => {
            repeats.count += earlier.count;
            repeats.last_at = repeats.last_at.max(earlier.last_at);
        }
    }
}

fn call(counts: &[(Key, Repeats)]) -> Call<'_> {
    let each = || counts.iter();
    let last = || counts.iter().map(|(_, repeats)| &repeats.last);
    let current = || last().filter_map(|last| last.current.as_ref());
    let generation = |generation: Option<Generation>| Some(generation.map_or(0, Generation::get));
    let values = vec![
        Value::Texts(each().map(|((partition, ..), _)| partition.as_str()).collect()),
        Value::Bigs(each().map(|((_, current, ..), _)| Some(current.get())).collect()),
        Value::Texts(last().map(|last| last.reason.as_str()).collect()),
        Value::Texts(last().map(|last| last.holder.as_str()).collect()),
        Value::Bigs(last().map(|last| generation(last.generation)).collect()),
        // No remark is empty.
        Value::Texts(last().map(|last| last.remark.as_ref().map_or("", Remark::as_str)).collect()),
        Value::Uuids(last().map(|last| last.acquisition.as_uuid()).collect()),
        Value::Uuids(last().map(|last| last.append.map_or_else(uuid::Uuid::nil, |id| id.as_uuid())).collect()),
        // A key has a current generation, so each refusal has what is true.
        Value::Texts(current().map(|(holder, ..)| holder.as_str()).collect()),
        Value::Uuids(current().map(|(_, acquisition, _)| acquisition.as_uuid()).collect()),
        Value::Bigs(current().map(|(.., expires_at)| Some(expires_at.as_micros())).collect()),
        Value::Bigs(last().map(|last| Some(last.revision.get().cast_signed())).collect()),
        Value::Bigs(each().map(|(_, repeats)| Some(repeats.last_at.as_micros())).collect()),
        Value::Bigs(each().map(|(_, repeats)| Some(repeats.count)).collect()),
    ];
    Call { function: &call::COUNT_REJECTIONS, values }
}
