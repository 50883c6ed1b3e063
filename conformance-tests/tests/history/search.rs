//! A slow check that is plainly right: it tries every order of the calls that real time allows, carries each one out on a
//! plain model, and looks whether all answers and the log come out as they were recorded. It knows nothing of revisions.

use std::collections::HashSet;
use std::sync::Arc;

use conformance_tests::history::{Answer, Call, Invocation, Kept, Own, PartitionContent, Seen, Tenure};
use ledger_core::decide::{self, Decision, Subject, Write};
use ledger_core::{
    AcquisitionId, AdvanceRecord, AppendId, Entry, Event, Fate, Generation, LedgerId, NewEvent, OwnEvent, PartitionId,
    PartitionState, PastTenure, Position, Standing, StoredLease, Tail, Timestamp, judge,
};

use crate::generate::{Generated, restored};

/// Whether some order of the calls explains everything. Of one partition.
pub(crate) fn explains(generated: &Generated) -> bool {
    let content = &generated.content.partitions[0];
    let ledger = content.tenure.as_ref().expect("the barrier claimed it").lease.ledger;
    // What was told not to be written did nothing.
    let not_written = |call: &&Invocation| matches!(call.answer, Some((_, Answer::NotWritten(_))));
    let calls: Vec<&Invocation> = generated.history.invocations.iter().filter(|call| !not_written(call)).collect();
    assert!(calls.len() <= 64, "the calls of a small history fit into the bits of a number");
    let mut search = Search { generated, content, calls, seen: HashSet::new() };
    let model = Model { ledger, partition: content.partition.clone(), lease: None, log: Vec::new() };
    search.go_on(&model, 0)
}

/// What can differ of a lease where calls and log are the same: renewals, expiry, recorded time, whether it is vacant, and
/// the head as of its last change, which an advance tells.
type Lease = (u64, Timestamp, Timestamp, bool, Position);

struct Search<'a> {
    generated: &'a Generated,
    content: &'a PartitionContent,
    calls: Vec<&'a Invocation>,
    /// Which calls were done, and the state after them: everything else follows.
    seen: HashSet<(u64, usize, Option<Lease>)>,
}

impl Search<'_> {
    fn go_on(&mut self, model: &Model, done: u64) -> bool {
        let left = |nth: &usize| done & (1 << nth) == 0;
        let must: Vec<usize> = (0..self.calls.len()).filter(left).filter(|nth| !is_open(self.calls[*nth])).collect();
        if must.is_empty() && model.log.len() == self.content.log.len() && model.ends_like(self.content) {
            return true;
        }
        let state = model
            .lease
            .as_ref()
            .map(|lease| (lease.renewals, lease.expires_at, lease.recorded_at, lease.vacancy.is_some(), lease.head));
        if !self.seen.insert((done, model.log.len(), state)) {
            return false;
        }
        // Nobody who was called after another had returned goes before it.
        let first_return = must.iter().map(|nth| returned_at(self.calls[*nth])).min().unwrap_or(u64::MAX);
        for nth in (0..self.calls.len()).filter(left) {
            let call = self.calls[nth];
            if call.called_at > first_return {
                continue;
            }
            for clock in self.clocks(call) {
                let mut next = model.clone();
                let answer = next.carry_out(&call.call, clock, self.generated);
                let is_right = match &call.answer {
                    Some((_, recorded)) if !is_open(call) => same(&answer, recorded),
                    _ => true,
                };
                let fits = next.log.last().is_none_or(|(entry, events)| {
                    let logged = self.content.log.get(next.log.len() - 1);
                    logged.is_some_and(|logged| logged.entry == *entry && logged.own == own(&events[0]))
                });
                if is_right && fits && self.go_on(&next, done | (1 << nth)) {
                    return true;
                }
            }
        }
        false
    }

    /// The clock at which a call can have been judged: what its answer says, or any that ever was.
    fn clocks(&self, call: &Invocation) -> Vec<Timestamp> {
        match &call.answer {
            Some((_, answer)) if !is_open(call) => match answer.judged() {
                Some(judged) if judged.clock_behind => vec![Timestamp::from_micros(i64::MIN)],
                Some(judged) => vec![judged.time],
                None => vec![Timestamp::from_micros(i64::MIN)],
            },
            _ => self.generated.times.clone(),
        }
    }
}

