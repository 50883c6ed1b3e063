//! What each granted step needs of the lease before it, and what it leaves behind: claims, writes, and renewals, those that
//! nobody was told of among them.

use ledger_core::{Basis, Timestamp, Ttl};

use super::Kind;
use super::joined::{Joined, told};
use super::log::{InForce, Tenure, is_of};
use super::path::Path;
use super::told::kind_of;
use super::unseen::Unseen;
use crate::history::content::{Own, PartitionContent};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

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

    /// The least span that has both.
    pub(super) fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (low, high) = (self.low.as_micros(), self.high.as_micros());
        if low == high { write!(f, "{low}") } else { write!(f, "between {low} and {high}") }
    }
}

/// What no entry tells of a state, as far as the evidence goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The stored expiry.
    pub(super) expiry: Span,
    /// The latest time that a granted call has recorded.
    pub(super) recorded: Span,
    /// How many renewals of the current tenure nobody was told of.
    pub(super) unseen: usize,
    /// The entry at which the stored lease was changed last (G4), where that is known.
    pub(super) changed: Option<usize>,
}

impl Moment {
    /// Before anything.
    pub(super) const NONE: Self = {
        let never = Timestamp::from_micros(i64::MIN);
        let span = Span { low: never, high: never };
        Self { expiry: span, recorded: span, unseen: 0, changed: None }
    };

    pub(super) fn hull(self, other: Self) -> Self {
        Self {
            expiry: self.expiry.hull(other.expiry),
            recorded: self.recorded.hull(other.recorded),
            unseen: self.unseen.min(other.unseen),
            changed: self.changed.filter(|_| self.changed == other.changed),
        }
    }
}

/// A step that can not have been granted where it is said to stand.
pub(super) struct Problem<'a> {
    pub(super) kind: Kind,
    pub(super) call: Option<&'a Invocation>,
    pub(super) expected: String,
    pub(super) seen: String,
    /// Whether it is an append that was accepted without the right to write.
    pub(super) is_stale_append: bool,
}

impl<'a> Problem<'a> {
    fn new(kind: Kind, call: Option<&'a Invocation>, expected: String, seen: String) -> Self {
        Self { kind, call, expected, seen, is_stale_append: false }
    }
}

/// What the steps are judged by.
pub(super) struct Grants<'a, 'b> {
    pub(super) part: &'a PartitionContent,
    pub(super) joined: &'b Joined<'a>,
    pub(super) path: &'b Path<'a>,
    pub(super) tenures: &'b [Tenure],
    pub(super) in_force: &'b [InForce],
    pub(super) unseen: &'b Unseen<'a>,
}

