//! A small ledger on `ledger_core::decide`, with a switch for each bug. Without a bug it passes every case.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger_core::decide::{self, Decision, Subject, Write};
use ledger_core::{
    Append, AppendId, Appended, Clock, Entry, Event, Failure, FailureKind, Generation, Lease, LedgerError, LedgerId,
    PageSize, PartitionId, Position, RecordState, Rejection, Result, Room, Standing, judge,
};

use crate::bugs::{Bug, Call};
use crate::disk::{Disk, Lost, Part, State};
use crate::records::Records;

/// A handle.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) disk: Arc<Disk>,
    /// The lease that this handle believes in, where a bug lets it.
    pub(crate) believed: Mutex<Option<Lease>>,
    /// The logs as this handle read them first, where a bug lets it.
    pub(crate) snapshots: Mutex<BTreeMap<PartitionId, Vec<Event>>>,
    /// The identity that this handle gives to the ledger, where a bug lets it.
    pub(crate) identity: LedgerId,
    /// How many partitions there were when this handle claimed last.
    pub(crate) partitions: AtomicUsize,
}

/// A bug alone does something here.
impl Drop for Reference {
    fn drop(&mut self) {
        if self.disk.has(Bug::CloseTakesTheLastEntry) {
            for part in self.disk.state().parts.values_mut().filter(|part| part.log.len() > 1) {
                part.log.pop();
                part.standing.tip = part.log.last().map(|(entry, _)| entry.clone());
            }
        }
    }
}

/// The writers' lock in the hands of a call, which may be dropped.
struct Holding<'a> {
    guard: Option<tokio::sync::MutexGuard<'a, ()>>,
    is_kept: bool,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            std::mem::forget(self.guard.take());
        }
    }
}

impl Reference {
    pub(crate) fn open(disk: Arc<Disk>) -> Self {
        let identity = if disk.has(Bug::IdentityOfEachHandle) { LedgerId::mint() } else { disk.id };
        Self {
            disk,
            believed: Mutex::default(),
            snapshots: Mutex::default(),
            identity,
            partitions: AtomicUsize::new(0),
        }
    }

    pub(crate) fn name(&self, partition: &PartitionId) -> PartitionId {
        if self.disk.has(Bug::NamesFolded) {
            return PartitionId::new(partition.as_str().to_lowercase()).unwrap_or_else(|_| partition.clone());
        }
        partition.clone()
    }