fn own(event: &NewEvent) -> Option<Own> {
    match OwnEvent::read(&event.kind, &event.payload).expect("the model's own") {
        Some(OwnEvent::Claimed(succession)) => Some(Own::Claimed(succession)),
        Some(OwnEvent::Released) => Some(Own::Released),
        Some(OwnEvent::Ended { reason }) => Some(Own::Ended(reason)),
        Some(OwnEvent::Advanced(record)) => Some(Own::Advanced(record)),
        _ => None,
    }
}

fn is_open(call: &Invocation) -> bool {
    call.is_open()
}

fn returned_at(call: &Invocation) -> u64 {
    call.answer.as_ref().map_or(u64::MAX, |(at, _)| *at)
}

/// Whether the model gives the recorded answer. What became of a record is not the model's matter, and how long a page is
/// was for the reader to say; but it is not empty where the model's is not.
fn same(answer: &Answer, recorded: &Answer) -> bool {
    match (answer, recorded) {
        (Answer::Rejected { .. }, Answer::Rejected { .. }) => without_record(answer) == without_record(recorded),
        (Answer::Page { entries, head, .. }, Answer::Page { entries: shown, head: told, more }) => {
            let all: Vec<(Position, &Arc<Entry>)> = flat(entries);
            let part = flat(shown);
            let is_cut = part.len() < all.len();
            head == told && all.starts_with(&part) && part.is_empty() == all.is_empty() && *more == is_cut
        }
        _ => answer == recorded,
    }
}

fn flat(entries: &[Seen]) -> Vec<(Position, &Arc<Entry>)> {
    entries.iter().flat_map(|seen| seen.positions.iter().map(move |position| (*position, &seen.entry))).collect()
}

fn without_record(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if let Answer::Rejected { record, .. } = &mut answer {
        *record = Kept::NotEvidence;
    }
    answer
}

/// A partition, as plain as can be.
#[derive(Clone)]
struct Model {
    ledger: LedgerId,
    partition: PartitionId,
    lease: Option<StoredLease>,
    log: Vec<(Arc<Entry>, Arc<[NewEvent]>)>,
}

impl Model {
    fn carry_out(&mut self, call: &Call, clock: Timestamp, generated: &Generated) -> Answer {
        let standing = self.standing();
        let partition = self.partition.clone();
        let subject = Subject::new(self.ledger, &partition, standing.as_ref(), clock);
        match call {
            Call::Append { lease, id, content, expected, remark, .. } => {
                let append = restored(&generated.appends[&(*id, *content)], *expected, remark.clone());
                let decision = decide::append(subject, self.entry(*id), lease, &append);
                self.apply(decision, Answer::of_appended)
            }
            Call::Claim(claim) => {
                let decision = decide::claim(subject, self.entry(claim.acquisition.into()), claim);
                self.apply(decision, Answer::of_claimed)
            }
            Call::Renew { lease, ttl } => {
                let decision = decide::renew(subject, lease, *ttl);
                self.apply(decision, Answer::of_renewal)
            }
            Call::Release(lease) => {
                let decision = decide::release(subject, self.past(lease.generation).as_ref(), lease);
                self.apply(decision, Answer::of_released)
            }
            Call::EndTenure { observed, reason, .. } => {
                let decision = decide::end_tenure(subject, *observed, reason);
                self.apply(decision, Answer::of_ended)
            }
            Call::Advance(advance) => {
                let taken = self.advance(advance.acquisition);
                let taken = taken.as_ref().map(|(entry, record)| (&**entry, record));
                let earlier = self.entry(advance.acquisition.into()).map(|entry| &**entry);
                let decision = decide::advance(subject, &Tail::of(standing.as_ref()), taken, earlier, advance);
                self.apply(decision, Answer::of_advanced)
            }
            Call::Observe(_) => {
                let tenure = standing.as_ref().map(|standing| standing.tenure(self.ledger, &partition));
                let judged = judge::judged(standing.as_ref(), clock);
                Answer::of_state(&PartitionState::new(self.ledger, partition, tenure, judged))
            }
            Call::Fate { id, generation, .. } => Answer::of_fate(&match (self.entry(*id), &standing) {
                (Some(entry), _) => Fate::Recorded(entry.clone()),
                (None, Some(standing)) if standing.has_visibly_ended(*generation) => Fate::Never,
                (None, _) => Fate::Undecided,
            }),
            Call::Read { from, .. } => {
                let head = self.head();
                if from.get() > head.map_or(0, |(head, _)| head.get()) + 1 {
                    return Answer::AheadOfLog { head: head.map(|(head, _)| head) };
                }
                let events = self.events().into_iter().filter(|event| event.position >= *from).collect();
                Answer::of_page(&ledger_core::Page::forward(events, head))
            }
            Call::ReadBack { from, .. } => {
                let (head, mut events) = (self.head(), self.events());
                let newest = head.map(|(head, _)| head);
                if from.is_some() && *from > newest {
                    return Answer::AheadOfLog { head: newest };
                }
                events.reverse();
                events.retain(|event| from.is_none_or(|from| event.position <= from));
                Answer::of_page(&ledger_core::Page::backward(events, head))
            }
        }
    }

