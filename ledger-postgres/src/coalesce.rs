//! Appends that wait at the same moment travel together.
//!
//! No timer: an append that finds nothing on its way goes at once, by the single form and in its caller's own task. Those
//! that come while others are on their way form the next group. Up to [`GROUPS`](crate::lanes::GROUPS) groups are on their way at a time, each
//! driven by a task of its own, so that a caller who leaves takes nobody along. One that came back takes those along whom
//! it has answered and who come again at once, and leaves as many to the other: a group has a price, whatever its size.
//! A group never waits for a lock: where another session holds a partition, one append waits there by the single form, and
//! the others of that partition for it; all other partitions go on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ledger_core::{Append, Appended, Failure, FailureKind, Lease, LedgerError, Result};
use tokio::sync::oneshot;

use crate::group::{self, Group};
use crate::lanes::{Lane, Lanes, MEMBERS, Member, Word};
use crate::ledger::Shared;

/// After so many looks at which nobody new has come, a group goes. Another thread may be about to send.
const STILL: usize = 3;

/// After so many, whoever comes.
const TURNS: usize = 16;

/// An append of more bytes than this has its price in its bytes, and goes alone.
const MEMBER_BYTES: usize = 32 * 1024;

/// The waiting appends.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    state: Mutex<Lanes>,
}

/// How an append goes.
enum Entered {
    Lone(Pass),
    Waits(oneshot::Receiver<Word>, u64),
}

/// A lane's call by the single form; when it is dropped, the lane goes on.
#[derive(Debug)]
pub(crate) struct Pass {
    shared: Arc<Shared>,
    lane: Option<Lane>,
    lone: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.shared.coalescer.lock();
        if self.lone {
            state.lone -= 1;
        }
        if let Some(lane) = self.lane.take() {
            state.free(lane);
        }
        let starts = state.starts();
        drop(state);
        start(starts, &self.shared);
    }
}

/// Appends, together with others where there are any.
pub(crate) async fn append(
    shared: &Arc<Shared>,
    lease: &Lease,
    append: &Append,
    deadline: Instant,
) -> Result<Appended> {
    if append.bytes() > MEMBER_BYTES {
        return shared.append_alone(lease, append, deadline).await;
    }
    let lane = Lane::of(lease);
    let (receiver, number) = match Coalescer::enter(shared, &lane, append) {
        Entered::Waits(receiver, number) => (receiver, number),
        Entered::Lone(pass) => {
            let answer = shared.append_alone(lease, append, deadline).await;
            drop(pass);
            return answer;
        }
    };
    match tokio::time::timeout_at(deadline.into(), receiver).await {
        Ok(Ok(Word::Granted(granted))) => granted.appended(lease, append),
        Ok(Ok(Word::Alone(pass))) => {
            let answer = shared.append_alone(lease, append, deadline).await;
            drop(pass);
            answer
        }
        Ok(Ok(Word::Failed(error))) => Err(error),
        // The runtime that drove it is gone.
        Ok(Err(_)) => {
            Err(LedgerError::Unknown(Failure::new(FailureKind::Closed, "the call was not driven to its end")))
        }
        Err(_) => Err(shared.coalescer.withdraw(&lane, number)),
    }
}

impl Coalescer {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(shared: &Arc<Shared>, lane: &Lane, append: &Append) -> Entered {
        let mut state = shared.coalescer.lock();
        let alone = state.groups == 0 && state.lone == 0;
        let number = state.numbers;
        state.numbers += 1;
        let queue = state.lanes.entry(lane.clone()).or_default();
        if alone && !queue.busy && queue.waiting.is_empty() {
            queue.busy = true;
            state.lone += 1;
            return Entered::Lone(Pass { shared: shared.clone(), lane: Some(lane.clone()), lone: true });
        }
        let receiver = state.wait(lane, append, number);
        let starts = state.starts();
        drop(state);
        start(starts, shared);
        Entered::Waits(receiver, number)
    }

    /// What is told where the time ran out: an append that still waited is taken back.
    fn withdraw(&self, lane: &Lane, number: u64) -> LedgerError {
        match self.lock().withdraw(lane, number) {
            Some(_) => LedgerError::NotWritten(Failure::new(FailureKind::Busy, "the partition was busy for too long")),
            None => crate::classify::timed_out(true).error,
        }
    }
}

/// One of the groups that may be on their way.
struct Turn {
    shared: Arc<Shared>,
    gathers: bool,
    ended: bool,
}

/// Where a runtime ends while it drives.
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            let mut state = self.shared.coalescer.lock();
            state.groups -= 1;
            state.gathering -= usize::from(self.gathers);
        }
    }
}

