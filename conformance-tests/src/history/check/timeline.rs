//! V1: the states that a partition went through, in the order of its revisions, and whether each follows from the one
//! before.
//!
//! A state is named by the newest entry of the log and the count of renewals; together they are the revision (J2). What
//! is not known is where a renewal stands whose answer was lost: counts have bounds then, and expiries too.

use std::collections::HashMap;

use ledger_core::{Generation, PastTenure, Standing, StoredLease, Succession, TenureEnd, Timestamp, Vacancy};

use super::answers::rests_on_expiry;
use super::joined::{Joined, is_by, told, whose};
use super::unseen::{expiries_seen, open_renewals};
use super::{Findings, Kind};
use crate::history::content::{Own, PartitionContent};
use crate::history::invocation::Invocation;
use crate::history::record::Call;

/// Bounds of a time: both the same, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) low: Timestamp,
    pub(super) high: Timestamp,
}

impl Span {
    pub(super) fn at(time: Timestamp) -> Self {
        Self { low: time, high: time }
    }

    pub(super) fn has(&self, time: Timestamp) -> bool {
        self.low <= time && time <= self.high
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (low, high) = (self.low.as_micros(), self.high.as_micros());
        if low == high { write!(f, "{low}") } else { write!(f, "between {low} and {high}") }
    }
}

/// The states whose newest entry is the one at the same place of the log.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) tenure: usize,
    pub(super) vacancy: Option<Vacancy>,
    /// The least count of renewals at which the entry can have been written.
    pub(super) least: u64,
    /// The count at which it is taken to have been written.
    pub(super) start: u64,
    /// The greatest count under it.
    pub(super) most: u64,
}

/// One granted claim.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) succession: Succession,
    /// The expiry before its first known renewal: of one that nobody saw it is not known whether it stands before it.
    pub(super) granted: Span,
    /// The count of renewals before it.
    pub(super) renewals: u64,
    /// The place of its end, or of the claim that followed it.
    pub(super) ended_by: Option<usize>,
}

/// A granted renewal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewed {
    pub(super) at: Span,
    pub(super) expiry: Span,
}

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
    pub(super) steps: Vec<Step>,
    pub(super) tenures: Vec<Tenure>,
    pub(super) renewed: Vec<Renewed>,
    pub(super) expired: HashMap<Generation, Expired>,
}

