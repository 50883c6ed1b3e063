//! A small ledger on `ledger_core::decide`, with a switch for each bug. Without a bug it passes every case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::decide::{self, Decision, Subject, Write};
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Clock, Description, Durability, Ended, Entry, Event,
    Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, LedgerId, Note, Observation, Page,
    PageSize, PartitionId, PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Rejection, Released,
    Renewal, Result, Standing, Tail, Ttl, judge,
};

use crate::bugs::{Bug, Call};
use crate::disk::{Disk, Part, State};
use crate::records::Records;

/// A handle.
#[derive(Debug)]
pub(crate) struct Reference {
    disk: Arc<Disk>,
    /// The lease that this handle believes in, where a bug lets it.
    believed: Mutex<Option<Lease>>,
    /// The logs as this handle read them first, where a bug lets it.
    snapshots: Mutex<BTreeMap<PartitionId, Vec<Event>>>,
    /// The identity that this handle gives to the ledger, where a bug lets it.
    identity: LedgerId,
    /// How many partitions there were when this handle claimed last.
    partitions: AtomicUsize,
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

    fn name(&self, partition: &PartitionId) -> PartitionId {
        if self.disk.has(Bug::NamesFolded) {
            return PartitionId::new(partition.as_str().to_lowercase()).unwrap_or_else(|_| partition.clone());
        }
        partition.clone()
    }