impl Turn {
    /// A group of so many has come back. Those whom it answers do not start another, but go with its next.
    fn came_back(&mut self, members: usize) -> MutexGuard<'_, Lanes> {
        self.gathers = true;
        let mut state = self.shared.coalescer.lock();
        state.flying -= members;
        state.gathering += 1;
        state
    }

    /// Those who were answered come again before the next group is formed: while some come, and no more of them than a
    /// group takes, other tasks have their turn, so and so often. It waits for no time.
    async fn gather(&mut self) {
        let (mut before, mut still) = (None, 0);
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            let state = self.shared.coalescer.lock();
            let (come, enough) = (Some(state.numbers), state.waiting >= MEMBERS);
            drop(state);
            still = if come == before { still + 1 } else { 0 };
            if enough || still == STILL {
                return;
            }
            before = come;
        }
    }

    fn take(&mut self) -> Option<Group> {
        let mut state = self.shared.coalescer.lock();
        state.gathering -= usize::from(std::mem::take(&mut self.gathers));
        let group = state.take();
        // Under one lock with the look at the queue: nobody is left waiting without a driver.
        if group.is_none() {
            state.groups -= 1;
            self.ended = true;
            return None;
        }
        let starts = state.starts();
        drop(state);
        start(starts, &self.shared);
        group
    }
}

/// Starts a group that was counted. Not under the lock: where the runtime is ending, the task is dropped at once.
fn start(starts: bool, shared: &Arc<Shared>) {
    if !starts {
        return;
    }
    let turn = Turn { shared: shared.clone(), gathers: false, ended: false };
    // Without a runtime, the next append that comes starts one.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(drive(turn));
    }
}

async fn drive(mut turn: Turn) {
    while let Some(group) = turn.take() {
        Sent { turn: &mut turn, group: Some(group) }.run().await;
        turn.gather().await;
    }
}

/// A group on its way. Its lanes go on whatever becomes of it.
struct Sent<'t> {
    turn: &'t mut Turn,
    group: Option<Group>,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            let mut state = self.turn.shared.coalescer.lock();
            state.flying -= group.members.len();
            group.lanes.into_iter().for_each(|lane| state.free(lane));
        }
    }
}

impl Sent<'_> {
    async fn run(&mut self) {
        let Some(group) = &self.group else { return };
        let decided = group::send(&self.turn.shared.runner, group).await;
        let Some(Group { lanes, members, .. }) = self.group.take() else { return };
        let (mut granted, held) = match decided {
            Ok(decided) => (decided.granted, decided.held),
            Err(error) => {
                let mut state = self.turn.came_back(members.len());
                lanes.into_iter().for_each(|lane| state.free(lane));
                drop(state);
                for (_, member) in members {
                    // Surely not written: the single form tries again, and says what the trouble is.
                    let word = match &error {
                        LedgerError::Unknown(_) => Word::Failed(error.clone()),
                        _ => Word::Alone(None),
                    };
                    drop(member.answer.send(word));
                }
                return;
            }
        };
        let mut passes = Vec::new();
        let mut answers = Vec::with_capacity(members.len());
        {
            let mut state = self.turn.came_back(members.len());
            let mut waits: Vec<Option<Lane>> = lanes.into_iter().map(Some).collect();
            let mut behind: Vec<(Lane, Member)> = Vec::new();
            for (nth, (slot, member)) in members.into_iter().enumerate() {
                match granted.get_mut(nth).and_then(Option::take) {
                    Some(granted) => {
                        if let Some(lane) = &waits[slot] {
                            state.reached(lane.acquisition, granted.last);
                        }
                        answers.push((member, Word::Granted(granted)));
                    }
                    // The first of a held lane waits at the server, the others for it.
                    None if held.contains(&slot) => match waits[slot].take() {
                        Some(lane) => passes.push((slot, lane, member)),
                        None => {
                            let lane =
                                passes.iter().find(|(other, ..)| *other == slot).map(|(_, lane, _)| lane.clone());
                            behind.extend(lane.map(|lane| (lane, member)));
                        }
                    },
                    None => answers.push((member, Word::Alone(None))),
                }
            }
            state.waiting += behind.len();
            for (lane, member) in behind.into_iter().rev() {
                state.lanes.entry(lane).or_default().waiting.push_front(member);
            }
            for lane in waits.into_iter().flatten() {
                state.free(lane);
            }
        }
        for (_, lane, member) in passes {
            let pass = Pass { shared: self.turn.shared.clone(), lane: Some(lane), lone: false };
            answers.push((member, Word::Alone(Some(pass))));
        }
        for (member, word) in answers {
            drop(member.answer.send(word));
        }
    }
}
