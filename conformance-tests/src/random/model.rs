//! The model: the judgement over plain maps, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger_core::decide::{self, Decision, Subject};
use ledger_core::{
    AcquisitionId, Advance, AdvanceRecord, Advanced, Append, AppendId, Appended, Claim, Claimed, Ended, Entry, Event,
    Fate, Generation, Lease, LedgerError, LedgerId, NewEvent, Note, Observation, OwnEvent, PartitionId, PartitionState,
    PastTenure, Position, RecordBudget, RejectionRecord, Released, Renewal, Result, Standing, Tail, Timestamp, Ttl,
    judge,
};

/// What a ledger must answer, one call after the other.
#[derive(Clone, Debug)]
pub struct Model {
    ledger: LedgerId,
    /// What the store's clock shows.
    pub clock: Timestamp,
    parts: BTreeMap<PartitionId, Part>,
    never_claimed: RecordBudget,
}

#[derive(Clone, Debug)]
struct Part {
    standing: Standing,
    log: Vec<(Arc<Entry>, Arc<[NewEvent]>)>,
    budget: RecordBudget,
}

impl Part {
    fn entry(&self, id: AppendId) -> Option<&Arc<Entry>> {
        self.log.iter().map(|(entry, _)| entry).find(|entry| entry.id == Some(id))
    }

    fn past(&self, generation: Generation) -> Option<PastTenure> {
        let mut claims = self.log.iter().filter(|(_, events)| events[0].kind.as_str() == OwnEvent::CLAIMED);
        let (entry, _) = claims.by_ref().find(|(entry, _)| entry.generation == generation)?;
        let next = claims.next().and_then(|(_, next)| match OwnEvent::read(&next[0].kind, &next[0].payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => Some(succession),
            _ => None,
        });
        PastTenure::before((entry.holder.clone(), entry.acquisition), next.as_ref(), &self.standing.lease)
    }

    fn advance(&self, acquisition: AcquisitionId) -> Option<(Arc<Entry>, AdvanceRecord)> {
        self.log.iter().filter(|(entry, _)| entry.acquisition == acquisition).find_map(|(entry, events)| {
            match OwnEvent::read(&events[0].kind, &events[0].payload) {
                Ok(Some(OwnEvent::Advanced(record))) => Some((entry.clone(), record)),
                _ => None,
            }
        })
    }
}

impl Model {
    /// An empty ledger of that identity, at that time.
    pub fn new(ledger: LedgerId, clock: Timestamp) -> Self {
        Self { ledger, clock, parts: BTreeMap::new(), never_claimed: RecordBudget::default() }
    }

    /// A partition as it stands.
    pub fn standing(&self, partition: &PartitionId) -> Option<&Standing> {
        self.parts.get(partition).map(|part| &part.standing)
    }

