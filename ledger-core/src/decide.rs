//! From a judgement to an answer and to what is to be written: for every store that judges in Rust.
//!
//! A store calls one of these functions while it holds the partition (A1), with everything read under that hold and
//! the clock read last (T4). It then writes [`Decision::write`] and keeps the record of a rejection that
//! [is evidence](crate::Rejection::is_evidence), all in the same atomic step, and answers when that is durable.
//!
//! What each call must have read: the [`Standing`] of the partition, which is the stored lease and the
//! newest entry; for an append and a claim the entry that has its id, the acquisition being a claim's id; for a
//! release of an older generation the [`PastTenure`]. [`RecordBudget`](crate::RecordBudget) keeps the
//! records. Before the lock is taken, [`Standing::has_visibly_ended`](crate::Standing::has_visibly_ended) tells which
//! calls must not wait for it (E4): decide those on what was read, and write nothing but the record.
//! `examples/custom-backend` is a store made of these.

use std::sync::Arc;

use crate::judge::{self, Request, Verdict, judge};
use crate::{
    Advance, AdvanceRecord, Advanced, Append, Appended, Claim, Claimed, Current, Digest, Ended, Entry, FoundLease,
    Generation, Judged, Lease, LedgerId, Mark, NewEvent, Note, Observation, Operation, OwnEvent, PartitionId,
    PastTenure, Position, Predecessor, Presented, Reason, Rejection, Released, Renewal, Revision, Standing,
    StoredLease, Succession, Tail, Timestamp, Ttl, Vacancy, chain, claim::Basis,
};

/// The partition that a decision is about, as it stands under the store's hold.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The ledger.
    pub ledger: LedgerId,
    /// The partition.
    pub partition: &'a PartitionId,
    /// What is stored of it, or `None` where it was never claimed.
    pub standing: Option<&'a Standing>,
    /// The store's clock, read after everything else (T4).
    pub clock: Timestamp,
}

impl<'a> Subject<'a> {
    /// A partition to decide about.
    pub fn new(ledger: LedgerId, partition: &'a PartitionId, standing: Option<&'a Standing>, clock: Timestamp) -> Self {
        Self { ledger, partition, standing, clock }
    }

    fn judged(&self) -> Judged {
        judge::judged(self.standing, self.clock)
    }

    fn refuse(
        &self,
        reason: Reason,
        operation: Operation,
        presented: Presented,
        earlier: Option<&Arc<Entry>>,
        judged: Judged,
    ) -> Rejection {
        Rejection::new(
            reason,
            operation,
            self.partition.clone(),
            presented,
            self.standing.map(Current::of),
            earlier.cloned(),
            judged,
        )
    }

    /// What a refusal stores: the judged time, the first time that an answer rests on the expiry (T2).
    fn observed_expiry(&self, rests_on_expiry: bool, judged: Judged) -> Write {
        match self.standing {
            Some(standing) if rests_on_expiry && standing.recorded_at() < standing.lease.expires_at => {
                Write::lease(StoredLease { recorded_at: judged.time, ..standing.lease.clone() })
            }
            _ => Write::default(),
        }
    }

    /// The next entry of the log, sealed with its chain value.
    fn seal(
        &self,
        by: &StoredLease,
        id: Option<crate::AppendId>,
        count: u32,
        content: Digest,
        at: Timestamp,
    ) -> Option<Entry> {
        let chain = self.standing.map_or_else(|| chain::start(self.ledger, self.partition), Standing::chain);
        self.seal_after((self.standing.map(Standing::head), chain), by, id, count, content, at)
    }

    /// The entry that follows a position and a chain value.
    fn seal_after(
        &self,
        (before, chain): (Option<Position>, Digest),
        by: &StoredLease,
        id: Option<crate::AppendId>,
        count: u32,
        content: Digest,
        at: Timestamp,
    ) -> Option<Entry> {
        let first = before.map_or(Some(Position::FIRST), Position::next)?;
        let last = first.checked_add(count - 1)?;
        let mut entry =
            Entry::new(id, (first, last), by.generation, by.holder.clone(), by.acquisition, at, content, chain);
        entry.chain = chain::next(chain, self.ledger, self.partition, &entry);
        Some(entry)
    }

    /// Writes one of the ledger's own events and the lease that goes with it.
    fn write_own(
        &self,
        lease: StoredLease,
        id: Option<crate::AppendId>,
        event: &OwnEvent,
        at: Timestamp,
    ) -> Option<Write> {
        let event = event.to_new_event();
        let entry = self.seal(&lease, id, 1, chain::content(std::slice::from_ref(&event)), at)?;
        Some(Write::own(lease, entry, event))
    }
}

