//! Appends that wait at the same moment travel together.
//!
//! No timer: an append that finds nothing on its way goes at once, by the single form and in its caller's own task. Those
//! that come while others are on their way form the next group. Up to [`GROUPS`] groups are on their way at a time, each
//! driven by a task of its own, so that a caller who leaves takes nobody along. One that came back takes those along whom
//! it has answered and who come again at once, and leaves as many to the other: a group has a price, whatever its size.
//! A group never waits for a lock: where
//! another session holds a partition, one append waits there by the single form, and the others of that partition for
//! it; all other partitions go on.
//!
//! The appends of one lease form a lane. At most one call of a lane is on its way: a second one would only wait for the
//! row that the first one holds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ledger_core::{
    AcquisitionId, Append, Appended, Failure, FailureKind, Generation, Holder, Lease, LedgerError, PartitionId, Result,
};
use tokio::sync::oneshot;

use crate::append::Granted;
use crate::group::{self, Group};
use crate::ledger::Shared;

/// How many groups are on their way at most. More of them are slower: they share the server's flushes and its cores.
pub(crate) const GROUPS: usize = 2;

/// The most appends of one group: more of them save little, and make all of them wait.
const MEMBERS: usize = 128;

/// So many appends are one group, however few the others are then: it is not worth the price of two.
const FEW: usize = 16;

/// The most appends of one lane in a group, where other lanes wait too: a hot partition leaves room for them.
const SHARE: usize = MEMBERS / 2;

/// After so many looks at which nobody new has come, a group goes. Another thread may be about to send.
const STILL: usize = 3;

/// After so many, whoever comes.
const TURNS: usize = 16;

/// The most bytes of one group, kinds, payloads and metadata.
const GROUP_BYTES: usize = 256 * 1024;

/// An append of more bytes than this has its price in its bytes, and goes alone.
const MEMBER_BYTES: usize = 32 * 1024;

/// Of so many leases it is remembered how far their logs have come; then of none.
const MAX_NEAR: usize = 4_096;

/// Whose append it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) partition: PartitionId,
    pub(crate) holder: Holder,
    pub(crate) generation: Generation,
    pub(crate) acquisition: AcquisitionId,
}

impl Lane {
    fn of(lease: &Lease) -> Self {
        let Lease { partition, holder, generation, acquisition, .. } = lease;
        Self {
            partition: partition.clone(),
            holder: holder.clone(),
            generation: *generation,
            acquisition: *acquisition,
        }
    }
}

/// The acquisition is another one for each lease.
impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.acquisition.hash(state);
    }
}

/// An append that waits for its group's answer.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) append: Append,
    answer: oneshot::Sender<Word>,
    number: u64,
}

/// What a group has to say to a member.
#[derive(Debug)]
enum Word {
    Granted(Granted),
    /// Not decided: the single form answers. Where the partition was held, the lane waits for it.
    Alone(Option<Pass>),
    Failed(LedgerError),
}

/// The waiting appends.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those with somebody waiting or on its way.
    lanes: HashMap<Lane, Queue>,
    /// Those whose turn is to come, each once. The group that finds nobody waiting there passes over it.
    ready: VecDeque<Lane>,
    /// The position that the last group of a lease has reached: where the server begins to look for the newest.
    near: HashMap<AcquisitionId, i64>,
    groups: usize,
    /// Groups that came back, and wait for those whom they have answered.
    gathering: usize,
    /// Appends that wait, and those that are in a group on its way.
    waiting: usize,
    flying: usize,
    /// Calls that found nothing on its way.
    lone: usize,
    numbers: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Member>,
    /// A call of the lane is on its way.
    busy: bool,
    /// The lane stands in `ready`.
    queued: bool,
}

/// How an append goes.
enum Entered {
    Lone(Pass),
    Waits(oneshot::Receiver<Word>, u64),
}

