//! The walk along the log and the renewals in between: whether each is legal where it stands.

use ledger_core::{Basis, Entry, Generation, Position, Predecessor, Succession, Timestamp, Vacancy};

use super::joined::{told, whose};
use super::timeline::{Renewed, Span, Tenure, Timeline};
use super::unseen::{OpenRenewals, SeenExpiries, longest};
use super::{Findings, Kind};
use crate::history::content::{Own, PartitionContent};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

impl<'a> Timeline<'a> {
    /// Goes through entries and renewals in their order and checks that each is legal where it stands.
    pub(super) fn walk(
        &mut self,
        known: &[Option<&'a Invocation>],
        seen: &SeenExpiries,
        open: &mut OpenRenewals,
        findings: &mut Findings,
    ) {
        let part = self.part;
        let total = known.len() as u64;
        let mut expiry = Span::at(Timestamp::from_micros(i64::MIN));
        // What is recorded at least, and at most.
        let mut at = Timestamp::from_micros(i64::MIN);
        let mut latest = at;
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
            self.check_time(place, latest, findings);
            (at, latest) = (at.max(entry.recorded_at), latest.max(entry.recorded_at));
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
                    Some(call) => self.renew(call, place, expiry, Span { low: at, high: latest }, findings),
                    None => {
                        let later =
                            (number + 1..end).find_map(|later| usize::try_from(later).ok().and_then(|n| known[n]));
                        let later = later.and_then(|call| call.answer.as_ref()?.1.judged()).map(|judged| judged.time);
                        let until = later.or_else(|| self.surely_before(place, number));
                        let until = until.or_else(|| part.tenure.as_ref().map(|tenure| tenure.recorded_at));
                        let between = Span { low: at, high: until.unwrap_or(at).max(at) };
                        self.renew_unseen(number + 1, place, (expiry, between), seen, open, findings)
                    }
                };
                (expiry, at, latest) = (renewed.expiry, at.max(renewed.at.low), latest.max(renewed.at.high));
                self.renewed.push(renewed);
                if number < least {
                    lowest = expiry.low;
                }
            }
            // The next entry may stand before the last of these renewals.
            expiry.low = lowest;
        }
    }

    /// The time of the first entry before which a renewal that nobody saw surely stands.
    fn surely_before(&self, place: usize, number: u64) -> Option<Timestamp> {
        let later = (place + 1..self.steps.len()).find(|later| self.steps[*later].least > number)?;
        Some(self.part.log[later].entry.recorded_at)
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

    /// Whether the time of an acknowledged entry is that of its judgement; `latest` is what was recorded before it at most.
    fn check_time(&self, place: usize, latest: Timestamp, findings: &mut Findings) {
        let (entry, Some(call)) = (&self.part.log[place].entry, self.joined.acknowledged[place]) else { return };
        let Some(judged) = call.answer.as_ref().and_then(|(_, answer)| answer.judged()) else { return };
        if judged.time != entry.recorded_at {
            let expected = format!("it is stored with the time of its judgement, {}", judged.time.as_micros());
            findings.add(Kind::WrongAnswer, Some(call), expected, entry.recorded_at.as_micros().to_string());
        }
        // A claim may follow a refusal that had recorded the expiry, and so may an operator's step.
        let may_follow = matches!(call.call, Call::Append { .. } | Call::Release(_));
        if may_follow && judged.clock_behind && judged.time > latest {
            let expected = format!("a time that is not the clock's is what was recorded, {} (T2)", latest.as_micros());
            findings.add(Kind::Time, Some(call), expected, judged.time.as_micros().to_string());
        }
    }

    /// A renewal that was acknowledged.
    fn renew(&self, call: &Invocation, place: usize, expiry: Span, at: Span, findings: &mut Findings) -> Renewed {
        let unchanged = Renewed { at, expiry };
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
        if judged.time < at.low || (judged.clock_behind && judged.time > at.high) {
            let expected = format!("its time is the clock's, or else what was recorded, {at} (T2)");
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
