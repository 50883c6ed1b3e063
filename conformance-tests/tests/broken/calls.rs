//! The calls of the reference, and the bugs in them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::decide::{self, Subject, Write};
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Clock, Description, Durability, Ended, EventKind,
    Expected, Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, Note, Observation, Page,
    PageSize, PartitionId, PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result,
    Tail, Ttl, judge,
};

use crate::bugs::{Bug, Call};
use crate::disk::Part;
use crate::reference::Reference;

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
            let wraps = self.disk.has(Bug::GenerationsWrap) && claim.observed.generation() == Some(Generation::MAX);
            if let (true, Some(part)) = (wraps || self.disk.has(Bug::ObservationIgnored), part) {
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
            let mut decision = decide::release(subject, past.as_ref(), &lease);
            if self.disk.has(Bug::ReleaseWithoutEffect) {
                decision.write = Write::default();
            }
            decision
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
                (Some(Bug::ExpectationOffByOne), ..) => {
                    if let Expected::Position(head) = append.expected() {
                        append = append.expecting(head.next().unwrap_or(Position::MAX));
                    }
                }
                (Some(Bug::FenceSkippedForBatches), _, Some(part)) if append.events().len() > 1 => {
                    lease = part.standing.lease.lease(self.disk.id, &lease.partition);
                }
                (Some(Bug::ReplayBeforeTheFence), Some(_), Some(part)) => {
                    lease = part.standing.lease.lease(self.disk.id, &lease.partition);
                }
                _ => {}
            }
            let mut decision = decide::append(subject, earlier, &lease, &append);
            if let (Some(Bug::AppendExtendsTheLease), Ok(answer), Some(standing)) = (bug, &decision.answer, standing) {
                let mut extended = standing.lease.clone();
                extended.expires_at = extended.expires_at.max(answer.judged.time.after(extended.ttl));
                decision.write.lease = Some(extended);
            }
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
        let events = self.filled(events, limit);
        if self.disk.has(Bug::UnpolledReadHoldsTheLock) {
            let _held = self.disk.writer.lock().await;
            tokio::task::yield_now().await;
        }
        Ok(Page::forward(events, Some(head)))
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        let mut page = self.read(partition, from, limit).await?;
        page.events.retain(|event| event.kind == *kind);
        if page.events.is_empty() && self.disk.has(Bug::EmptyPageOfAKindIsTheEnd) {
            page.next = None;
        }
        Ok(page)
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
        Ok(Page::backward(self.filled(events, limit), Some(head)))
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