    /// As [`claim`](ledger_core::FencedLedger::claim).
    pub fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        self.apply(&claim.partition, |subject, part| {
            decide::claim(subject, part.and_then(|part| part.entry(claim.acquisition.into())), claim)
        })
    }

    /// As [`renew`](ledger_core::FencedLedger::renew).
    pub fn renew(&mut self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        lease.check_ledger(self.ledger)?;
        self.apply(&lease.partition, |subject, _| decide::renew(subject, lease, ttl))
    }

    /// As [`release`](ledger_core::FencedLedger::release).
    pub fn release(&mut self, lease: &Lease) -> Result<Released> {
        lease.check_ledger(self.ledger)?;
        self.apply(&lease.partition, |subject, part| {
            decide::release(subject, part.and_then(|part| part.past(lease.generation)).as_ref(), lease)
        })
    }

    /// As [`end_tenure`](ledger_core::FencedLedger::end_tenure).
    pub fn end_tenure(&mut self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.apply(partition, |subject, _| decide::end_tenure(subject, observed, reason))
    }

    /// As [`advance`](ledger_core::FencedLedger::advance).
    pub fn advance(&mut self, advance: &Advance) -> Result<Advanced> {
        self.apply(&advance.partition, |subject, part| {
            let taken = part.and_then(|part| part.advance(advance.acquisition));
            let taken = taken.as_ref().map(|(entry, record)| (entry.as_ref(), record));
            let earlier = part.and_then(|part| part.entry(advance.acquisition.into())).map(Arc::as_ref);
            decide::advance(subject, &Tail::of(subject.standing), taken, earlier, advance)
        })
    }

    /// As [`append`](ledger_core::FencedLedger::append).
    pub fn append(&mut self, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.ledger)?;
        self.apply(&lease.partition, |subject, part| {
            decide::append(subject, part.and_then(|part| part.entry(append.id())), lease, append)
        })
    }

    /// As [`fate`](ledger_core::FencedLedger::fate).
    pub fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Fate {
        let Some(part) = self.parts.get(partition) else { return Fate::Undecided };
        match part.entry(id) {
            Some(entry) => Fate::Recorded(entry.clone()),
            None if part.standing.has_visibly_ended(generation) => Fate::Never,
            None => Fate::Undecided,
        }
    }

    /// As [`observe`](ledger_core::FencedLedger::observe).
    pub fn observe(&self, partition: &PartitionId) -> PartitionState {
        let standing = self.standing(partition);
        let tenure = standing.map(|standing| standing.tenure(self.ledger, partition));
        PartitionState::new(self.ledger, partition.clone(), tenure, judge::judged(standing, self.clock))
    }

    /// The whole log from a position on.
    ///
    /// # Errors
    ///
    /// [`LedgerError::AheadOfLog`].
    pub fn read(&self, partition: &PartitionId, from: Position) -> Result<Vec<Event>> {
        let head = self.standing(partition).map(Standing::head);
        if from.get() - 1 > head.map_or(0, Position::get) {
            return Err(LedgerError::AheadOfLog { from, head });
        }
        let mut found = Vec::new();
        for (entry, events) in self.parts.get(partition).into_iter().flat_map(|part| &part.log) {
            for (position, event) in (entry.first.get()..).zip(events.iter()).filter(|(at, _)| *at >= from.get()) {
                let at = Position::new(position).expect("an entry starts at 1 or later");
                let (kind, payload) = (event.kind.clone(), event.payload.clone());
                found.push(Event::new(at, kind, payload, event.metadata.clone(), entry.clone()));
            }
        }
        Ok(found)
    }

    /// The partitions that were ever claimed or advanced, those after a name.
    pub fn partitions(&self, after: Option<&PartitionId>) -> Vec<PartitionId> {
        self.parts.keys().filter(|name| after.is_none_or(|after| *name > after)).cloned().collect()
    }

    /// All rejection records of a partition, those from before its first claim first.
    pub fn records(&self, partition: &PartitionId) -> Vec<RejectionRecord> {
        let before = self.never_claimed.records().iter().filter(|record| record.partition.as_ref() == Some(partition));
        let own = self.parts.get(partition).into_iter().flat_map(|part| part.budget.records());
        before.chain(own).cloned().collect()
    }

    fn apply<A>(
        &mut self,
        partition: &PartitionId,
        decide: impl FnOnce(Subject<'_>, Option<&Part>) -> Decision<A>,
    ) -> Result<A> {
        let part = self.parts.get(partition);
        let standing = part.map(|part| &part.standing);
        let decision = decide(Subject::new(self.ledger, partition, standing, self.clock), part);
        match (self.parts.get_mut(partition), decision.write.lease, decision.write.entry) {
            (None, Some(lease), Some(entry)) => {
                let standing = Standing::new(lease, Some(entry.0.clone()));
                let part = Part { standing, log: vec![entry], budget: RecordBudget::default() };
                self.parts.insert(partition.clone(), part);
            }
            (Some(part), lease, entry) => {
                part.standing.lease = lease.unwrap_or_else(|| part.standing.lease.clone());
                if let Some(entry) = entry {
                    part.standing.tip = Some(entry.0.clone());
                    part.log.push(entry);
                }
            }
            (None, ..) => {}
        }
        Ok(decision.answer.map_err(|rejection| match self.parts.get_mut(partition) {
            Some(part) => part.budget.keep(*rejection),
            None => self.never_claimed.keep(*rejection),
        })?)
    }
}