/// An answer, and what is to be written before it is given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision<A> {
    /// The answer. Of a rejection, the store sets what became of its record.
    pub answer: Result<A, Box<Rejection>>,
    /// What is to be written.
    pub write: Write,
}

impl<A> Decision<A> {
    fn refused(rejection: Rejection, write: Write) -> Self {
        Self { answer: Err(Box::new(rejection)), write }
    }

    fn answer(answer: A) -> Self {
        Self { answer: Ok(answer), write: Write::default() }
    }

    fn written(answer: A, write: Write) -> Self {
        Self { answer: Ok(answer), write }
    }
}

/// What a decision writes, all in one atomic step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// The stored lease, where it changes.
    pub lease: Option<StoredLease>,
    /// The next entry of the log and its events.
    pub entry: Option<(Arc<Entry>, Arc<[NewEvent]>)>,
}

impl Write {
    fn lease(lease: StoredLease) -> Self {
        Self { lease: Some(lease), entry: None }
    }

    /// One of the ledger's own events, and the lease as it then is.
    fn own(mut lease: StoredLease, entry: Entry, event: NewEvent) -> Self {
        lease.recorded_at = entry.recorded_at;
        lease.head = entry.last;
        lease.chain = entry.chain;
        Self { lease: Some(lease), entry: Some((Arc::new(entry), [event].into())) }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.lease.is_none() && self.entry.is_none()
    }
}

/// Decides an append. `earlier` is the entry of the partition that has the append's id.
pub fn append(
    subject: Subject<'_>,
    earlier: Option<&Arc<Entry>>,
    lease: &Lease,
    append: &Append,
) -> Decision<Appended> {
    let judged = subject.judged();
    let request = Request::Append { lease, append, earlier: earlier.map(Arc::as_ref) };
    let refuse = |reason| {
        let presented = Presented::lease(lease, Some(append));
        let rejection = subject.refuse(reason, Operation::Append, presented, earlier, judged);
        Decision::refused(rejection, subject.observed_expiry(reason == Reason::Expired, judged))
    };
    let verdict = judge(subject.standing, request, &judged);
    match (verdict, earlier, subject.standing) {
        (Verdict::Replay, Some(earlier), _) => Decision::answer(Appended::new(earlier.clone(), true, judged)),
        (Verdict::Granted, _, Some(standing)) => {
            let sealed =
                subject.seal(&standing.lease, Some(append.id()), append.count(), append.content(), judged.time);
            // No position is left above the head: no expectation can be met.
            let Some(entry) = sealed.map(Arc::new) else { return refuse(Reason::PositionConflict) };
            let revision = Revision::new(standing.revision().get() + u64::from(append.count()));
            let write = Write { lease: None, entry: Some((entry.clone(), append.events().clone())) };
            Decision::written(Appended::new(entry, false, Judged { revision, ..judged }), write)
        }
        (Verdict::Refused(reason), ..) => refuse(reason),
        (verdict, ..) => unreachable!("an append is granted, a replay or refused, not {verdict:?}"),
    }
}

/// Decides a renewal, for `ttl` or else the lease's own (R1).
pub fn renew(subject: Subject<'_>, lease: &Lease, ttl: Option<Ttl>) -> Decision<Renewal> {
    let judged = subject.judged();
    match (judge(subject.standing, Request::Renew { lease }, &judged), subject.standing) {
        (Verdict::Granted, Some(standing)) => {
            let mut stored = standing.lease.clone();
            stored.expires_at = stored.expires_at.max(judged.time.after(ttl.unwrap_or(stored.ttl)));
            stored.recorded_at = judged.time;
            stored.renewals += 1;
            stored.head = standing.head();
            stored.chain = standing.chain();
            let judged = Judged { revision: Revision::new(standing.revision().get() + 1), ..judged };
            let renewed = stored.lease(subject.ledger, subject.partition);
            Decision::written(Renewal::new(renewed, stored.head, stored.chain, judged), Write::lease(stored))
        }
        (Verdict::Refused(reason), _) => {
            let rejection = subject.refuse(reason, Operation::Renew, Presented::lease(lease, None), None, judged);
            Decision::refused(rejection, subject.observed_expiry(reason == Reason::Expired, judged))
        }
        (verdict, _) => unreachable!("a renewal is granted or refused, not {verdict:?}"),
    }
}

