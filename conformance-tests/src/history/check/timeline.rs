//! V1: the states that a partition went through, in the order of its revisions, and whether each follows from the one
//! before.
//!
//! A state is named by the newest entry of the log and the count of renewals; together they are the revision (J2). What
//! is not known is where a renewal stands whose answer was lost: counts have bounds then, and expiries too.

use std::collections::HashMap;

use ledger_core::{Generation, Lease, PastTenure, Standing, StoredLease, Timestamp};

use super::answers::rests_on_expiry;
use super::grant::{Grants, Moment, Span};
use super::joined::{Joined, is_by, told, whose};
use super::log::{self, InForce, Tenure};
use super::path::Path;
use super::unseen::Unseen;
use super::walk::{Walked, walk};
use super::{Findings, Kind};
use crate::history::content::PartitionContent;
use crate::history::invocation::Invocation;
use crate::history::record::Call;

/// A state of a claimed partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// The place of the newest entry.
    pub(super) place: usize,
    /// The count of renewals.
    pub(super) renewals: u64,
}

pub(super) struct Timeline<'a> {
    pub(super) part: &'a PartitionContent,
    pub(super) joined: &'a Joined<'a>,
    tenures: Vec<Tenure>,
    in_force: Vec<InForce>,
    path: Path<'a>,
    walked: Walked,
    /// For each tenure: the count of renewals before it.
    began: Vec<u64>,
    /// The greatest revision under each entry.
    reach: Vec<u64>,
    expired: HashMap<Generation, Expired>,
}

/// Who may have recorded that the lease of a generation has run out (T2), which no entry tells.
#[derive(Clone, Copy, Debug)]
struct Expired {
    /// When the first call was made that may have.
    called_at: u64,
    /// When the first one that surely has had returned.
    surely_at: u64,
}