/// A lane's call by the single form; when it is dropped, the lane goes on.
#[derive(Debug)]
struct Pass {
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
    fn lock(&self) -> MutexGuard<'_, State> {
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

impl State {
    /// Puts an append into its lane's queue.
    fn wait(&mut self, lane: &Lane, append: &Append, number: u64) -> oneshot::Receiver<Word> {
        let (answer, receiver) = oneshot::channel();
        let queue = self.lanes.entry(lane.clone()).or_default();
        queue.waiting.push_back(Member { append: append.clone(), answer, number });
        self.waiting += 1;
        if !queue.busy && !std::mem::replace(&mut queue.queued, true) {
            self.ready.push_back(lane.clone());
        }
        receiver
    }

    /// Takes an append back, if it still waits. Its lane keeps its place in `ready`.
    fn withdraw(&mut self, lane: &Lane, number: u64) -> Option<Member> {
        let waiting = &mut self.lanes.get_mut(lane)?.waiting;
        let at = waiting.iter().position(|member| member.number == number)?;
        self.waiting -= 1;
        waiting.remove(at)
    }

    /// Lets a lane go on whose call has ended.
    fn free(&mut self, lane: Lane) {
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        queue.busy = false;
        if queue.queued {
            // Its turn is to come already.
        } else if queue.waiting.is_empty() {
            self.lanes.remove(&lane);
        } else {
            queue.queued = true;
            self.ready.push_back(lane);
        }
    }

    fn reached(&mut self, acquisition: AcquisitionId, last: i64) {
        if self.near.len() >= MAX_NEAR {
            self.near.clear();
        }
        self.near.insert(acquisition, last);
    }

    /// Whether another group may go; it is counted then. While one gathers, that is the next.
    fn starts(&mut self) -> bool {
        let starts = !self.ready.is_empty() && self.groups < GROUPS && self.gathering == 0;
        self.groups += usize::from(starts);
        starts
    }

