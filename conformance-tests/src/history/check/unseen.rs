//! What is known of renewals that were granted and whose answers nobody got: who may have sent them and when, and what
//! others were told of the states after them.

use std::collections::HashMap;

use ledger_core::{Generation, Timestamp, Ttl};

use super::log::Tenure;
use super::path::Path;
use super::told::{expiry_told, generation_told, head_told, recorded_told};
use crate::history::invocation::Invocation;
use crate::history::record::Call;

/// Something that a call was told.
pub(super) type Told<'a> = (Timestamp, &'a Invocation);

/// All evidence about unseen renewals of a partition. Empty where there are none.
#[derive(Default)]
pub(super) struct Unseen<'a> {
    /// The open renewals of each tenure, by its number.
    open: HashMap<usize, OpenRenewals>,
    /// The expiry in force, by the count of renewals and the generation.
    expiries: HashMap<(u64, Generation), Told<'a>>,
    /// The recorded time, by the revision.
    recorded: HashMap<u64, Told<'a>>,
    /// For each count: a time that what stands before it is not later than.
    until: Vec<Timestamp>,
}

/// Renewals of one lease whose answers nobody got.
#[derive(Default)]
pub(super) struct OpenRenewals {
    /// Of each: the least revision from which it can have been granted, since that was told before it was called; and
    /// its TTL. In the order of the revisions.
    calls: Vec<(u64, Ttl)>,
}

impl OpenRenewals {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// The TTLs of those that can have been granted from a revision.
    pub(super) fn ttls(&self, revision: u64) -> impl ExactSizeIterator<Item = Ttl> + Clone + '_ {
        let count = self.calls.partition_point(|(least, _)| *least <= revision);
        self.calls[..count].iter().map(|(_, ttl)| *ttl)
    }
}

impl<'a> Unseen<'a> {
    /// Gathers the evidence; `returned` has the calls in the order in which their answers came.
    pub(super) fn new(
        calls: &[&'a Invocation],
        returned: &[(u64, usize)],
        path: &Path<'a>,
        tenures: &[Tenure],
        recorded_times: impl Iterator<Item = Timestamp>,
        end: Timestamp,
    ) -> Self {
        let mut unseen = Self::default();
        if path.known.iter().all(Option::is_some) {
            return unseen;
        }
        unseen.gather_open(calls, returned, tenures);
        unseen.until = vec![Timestamp::from_micros(i64::MAX); path.known.len() + 1];
        for call in calls {
            unseen.gather_told(call, path);
        }
        for (at, (least, _)) in recorded_times.zip(&path.written) {
            unseen.bound(*least, at);
        }
        let mut earliest = end;
        for until in unseen.until.iter_mut().rev() {
            earliest = earliest.min(*until);
            *until = earliest;
        }
        unseen
    }

    /// The open renewals of a tenure.
    pub(super) fn open(&self, tenure: usize) -> Option<&OpenRenewals> {
        self.open.get(&tenure)
    }

    /// The expiry that was told of a generation and a count of renewals.
    pub(super) fn expiry(&self, count: u64, generation: Generation) -> Option<Told<'a>> {
        self.expiries.get(&(count, generation)).copied()
    }

    /// The recorded time that was told of a revision.
    pub(super) fn recorded(&self, revision: u64) -> Option<Told<'a>> {
        self.recorded.get(&revision).copied()
    }

    /// A time that the renewal which leads to a count is not later than.
    pub(super) fn until(&self, count: u64) -> Timestamp {
        let until = usize::try_from(count).ok().and_then(|count| self.until.get(count));
        until.copied().unwrap_or(Timestamp::from_micros(i64::MAX))
    }

    fn gather_open(&mut self, calls: &[&Invocation], returned: &[(u64, usize)], tenures: &[Tenure]) {
        let mut open: Vec<(&Invocation, usize, Ttl)> = Vec::new();
        for call in calls.iter().copied().filter(|call| call.is_open()) {
            let Call::Renew { lease, ttl } = &call.call else { continue };
            let Ok(nth) = tenures.binary_search_by_key(&lease.generation, |tenure| tenure.generation) else { continue };
            let tenure = &tenures[nth];
            if tenure.acquisition == lease.acquisition && tenure.holder == lease.holder {
                open.push((call, nth, ttl.unwrap_or(tenure.ttl)));
            }
        }
        open.sort_by_key(|(call, ..)| call.called_at);
        let mut past = returned.iter().peekable();
        let mut furthest = 0;
        for (call, tenure, ttl) in open {
            while let Some((_, before)) = past.next_if(|(at, _)| *at < call.called_at) {
                let judged = calls[*before].answer.as_ref().and_then(|(_, answer)| answer.judged());
                furthest = furthest.max(judged.map_or(0, |judged| judged.revision.get()));
            }
            self.open.entry(tenure).or_default().calls.push((furthest, ttl));
        }
    }

    fn gather_told(&mut self, call: &'a Invocation, path: &Path<'_>) {
        let (Some((head, judged)), Some((_, answer))) = (head_told(call), &call.answer) else { return };
        let revision = judged.revision.get();
        let Some(count) = revision.checked_sub(head.get().unsigned_abs()).filter(|count| *count <= path.total) else {
            return;
        };
        let recorded = recorded_told(answer);
        self.bound(count, recorded.map_or(judged.time, |(at, _)| at));
        // Only what follows an unseen renewal is not known anyway.
        if count.checked_sub(1).is_none_or(|number| path.renewal(number).is_some()) {
            return;
        }
        if let (Some(expires_at), Some(generation)) = (expiry_told(answer), generation_told(answer)) {
            self.expiries.entry((count, generation)).or_insert((expires_at, call));
        }
        if let Some((at, true)) = recorded {
            self.recorded.entry(revision).or_insert((at, call));
        }
    }

    fn bound(&mut self, count: u64, at: Timestamp) {
        if let Some(until) = usize::try_from(count).ok().and_then(|count| self.until.get_mut(count)) {
            *until = (*until).min(at);
        }
    }
}