impl<'a> Timeline<'a> {
    /// `returned` has the calls in the order in which their answers came.
    pub(super) fn new(
        part: &'a PartitionContent,
        calls: &[&'a Invocation],
        returned: &[(u64, usize)],
        joined: &'a Joined<'a>,
        findings: &mut Findings,
    ) -> Self {
        let mut timeline = Self {
            part,
            joined,
            tenures: Vec::new(),
            in_force: Vec::new(),
            path: Path::default(),
            walked: Walked::default(),
            began: Vec::new(),
            reach: Vec::new(),
            expired: HashMap::new(),
        };
        timeline.go(calls, returned, findings);
        timeline.note_expiries(calls);
        timeline
    }

    fn go(&mut self, calls: &[&'a Invocation], returned: &[(u64, usize)], findings: &mut Findings) {
        let (part, joined) = (self.part, self.joined);
        let Some(total) = self.total(calls, findings) else { return };
        (self.tenures, self.in_force) = log::walk(part, joined, findings);
        if self.tenures.first().is_none_or(|tenure| tenure.begins > 0) {
            if let Some(first) = part.log.first() {
                findings.add(Kind::Log, None, "the log starts with `$claimed` or `$advanced` (G4)", told(&first.entry));
            }
            return;
        }
        self.path = Path::new(calls, joined, total, findings);
        let times = part.log.iter().map(|logged| logged.entry.recorded_at);
        let end = part.tenure.as_ref().map_or(Timestamp::from_micros(i64::MAX), |tenure| tenure.recorded_at);
        let unseen = Unseen::new(calls, returned, &self.path, &self.tenures, times, end);
        let grants = Grants {
            part,
            joined,
            path: &self.path,
            tenures: &self.tenures,
            in_force: &self.in_force,
            unseen: &unseen,
        };
        self.walked = walk(&grants, findings);
        self.settle();
        self.check_end(findings);
    }

    /// How many renewals there were, where that can be.
    fn total(&self, calls: &[&Invocation], findings: &mut Findings) -> Option<u64> {
        let head = self.joined.lasts.last().copied().unwrap_or(0);
        let total = self.part.revision.get().checked_sub(head);
        let is_possible = total.is_some_and(|total| total <= calls.len() as u64);
        if !is_possible {
            let expected =
                format!("the revision is at least the head, {head}, and by the calls at most beyond it (J2)");
            findings.add(Kind::Log, None, expected, self.part.revision.to_string());
        }
        total.filter(|_| is_possible)
    }

    /// Takes over what the walk found out about the order.
    fn settle(&mut self) {
        for (place, bounds) in std::mem::take(&mut self.walked.narrowed) {
            self.path.written[place] = bounds;
        }
        self.began = self.tenures.iter().map(|tenure| self.path.written[tenure.begins].0).collect();
        let reach = |(place, last): (usize, &u64)| last + self.path.counts(place).1;
        self.reach = self.joined.lasts.iter().enumerate().map(reach).collect();
    }

    fn note_expiries(&mut self, calls: &[&Invocation]) {
        let wrote = self.joined.silent_writers();
        for call in calls {
            let Some((generation, surely)) = self.may_record_expiry(call) else { continue };
            if !surely && wrote.contains(&(&*call.process, call.number)) {
                continue;
            }
            let surely_at = if surely { call.returned_at() } else { u64::MAX };
            let expired =
                self.expired.entry(generation).or_insert(Expired { called_at: u64::MAX, surely_at: u64::MAX });
            expired.called_at = expired.called_at.min(call.called_at);
            expired.surely_at = expired.surely_at.min(surely_at);
        }
    }

    /// The generation whose expiry a call may have recorded, and whether it surely has.
    fn may_record_expiry(&self, call: &Invocation) -> Option<(Generation, bool)> {
        let surely = call.answer.as_ref().is_some_and(|(_, answer)| rests_on_expiry(answer));
        if !surely && !call.is_open() {
            return None;
        }
        let generation = match &call.call {
            // Of these each was granted, and so is none of those that were refused.
            Call::Renew { lease, .. } if !surely && self.are_granted(lease) => return None,
            Call::Append { lease, .. } | Call::Renew { lease, .. } | Call::Release(lease) => lease.generation,
            // A claim that repeats its own acquisition is refused as expired.
            Call::Claim(claim) => {
                let place = self.joined.ids.get(&claim.acquisition.into())?;
                self.part.log[*place].entry.generation
            }
            _ => return None,
        };
        Some((generation, surely))
    }

    /// Whether each renewal of a lease was granted whose answer nobody got.
    fn are_granted(&self, lease: &Lease) -> bool {
        let number = self.tenures.binary_search_by_key(&lease.generation, |tenure| tenure.generation);
        number.is_ok_and(|number| {
            self.walked.spent.contains(&number)
                && self.tenures[number].acquisition == lease.acquisition
                && self.tenures[number].holder == lease.holder
        })
    }

    /// Whether the expiry of a generation may have been recorded when a call returned.
    pub(super) fn may_have_expired(&self, generation: Generation, call: &Invocation) -> bool {
        self.expired.get(&generation).is_some_and(|expired| expired.called_at < call.returned_at())
    }

    /// Whether the expiry of the tenure of a state may have been recorded when a call returned.
    pub(super) fn may_have_expired_at(&self, state: State, call: &Invocation) -> bool {
        self.may_have_expired(self.tenures[self.in_force[state.place].tenure].generation, call)
    }

    /// Whether the expiry of a generation was surely recorded when a call was made.
    pub(super) fn had_expired(&self, generation: Generation, call: &Invocation) -> bool {
        self.expired.get(&generation).is_some_and(|expired| expired.surely_at < call.called_at)
    }

    /// What the newest look tells against where the walk has ended.
    fn check_end(&self, findings: &mut Findings) {
        let (Some(last), Some(tenure), Some(end)) =
            (self.part.log.len().checked_sub(1), &self.part.tenure, &self.walked.end)
        else {
            return;
        };
        let entry = &self.part.log[last].entry;
        let is_right = tenure.head == entry.last
            && tenure.chain == entry.chain
            && is_by(entry, &tenure.lease)
            && tenure.vacancy == self.in_force[last].vacancy
            && end.expiry.has(tenure.lease.expires_at);
        if !is_right {
            let expected = format!("the lease follows from the log (G4): {}, expiry {}", told(entry), end.expiry);
            let seen = format!(
                "{}, head {}, expiry {}",
                whose(&tenure.lease),
                tenure.head,
                tenure.lease.expires_at.as_micros()
            );
            findings.add(Kind::Log, None, expected, seen);
        }
    }

    /// The states of a revision: one, where no renewal with a lost answer stands near it.
    pub(super) fn states(&self, revision: u64) -> impl Iterator<Item = State> + '_ {
        let from = self.reach.partition_point(|reach| *reach < revision);
        (from..self.reach.len())
            .take_while(move |place| self.joined.lasts[*place] + self.path.written[*place].0 <= revision)
            .filter_map(move |place| Some(State { place, renewals: revision.checked_sub(self.joined.lasts[place])? }))
            .filter(|state| self.is_possible(*state))
    }

    /// Whether a state between the bounds of its entry and the next is on any way that the evidence allows.
    fn is_possible(&self, state: State) -> bool {
        let is_open = |place: usize| self.path.written.get(place).is_some_and(|(least, most)| least < most);
        let crossing = (is_open(state.place) && state.renewals < self.path.written[state.place].1)
            || (is_open(state.place + 1) && state.renewals > self.path.written[state.place + 1].0);
        state.renewals <= self.path.total
            && (!crossing || self.walked.crossed.contains_key(&(state.place, state.renewals)))
    }

    /// The revisions under an entry: the least right after it, and the greatest.
    pub(super) fn revisions(&self, place: usize) -> (u64, u64) {
        let last = self.joined.lasts[place];
        match self.reach.get(place) {
            Some(reach) => (last + self.path.written[place].0, *reach),
            None => (last, u64::MAX),
        }
    }

    /// The greatest revision from which an entry can have been written.
    pub(super) fn before(&self, place: usize) -> u64 {
        let first = self.part.log[place].entry.first.get().unsigned_abs() - 1;
        self.path.written.get(place).map_or(u64::MAX, |(_, most)| first + most)
    }

    /// What is known of a state beside its entry.
    pub(super) fn moment(&self, state: State) -> Moment {
        let State { place, renewals } = state;
        if let Some(moment) = self.walked.crossed.get(&(place, renewals)).filter(|_| !self.walked.crossed.is_empty()) {
            return *moment;
        }
        let tenure = self.in_force[place].tenure;
        let renewed = renewals.checked_sub(1).and_then(|number| self.walked.renewed.get(usize::try_from(number).ok()?));
        let recorded = Span::at(self.part.log[place].entry.recorded_at);
        match renewed.filter(|_| renewals > self.began[tenure]) {
            Some(renewed) if renewals > self.path.written[place].1 => *renewed,
            Some(renewed) => Moment { recorded, ..*renewed },
            None => Moment { expiry: Span::at(self.tenures[tenure].expires_at), recorded, unseen: 0, changed: None },
        }
    }

    /// Whether nothing of its own holder follows a state: what an answer that rests on the expiry makes sure of (T2).
    pub(super) fn is_last_of_its_tenure(&self, state: State) -> bool {
        let Some((least, _)) = self.path.written.get(state.place + 1) else {
            return state.renewals == self.path.total;
        };
        let next = self.in_force[state.place + 1].tenure;
        let is_ended = self.in_force[state.place + 1].vacancy.is_some()
            && !matches!(self.part.log[state.place + 1].own, Some(crate::history::content::Own::Released));
        state.renewals >= *least && (next != self.in_force[state.place].tenure || is_ended)
    }

    /// The state as the judgement sees it, with the expiry that is to be assumed.
    pub(super) fn standing(&self, state: State, moment: &Moment, expires_at: Timestamp) -> Standing {
        let in_force = &self.in_force[state.place];
        let tenure = &self.tenures[in_force.tenure];
        let tip = &self.part.log[state.place].entry;
        let lease = StoredLease::new(
            (tenure.generation, tenure.holder.clone(), tenure.acquisition),
            (tenure.ttl, expires_at),
            in_force.vacancy.clone(),
            state.renewals,
            moment.recorded.low,
            (tip.last, tip.chain),
        );
        Standing::new(lease, Some(tip.clone()))
    }

    /// The tenure of a generation below that of a state (R3).
    pub(super) fn past(&self, state: State, generation: Generation, standing: &Standing) -> Option<PastTenure> {
        let number = self.tenures.binary_search_by_key(&generation, |tenure| tenure.generation).ok()?;
        let current = self.in_force[state.place].tenure;
        let tenure = self.tenures.get(number).filter(|tenure| number < current && tenure.succession.is_some())?;
        let next = self.tenures[number + 1..=current].iter().find_map(|tenure| tenure.succession.as_ref());
        PastTenure::before((tenure.holder.clone(), tenure.acquisition), next, &standing.lease)
    }

    /// The place in the log by which a generation had visibly ended at the latest: its own end, or the next beginning.
    pub(super) fn ended_by(&self, generation: Generation) -> Option<usize> {
        let number = self.tenures.partition_point(|tenure| tenure.generation < generation);
        let tenure = self.tenures.get(number)?;
        // One that an advance has passed over was never current.
        if tenure.generation == generation { tenure.ended_by } else { Some(tenure.begins) }
    }
}
