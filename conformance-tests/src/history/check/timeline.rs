//! V1: the states that a partition went through, in the order of its revisions, and whether each follows from the one
//! before.
//!
//! A state is named by the newest entry of the log and the count of renewals; together they are the revision (J2). What
//! is not known is where a renewal stands whose answer was lost: counts have bounds then, and expiries too.

use std::collections::HashMap;

use ledger_core::{
    AcquisitionId, Basis, Entry, Generation, Holder, Judged, PastTenure, Position, Predecessor, Standing, StoredLease,
    Succession, TenureEnd, Timestamp, Ttl, Vacancy,
};

use super::answers::rests_on_expiry;
use super::joined::{Joined, is_by, told, whose};
use super::{Findings, Kind};
use crate::history::content::{Own, PartitionContent};
use crate::history::record::{Answer, Call, Invocation};

/// Bounds of a time: both the same, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) low: Timestamp,
    pub(super) high: Timestamp,
}

impl Span {
    fn at(time: Timestamp) -> Self {
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
struct Step {
    tenure: usize,
    vacancy: Option<Vacancy>,
    /// The least count of renewals at which the entry can have been written.
    least: u64,
    /// The count at which it is taken to have been written.
    start: u64,
    /// The greatest count under it.
    most: u64,
}

/// One granted claim.
#[derive(Clone, Debug)]
struct Tenure {
    succession: Succession,
    /// The expiry before its first known renewal: of one that nobody saw it is not known whether it stands before it.
    granted: Span,
    /// The count of renewals before it.
    renewals: u64,
    /// The place of its end, or of the claim that followed it.
    ended_by: Option<usize>,
}

/// A granted renewal.
#[derive(Clone, Copy, Debug)]
struct Renewed {
    at: Span,
    expiry: Span,
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
    steps: Vec<Step>,
    tenures: Vec<Tenure>,
    renewed: Vec<Renewed>,
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

    /// Where each entry stands among the renewals, by what the answers tell; and the renewals that were acknowledged, by
    /// their number.
    fn count_renewals(
        &mut self,
        calls: &[&'a Invocation],
        total: u64,
        findings: &mut Findings,
    ) -> Vec<Option<&'a Invocation>> {
        let log = &self.part.log;
        let mut known: Vec<Option<&Invocation>> = vec![None; usize::try_from(total).unwrap_or(0)];
        // For each entry: the count at which it was written, and the least and the greatest seen under it.
        let mut exact: Vec<Option<u64>> = vec![None; log.len()];
        let mut seen: Vec<Option<(u64, u64)>> = vec![None; log.len()];
        let mut see = |place: usize, count: u64| {
            let (least, most) = seen[place].unwrap_or((count, count));
            seen[place] = Some((least.min(count), most.max(count)));
        };
        for call in calls {
            let Some((head, judged)) = head_told(call) else { continue };
            let count = judged.revision.get().checked_sub(head.get().unsigned_abs()).filter(|count| *count <= total);
            let (Some(count), Some(place)) = (count, Joined::place(self.part, head)) else {
                // A write that is not in the log was found lost already.
                if !is_effect(call) || matches!(call.call, Call::Renew { .. }) {
                    let kind = if is_effect(call) { Kind::Lost } else { kind_of(call) };
                    let expected = format!("revision {} at head {head} was a state of the partition", judged.revision);
                    let end = log.last().map_or(0, |logged| logged.entry.last.get());
                    let seen = format!("it never was; the log ends at {end} with {total} renewals");
                    findings.add(kind, Some(call), expected, seen);
                }
                continue;
            };
            see(place, count);
            match (&call.call, is_effect(call)) {
                (Call::Renew { .. }, true) => {
                    let Some(number) = count.checked_sub(1) else {
                        findings.add(Kind::WrongAnswer, Some(call), "a renewal moves the revision (J2)", "it did not");
                        continue;
                    };
                    see(place, number);
                    let slot = usize::try_from(number).ok().and_then(|number| known.get_mut(number));
                    if let Some(other) = slot.and_then(|slot| slot.replace(call)) {
                        let expected = format!("no other renewal has the revision {} (J2)", judged.revision);
                        findings.add(Kind::Order, Some(call), expected, other.to_string());
                    }
                }
                (_, true) => exact[place] = Some(count),
                (_, false) => {}
            }
        }
        // Nothing is renewed before it is claimed.
        if let Some(first) = exact.first_mut() {
            first.get_or_insert(0);
        }
        self.bound(&exact, &seen, total, findings);
        known
    }

    /// Bounds for the counts under each entry, by those of its neighbours.
    fn bound(&mut self, exact: &[Option<u64>], seen: &[Option<(u64, u64)>], total: u64, findings: &mut Findings) {
        let log = &self.part.log;
        let mut later = total;
        let mut most = vec![0; log.len()];
        let mut start = vec![0; log.len()];
        for place in (0..log.len()).rev() {
            most[place] = later;
            let least = seen[place].map_or(later, |(least, _)| least);
            start[place] = exact[place].unwrap_or(least).min(later);
            later = start[place].min(least).min(later);
        }
        let mut earlier = 0;
        for place in 0..log.len() {
            let (first, last) = seen[place].unwrap_or((most[place], earlier));
            if first < earlier || last.max(earlier) > most[place] || exact[place].is_some_and(|exact| exact > first) {
                let expected = format!("revisions rise along the log (J2), also at position {}", log[place].entry.last);
                let seen =
                    format!("{earlier} renewals before it, {first} to {last} seen there, {} after it", most[place]);
                findings.add(Kind::Order, None, expected, seen);
            }
            let least = exact[place].unwrap_or(earlier);
            let begun = start[place].max(earlier).min(most[place]);
            self.steps.push(Step {
                tenure: 0,
                vacancy: None,
                least: least.min(begun),
                start: begun,
                most: most[place],
            });
            earlier = earlier.max(last).max(exact[place].unwrap_or(0));
        }
        // A bound that was broken above must not make the walk go back.
        let mut least = 0;
        for step in &mut self.steps {
            step.start = step.start.max(least);
            step.most = step.most.max(step.start);
            least = step.start;
        }
    }

    /// Goes through entries and renewals in their order and checks that each is legal where it stands.
    fn walk(
        &mut self,
        known: &[Option<&'a Invocation>],
        seen: &SeenExpiries,
        open: &mut OpenRenewals,
        findings: &mut Findings,
    ) {
        let part = self.part;
        let total = known.len() as u64;
        let mut expiry = Span::at(Timestamp::from_micros(i64::MIN));
        let mut at = Timestamp::from_micros(i64::MIN);
        let mut next = Position::FIRST;
        for (place, logged) in part.log.iter().enumerate() {
            let entry = &logged.entry;
            if entry.first != next || i64::from(logged.events) != entry.last.get() - entry.first.get() + 1 {
                let seen = format!("an entry from {} to {} with {} events", entry.first, entry.last, logged.events);
                findings.add(Kind::Log, None, format!("positions have no gap (A2): {next} is next"), seen);
            }
            next = entry.last.next().unwrap_or(Position::MAX);
            if entry.recorded_at < at {
                let expected = format!("times do not go back along the log (T2): at least {}", at.as_micros());
                findings.add(Kind::Time, self.joined.acknowledged[place], expected, told(entry));
            }
            at = at.max(entry.recorded_at);
            let before = self.tenures.len().checked_sub(1);
            let vacancy = place.checked_sub(1).and_then(|place| self.steps[place].vacancy.clone());
            let is_stale = |findings: &mut Findings, expected: &str| {
                if logged.own.is_none() {
                    findings.counts.stale_accepted += 1;
                }
                let call = self.joined.acknowledged[place].or(self.joined.open[place]);
                findings.add(Kind::StaleWrite, call, expected, told(entry));
            };
            match (&logged.own, before) {
                (Some(Own::Claimed(succession)), before) => {
                    let previous = before.map(|before| (&self.tenures[before].succession, place));
                    check_claim(part, entry, succession, previous, vacancy.as_ref(), expiry, findings);
                    if let Some(before) = before {
                        self.tenures[before].ended_by.get_or_insert(place);
                    }
                    let step = &self.steps[place];
                    let renewals = step.start;
                    let mut granted = Span::at(succession.expires_at);
                    if let (true, Some(ttl)) = (step.least < step.start, longest(open, succession)) {
                        let until = part.tenure.as_ref().map_or(entry.recorded_at, |tenure| tenure.recorded_at);
                        granted.high = granted.high.max(until.after(ttl));
                    }
                    self.tenures.push(Tenure { succession: succession.clone(), granted, renewals, ended_by: None });
                    expiry = granted;
                    self.steps[place].vacancy = None;
                }
                (own, Some(before)) => {
                    let tenure = &self.tenures[before].succession;
                    if !is_of(entry, tenure) {
                        let expected = format!(
                            "the lease in force wrote it: `{}`, generation {}, acquisition {}",
                            tenure.holder, tenure.generation, tenure.acquisition
                        );
                        is_stale(findings, &expected);
                    } else if vacancy.is_some() {
                        is_stale(findings, "nothing is written to a vacant partition");
                    } else if entry.recorded_at >= expiry.high && !matches!(own, Some(Own::Ended(_))) {
                        is_stale(findings, &format!("it was written before the expiry, {expiry}"));
                    }
                    self.steps[place].vacancy = match own {
                        Some(Own::Released) => Some(Vacancy::Released),
                        Some(Own::Ended(reason)) => Some(Vacancy::Ended { reason: reason.clone() }),
                        _ => vacancy,
                    };
                    if self.steps[place].vacancy.is_some() {
                        self.tenures[before].ended_by.get_or_insert(place);
                    }
                }
                // The first entry is a claim: looked at before.
                (_, None) => {}
            }
            self.steps[place].tenure = self.tenures.len().saturating_sub(1);
            let (least, end) = self.steps.get(place + 1).map_or((total, total), |step| (step.least, step.start));
            let mut lowest = expiry.low;
            for number in self.steps[place].start..end {
                let call = usize::try_from(number).ok().and_then(|number| known[number]);
                if call.is_none() && self.belongs_later(place, number, open) {
                    self.steps[place + 1].start = number;
                    break;
                }
                let renewed = match call {
                    Some(call) => self.renew(call, place, expiry, at, findings),
                    None => {
                        let later =
                            (number + 1..end).find_map(|later| usize::try_from(later).ok().and_then(|n| known[n]));
                        let later = later.and_then(|call| call.answer.as_ref()?.1.judged()).map(|judged| judged.time);
                        let until = later.or_else(|| Some(part.log.get(place + 1)?.entry.recorded_at));
                        let until = until.or_else(|| part.tenure.as_ref().map(|tenure| tenure.recorded_at));
                        let between = Span { low: at, high: until.unwrap_or(at).max(at) };
                        self.renew_unseen(number + 1, place, (expiry, between), seen, open, findings)
                    }
                };
                (expiry, at) = (renewed.expiry, at.max(renewed.at.low));
                self.renewed.push(renewed);
                if number < least {
                    lowest = expiry.low;
                }
            }
            // The next entry may stand before the last of these renewals.
            expiry.low = lowest;
        }
    }

    /// Whether a renewal that nobody saw can not have been made under this entry, but under the next one.
    fn belongs_later(&self, place: usize, number: u64, open: &OpenRenewals) -> bool {
        let may_wait = self.steps.get(place + 1).is_some_and(|next| next.least <= number);
        let stored = self.tenures.get(self.steps[place].tenure).map(|tenure| &tenure.succession);
        let has_call = stored.is_some_and(|stored| {
            let calls = open.get(&(stored.generation, stored.acquisition, stored.holder.clone()));
            calls.is_some_and(|calls| calls.left > 0)
        });
        may_wait && (!has_call || self.steps[place].vacancy.is_some())
    }

    /// A renewal that was acknowledged.
    fn renew(&self, call: &Invocation, place: usize, expiry: Span, at: Timestamp, findings: &mut Findings) -> Renewed {
        let unchanged = Renewed { at: Span::at(at), expiry };
        let (Call::Renew { lease, ttl }, Some((_, Answer::Renewed { lease: granted, head, chain, judged }))) =
            (&call.call, &call.answer)
        else {
            return unchanged;
        };
        let Some(tenure) = self.tenures.get(self.steps[place].tenure) else { return unchanged };
        let entry = &self.part.log[place].entry;
        let stored = &tenure.succession;
        let is_its = lease.generation == stored.generation
            && lease.acquisition == stored.acquisition
            && lease.holder == stored.holder;
        if !is_its || self.steps[place].vacancy.is_some() {
            let expected = format!(
                "the renewal at revision {} is of a lease in force: `{}`, generation {}",
                judged.revision, stored.holder, stored.generation
            );
            findings.add(Kind::StaleWrite, Some(call), expected, whose(lease));
            return unchanged;
        }
        if judged.time >= expiry.high {
            let expected = format!("it was granted before the expiry, {expiry} (R1)");
            findings.add(Kind::StaleWrite, Some(call), expected, format!("at {}", judged.time.as_micros()));
        }
        if judged.time < at {
            let expected = format!("its time is not before what was recorded, {} (T2)", at.as_micros());
            findings.add(Kind::Time, Some(call), expected, judged.time.as_micros().to_string());
        }
        let asked = judged.time.after(ttl.unwrap_or(stored.ttl));
        let right = Span { low: expiry.low.max(asked), high: expiry.high.max(asked) };
        if !right.has(granted.expires_at) || granted.ttl != stored.ttl || *head != entry.last || *chain != entry.chain {
            let expected = format!("expiry {right} (R1), head {} and its chain (R2)", entry.last);
            let seen =
                format!("expiry {}, head {head}, chain {:.8}", granted.expires_at.as_micros(), chain.to_string());
            findings.add(Kind::WrongAnswer, Some(call), expected, seen);
        }
        Renewed { at: Span::at(judged.time), expiry: Span::at(granted.expires_at) }
    }

    /// A renewal that was granted and whose answer nobody got.
    fn renew_unseen(
        &self,
        number: u64,
        place: usize,
        (expiry, between): (Span, Span),
        seen: &SeenExpiries,
        open: &mut OpenRenewals,
        findings: &mut Findings,
    ) -> Renewed {
        let unchanged = Renewed { at: Span::at(between.low), expiry };
        let Some(tenure) = self.tenures.get(self.steps[place].tenure) else { return unchanged };
        let stored = &tenure.succession;
        let key = (stored.generation, stored.acquisition, stored.holder.clone());
        let Some(calls) = open.get_mut(&key).filter(|calls| calls.left > 0) else {
            let expected = format!(
                "renewal {number} of the partition was sent under the lease in force, of `{}` and generation {}",
                stored.holder, stored.generation
            );
            findings.add(Kind::Ghost, None, expected, "no such call was made, or each was told something else");
            return unchanged;
        };
        calls.left -= 1;
        let (least, most) = (calls.least.unwrap_or(stored.ttl), calls.most.unwrap_or(stored.ttl));
        // It was granted, so at a time before the expiry.
        let last = between.high.min(Timestamp::from_micros(expiry.high.as_micros().saturating_sub(1))).max(between.low);
        let low = expiry.low.max(between.low.after(least.min(calls.own.map_or(least, |()| stored.ttl))));
        let high = expiry.high.max(last.after(most.max(calls.own.map_or(most, |()| stored.ttl))));
        let span = Span { low, high };
        let pinned =
            seen.get(&(number, stored.generation)).filter(|time| span.has(**time)).map_or(span, |time| Span::at(*time));
        Renewed { at: Span { low: between.low, high: last }, expiry: pinned }
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

/// Open renewals of one lease.
#[derive(Default)]
pub(super) struct OpenCalls {
    left: usize,
    least: Option<Ttl>,
    most: Option<Ttl>,
    /// Where one asked for the lease's own TTL.
    own: Option<()>,
}

type OpenRenewals = HashMap<(Generation, AcquisitionId, Holder), OpenCalls>;

fn open_renewals(calls: &[&Invocation]) -> OpenRenewals {
    let mut open: OpenRenewals = HashMap::new();
    for call in calls.iter().filter(|call| call.is_open()) {
        if let Call::Renew { lease, ttl } = &call.call {
            let of_lease = open.entry((lease.generation, lease.acquisition, lease.holder.clone())).or_default();
            of_lease.left += 1;
            match ttl {
                None => of_lease.own = Some(()),
                Some(ttl) => {
                    of_lease.least = Some(of_lease.least.map_or(*ttl, |least| least.min(*ttl)));
                    of_lease.most = Some(of_lease.most.map_or(*ttl, |most| most.max(*ttl)));
                }
            }
        }
    }
    open
}

/// The longest TTL that an open renewal of a lease may have asked for; `None` where there is no such call.
fn longest(open: &OpenRenewals, claimed: &Succession) -> Option<Ttl> {
    let calls = open.get(&(claimed.generation, claimed.acquisition, claimed.holder.clone()))?;
    let own = calls.own.map(|()| claimed.ttl);
    calls.most.max(own)
}

/// By the count of renewals and the generation.
type SeenExpiries = HashMap<(u64, Generation), Timestamp>;

/// The expiries that observers saw after renewals whose answers nobody got.
fn expiries_seen(calls: &[&Invocation], known: &[Option<&Invocation>]) -> SeenExpiries {
    let mut seen = HashMap::new();
    if known.iter().all(Option::is_some) {
        return seen;
    }
    for call in calls {
        let (Some((head, judged)), Some((_, answer))) = (head_told(call), &call.answer) else { continue };
        let Some(number) = judged.revision.get().checked_sub(head.get().unsigned_abs()) else { continue };
        let before = number.checked_sub(1).and_then(|before| usize::try_from(before).ok());
        if before.and_then(|before| known.get(before)).is_some_and(Option::is_none)
            && let (Some(expires_at), Some(generation)) = (expiry_told(answer), generation_told(answer))
        {
            seen.entry((number, generation)).or_insert(expires_at);
        }
    }
    seen
}

/// The expiry that an answer tells of the state at its revision.
pub(super) fn expiry_told(answer: &Answer) -> Option<Timestamp> {
    match answer {
        Answer::Rejected { current, .. } => current.as_ref().map(|current| current.expires_at),
        Answer::Observed { tenure, .. } => tenure.as_ref().map(|tenure| tenure.lease.expires_at),
        Answer::Claimed { lease, .. } | Answer::Renewed { lease, .. } => Some(lease.expires_at),
        Answer::AlreadyEnded { basis: Basis::Expired { expires_at, .. }, successor: None, .. } => Some(*expires_at),
        _ => None,
    }
}

/// The generation whose expiry an answer tells.
fn generation_told(answer: &Answer) -> Option<Generation> {
    match answer {
        Answer::Rejected { current, .. } => current.as_ref().map(|current| current.generation),
        Answer::Observed { tenure, .. } => tenure.as_ref().map(|tenure| tenure.lease.generation),
        Answer::Claimed { lease, .. } | Answer::Renewed { lease, .. } => Some(lease.generation),
        _ => None,
    }
}

/// The head and the judgement that an answer tells of one state.
fn head_told(call: &Invocation) -> Option<(Position, Judged)> {
    let (_, answer) = call.answer.as_ref()?;
    match answer {
        Answer::Appended { entry, replayed: false, judged } => Some((entry.last, *judged)),
        Answer::Claimed { head, judged, .. } | Answer::Renewed { head, judged, .. } => Some((*head, *judged)),
        Answer::Released { position, judged } | Answer::Ended { position, judged } => Some((*position, *judged)),
        Answer::Observed { tenure: Some(tenure), judged } => Some((tenure.head, *judged)),
        Answer::Rejected { current: Some(current), judged, .. } => Some((current.head, *judged)),
        _ => None,
    }
}

/// Whether an answer says that the call itself has written.
pub(super) fn is_effect(call: &Invocation) -> bool {
    matches!(
        call.answer,
        Some((
            _,
            Answer::Appended { replayed: false, .. }
                | Answer::Claimed { replayed: false, .. }
                | Answer::Renewed { .. }
                | Answer::Released { .. }
                | Answer::Ended { .. }
        ))
    )
}

/// What a wrong answer of a call counts as.
pub(super) fn kind_of(call: &Invocation) -> Kind {
    match call.answer {
        Some((_, Answer::Rejected { .. })) => Kind::WrongRefusal,
        _ => Kind::WrongAnswer,
    }
}

fn is_of(entry: &Entry, tenure: &Succession) -> bool {
    entry.generation == tenure.generation && entry.acquisition == tenure.acquisition && entry.holder == tenure.holder
}

/// Whether a claim follows from the tenure before it (C1, C3, C5, G1).
fn check_claim(
    part: &PartitionContent,
    entry: &Entry,
    claimed: &Succession,
    previous: Option<(&Succession, usize)>,
    vacancy: Option<&Vacancy>,
    expiry: Span,
    findings: &mut Findings,
) {
    let mut wrong = |kind: Kind, expected: String| findings.add(kind, None, expected, format!("{claimed:?}"));
    let before = previous.map(|(before, place)| {
        let last = place.checked_sub(1).map_or(Position::FIRST, |place| part.log[place].entry.last);
        Predecessor::new(before.holder.clone(), before.generation, before.acquisition, last)
    });
    let next = previous.map_or(Some(Generation::FIRST), |(before, _)| before.generation.next());
    if Some(claimed.generation) != next {
        let expected = next.map_or_else(|| "none".to_owned(), |next| next.to_string());
        wrong(Kind::Log, format!("a claim mints the next generation (G1): {expected}"));
    }
    if claimed.previous != before || !is_of(entry, claimed) || claimed.at != entry.recorded_at {
        wrong(Kind::Log, format!("the succession names the tenure before it (C5): {before:?}; and {}", told(entry)));
    }
    if claimed.expires_at != claimed.at.after(claimed.ttl) {
        wrong(Kind::Log, "the lease is granted for its TTL from the judged time on".to_owned());
    }
    let is_free = match (&claimed.basis, vacancy) {
        (Basis::First, None) => previous.is_none(),
        (Basis::Released, Some(Vacancy::Released)) => true,
        (Basis::Ended { reason }, Some(Vacancy::Ended { reason: given })) => reason == given,
        (Basis::Expired { expires_at, judged_at }, None) => {
            expiry.has(*expires_at) && judged_at >= expires_at && *judged_at == claimed.at
        }
        _ => false,
    };
    if !is_free {
        let how = vacancy.map_or_else(|| format!("its expiry is {expiry}"), |vacancy| format!("{vacancy:?}"));
        wrong(Kind::StaleWrite, format!("a valid lease is never taken (C3); of the tenure before it: {how}"));
    }
}
