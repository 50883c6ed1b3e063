//! The evidence of what was refused (E1 to E3), as far as a handle keeps it in memory.
//!
//! The first record of a key is written with the group that refused it, and durable before the answer. What a handle
//! knows to be stored it counts in memory, and writes the counts twice a second: so a writer that was fenced off and
//! tries again in a loop costs no write and no lock.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger_core::{
    Generation, MAX_RECORD_KEYS, PartitionId, RecordSlot, RecordState, Refused, Rejection, RejectionRecord, Remark,
    Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::classify::Trouble;
use crate::row::{self, Place, RecordKey};
use crate::statement;

/// Counts are written after this time: with the rest, less than the second that a crash may cost (E3).
pub(crate) const FLUSH: Duration = Duration::from_millis(500);

/// So many budgets are remembered; then all are forgotten and read again where they are needed. With every key and
/// remark as large as may be, one takes 0.7 MiB.
const MAX_BUDGETS: usize = 128;

/// So many records that could not be written wait for a better time.
const MAX_OWED: usize = 256;

/// Whose keys are bounded together: a partition under its current generation, or all never-claimed ones (`None`).
type Budget = Option<(PartitionId, Generation)>;

/// The key of a record within its budget. The never-claimed ones share one, so the partition is part of it.
type Key = (PartitionId, RecordKey);

/// What is known to be stored of a budget: all of its keys, as of the moment of a look at it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    scope: i64,
    slots: HashMap<Key, u16>,
    /// The greatest slot.
    last: u16,
    has_overflow: bool,
}

/// Repeats that are not written yet.
#[derive(Clone, Debug)]
struct Repeats {
    count: u64,
    last_at: Timestamp,
    last: Box<Rejection>,
}

impl Repeats {
    fn of(rejection: Box<Rejection>, count: u64) -> Self {
        Self { count, last_at: rejection.judged.time, last: rejection }
    }
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Budget, Known>,
    pending: HashMap<Place, Repeats>,
    /// Those that a transaction under way writes; with the count that the record then has.
    in_flight: HashMap<Place, (Repeats, u64)>,
    /// Refusals whose record is still to be written, with how many of them there were.
    owed: VecDeque<(Rejection, u64)>,
}

/// What a handle keeps in memory of the evidence.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    state: Mutex<State>,
    /// How often counts have moved from memory to the file.
    moves: AtomicU64,
}

/// What a group found out, to be believed when it is committed.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A budget as it is stored.
    Learn(Budget, Known),
    /// So many more refusals of a stored record, the last of which is this.
    Count(Place, Box<Rejection>, u64),
}

impl Evidence {
    /// Where a refusal is to be counted, if this handle knows that its record is stored.
    pub(crate) fn place(&self, rejection: &Rejection, refused: &Refused) -> Option<Place> {
        let budget = budget(rejection);
        let state = self.lock();
        place(state.known.get(&budget)?, &budget, &key(rejection, refused))
    }

    /// Counts a refusal whose record is known to be stored. Says whether a write of counts is now to be planned.
    pub(crate) fn count(&self, place: Place, rejection: &Rejection) -> bool {
        let mut state = self.lock();
        let is_first = state.pending.is_empty();
        add(&mut state.pending, place, Repeats::of(Box::new(rejection.clone()), 1));
        is_first
    }

    /// Believes what a committed group found out.
    pub(crate) fn apply(&self, effects: Vec<Effect>) {
        let mut state = self.lock();
        for effect in effects {
            match effect {
                Effect::Learn(budget, known) => {
                    if state.known.len() >= MAX_BUDGETS {
                        state.known.clear();
                    }
                    state.known.insert(budget, known);
                }
                Effect::Count(place, rejection, count) => {
                    add(&mut state.pending, place, Repeats::of(rejection, count));
                }
            }
        }
    }

    /// Keeps refusals whose record could not be written, to write it later.
    pub(crate) fn owe(&self, rejection: Rejection, count: u64) {
        owe(&mut self.lock(), rejection, count);
    }

    /// Takes what is owed.
    pub(crate) fn take_owed(&self) -> VecDeque<(Rejection, u64)> {
        std::mem::take(&mut self.lock().owed)
    }

    /// Whether something waits to be written.
    pub(crate) fn has_pending(&self) -> bool {
        let state = self.lock();
        !state.pending.is_empty() || !state.owed.is_empty()
    }

