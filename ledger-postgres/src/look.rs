//! Appends of tenures that have visibly ended: looked up and refused without the partition's lock (E4).
//!
//! A handle that was told so looks before it asks for a judgement. Those that wait at the same moment are looked up by
//! one statement and counted by another, before they are answered (E3). One look is on its way at a time, driven by a
//! task of its own: a process whose lease is gone may have many writers that do not know it yet. One that waits alone, what
//! a look can not settle, and what surely was not counted, the append's own call answers, which needs no lock for it either.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ledger_core::{
    Append, Failure, FailureKind, Lease, LedgerError, RecordState, Rejection, Standing, Timestamp, decide,
};
use sqlx::postgres::PgRow;
use tokio::sync::oneshot;

use crate::call::{self, Call, Value};
use crate::evidence;
use crate::ledger::Shared;
use crate::row::{Field, Fields};

/// The most appends of one look.
const MEMBERS: usize = 128;

/// The appends that wait for a look.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Member>,
    /// A task looks.
    busy: bool,
}

#[derive(Debug)]
struct Member {
    lease: Lease,
    append: Append,
    answer: Answer,
}

/// Takes the refusal, where the look has settled it.
type Answer = oneshot::Sender<Option<Rejection>>;

/// The refusal of an append whose tenure this handle knows to have ended, counted; `None` where it is to be judged.
pub(crate) async fn refused(
    shared: &Arc<Shared>,
    lease: &Lease,
    append: &Append,
    deadline: Instant,
) -> Option<LedgerError> {
    let (answer, receiver) = oneshot::channel();
    Looks::enter(shared, Member { lease: lease.clone(), append: append.clone(), answer });
    match tokio::time::timeout_at(deadline.into(), receiver).await {
        Ok(Ok(rejection)) => rejection.map(LedgerError::from),
        // The runtime is gone in which it was to be looked up. Nothing of it was counted.
        Ok(Err(_)) => None,
        // Nor is it judged by a call of its own now: its count may be on its way, and it is counted once.
        Err(_) => Some(LedgerError::NotWritten(Failure::new(FailureKind::Busy, "the refusal did not come in time"))),
    }
}

impl Looks {
    fn enter(shared: &Arc<Shared>, member: Member) {
        // Without a runtime the member is dropped, and judged by its own call.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut state = shared.looks.lock();
        state.waiting.push(member);
        let starts = !std::mem::replace(&mut state.busy, true);
        drop(state);
        if starts {
            runtime.spawn(drive(Turn { shared: shared.clone(), ended: false }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The look that is on its way.
struct Turn {
    shared: Arc<Shared>,
    ended: bool,
}

/// Where a runtime ends while it looks: those who wait ask by their own calls.
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            *self.shared.looks.lock() = State::default();
        }
    }
}

impl Turn {
    fn take(&mut self) -> Option<Vec<Member>> {
        let mut state = self.shared.looks.lock();
        state.waiting.retain(|member| !member.answer.is_closed());
        let count = state.waiting.len().min(MEMBERS);
        // Under one lock with the look at the queue: nobody is left waiting.
        self.ended = count == 0;
        state.busy = !self.ended;
        (!self.ended).then(|| state.waiting.drain(..count).collect())
    }
}

async fn drive(mut turn: Turn) {
    while let Some(members) = turn.take() {
        let shared = &turn.shared;
        // One alone is judged by its own call, which is one instead of two.
        let found = if members.len() > 1 { look(shared, &members).await } else { vec![None] };
        let (mut counting, mut repeats) = (Counting(Vec::with_capacity(members.len())), Vec::new());
        for (Member { answer, .. }, rejection) in members.into_iter().zip(found) {
            // The first of its key is recorded by the append's own call.
            match rejection.and_then(|rejection| Some((shared.evidence.repeat(&rejection)?, rejection))) {
                // A caller that is gone is told of no refusal.
                Some(_) if answer.is_closed() => {}
                Some((repeat, rejection)) => {
                    repeats.push(repeat);
                    counting.0.push((answer, rejection));
                }
                None => drop(answer.send(None)),
            }
        }
        if !repeats.is_empty() {
            let record = evidence::count(&shared.runner, repeats).await;
            counting.answer(record.as_ref());
        }
        // Those who were answered come again before the next look.
        tokio::task::yield_now().await;
    }
}

/// Refusals that wait for their count.
struct Counting(Vec<(Answer, Rejection)>);

/// Where a runtime ends while they are counted: they may be counted or not, and are refused all the same.
impl Drop for Counting {
    fn drop(&mut self) {
        let cause = "the runtime ended in which it was counted".to_owned();
        self.answer(Some(&RecordState::Missing { cause }));
    }
}

impl Counting {
    fn answer(&mut self, record: Option<&RecordState>) {
        for (answer, rejection) in self.0.drain(..) {
            // A caller that is gone needs no answer.
            let _ = answer.send(record.map(|record| rejection.with_record(record.clone())));
        }
    }
}

/// The refusals of those that it can settle.
async fn look(shared: &Shared, members: &[Member]) -> Vec<Option<Rejection>> {
    let mut found: Vec<Option<Rejection>> = members.iter().map(|_| None).collect();
    let names = members.iter().map(|member| member.lease.partition.as_str()).collect();
    let ids = members.iter().map(|member| member.append.id().as_uuid()).collect();
    let call = Call { function: &call::LOOK, values: vec![Value::Texts(names), Value::Uuids(ids)] };
    // An error, or a row that can not have been written, is the own call's to tell.
    let Ok(rows) = shared.runner.run(&call, false).await else { return found };
    for row in &rows {
        if let Ok((Some(nth), rejection)) = judged(shared, members, row)
            && let Some(place) = found.get_mut(nth)
        {
            *place = rejection;
        }
    }
    found
}

/// Judges by a row of `look`: the member that it is of, and its refusal if the tenure has visibly ended.
fn judged(shared: &Shared, members: &[Member], row: &PgRow) -> Field<(Option<usize>, Option<Rejection>)> {
    let mut fields = Fields::of(row);
    let nth = usize::try_from(fields.integer()?.wrapping_sub(1)).ok();
    let Some(Member { lease, append, .. }) = nth.and_then(|nth| members.get(nth)) else { return Ok((None, None)) };
    let standing = Standing::new(fields.stored_lease()?, fields.entry_and_last()?);
    let earlier = fields.entry_and_last()?;
    let clock = Timestamp::from_micros(fields.integer()?);
    if !standing.has_visibly_ended(lease.generation) {
        return Ok((nth, None));
    }
    let subject = decide::Subject::new(shared.opened.ledger, &lease.partition, Some(&standing), clock);
    let decision = decide::append(subject, earlier.as_ref(), lease, append);
    Ok((nth, decision.answer.err().map(|rejection| *rejection)))
}
