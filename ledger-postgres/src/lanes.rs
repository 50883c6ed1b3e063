//! Who waits, lane by lane, and who goes in the next group.
//!
//! The appends of one lease form a lane. At most one call of a lane is on its way: a second one would only wait for the
//! row that the first one holds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use ledger_core::{AcquisitionId, Append, Generation, Holder, Lease, LedgerError, PartitionId};
use tokio::sync::oneshot;

use crate::append::Granted;
use crate::coalesce::Pass;
use crate::group::Group;

/// How many groups are on their way at most. More of them are slower: they share the server's flushes and its cores.
pub(crate) const GROUPS: usize = 2;

/// The most appends of one group: more of them save little, and make all of them wait.
pub(crate) const MEMBERS: usize = 128;

/// So many appends are one group, however few the others are then: it is not worth the price of two.
const FEW: usize = 16;

/// The most appends of one lane in a group, where other lanes wait too: a hot partition leaves room for them.
const SHARE: usize = MEMBERS / 2;

/// The most bytes of one group, kinds, payloads and metadata.
const GROUP_BYTES: usize = 256 * 1024;

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
    pub(crate) fn of(lease: &Lease) -> Self {
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
    pub(crate) answer: oneshot::Sender<Word>,
    number: u64,
}

/// What a group has to say to a member.
#[derive(Debug)]
pub(crate) enum Word {
    Granted(Granted),
    /// Not decided: the single form answers. Where the partition was held, the lane waits for it.
    Alone(Option<Pass>),
    Failed(LedgerError),
}

/// All who wait, and what is on its way.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Those with somebody waiting or on its way.
    pub(crate) lanes: HashMap<Lane, Queue>,
    /// Those whose turn is to come, each once. The group that finds nobody waiting there passes over it.
    ready: VecDeque<Lane>,
    /// The position that the last group of a lease has reached: where the server begins to look for the newest.
    near: HashMap<AcquisitionId, i64>,
    pub(crate) groups: usize,
    /// Groups that came back, and wait for those whom they have answered.
    pub(crate) gathering: usize,
    /// Appends that wait, and those that are in a group on its way.
    pub(crate) waiting: usize,
    pub(crate) flying: usize,
    /// Calls that found nothing on its way.
    pub(crate) lone: usize,
    pub(crate) numbers: u64,
}

/// Who waits in one lane.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) waiting: VecDeque<Member>,
    /// A call of the lane is on its way.
    pub(crate) busy: bool,
    /// The lane stands in `ready`.
    queued: bool,
}

impl Lanes {
    /// Puts an append into its lane's queue.
    pub(crate) fn wait(&mut self, lane: &Lane, append: &Append, number: u64) -> oneshot::Receiver<Word> {
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
    pub(crate) fn withdraw(&mut self, lane: &Lane, number: u64) -> Option<Member> {
        let waiting = &mut self.lanes.get_mut(lane)?.waiting;
        let at = waiting.iter().position(|member| member.number == number)?;
        self.waiting -= 1;
        waiting.remove(at)
    }

    /// Lets a lane go on whose call has ended.
    pub(crate) fn free(&mut self, lane: Lane) {
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

    pub(crate) fn reached(&mut self, acquisition: AcquisitionId, last: i64) {
        if self.near.len() >= MAX_NEAR {
            self.near.clear();
        }
        self.near.insert(acquisition, last);
    }

    /// Whether another group may go; it is counted then. While one gathers, that is the next.
    pub(crate) fn starts(&mut self) -> bool {
        let starts = !self.ready.is_empty() && self.groups < GROUPS && self.gathering == 0;
        self.groups += usize::from(starts);
        starts
    }

    /// The next group, within its bounds. Those on their way at the same time are about as large as one another: a small
    /// one beside a large one would have the price of a group for a few.
    pub(crate) fn take(&mut self) -> Option<Group> {
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
    fn crowd(state: &mut Lanes, count: u64) -> Vec<oneshot::Receiver<Word>> {
        (0..count).map(|number| state.wait(&lane(), &append(), number)).collect()
    }

    #[test]
    fn groups_on_their_way_at_one_time_are_of_one_size() {
        let mut state = Lanes::default();
        let waiting = crowd(&mut state, 60);
        let sizes: Vec<usize> = std::iter::from_fn(|| state.take()).map(|group| group.members.len()).collect();
        assert_eq!(sizes, [30, 30]);
        assert_eq!((state.waiting, state.flying), (0, 60));
        // Those of a small one are no more than a few.
        let mut state = Lanes::default();
        let few = crowd(&mut state, FEW as u64 + 4);
        assert_eq!(state.take().map(|group| group.members.len()), Some(FEW));
        assert_eq!(state.take().map(|group| group.members.len()), Some(4));
        // Those of one lane stay together: its next group waits for this one.
        let (lane, mut state) = (lane(), Lanes::default());
        let one: Vec<_> = (0..60).map(|number| state.wait(&lane, &append(), number)).collect();
        assert_eq!(state.take().map(|group| group.members.len()), Some(60));
        drop((waiting, few, one));
    }

    #[test]
    fn no_group_starts_beside_one_that_gathers() {
        let mut state = Lanes { groups: 1, gathering: 1, ..Lanes::default() };
        let waiting = crowd(&mut state, 2);
        assert!(!state.starts() && state.groups == 1);
        state.gathering = 0;
        assert!(state.starts() && state.groups == 2, "it has gone");
        assert!(!state.starts(), "as many as may be");
        drop(waiting);
    }

    #[test]
    fn who_left_is_not_counted() {
        let mut state = Lanes::default();
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
            let mut state = Lanes { groups: GROUPS, ..Lanes::default() };
            drop(state.wait(&lane, &append(), 0));
            assert!(state.withdraw(&lane, 0).is_some());
            let wait = |state: &mut Lanes, number| state.wait(&lane, &append(), number);
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
        let (lane, mut state) = (lane(), Lanes::default());
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