    /// The next group, within its bounds. Those on their way at the same time are about as large as one another: a small
    /// one beside a large one would have the price of a group for a few.
    fn take(&mut self) -> Option<Group> {
        let mut group = Group::default();
        let (mut ids, mut bytes) = (HashSet::new(), 0);
        let even = (self.waiting + self.flying).div_ceil(GROUPS).max(FEW);
        while let Some(lane) = self.ready.pop_front() {
            if group.members.len() >= even {
                self.ready.push_front(lane);
                break;
            }
            let Some(queue) = self.lanes.get_mut(&lane) else { continue };
            queue.queued = false;
            // Whoever waits there goes on when that call has ended.
            if queue.busy {
                continue;
            }
            let slot = group.lanes.len();
            let most = if self.ready.is_empty() { MEMBERS } else { MEMBERS.min(group.members.len() + SHARE) };
            let mut taken = false;
            while let Some(member) = queue.waiting.front() {
                if member.answer.is_closed() {
                    queue.waiting.pop_front();
                    self.waiting -= 1;
                    continue;
                }
                // No id twice in one call: the second is answered from what the first has written.
                let fits = group.members.len() < most && bytes < GROUP_BYTES;
                if !fits || !ids.insert(member.append.id()) {
                    break;
                }
                bytes += member.append.bytes();
                group.members.extend(queue.waiting.pop_front().map(|member| (slot, member)));
                taken = true;
            }
            if taken {
                queue.busy = true;
                group.near.push(self.near.get(&lane.acquisition).copied().unwrap_or_default());
                group.lanes.push(lane);
            } else if queue.waiting.is_empty() {
                self.lanes.remove(&lane);
            } else {
                queue.queued = true;
                self.ready.push_front(lane);
                break;
            }
        }
        self.waiting -= group.members.len();
        self.flying += group.members.len();
        (!group.members.is_empty()).then_some(group)
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
    fn came_back(&mut self, members: usize) -> MutexGuard<'_, State> {
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

#[cfg(test)]
mod tests {
    use ledger_core::{EventKind, Json, NewEvent};

    use super::*;

    fn append() -> Append {
        let kind = EventKind::new("noted").expect("a kind");
        Append::new([NewEvent::new(kind, Json::new("1").expect("JSON"))]).expect("an append")
    }

    fn lane() -> Lane {
        let (partition, holder) = (PartitionId::new("p").expect("a name"), Holder::new("a").expect("a name"));
        Lane { partition, holder, generation: Generation::FIRST, acquisition: AcquisitionId::mint() }
    }

    /// So many appends wait, each in a lane of its own.
    fn crowd(state: &mut State, count: u64) -> Vec<oneshot::Receiver<Word>> {
        (0..count).map(|number| state.wait(&lane(), &append(), number)).collect()
    }

    #[test]
    fn groups_on_their_way_at_one_time_are_of_one_size() {
        let mut state = State::default();
        let waiting = crowd(&mut state, 60);
        let sizes: Vec<usize> = std::iter::from_fn(|| state.take()).map(|group| group.members.len()).collect();
        assert_eq!(sizes, [30, 30]);
        assert_eq!((state.waiting, state.flying), (0, 60));
        // Those of a small one are no more than a few.
        let mut state = State::default();
        let few = crowd(&mut state, FEW as u64 + 4);
        assert_eq!(state.take().map(|group| group.members.len()), Some(FEW));
        assert_eq!(state.take().map(|group| group.members.len()), Some(4));
        // Those of one lane stay together: its next group waits for this one.
        let (lane, mut state) = (lane(), State::default());
        let one: Vec<_> = (0..60).map(|number| state.wait(&lane, &append(), number)).collect();
        assert_eq!(state.take().map(|group| group.members.len()), Some(60));
        drop((waiting, few, one));
    }

    #[test]
    fn no_group_starts_beside_one_that_gathers() {
        let mut state = State { groups: 1, gathering: 1, ..State::default() };
        let waiting = crowd(&mut state, 2);
        assert!(!state.starts() && state.groups == 1);
        state.gathering = 0;
        assert!(state.starts() && state.groups == 2, "it has gone");
        assert!(!state.starts(), "as many as may be");
        drop(waiting);
    }

    #[test]
    fn who_left_is_not_counted() {
        let mut state = State::default();
        let mut waiting = crowd(&mut state, 3);
        drop(waiting.pop());
        assert_eq!(state.take().map(|group| group.members.len()), Some(2));
        assert_eq!((state.waiting, state.flying), (0, 2));
    }

    #[test]
    fn a_lane_whose_only_member_ran_out_of_time_stands_in_a_group_once() {
        let lane = lane();
        // A few, and more than a group takes of a lane while others seem to wait.
        for count in [SHARE / 2, MEMBERS] {
            let mut state = State { groups: GROUPS, ..State::default() };
            drop(state.wait(&lane, &append(), 0));
            assert!(state.withdraw(&lane, 0).is_some());
            let wait = |state: &mut State, number| state.wait(&lane, &append(), number);
            let waiting: Vec<_> = (1..=count as u64).map(|number| wait(&mut state, number)).collect();
            let mut sent = 0;
            while let Some(group) = state.take() {
                assert_eq!(group.lanes, std::slice::from_ref(&lane), "two calls would write at one position");
                assert!(state.lanes.get(&lane).is_some_and(|queue| queue.busy), "it is on its way");
                assert!(state.take().is_none());
                sent += group.members.len();
                state.free(lane.clone());
                assert!(state.ready.len() <= 1, "{:?}", state.ready);
            }
            assert_eq!(sent, waiting.len());
            assert!(state.lanes.is_empty() && state.ready.is_empty());
        }
    }

    #[test]
    fn a_lane_whose_lone_call_is_on_its_way_is_passed_over() {
        let (lane, mut state) = (lane(), State::default());
        drop(state.wait(&lane, &append(), 0));
        assert!(state.withdraw(&lane, 0).is_some());
        // The place in `ready` is left over, and the lone call finds nobody waiting.
        state.lanes.get_mut(&lane).expect("it is ready").busy = true;
        let _waiting = [1, 2].map(|number| state.wait(&lane, &append(), number));
        assert!(state.take().is_none(), "two calls of a lane");
        state.free(lane.clone());
        assert_eq!(state.take().map(|group| group.members.len()), Some(2));
    }
}