impl<'a> Grants<'a, '_> {
    /// The moment after an entry.
    pub(super) fn write(&self, place: usize, before: Moment, problems: &mut Vec<Problem<'a>>) -> Moment {
        let logged = &self.part.log[place];
        let entry = &logged.entry;
        let call = self.joined.acknowledged[place].or(self.joined.open[place]);
        let mut problem = |kind, expected| problems.push(Problem::new(kind, call, expected, told(entry)));
        if entry.recorded_at < before.recorded.low {
            // Where an entry itself is later, the log was found wrong already.
            let last = place.checked_sub(1).map(|place| self.part.log[place].entry.recorded_at);
            if last.is_none_or(|last| last <= entry.recorded_at) {
                problem(Kind::Time, format!("times do not go back (T2): at least {}", before.recorded));
            }
        }
        if let Some(late) = self.clock_behind(place).filter(|at| *at > before.recorded.high) {
            let expected = format!("a time that is not the clock's is what was recorded, {} (T2)", before.recorded);
            problem(Kind::Time, format!("{expected}, and not {}", late.as_micros()));
        }
        let recorded = Span::at(entry.recorded_at.max(before.recorded.low));
        let tenure = &self.tenures[self.in_force[place].tenure];
        if tenure.begins == place {
            if let Some(expected) = self.is_taken(place, before) {
                problem(Kind::StaleWrite, expected);
            }
            if let Some(expected) = self.is_found_otherwise(place, before) {
                problem(Kind::Log, expected);
            }
            return Moment { expiry: Span::at(tenure.expires_at), recorded, unseen: 0, changed: Some(place) };
        }
        let mut expiry = before.expiry;
        let was_vacant = place.checked_sub(1).is_some_and(|before| self.in_force[before].vacancy.is_some());
        if !matches!(logged.own, Some(Own::Ended(_))) && !was_vacant && is_of(entry, tenure) {
            if entry.recorded_at >= expiry.high {
                problem(Kind::StaleWrite, format!("it was written before the expiry, {expiry}"));
                if let (Some(problem), None) = (problems.last_mut(), &logged.own) {
                    problem.is_stale_append = true;
                }
            } else {
                expiry.low = expiry.low.max(just_after(entry.recorded_at));
            }
        }
        let changed = if logged.own.is_some() { Some(place) } else { before.changed };
        Moment { expiry, recorded, unseen: before.unseen, changed }
    }

    /// Why an advance has not found the lease as it was last changed, if so (I4).
    fn is_found_otherwise(&self, place: usize, before: Moment) -> Option<String> {
        let Some(Own::Advanced(record)) = &self.part.log[place].own else { return None };
        let (found, changed) = (record.lease.as_ref()?, &self.part.log[before.changed?].entry);
        ((found.head, found.chain) != (changed.last, changed.chain)).then(|| {
            format!("the advance tells what it found (I4): the lease as it was changed last, at {}", changed.last)
        })
    }

    /// Why a claim that rests on an expiry does not, if so.
    fn is_taken(&self, place: usize, before: Moment) -> Option<String> {
        let succession = self.tenures[self.in_force[place].tenure].succession.as_ref()?;
        let Basis::Expired { expires_at, .. } = &succession.basis else { return None };
        let was_vacant = place.checked_sub(1).is_none_or(|before| self.in_force[before].vacancy.is_some());
        let is_right = was_vacant || before.expiry.has(*expires_at);
        (!is_right).then(|| {
            let expiry = before.expiry;
            format!("a valid lease is never taken (C3); of the tenure before it: its expiry is {expiry}")
        })
    }

    /// The time of an entry that was not the clock's, but what had been recorded.
    fn clock_behind(&self, place: usize) -> Option<Timestamp> {
        let call = self.joined.acknowledged[place]?;
        // A claim may follow a refusal that had recorded the expiry, and so may an operator's step.
        let may_follow = matches!(call.call, Call::Append { .. } | Call::Release(_));
        let judged = call.answer.as_ref()?.1.judged()?;
        (may_follow && judged.clock_behind).then_some(judged.time)
    }

    /// The moment after a renewal that was acknowledged.
    pub(super) fn renew(
        &self,
        call: &'a Invocation,
        place: usize,
        before: Moment,
        problems: &mut Vec<Problem<'a>>,
    ) -> Moment {
        let (Call::Renew { ttl, .. }, Some((_, Answer::Renewed { lease: granted, judged, .. }))) =
            (&call.call, &call.answer)
        else {
            return before;
        };
        let tenure = &self.tenures[self.in_force[place].tenure];
        let mut problem = |kind, expected, seen: String| problems.push(Problem::new(kind, Some(call), expected, seen));
        let at = || judged.time.as_micros();
        if judged.time >= before.expiry.high {
            let expected = format!("it was granted before the expiry, {} (R1)", before.expiry);
            problem(Kind::StaleWrite, expected, format!("at {}", at()));
        }
        let recorded = before.recorded;
        if judged.time < recorded.low || (judged.clock_behind && judged.time > recorded.high) {
            let expected = format!("its time is the clock's, or else what was recorded, {recorded} (T2)");
            problem(Kind::Time, expected, at().to_string());
        }
        let asked = judged.time.after(ttl.unwrap_or(tenure.ttl));
        let right = Span { low: before.expiry.low.max(asked), high: before.expiry.high.max(asked) };
        if !right.has(granted.expires_at) {
            let seen = format!("expiry {}", granted.expires_at.as_micros());
            problem(Kind::WrongAnswer, format!("expiry {right} (R1)"), seen);
        }
        Moment {
            expiry: Span::at(granted.expires_at),
            recorded: Span::at(judged.time),
            unseen: before.unseen,
            changed: Some(place),
        }
    }

    /// The moment after a renewal that was granted and whose answer nobody got: it leads from `number` renewals to one
    /// more.
    pub(super) fn renew_unseen(
        &self,
        number: u64,
        place: usize,
        before: Moment,
        problems: &mut Vec<Problem<'a>>,
    ) -> Moment {
        let InForce { tenure: nth, vacancy } = &self.in_force[place];
        let tenure = &self.tenures[*nth];
        let revision = self.joined.lasts[place] + number;
        let ttls = self.unseen.open(*nth).map(|open| open.ttls(revision)).filter(|ttls| ttls.len() > before.unseen);
        let Some(ttls) = ttls.filter(|_| vacancy.is_none()) else {
            let expected = format!(
                "renewal {} of the partition was sent under the lease in force, of `{}` and generation {}",
                number + 1,
                tenure.holder,
                tenure.generation
            );
            let seen = "no such call was made before, or each was told something else".to_owned();
            problems.push(Problem::new(Kind::Ghost, None, expected, seen));
            return before;
        };
        let next = self.part.log.get(place + 1).map(|logged| logged.entry.recorded_at);
        let until = next.map_or(self.unseen.until(number + 1), |next| next.min(self.unseen.until(number + 1)));
        let high = until.min(Timestamp::from_micros(before.expiry.high.as_micros().saturating_sub(1)));
        let at = Span { low: before.recorded.low, high };
        if at.high < at.low {
            let expected = format!(
                "renewal {} of the partition was granted before the expiry, {}, and before {}",
                number + 1,
                before.expiry,
                until.as_micros()
            );
            let seen = format!("it stands after what was recorded, {}", before.recorded);
            problems.push(Problem::new(Kind::StaleWrite, None, expected, seen));
            return before;
        }
        let told = Facts {
            expiry: self.unseen.expiry(number + 1, tenure.generation),
            recorded: self.unseen.recorded(revision + 1),
        };
        let renewed = ttls
            .filter_map(|ttl| told.narrow(before.expiry, at, ttl))
            .reduce(|one, other| (one.0.hull(other.0), one.1.hull(other.1)));
        let (unseen, changed) = (before.unseen + 1, Some(place));
        match renewed {
            Some((expiry, recorded)) => Moment { expiry, recorded, unseen, changed },
            None => {
                let (expiry, recorded) = told.believed(before.expiry, at);
                let call = told.expiry.or(told.recorded).map(|(_, call)| call);
                let kind = call.map_or(Kind::Log, kind_of);
                let expected = format!(
                    "renewal {} of the partition, at {at} from the expiry {} on, explains what was told after it",
                    number + 1,
                    before.expiry
                );
                let seen = format!("expiry {expiry}, recorded {recorded}");
                problems.push(Problem::new(kind, call, expected, seen));
                Moment { expiry, recorded, unseen, changed }
            }
        }
    }
}

