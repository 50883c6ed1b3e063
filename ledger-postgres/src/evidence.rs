//! Repeats of refused appends (E2, E3): what a handle knows to be stored, and how it counts.
//!
//! The first record of a key is written by the call that refused it, and durable before the answer. Of what a handle
//! knows to be stored it counts all that were refused at the same moment by one call, and answers them after it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger_core::{
    Generation, Holder, LedgerError, Operation, PartitionId, Reason, RecordState, Refused, Rejection, Remark, Timestamp,
};

use crate::call::{self, Call, Value};
use crate::retry::Runner;
use crate::row::Fields;

/// So many partitions are remembered in which a tenure has ended; then all are forgotten.
const MAX_ENDED: usize = 4_096;

/// So many keys are remembered. With remarks as large as may be, they take 6 MiB.
const MAX_KEYS: usize = 2_048;

/// What a handle was told of the evidence. Hints: what is stored decides.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of a partition the greatest generation that this handle was told has visibly ended.
    ended: HashMap<PartitionId, Generation>,
    stored: HashSet<Key>,
}

/// Of the record of a refused append: the partition and its current generation, and what `rejection_key` is made of.
type Key = (PartitionId, Generation, Reason, Holder, Option<Generation>, Option<Remark>);

/// A refusal whose record is known to be stored, or so many of one key with the facts of the last.
#[derive(Debug)]
pub(crate) struct Repeat {
    key: Key,
    count: i64,
    last_at: Timestamp,
    last: Refused,
}

impl Evidence {
    /// Whether a tenure is known to have ended, so that its appends are looked up first.
    pub(crate) fn has_ended(&self, partition: &PartitionId, generation: Generation) -> bool {
        self.lock().has_ended(partition, generation)
    }

    /// Learns from a refusal that the server has judged and recorded.
    pub(crate) fn learn(&self, rejection: &Rejection) {
        let Some(generation) = rejection.presented.generation else { return };
        let mut state = self.lock();
        if matches!(rejection.reason, Reason::StaleGeneration | Reason::Released | Reason::Expired) {
            if state.ended.len() >= MAX_ENDED {
                state.ended.clear();
            }
            let ended = state.ended.entry(rejection.partition.clone()).or_insert(generation);
            *ended = generation.max(*ended);
        }
        let is_stored = matches!(rejection.record, RecordState::Stored | RecordState::Counted);
        // What is judged under the lock is counted by its own call.
        if !is_stored || !state.has_ended(&rejection.partition, generation) {
            return;
        }
        let Some(repeat) = Repeat::of(rejection) else { return };
        if state.stored.len() >= MAX_KEYS {
            state.stored.clear();
        }
        state.stored.insert(repeat.key);
    }

    /// A refusal as one to be counted; `None` where its record is not known to be stored.
    pub(crate) fn repeat(&self, rejection: &Rejection) -> Option<Repeat> {
        Repeat::of(rejection).filter(|repeat| self.lock().stored.contains(&repeat.key))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Hints stay whole whatever a holder did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_ended(&self, partition: &PartitionId, generation: Generation) -> bool {
        self.ended.get(partition).is_some_and(|ended| generation <= *ended)
    }
}

impl Repeat {
    fn of(rejection: &Rejection) -> Option<Self> {
        let last = Refused::of(rejection).filter(|refused| refused.operation == Operation::Append)?;
        // Of appends to what was never claimed there is no tenure that has ended.
        let current = rejection.current.as_ref()?.generation;
        let of = (rejection.partition.clone(), current);
        let key = (of.0, of.1, last.reason, last.holder.clone(), last.generation, last.remark.clone());
        Some(Self { key, count: 1, last_at: rejection.judged.time, last })
    }

    /// Counts a later one of its key. A time that a stepped-back clock read does not win (E3).
    fn add(&mut self, later: Self) {
        self.count += later.count;
        self.last_at = self.last_at.max(later.last_at);
        self.last = later.last;
    }
}

/// Counts refusals, in the order in which they were judged, by one call for all, and says what became of it: `None`
/// where surely none of them was counted.
pub(crate) async fn count(runner: &Runner, repeats: Vec<Repeat>) -> Option<RecordState> {
    let mut sums: HashMap<Key, Repeat> = HashMap::new();
    let expected = i64::try_from(repeats.len()).ok()?;
    for repeat in repeats {
        match sums.entry(repeat.key.clone()) {
            Entry::Occupied(mut sum) => sum.get_mut().add(repeat),
            Entry::Vacant(free) => drop(free.insert(repeat)),
        }
    }
    let sums: Vec<Repeat> = sums.into_values().collect();
    let missing = |cause: String| Some(RecordState::Missing { cause });
    match runner.run(&call(&sums), false).await {
        Ok(rows) => match rows.first().map(|row| Fields::of(row).integer()) {
            Some(Ok(counted)) if counted == expected => Some(RecordState::Counted),
            // As with a pool that leads through a transaction pooler.
            _ => missing("the answer to its count is another call's".to_owned()),
        },
        Err(LedgerError::Unknown(failure)) => missing(format!("whether it was counted is unknown: {failure}")),
        Err(_) => None,
    }
}

fn call(sums: &[Repeat]) -> Call<'_> {
    let each = || sums.iter();
    let last = || each().map(|sum| &sum.last);
    let current = || last().filter_map(|last| last.current.as_ref());
    let generation = |generation: Option<Generation>| Some(generation.map_or(0, Generation::get));
    let values = vec![
        Value::Texts(each().map(|sum| sum.key.0.as_str()).collect()),
        Value::Bigs(each().map(|sum| Some(sum.key.1.get())).collect()),
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
        Value::Bigs(each().map(|sum| Some(sum.last_at.as_micros())).collect()),
        Value::Bigs(each().map(|sum| Some(sum.count)).collect()),
    ];
    Call { function: &call::COUNT_REJECTIONS, values }
}