/// Decides a release. `past` is the tenure of the lease's generation, where that is below the current one.
pub fn release(subject: Subject<'_>, past: Option<&PastTenure>, lease: &Lease) -> Decision<Released> {
    let judged = subject.judged();
    let refuse = |reason| {
        let rejection = subject.refuse(reason, Operation::Release, Presented::lease(lease, None), None, judged);
        Decision::refused(rejection, Write::default())
    };
    match (judge(subject.standing, Request::Release { lease, past }, &judged), subject.standing) {
        (Verdict::Granted, Some(standing)) => {
            let stored = StoredLease { vacancy: Some(Vacancy::Released), ..standing.lease.clone() };
            match subject.write_own(stored, None, &OwnEvent::Released, judged.time) {
                Some(write) => Decision::written(released_at(&write, standing, judged), write),
                None => refuse(Reason::GenerationExhausted),
            }
        }
        (Verdict::AlreadyEnded(end), _) => {
            let rests_on_expiry = matches!(end.basis, Basis::Expired { .. }) && end.successor.is_none();
            Decision::written(Released::AlreadyEnded { end, judged }, subject.observed_expiry(rests_on_expiry, judged))
        }
        (Verdict::Refused(reason), _) => refuse(reason),
        (verdict, _) => unreachable!("a release is granted, a success without effect, or refused, not {verdict:?}"),
    }
}

/// Decides a claim. `earlier` is the entry of the partition that has the claim's acquisition as its id.
pub fn claim(subject: Subject<'_>, earlier: Option<&Arc<Entry>>, claim: &Claim) -> Decision<Claimed> {
    let judged = subject.judged();
    let refuse = |reason| {
        let presented = Presented::claim(claim);
        let rejection = subject.refuse(reason, Operation::Claim, presented, None, judged);
        Decision::refused(rejection, subject.observed_expiry(reason == Reason::Expired, judged))
    };
    let request = Request::Claim { claim, earlier: earlier.map(Arc::as_ref) };
    match (judge(subject.standing, request, &judged), subject.standing) {
        (Verdict::Granted, standing) => {
            let (previous, basis, generation, renewals) = match standing {
                None => (None, Basis::First, Some(Generation::FIRST), 0),
                Some(standing) => {
                    let lease = &standing.lease;
                    let previous =
                        Predecessor::new(lease.holder.clone(), lease.generation, lease.acquisition, standing.head());
                    (Some(previous), judge::basis(standing, judged.time), lease.generation.next(), lease.renewals)
                }
            };
            let Some(generation) = generation else { return refuse(Reason::GenerationExhausted) };
            let stored = StoredLease {
                generation,
                holder: claim.holder.clone(),
                acquisition: claim.acquisition,
                ttl: claim.ttl,
                expires_at: judged.time.after(claim.ttl),
                vacancy: None,
                renewals,
                recorded_at: judged.time,
                // Set with the entry below.
                head: Position::FIRST,
                chain: chain::start(subject.ledger, subject.partition),
            };
            let lease = stored.lease(subject.ledger, subject.partition);
            let succession = OwnEvent::Claimed(Succession::new(previous, basis, &lease, judged.time));
            let Some(write) = subject.write_own(stored, Some(claim.acquisition.into()), &succession, judged.time)
            else {
                return refuse(Reason::GenerationExhausted);
            };
            let stored = write.lease.as_ref().expect("write_own writes the lease");
            let judged = Judged { revision: revision_after(stored), ..judged };
            Decision::written(Claimed::new(lease, stored.head, stored.chain, false, judged), write)
        }
        (Verdict::LeaseStands, Some(standing)) => {
            let lease = standing.lease.lease(subject.ledger, subject.partition);
            Decision::answer(Claimed::new(lease, standing.head(), standing.chain(), true, judged))
        }
        (Verdict::Refused(reason), _) => refuse(reason),
        (verdict, _) => unreachable!("a claim is granted, stands, or is refused, not {verdict:?}"),
    }
}