    /// Writes all counts, in the transaction of the connection. When that has ended comes [`Evidence::moved`].
    pub(crate) fn write_counts(&self, connection: &Connection) -> Result<(), Trouble> {
        let counts: Vec<_> = {
            let state = self.lock();
            state.pending.iter().map(|(place, repeats)| (*place, repeats.clone())).collect()
        };
        for (place, repeats) in counts {
            let then = write_repeats(connection, place, &repeats)?;
            let mut state = self.lock();
            // What was counted since stays.
            if let Some(now) = state.pending.get_mut(&place) {
                now.count -= repeats.count;
                if now.count == 0 {
                    state.pending.remove(&place);
                }
            }
            match then {
                Some(then) => drop(state.in_flight.insert(place, (repeats, then))),
                // The file was restored from a copy that has not come so far: its record is to be written anew.
                None => {
                    state.known.remove(&budget(&repeats.last));
                    owe(&mut state, *repeats.last, repeats.count);
                }
            }
        }
        Ok(())
    }

    /// The transaction has ended: the counts are stored, or are pending again.
    pub(crate) fn moved(&self, is_committed: bool) {
        let mut state = self.lock();
        let in_flight = std::mem::take(&mut state.in_flight);
        if !is_committed {
            for (place, (repeats, _)) in in_flight {
                put_back(&mut state.pending, place, repeats);
            }
        }
        self.moves.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of moves so far: a reader that finds it changed reads again.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Adds to a record, as it is stored, what this handle has counted since.
    pub(crate) fn add_pending(&self, place: Place, record: &mut RejectionRecord) {
        let state = self.lock();
        // Stored under the write lock, so a record shows it or has a smaller count.
        let moving = state.in_flight.get(&place).filter(|(_, then)| record.count < *then).map(|(repeats, _)| repeats);
        for repeats in [moving, state.pending.get(&place)].into_iter().flatten() {
            record.count += repeats.count;
            record.last_at = record.last_at.max(repeats.last_at);
            if record.refused.is_some() {
                record.refused = Refused::of(&repeats.last);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts and caches stay whole whatever a holder did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the record of so many refusals, under the lock: the first of its key, or more of it. `scope` is the
/// partition's key.
pub(crate) fn store(
    connection: &Connection,
    scope: i64,
    (rejection, count): (&Rejection, u64),
    refused: &Refused,
    effects: &mut Vec<Effect>,
) -> Result<RecordState, Trouble> {
    let budget = budget(rejection);
    let mut known = look(connection, scope, &budget)?;
    let key = key(rejection, refused);
    if let Some(place) = place(&known, &budget, &key) {
        effects.push(Effect::Learn(budget, known));
        effects.push(Effect::Count(place, Box::new(rejection.clone()), count));
        return Ok(RecordState::Counted);
    }
    let number = known.last.saturating_add(1);
    let overflows = number > MAX_RECORD_KEYS;
    let name = (!overflows || budget.is_some()).then(|| rejection.partition.as_str());
    let stored = (!overflows).then_some(refused);
    let columns = RefusedColumns::of(stored);
    let kept = KeyColumns::of(stored);
    connection.prepare_cached(statement::INSERT_RECORD)?.execute(params![
        scope,
        generation_column(&budget),
        number,
        name,
        kept.operation,
        kept.reason,
        kept.holder,
        kept.presented,
        kept.remark,
        columns.acquisition,
        columns.append,
        columns.current_holder,
        columns.current_acquisition,
        columns.current_expires_at,
        columns.revision,
        rejection.judged.time.as_micros(),
    ])?;
    known.last = number;
    if overflows {
        known.has_overflow = true;
    } else {
        known.slots.insert(key, number);
    }
    let place = Place { scope, generation: generation_column(&budget), slot: number };
    effects.push(Effect::Learn(budget, known));
    if count > 1 {
        effects.push(Effect::Count(place, Box::new(rejection.clone()), count - 1));
    }
    Ok(if overflows { RecordState::Counted } else { RecordState::Stored })
}

/// Adds repeats to a stored record. Its count then; `None` where that record is not there.
fn write_repeats(connection: &Connection, place: Place, repeats: &Repeats) -> Result<Option<u64>, Trouble> {
    // The overflow record only counts (E3).
    let refused = Refused::of(&repeats.last).filter(|_| place.slot != RecordSlot::OVERFLOW);
    let columns = RefusedColumns::of(refused.as_ref());
    let key = KeyColumns::of(refused.as_ref());
    let name = refused.as_ref().filter(|_| place.scope == 0).map(|_| repeats.last.partition.as_str());
    let mut statement = connection.prepare_cached(statement::COUNT_RECORD)?;
    let written = params![
        place.scope,
        place.generation,
        place.slot,
        repeats.count.cast_signed(),
        repeats.last_at.as_micros(),
        columns.acquisition,
        columns.append,
        columns.current_holder,
        columns.current_acquisition,
        columns.current_expires_at,
        columns.revision,
        key.operation,
        key.reason,
        key.holder,
        key.presented,
        key.remark,
        name,
    ];
    let then: Option<i64> = statement.query_row(written, |row| row.get(0)).optional()?;
    Ok(then.map(i64::cast_unsigned))
}

/// Reads what is stored of a budget.
fn look(connection: &Connection, scope: i64, budget: &Budget) -> Result<Known, Trouble> {
    let mut statement = connection.prepare_cached(statement::RECORDS_OF_BUDGET)?;
    let mut rows = statement.query(params![scope, generation_column(budget)])?;
    let mut known = Known { scope, ..Known::default() };
    while let Some(found) = rows.next()? {
        let (slot, partition, key) = row::budget_row(found).map_err(|bad| bad.at(None, None))?;
        known.last = slot;
        match (partition, key) {
            (Some(partition), Some(key)) => {
                known.slots.insert((partition, key), slot);
            }
            _ => known.has_overflow |= slot == RecordSlot::OVERFLOW,
        }
    }
    Ok(known)
}

fn place(known: &Known, budget: &Budget, key: &Key) -> Option<Place> {
    let overflow = known.has_overflow.then_some(RecordSlot::OVERFLOW);
    let slot = known.slots.get(key).copied().or(overflow)?;
    Some(Place { scope: known.scope, generation: generation_column(budget), slot })
}

fn budget(rejection: &Rejection) -> Budget {
    rejection.current.as_ref().map(|current| (rejection.partition.clone(), current.generation))
}

fn key(rejection: &Rejection, refused: &Refused) -> Key {
    let key = (refused.operation, refused.reason, refused.holder.clone(), refused.generation, refused.remark.clone());
    (rejection.partition.clone(), key)
}

fn generation_column(budget: &Budget) -> i64 {
    budget.as_ref().map_or(0, |(_, generation)| generation.get())
}

/// Counts later repeats. A time that a stepped-back clock read does not win (E3).
fn add(into: &mut HashMap<Place, Repeats>, place: Place, more: Repeats) {
    match into.get_mut(&place) {
        None => {
            into.insert(place, more);
        }
        Some(repeats) => {
            repeats.count += more.count;
            repeats.last_at = repeats.last_at.max(more.last_at);
            repeats.last = more.last;
        }
    }
}

/// Counts earlier repeats, which were not written: the facts of a later one stay.
fn put_back(into: &mut HashMap<Place, Repeats>, place: Place, earlier: Repeats) {
    match into.get_mut(&place) {
        None => {
            into.insert(place, earlier);
        }
        Some(repeats) => {
            repeats.count += earlier.count;
            repeats.last_at = repeats.last_at.max(earlier.last_at);
        }
    }
}

fn owe(state: &mut State, rejection: Rejection, count: u64) {
    if state.owed.len() < MAX_OWED {
        state.owed.push_back((rejection, count));
    }
}

/// The key of a record, as columns; of the overflow record, none.
#[derive(Default)]
struct KeyColumns<'a> {
    operation: Option<&'a str>,
    reason: Option<&'a str>,
    holder: Option<&'a str>,
    presented: Option<i64>,
    remark: Option<&'a str>,
}

impl<'a> KeyColumns<'a> {
    fn of(refused: Option<&'a Refused>) -> Self {
        let Some(refused) = refused else { return Self::default() };
        Self {
            operation: Some(refused.operation.as_str()),
            reason: Some(refused.reason.as_str()),
            holder: Some(refused.holder.as_str()),
            presented: Some(refused.generation.map_or(0, Generation::get)),
            remark: refused.remark.as_ref().map(Remark::as_str),
        }
    }
}

/// The facts of a record's last refusal, as columns.
#[derive(Default)]
struct RefusedColumns<'a> {
    acquisition: Option<[u8; 16]>,
    append: Option<[u8; 16]>,
    current_holder: Option<&'a str>,
    current_acquisition: Option<[u8; 16]>,
    current_expires_at: Option<i64>,
    revision: Option<i64>,
}

impl<'a> RefusedColumns<'a> {
    fn of(refused: Option<&'a Refused>) -> Self {
        let Some(refused) = refused else { return Self::default() };
        let current = refused.current.as_ref();
        Self {
            acquisition: Some(*refused.acquisition.as_uuid().as_bytes()),
            append: refused.append.map(|id| *id.as_uuid().as_bytes()),
            current_holder: current.map(|(holder, ..)| holder.as_str()),
            current_acquisition: current.map(|(_, acquisition, _)| *acquisition.as_uuid().as_bytes()),
            current_expires_at: current.map(|(.., expires_at)| expires_at.as_micros()),
            revision: Some(refused.revision.get().cast_signed()),
        }
    }
}