    /// A call on its way to the store, over a line that a bug lets lie.
    pub(crate) async fn judged<A>(
        &self,
        partition: &PartitionId,
        call: Call<'_>,
        decide: impl Fn(Subject<'_>, Option<&Part>) -> Decision<A>,
    ) -> Result<A> {
        let lost = self.disk.losing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let refused = || {
            let (presented, judged) = (ledger_core::Presented::default(), judge::judged(None, self.disk.clock.now()));
            let (reason, operation) = (ledger_core::Reason::PositionConflict, ledger_core::Operation::Append);
            Rejection::new(reason, operation, partition.clone(), presented, None, None, judged).into()
        };
        match lost {
            None => self.judged_in_the_store(partition, call, decide).await,
            Some(Lost::Request) => Err(refused()),
            Some(Lost::Reply) => {
                drop(self.judged_in_the_store(partition, call, decide).await);
                Err(refused())
            }
        }
    }

    /// Judges a call and does what was decided: in one step under the writers' lock, but for the bugs.
    async fn judged_in_the_store<A>(
        &self,
        partition: &PartitionId,
        call: Call<'_>,
        decide: impl Fn(Subject<'_>, Option<&Part>) -> Decision<A>,
    ) -> Result<A> {
        let disk = &self.disk;
        let name = self.name(partition);
        // A tenure that has visibly ended is refused without the lock (E4).
        if let (Some(lease), false) = (call.lease(), disk.has(Bug::RefusalsQueueForTheLock)) {
            let mut state = disk.state();
            let ended = |part: &Part| part.standing.has_visibly_ended(lease.generation);
            if state.parts.get(&name).is_some_and(ended) {
                let decision = self.decide(&state, &name, call, disk.clock.now(), &decide);
                if decision.answer.is_err() {
                    return self.apply(&mut state, &name, decision);
                }
            }
        }
        let before_lock = disk.clock.now();
        if disk.has(Bug::BusyAtOnce) && disk.writer.try_lock().is_err() {
            return Err(LedgerError::NotWritten(Failure::new(FailureKind::Busy, "locked")));
        }
        let mut held = Holding { guard: Some(disk.writer.lock().await), is_kept: false };
        if matches!(disk.bug, Some(Bug::LockKeptByADroppedCall | Bug::BusyAtOnce)) {
            held.is_kept = disk.has(Bug::LockKeptByADroppedCall);
            tokio::task::yield_now().await;
            held.is_kept = false;
        }
        if disk.has(Bug::ObservedInTwoSteps) {
            // Slow enough that an observer looks many times while a case writes.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let clock = if disk.has(Bug::ClockReadBeforeTheLock) { before_lock } else { disk.clock.now() };
        let decision = self.decide(&disk.state(), &name, call, clock, &decide);
        if disk.has(Bug::CheckAndWriteInTwoSteps) {
            held.guard = None;
            tokio::task::yield_now().await;
            held.guard = Some(disk.writer.lock().await);
        }
        let decision = self.tear(&name, decision).await;
        self.apply(&mut disk.state(), &name, decision)
    }

    fn decide<A>(
        &self,
        state: &State,
        name: &PartitionId,
        call: Call<'_>,
        clock: ledger_core::Timestamp,
        decide: &impl Fn(Subject<'_>, Option<&Part>) -> Decision<A>,
    ) -> Decision<A> {
        let mut part = state.parts.get(name).cloned();
        let clock = match (&mut part, self.disk.bug) {
            (Some(part), Some(bug)) => bug.misjudge(&mut part.standing, call, clock),
            _ => clock,
        };
        let standing = part.as_ref().map(|part| &part.standing);
        decide(Subject::new(self.disk.id, name, standing, clock), part.as_ref())
    }

    /// Writes the first event of a batch, and waits before it writes the others: only where a bug lets it.
    async fn tear<A>(&self, name: &PartitionId, decision: Decision<A>) -> Decision<A> {
        if let (true, Some((entry, events))) = (self.disk.has(Bug::BatchWrittenInTwoSteps), &decision.write.entry)
            && events.len() > 1
        {
            let mut half = Entry::clone(entry);
            half.last = half.first;
            if let Some(part) = self.disk.state().parts.get_mut(name) {
                part.standing.tip = Some(Arc::new(half.clone()));
                part.log.push((Arc::new(half), Arc::from(&events[..1])));
            }
            // As long as nobody polls again, the half stays.
            tokio::task::yield_now().await;
            if let Some(part) = self.disk.state().parts.get_mut(name) {
                part.log.pop();
            }
        }
        decision
    }

    fn apply<A>(&self, state: &mut State, name: &PartitionId, decision: Decision<A>) -> Result<A> {
        let Decision { answer, mut write, .. } = decision;
        let bug = self.disk.bug;
        match answer {
            Ok(answer) => {
                let events = write.entry.as_ref().map_or(0, |(_, events)| events.len());
                if let Some(nth) = self.disk.fails_within(events + usize::from(write.lease.is_some())) {
                    if bug == Some(Bug::HalfOfAFailedWriteStays) {
                        self.write_half(state, name, write, nth - 1);
                    }
                    return Err(LedgerError::NotWritten(Failure::new(FailureKind::Other, "the write failed")));
                }
                if let (Some(Bug::ReplayUsesUpAPosition), true, Some(part)) =
                    (bug, write.is_empty(), state.parts.get_mut(name))
                {
                    part.burned += 1;
                }
                self.write(state, name, write);
                Ok(answer)
            }
            Err(rejection) => {
                if bug == Some(Bug::ExpiryNotRecorded) {
                    write.lease = None;
                }
                self.write(state, name, write);
                Err(self.refuse(state, name, *rejection).into())
            }
        }
    }

    fn refuse(&self, state: &mut State, name: &PartitionId, mut rejection: Rejection) -> Rejection {
        if self.disk.has(Bug::AskingListsAName) {
            state.asked.insert(name.clone());
        }
        let records = match state.parts.get_mut(name) {
            Some(part) => {
                if self.disk.has(Bug::RefusalUsesUpAPosition) && rejection.presented.append.is_some() {
                    part.burned += 1;
                }
                &mut part.records
            }
            None => &mut state.never_claimed,
        };
        if rejection.is_evidence() && self.disk.fails_within(1).is_some() {
            rejection.record = match self.disk.bug {
                Some(Bug::LostRecordNotTold) => RecordState::Stored,
                _ => RecordState::Missing { cause: "the write failed".to_owned() },
            };
            return rejection;
        }
        let kept = records.keep(rejection.clone(), self.disk.bug);
        rejection.record = kept.record;
        if self.disk.has(Bug::RefusalNamesNobody) {
            rejection.current = None;
        }
        rejection
    }

    fn write(&self, state: &mut State, name: &PartitionId, write: Write) {
        let Some(mut entry) = write.entry else {
            if let (Some(lease), Some(part)) = (write.lease, state.parts.get_mut(name)) {
                part.standing.lease = lease;
            }
            return;
        };
        if let Some(bug) = self.disk.bug {
            entry.1 = bug.stored(entry.1);
        }
        match (state.parts.get_mut(name), write.lease) {
            (Some(part), lease) => {
                if part.burned > 0 {
                    let burned = std::mem::take(&mut part.burned);
                    let moved = Arc::make_mut(&mut entry.0);
                    moved.first = moved.first.checked_add(burned).unwrap_or(Position::MAX);
                    moved.last = moved.last.checked_add(burned).unwrap_or(Position::MAX);
                }
                if let Some(lease) = lease {
                    part.standing.lease = lease;
                }
                part.standing.tip = Some(entry.0.clone());
                part.log.push(entry);
            }
            (None, Some(lease)) => {
                let standing = Standing::new(lease, Some(entry.0.clone()));
                let part = Part { standing, log: vec![entry], records: Records::default(), burned: 0, forgotten: 0 };
                state.parts.insert(name.clone(), part);
            }
            (None, None) => unreachable!("an entry without a lease is written to a claimed partition alone"),
        }
    }

    /// Writes so many events of an entry, and nothing else: only where a bug lets it.
    fn write_half(&self, state: &mut State, name: &PartitionId, write: Write, events: usize) {
        if let (Some((entry, all)), Some(part), true) = (write.entry, state.parts.get_mut(name), events > 0) {
            let mut half = Entry::clone(&entry);
            half.last =
                half.first.checked_add(u32::try_from(events - 1).unwrap_or(0)).unwrap_or(half.last).min(half.last);
            part.standing.tip = Some(Arc::new(half.clone()));
            part.log.push((Arc::new(half), Arc::from(&all[..events.min(all.len())])));
        }
    }

    /// Decides an append without writing anything; the writers' lock is held.
    pub(crate) fn decide_append(&self, lease: &Lease, append: &Append) -> Decision<Appended> {
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            decide::append(subject, self.earlier(part, append.id()), lease, append)
        };
        let name = self.name(&lease.partition);
        self.decide(&self.disk.state(), &name, Call::Append(lease), self.disk.clock.now(), &decide)
    }

    /// Writes what was decided.
    pub(crate) fn commit(&self, partition: &PartitionId, decision: Decision<Appended>) -> Result<Appended> {
        self.apply(&mut self.disk.state(), &self.name(partition), decision)
    }

    /// The earlier entry of an id, as a bug lets it be found.
    pub(crate) fn earlier<'a>(&self, part: Option<&'a Part>, id: AppendId) -> Option<&'a Arc<Entry>> {
        let entry = part.and_then(|part| part.entry(id));
        match self.disk.bug {
            Some(Bug::IdsForgottenAfterAThousand) => {
                let part = part?;
                entry.filter(|entry| part.standing.head().get() - entry.last.get() < 1_000)
            }
            Some(Bug::IdsForgottenWithTheTenure) => {
                let current = part?.standing.lease.generation;
                entry.filter(|entry| entry.generation == current)
            }
            Some(Bug::IdsNotLookedUp) => None,
            _ => entry,
        }
    }

    /// The entry of an id in any partition, where a bug has one unique index over all of them.
    pub(crate) fn elsewhere(&self, id: AppendId) -> Option<Arc<Entry>> {
        if !self.disk.has(Bug::IdsScopedToTheLedger) {
            return None;
        }
        self.disk.state().parts.values().find_map(|part| part.entry(id).cloned())
    }

    pub(crate) fn check_ledger(&self, lease: &Lease) -> Result<()> {
        if self.disk.has(Bug::LedgerNotCompared) { Ok(()) } else { Ok(lease.check_ledger(self.disk.id)?) }
    }

    /// What is on a page (D5).
    pub(crate) fn filled(&self, events: Vec<Event>, limit: PageSize) -> Vec<Event> {
        let limit = if self.disk.has(Bug::PageBytesIgnored) {
            limit.with_bytes(PageSize::MAX.bytes()).unwrap_or(limit)
        } else {
            limit
        };
        let is_large = |event: &Event| event.bytes() > usize::try_from(limit.bytes()).unwrap_or(usize::MAX);
        if self.disk.has(Bug::LargeEventBlocks) && events.first().is_some_and(is_large) {
            return Vec::new();
        }
        let mut room = Room::new(limit);
        events.into_iter().take_while(|event| room.take(event.bytes())).collect()
    }

    /// What a reader sees of a log, and its head.
    pub(crate) async fn log_of(&self, partition: &PartitionId) -> Option<(Vec<Event>, (Position, Generation))> {
        let disk = &self.disk;
        let _held = if disk.has(Bug::ReadsWaitForTheLock) { Some(disk.writer.lock().await) } else { None };
        let state = disk.state();
        let name = self.name(partition);
        let part = state.parts.get(&name)?;
        let mut events = part.events();
        match disk.bug {
            Some(Bug::ReadDropsTheLast) => drop(events.pop()),
            Some(Bug::OldGenerationsHidden) => {
                events.retain(|event| event.entry.generation == part.standing.lease.generation);
            }
            Some(Bug::OwnEventsHidden) => events.retain(|event| !event.kind.is_own()),
            Some(Bug::ReadsServedFromASnapshot) => {
                let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
                events = snapshots.entry(name).or_insert(events).clone();
            }
            _ => {}
        }
        Some((events, (part.standing.head(), part.standing.lease.generation)))
    }
}