    fn standing(&self) -> Option<Standing> {
        let tip = self.log.last().map(|(entry, _)| entry.clone());
        self.lease.clone().map(|lease| Standing::new(lease, tip))
    }

    fn entry(&self, id: AppendId) -> Option<&Arc<Entry>> {
        self.log.iter().map(|(entry, _)| entry).find(|entry| entry.id == Some(id))
    }

    fn advance(&self, acquisition: AcquisitionId) -> Option<(Arc<Entry>, AdvanceRecord)> {
        self.log.iter().find_map(|(entry, events)| {
            match OwnEvent::read(&events[0].kind, &events[0].payload).expect("the model's own") {
                Some(OwnEvent::Advanced(record)) if entry.acquisition == acquisition => Some((entry.clone(), record)),
                _ => None,
            }
        })
    }

    fn past(&self, generation: Generation) -> Option<PastTenure> {
        let mut claims = self.log.iter().filter(|(_, events)| events[0].kind.as_str() == OwnEvent::CLAIMED);
        let (entry, _) = claims.by_ref().find(|(entry, _)| entry.generation == generation)?;
        let next = claims.next().and_then(|(_, next)| match OwnEvent::read(&next[0].kind, &next[0].payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => Some(succession),
            _ => None,
        });
        PastTenure::before((entry.holder.clone(), entry.acquisition), next.as_ref(), self.lease.as_ref()?)
    }

    fn head(&self) -> Option<(Position, Generation)> {
        Some((self.log.last()?.0.last, self.lease.as_ref()?.generation))
    }

    fn events(&self) -> Vec<Event> {
        let of = |(entry, events): &(Arc<Entry>, Arc<[NewEvent]>)| -> Vec<Event> {
            let place = |nth: usize| entry.first.checked_add(u32::try_from(nth).expect("few")).expect("few");
            let event = |(nth, event): (usize, &NewEvent)| {
                Event::new(place(nth), event.kind.clone(), event.payload.clone(), event.metadata.clone(), entry.clone())
            };
            events.iter().enumerate().map(event).collect()
        };
        self.log.iter().flat_map(of).collect()
    }

    fn apply<A>(&mut self, decision: Decision<A>, keep: impl FnOnce(&A) -> Answer) -> Answer {
        let Write { lease, entry, .. } = decision.write;
        if let Some(lease) = lease {
            self.lease = Some(lease);
        }
        self.log.extend(entry);
        decision.answer.as_ref().map_or_else(|rejection| Answer::of_rejection(rejection), keep)
    }

    fn ends_like(&self, content: &PartitionContent) -> bool {
        let standing = self.standing();
        let tenure = standing.as_ref().map(|standing| Tenure::of(&standing.tenure(self.ledger, &self.partition)));
        let revision = standing.as_ref().map(Standing::revision).unwrap_or_default();
        tenure == content.tenure && revision == content.revision
    }
}