/// What was told of the state after a renewal that nobody saw.
struct Facts<'a> {
    expiry: Option<(Timestamp, &'a Invocation)>,
    recorded: Option<(Timestamp, &'a Invocation)>,
}

impl Facts<'_> {
    /// Expiry and time after a renewal with this TTL, granted at one of these times; `None` where that contradicts the
    /// facts. The expiry is the later of the old one and the time + TTL (R1).
    fn narrow(&self, old: Span, mut at: Span, ttl: Ttl) -> Option<(Span, Span)> {
        if let Some((recorded, _)) = self.recorded {
            at = Some(Span::at(recorded)).filter(|_| at.has(recorded))?;
        }
        let Some((expiry, _)) = self.expiry else {
            let asked = Span { low: at.low.after(ttl), high: at.high.after(ttl) };
            let expiry = Span { low: old.low.max(asked.low), high: old.high.max(asked.high) };
            return Some((expiry, at));
        };
        // It was granted at the expiry less the TTL at the latest; and at just that time, where it moved the expiry.
        let latest = Timestamp::from_micros(expiry.as_micros().saturating_sub(ttl.as_micros()));
        at.high = at.high.min(latest);
        if !old.has(expiry) {
            at.low = at.low.max(latest);
        }
        (at.low <= at.high && old.low <= expiry).then_some((Span::at(expiry), at))
    }

    /// What was told, where nothing explains it.
    fn believed(&self, old: Span, at: Span) -> (Span, Span) {
        let expiry = self.expiry.map_or(old, |(expiry, _)| Span::at(expiry));
        (expiry, self.recorded.map_or(at, |(recorded, _)| Span::at(recorded)))
    }
}

fn just_after(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(1))
}