/// Decides an operator's end of a tenure (C3).
pub fn end_tenure(subject: Subject<'_>, observed: Observation, note: &Note) -> Decision<Ended> {
    let judged = subject.judged();
    let refuse = |reason| {
        let presented = Presented::observation(observed);
        Decision::refused(subject.refuse(reason, Operation::EndTenure, presented, None, judged), Write::default())
    };
    match (judge(subject.standing, Request::EndTenure { observed }, &judged), subject.standing) {
        (Verdict::Granted, Some(standing)) => {
            let vacancy = Vacancy::Ended { reason: note.clone() };
            let stored = StoredLease { vacancy: Some(vacancy), ..standing.lease.clone() };
            let event = OwnEvent::Ended { reason: note.clone() };
            match subject.write_own(stored, None, &event, judged.time) {
                None => refuse(Reason::GenerationExhausted),
                Some(write) => {
                    let stored = write.lease.as_ref().expect("write_own writes the lease");
                    let judged = Judged { revision: revision_after(stored), ..judged };
                    Decision::written(Ended::Now { position: stored.head, judged }, write)
                }
            }
        }
        (Verdict::AlreadyVacant(vacancy), _) => Decision::answer(Ended::AlreadyVacant { vacancy, judged }),
        (Verdict::Refused(reason), _) => refuse(reason),
        (verdict, _) => unreachable!("a tenure is ended, was ended, or the step is refused, not {verdict:?}"),
    }
}

/// Decides an operator's advance (I4). `tail` is where the log ends, `taken` the `$advanced` entry of the partition with
/// the step's acquisition, `earlier` the entry that has that as its id.
pub fn advance(
    subject: Subject<'_>,
    tail: &Tail,
    taken: Option<(&Entry, &AdvanceRecord)>,
    earlier: Option<&Entry>,
    advance: &Advance,
) -> Decision<Advanced> {
    let mut judged = subject.judged();
    let refuse = |reason| {
        let presented = Presented::advance(advance);
        Decision::refused(subject.refuse(reason, Operation::Advance, presented, None, judged), Write::default())
    };
    let verdict = judge(subject.standing, Request::Advance { advance, tail, taken, earlier }, &judged);
    match (verdict, taken) {
        (Verdict::Replay, Some((entry, _))) => Decision::answer(Advanced::new(Mark::of(entry), true, judged)),
        (Verdict::Granted, _) => {
            let highest = judge::highest(subject.standing, advance, tail);
            let Some(generation) = highest.map_or(Some(Generation::FIRST), Generation::next) else {
                return refuse(Reason::GenerationExhausted);
            };
            let tip = tail.entry.as_deref();
            let at = tip.map_or(judged.time, |tip| judged.time.max(tip.recorded_at));
            let stored = subject.standing.map(|standing| &standing.lease);
            // What the log lost is added to the renewals, so that the revision does not go back (J2).
            let lost = stored.map_or(0, |lease| lease.head.get() - tail.last.map_or(0, Position::get));
            let lease = StoredLease {
                generation,
                holder: advance.operator.clone(),
                acquisition: advance.acquisition,
                ttl: stored.map_or_else(Ttl::default, |lease| lease.ttl),
                // Whoever takes the vacancy off by hand has given nobody any time.
                expires_at: at,
                vacancy: Some(Vacancy::Advanced { reason: advance.reason.clone() }),
                renewals: stored.map_or(0, |lease| lease.renewals) + u64::try_from(lost).unwrap_or(0),
                recorded_at: at,
                // Set with the entry below.
                head: Position::FIRST,
                chain: chain::start(subject.ledger, subject.partition),
            };
            let record = AdvanceRecord::new(advance, stored.map(FoundLease::from), tip.map(Mark::of));
            let event = OwnEvent::Advanced(record).to_new_event();
            let content = chain::content(std::slice::from_ref(&event));
            let before = (tail.last, tip.map_or(lease.chain, |tip| tip.chain));
            let Some(entry) = subject.seal_after(before, &lease, None, 1, content, at) else {
                return refuse(Reason::GenerationExhausted);
            };
            let mark = Mark::of(&entry);
            let write = Write::own(lease, entry, event);
            let stored = write.lease.as_ref().expect("an own event is written with the lease");
            judged = Judged::new(at, revision_after(stored), subject.clock < at);
            Decision::written(Advanced::new(mark, false, judged), write)
        }
        (Verdict::Refused(reason), _) => refuse(reason),
        (verdict, _) => unreachable!("an advance is granted, a replay or refused, not {verdict:?}"),
    }
}

/// The revision once the lease was written together with an entry.
fn revision_after(stored: &StoredLease) -> Revision {
    Revision::new(stored.head.get().unsigned_abs() + stored.renewals)
}

fn released_at(write: &Write, standing: &Standing, judged: Judged) -> Released {
    let stored = write.lease.as_ref().unwrap_or(&standing.lease);
    Released::Now { position: stored.head, judged: Judged { revision: revision_after(stored), ..judged } }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