    /// Judges a call and does what was decided: in one step under the writers' lock, but for the bugs.
    async fn judged<A>(
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
                let part = Part { standing, log: vec![entry], records: Records::default(), burned: 0 };
                state.parts.insert(name.clone(), part);
            }
            (None, None) => unreachable!("an entry without a lease is written to a claimed partition alone"),
        }
    }

    /// The earlier entry of an id, as a bug lets it be found.
    fn earlier<'a>(&self, part: Option<&'a Part>, id: AppendId) -> Option<&'a Arc<Entry>> {
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
    fn elsewhere(&self, id: AppendId) -> Option<Arc<Entry>> {
        if !self.disk.has(Bug::IdsScopedToTheLedger) {
            return None;
        }
        self.disk.state().parts.values().find_map(|part| part.entry(id).cloned())
    }

    fn check_ledger(&self, lease: &Lease) -> Result<()> {
        if self.disk.has(Bug::LedgerNotCompared) { Ok(()) } else { Ok(lease.check_ledger(self.disk.id)?) }
    }

    /// What a reader sees of a log, and its head.
    async fn log_of(&self, partition: &PartitionId) -> Option<(Vec<Event>, (Position, Generation))> {
        let disk = &self.disk;
        let _held = if disk.has(Bug::ReadsWaitForTheLock) { Some(disk.writer.lock().await) } else { None };
        let state = disk.state();
        let name = self.name(partition);
        let part = state.parts.get(&name)?;
        let mut events = part.events();
        match disk.bug {
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

#[async_trait]
impl FencedLedger for Reference {
    async fn describe(&self) -> Result<Description> {
        Ok(Description::new(self.identity, "reference", "1", Durability::Volatile, Vec::new()))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let name = self.name(partition);
        let earlier = self.disk.state().parts.get(&name).map(|part| part.standing.lease.clone());
        if self.disk.has(Bug::ObservedInTwoSteps) {
            // Long enough for a writer to come between the two looks.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut standing = self.disk.state().parts.get(&name).map(|part| part.standing.clone());
        if let (true, Some(standing), Some(lease)) = (self.disk.has(Bug::ObservedInTwoSteps), &mut standing, earlier) {
            standing.lease = lease;
        }
        let standing = standing.as_ref();
        let judged = judge::judged(standing, self.disk.clock.now());
        let tenure = standing.map(|standing| standing.tenure(self.disk.id, partition));
        Ok(PartitionState::new(self.disk.id, partition.clone(), tenure, judged))
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let id = claim.acquisition.into();
        let elsewhere = self.elsewhere(id);
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let earlier = part.and_then(|part| part.entry(id)).filter(|_| !self.disk.has(Bug::AcquisitionsForgotten));
            let earlier = earlier.or(elsewhere.as_ref());
            let mut claim = claim.clone();
            if let (true, Some(part)) = (self.disk.has(Bug::ObservationIgnored), part) {
                let lease = &part.standing.lease;
                let (generation, acquisition) = (lease.generation, lease.acquisition);
                claim.observed = Observation::Tenure { generation, acquisition };
            }
            let mut decision = decide::claim(subject, earlier, &claim);
            if let Some(bug) = self.disk.bug {
                bug.claimed(&mut decision, subject.standing, self.partitions.load(Ordering::SeqCst));
            }
            decision
        };
        let partitions = self.disk.state().parts.len();
        self.partitions.store(partitions, Ordering::SeqCst);
        let claimed = self.judged(&claim.partition, Call::Claim(claim), decide).await?;
        *self.believed.lock().unwrap_or_else(PoisonError::into_inner) = Some(claimed.lease.clone());
        Ok(claimed)
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.check_ledger(lease)?;
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let lease = Bug::presented(self.disk.bug, lease, part.map(|part| &part.standing));
            let mut decision = decide::renew(subject, &lease, ttl);
            if let Some(bug) = self.disk.bug {
                bug.renewed(&mut decision, subject.standing, ttl);
            }
            decision
        };
        self.judged(&lease.partition, Call::Renew(lease), decide).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.check_ledger(lease)?;
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let mut lease = lease.clone();
            if let (true, Some(part)) = (self.disk.has(Bug::LateReleaseEndsTheSuccessor), part) {
                lease = part.standing.lease.lease(self.disk.id, &lease.partition);
            }
            let past = part.and_then(|part| part.past(lease.generation));
            decide::release(subject, past.as_ref(), &lease)
        };
        self.judged(&lease.partition, Call::Release(lease), decide).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let observed = match part.map(|part| &part.standing.lease) {
                Some(lease) if self.disk.has(Bug::OperatorNeedsNoObservation) => {
                    Observation::Tenure { generation: lease.generation, acquisition: lease.acquisition }
                }
                _ => observed,
            };
            decide::end_tenure(subject, observed, reason)
        };
        self.judged(partition, Call::EndTenure, decide).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let bug = self.disk.bug;
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let taken = part.and_then(|part| part.advance(advance.acquisition));
            let taken = taken.as_ref().map(|(entry, record)| (entry.as_ref(), record));
            let taken = taken.filter(|_| bug != Some(Bug::AdvanceNotLookedUp));
            let earlier = part.and_then(|part| part.entry(advance.acquisition.into())).map(Arc::as_ref);
            let earlier = earlier.filter(|_| bug != Some(Bug::AdvanceUnderAnyId));
            let mut advance = advance.clone();
            if bug == Some(Bug::AdvanceAboveTheStoredAlone) {
                advance.above = None;
            }
            let tail = Tail::of(subject.standing);
            let mut decision = decide::advance(subject, &tail, taken, earlier, &advance);
            if let Some(bug) = bug {
                bug.advanced(&mut decision, subject.standing);
            }
            decision
        };
        self.judged(&advance.partition, Call::Advance, decide).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.check_ledger(lease)?;
        let bug = self.disk.bug;
        if bug == Some(Bug::LargeAppendsNotWritten) && append.bytes() > 4_000_000 {
            return Err(LedgerError::NotWritten(Failure::new(FailureKind::Other, "too large")));
        }
        let believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(lease);
        let trusts_itself = believed && bug == Some(Bug::LeaseCachedInTheHandle);
        let elsewhere = self.elsewhere(append.id());
        let decide = |subject: Subject<'_>, part: Option<&Part>| {
            let standing = part.map(|part| &part.standing);
            let earlier = self.earlier(part, append.id()).or(elsewhere.as_ref());
            let mut lease = Bug::presented(bug, lease, standing);
            if let (true, Some(standing)) = (trusts_itself, standing) {
                lease = standing.lease.lease(self.disk.id, &lease.partition);
            }
            let mut append = append.clone();
            match (bug, earlier, part) {
                (Some(Bug::IdsComparedWithoutContent), Some(earlier), Some(part)) => {
                    let stored = part.log.iter().find(|(entry, _)| entry == earlier).map(|(_, events)| events.clone());
                    append = stored.and_then(|events| Append::with_id(append.id(), events).ok()).unwrap_or(append);
                }
                (Some(Bug::ExpectationIgnored), ..) => {
                    append = Append::with_id(append.id(), append.events().clone()).unwrap_or(append);
                }
                (Some(Bug::ReplayBeforeTheFence), Some(_), Some(part)) => {
                    lease = part.standing.lease.lease(self.disk.id, &lease.partition);
                }
                _ => {}
            }
            let mut decision = decide::append(subject, earlier, &lease, &append);
            if let (Some(Bug::AnswerIsNotWhatIsStored), Ok(answer)) = (bug, &mut decision.answer) {
                let entry = Arc::make_mut(&mut answer.entry);
                entry.recorded_at = ledger_core::Timestamp::from_micros(entry.recorded_at.as_micros() + 1);
            }
            decision
        };
        let call = if trusts_itself { Call::EndTenure } else { Call::Append(lease) };
        self.judged(&lease.partition, call, decide).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let state = self.disk.state();
        let Some(part) = state.parts.get(&self.name(partition)) else { return Ok(Fate::Undecided) };
        let passed = self.disk.clock.now() >= part.standing.lease.expires_at;
        let bug = self.disk.bug;
        let entry = part.entry(id).filter(|entry| match bug {
            Some(Bug::ClaimsUnknownToFate) => entry.id != Some(entry.acquisition.into()),
            Some(Bug::FateOnlyUnderItsOwnGeneration) => entry.generation == generation,
            _ => true,
        });
        Ok(match entry {
            Some(entry) => Fate::Recorded(entry.clone()),
            None if bug == Some(Bug::EarlierTenureStaysUndecided) && generation < part.standing.lease.generation => {
                Fate::Undecided
            }
            None if part.standing.has_visibly_ended(generation) => Fate::Never,
            None if passed && bug == Some(Bug::NeverByTheClockAlone) => Fate::Never,
            None if bug == Some(Bug::AbsentIsNever) => Fate::Never,
            None => Fate::Undecided,
        })
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        let Some((mut events, head)) = self.log_of(partition).await else {
            return if from > Position::FIRST { Err(ahead(from, None)) } else { Ok(Page::forward(Vec::new(), None)) };
        };
        if from.get() - 1 > head.0.get() && !self.disk.has(Bug::AheadOfTheLogIsEmpty) {
            return Err(ahead(from, Some(head.0)));
        }
        let exclusive = self.disk.has(Bug::ReadStartsAfterThePosition) && from > Position::FIRST;
        events.retain(|event| event.position > from || (event.position == from && !exclusive));
        events.truncate(size(limit));
        Ok(Page::forward(events, Some(head)))
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let Some((mut events, head)) = self.log_of(partition).await else {
            return from.map_or_else(|| Ok(Page::backward(Vec::new(), None)), |from| Err(ahead(from, None)));
        };
        let from = from.unwrap_or(head.0);
        if from > head.0 {
            return Err(ahead(from, Some(head.0)));
        }
        events.retain(|event| event.position <= from);
        events.reverse();
        if self.disk.has(Bug::BackwardReadKeepsBatchesForward) {
            events.sort_by_key(|event| (std::cmp::Reverse(event.entry.first), event.position));
        }
        events.truncate(size(limit));
        Ok(Page::backward(events, Some(head)))
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let state = self.disk.state();
        let all: BTreeSet<&PartitionId> = state.parts.keys().chain(&state.asked).collect();
        let inclusive = self.disk.has(Bug::ListingStartsAtThePosition);
        let follows = |name: &&PartitionId| after.is_none_or(|after| *name > after || (*name == after && inclusive));
        let mut names = all.into_iter().filter(follows).cloned();
        let page = names.by_ref().take(size(limit)).collect();
        Ok(PartitionPage::new(page, names.next().is_some()))
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        let state = self.disk.state();
        let shared = state.never_claimed.of(partition);
        let own = partition.and_then(|name| state.parts.get(&self.name(name))).map(|part| part.records.of(partition));
        let all = shared.into_iter().chain(own.into_iter().flatten());
        let mut found = all.filter(|record| after.is_none_or(|after| record.slot > after));
        let page = found.by_ref().take(size(limit)).collect();
        Ok(RecordPage::new(page, found.next().is_some()))
    }
}

fn ahead(from: Position, head: Option<Position>) -> LedgerError {
    LedgerError::AheadOfLog { from, head }
}

fn size(limit: PageSize) -> usize {
    usize::try_from(limit.get()).unwrap_or(usize::MAX)
}