/// Who may have recorded that the lease of a generation has run out (T2), which no entry tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    /// When the first call was made that may have.
    called_at: u64,
    /// When the first one that surely has had returned.
    surely_at: u64,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(
        part: &'a PartitionContent,
        calls: &[&'a Invocation],
        joined: &'a Joined<'a>,
        findings: &mut Findings,
    ) -> Self {
        let mut timeline =
            Self { part, joined, steps: Vec::new(), tenures: Vec::new(), renewed: Vec::new(), expired: HashMap::new() };
        timeline.note_expiries(calls);
        let head = part.log.last().map_or(0, |logged| logged.entry.last.get().unsigned_abs());
        let Some(total) = part.revision.get().checked_sub(head) else {
            let expected = format!("the revision is at least the head, {head} (J2)");
            findings.add(Kind::Log, None, expected, part.revision.to_string());
            return timeline;
        };
        if let Some(first) = part.log.first().filter(|first| !matches!(first.own, Some(Own::Claimed(_)))) {
            findings.add(Kind::Log, None, "the log starts with `$claimed` (G4)", told(&first.entry));
            return timeline;
        }
        let known = timeline.count_renewals(calls, total, findings);
        let seen = expiries_seen(calls, &known);
        timeline.walk(&known, &seen, &mut open_renewals(calls), findings);
        timeline.check_end(findings);
        timeline
    }

    fn note_expiries(&mut self, calls: &[&Invocation]) {
        for call in calls {
            let Some((generation, surely)) = self.may_record_expiry(call) else { continue };
            let surely_at = if surely { call.returned_at() } else { u64::MAX };
            let expired =
                self.expired.entry(generation).or_insert(Expired { called_at: u64::MAX, surely_at: u64::MAX });
            expired.called_at = expired.called_at.min(call.called_at);
            expired.surely_at = expired.surely_at.min(surely_at);
        }
    }

    /// The generation whose expiry a call may have recorded, and whether it surely has.
    fn may_record_expiry(&self, call: &Invocation) -> Option<(Generation, bool)> {
        let generation = match &call.call {
            Call::Append { lease, .. } | Call::Renew { lease, .. } | Call::Release(lease) => lease.generation,
            // A claim that repeats its own acquisition is refused as expired.
            Call::Claim(claim) => {
                let place = self.joined.ids.get(&claim.acquisition.into())?;
                self.part.log[*place].entry.generation
            }
            _ => return None,
        };
        let surely = call.answer.as_ref().is_some_and(|(_, answer)| rests_on_expiry(answer));
        (surely || call.is_open()).then_some((generation, surely))
    }

    /// Whether the expiry of a generation may have been recorded when a call returned.
    pub(super) fn may_have_expired(&self, generation: Generation, call: &Invocation) -> bool {
        self.expired.get(&generation).is_some_and(|expired| expired.called_at < call.returned_at())
    }

    /// Whether the expiry of a generation was surely recorded when a call was made.
    pub(super) fn had_expired(&self, generation: Generation, call: &Invocation) -> bool {
        self.expired.get(&generation).is_some_and(|expired| expired.surely_at < call.called_at)
    }

    /// What the newest look tells against where the walk has ended.
    fn check_end(&self, findings: &mut Findings) {
        let (Some(last), Some(tenure)) = (self.part.log.len().checked_sub(1), &self.part.tenure) else { return };
        let state = State { place: last, renewals: self.renewed.len() as u64 };
        let entry = &self.part.log[last].entry;
        let is_right = tenure.head == entry.last
            && tenure.chain == entry.chain
            && is_by(entry, &tenure.lease)
            && tenure.vacancy == self.steps[last].vacancy
            && self.expiry(state).has(tenure.lease.expires_at);
        if !is_right {
            let expected =
                format!("the lease follows from the log (G4): {}, expiry {}", told(entry), self.expiry(state));
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
        let last = |place: usize| self.part.log[place].entry.last.get().unsigned_abs();
        let from = {
            let (mut low, mut high) = (0, self.steps.len());
            while low < high {
                let middle = low.midpoint(high);
                if last(middle) + self.steps[middle].most < revision { low = middle + 1 } else { high = middle }
            }
            low
        };
        (from..self.steps.len())
            .take_while(move |place| last(*place) + self.steps[*place].least <= revision)
            .filter_map(move |place| Some(State { place, renewals: revision.checked_sub(last(place))? }))
            .filter(|state| state.renewals <= self.renewed.len() as u64)
    }

    /// The revisions under an entry: the least right after it, and the greatest.
    pub(super) fn revisions(&self, place: usize) -> (u64, u64) {
        let last = self.part.log[place].entry.last.get().unsigned_abs();
        self.steps.get(place).map_or((last, u64::MAX), |step| (last + step.least, last + step.most))
    }

    /// The greatest revision from which an entry can have been written.
    pub(super) fn before(&self, place: usize) -> u64 {
        let first = self.part.log[place].entry.first.get().unsigned_abs() - 1;
        self.steps.get(place).map_or(u64::MAX, |step| first + step.start)
    }

    /// The expiry that was stored.
    pub(super) fn expiry(&self, state: State) -> Span {
        let tenure = &self.tenures[self.steps[state.place].tenure];
        if state.renewals > tenure.renewals {
            let number = usize::try_from(state.renewals - 1).unwrap_or(usize::MAX);
            self.renewed.get(number).map_or(tenure.granted, |renewed| renewed.expiry)
        } else {
            tenure.granted
        }
    }

    /// The latest time that a granted call has recorded; a refusal as expired may have recorded a later one (T2).
    pub(super) fn recorded_at(&self, state: State) -> Span {
        let entry = self.part.log[state.place].entry.recorded_at;
        let number = state.renewals.checked_sub(1).filter(|_| state.renewals > self.steps[state.place].start);
        let renewed = number.and_then(|number| self.renewed.get(usize::try_from(number).ok()?));
        renewed.map_or(Span::at(entry), |renewed| Span {
            low: renewed.at.low.max(entry),
            high: renewed.at.high.max(entry),
        })
    }

    /// Whether nothing of its own holder follows a state: what an answer that rests on the expiry makes sure of (T2).
    pub(super) fn is_last_of_its_tenure(&self, state: State) -> bool {
        let Some(next) = self.steps.get(state.place + 1) else { return state.renewals == self.renewed.len() as u64 };
        let is_renewed = state.renewals < next.least;
        !is_renewed && matches!(self.part.log[state.place + 1].own, Some(Own::Claimed(_) | Own::Ended(_)))
    }

    /// The state as the judgement sees it, with the expiry that is to be assumed.
    pub(super) fn standing(&self, state: State, expires_at: Timestamp) -> Standing {
        let step = &self.steps[state.place];
        let stored = &self.tenures[step.tenure].succession;
        let tip = &self.part.log[state.place].entry;
        let lease = StoredLease::new(
            (stored.generation, stored.holder.clone(), stored.acquisition),
            (stored.ttl, expires_at),
            step.vacancy.clone(),
            state.renewals,
            self.recorded_at(state).low,
            (tip.last, tip.chain),
        );
        Standing::new(lease, Some(tip.clone()))
    }

    /// The tenure of a generation below that of a state (R3).
    pub(super) fn past(&self, state: State, generation: Generation) -> Option<PastTenure> {
        let place = self.tenures.binary_search_by_key(&generation, |tenure| tenure.succession.generation).ok()?;
        if place >= self.steps[state.place].tenure {
            return None;
        }
        let (stored, next) = (&self.tenures[place].succession, &self.tenures.get(place + 1)?.succession);
        Some(PastTenure::new(stored.holder.clone(), stored.acquisition, TenureEnd::from(next)))
    }

    /// The place in the log by which a generation had visibly ended at the latest: its own end, or the next claim.
    pub(super) fn ended_by(&self, generation: Generation) -> Option<usize> {
        let newest = self.tenures.last()?.succession.generation;
        if generation > newest {
            return None;
        }
        let place = self.tenures.partition_point(|tenure| tenure.succession.generation < generation);
        let tenure = self.tenures.get(place)?;
        if tenure.succession.generation == generation { tenure.ended_by } else { None }
    }
}
