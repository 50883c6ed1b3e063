//! V5: each answer is what the judgement says of the state at the revision that it names.

use ledger_core::judge::{Request, Verdict, judge};
use ledger_core::{AppendId, Basis, Digest, Expected, Judged, Reason, Standing, Tail, Timestamp};

use super::grant::Moment;
use super::joined::told;
use super::timeline::{State, Timeline};
use super::told::{expiry_told, is_effect, kind_of};
use super::{Findings, Kind, fate, page};
use crate::history::content::Own;
use crate::history::facts::{Kept, Tenure, Truth};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// Where in the order of revisions a call can have been judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The least revision of which its answer is proof.
    pub(super) low: u64,
    /// The greatest revision from which it can have been answered.
    pub(super) high: u64,
}

impl Slot {
    /// Says nothing.
    pub(super) const ANY: Self = Self { low: 0, high: u64::MAX };
}

/// Checks the answer of a call that wrote nothing, and gives its place. What a call has written itself is checked along
/// the log.
pub(super) fn check(timeline: &Timeline<'_>, call: &Invocation, findings: &mut Findings) -> Slot {
    let Some((_, answer)) = &call.answer else { return Slot::ANY };
    if let Answer::Recorded(_) | Answer::Never | Answer::Undecided = answer {
        return fate::check(timeline, call, answer, findings);
    }
    if let Answer::Page { .. } | Answer::AheadOfLog { .. } = answer {
        return page::check(timeline, call, answer, findings);
    }
    let Some(judged) = answer.judged() else {
        if let Answer::Corrupt(problem) = answer {
            findings.add(Kind::WrongAnswer, Some(call), "nothing that is stored contradicts itself", problem.clone());
        }
        return Slot::ANY;
    };
    let revision = judged.revision.get();
    if is_effect(call) {
        // Along the log.
        return Slot { low: revision, high: revision };
    }
    if let Answer::Rejected { reason, record, .. } = answer {
        check_kept(call, *reason, record, findings);
    }
    let mut complaint = None;
    if revision == 0 {
        complaint = complain(timeline, call, answer, &judged, None);
    } else {
        let mut found = false;
        for state in timeline.states(revision) {
            complaint = complain(timeline, call, answer, &judged, Some(state));
            found = true;
            if complaint.is_none() {
                break;
            }
        }
        if !found {
            let end = timeline.part.revision;
            complaint = Some((format!("revision {revision} was a state"), format!("it never was; the last is {end}")));
        }
    }
    if let Some((expected, seen)) = complaint {
        findings.add(kind_of(call), Some(call), expected, seen);
    }
    Slot { low: revision, high: revision }
}

type Complaint = Option<(String, String)>;

/// What is wrong with an answer, if it was given in this state.
fn complain(
    timeline: &Timeline<'_>,
    call: &Invocation,
    answer: &Answer,
    judged: &Judged,
    state: Option<State>,
) -> Complaint {
    let Some(state) = state else { return complain_of(timeline, call, answer, judged, None) };
    let moment = timeline.moment(state);
    let (recorded, span) = (moment.recorded, moment.expiry);
    // Where the clock is behind, the time is the recorded one: of a granted call, or of a refusal as expired.
    let is_recorded =
        judged.time <= recorded.high || (judged.time >= span.low && timeline.may_have_expired_at(state, call));
    if judged.time < recorded.low || (judged.clock_behind && !is_recorded) {
        let expected = format!("judged time is the clock's, or else what was recorded, {recorded} (T2)");
        return Some((expected, format!("{}", judged.time.as_micros())));
    }
    // Of an expiry that is not known, the answer's own counts where it can be; else both bounds are tried.
    let told = expiry_told(answer).filter(|time| span.has(*time));
    let first = told.unwrap_or(span.low);
    let standing = |expires_at| Some((state, moment, timeline.standing(state, &moment, expires_at)));
    let complaint = complain_of(timeline, call, answer, judged, standing(first));
    if complaint.is_none() || told.is_some() || span.low == span.high {
        return complaint;
    }
    complain_of(timeline, call, answer, judged, standing(span.high))
}

fn complain_of(
    timeline: &Timeline<'_>,
    call: &Invocation,
    answer: &Answer,
    judged: &Judged,
    state: Option<(State, Moment, Standing)>,
) -> Complaint {
    let standing = state.as_ref().map(|(.., standing)| standing);
    if let (Call::Observe(_), Answer::Observed { tenure, .. }) = (&call.call, answer) {
        return look(timeline, call, tenure.as_ref(), state.as_ref());
    }
    let place = state.as_ref().map(|(state, ..)| *state);
    let verdict = verdict(timeline, call, judged, place, standing);
    let right = match (answer, &verdict) {
        (Answer::Rejected { reason, .. }, Verdict::Refused(right)) => reason == right,
        (Answer::Appended { replayed: true, .. }, Verdict::Replay) => true,
        (Answer::Claimed { lease, head, chain, replayed: true, .. }, Verdict::LeaseStands) => {
            standing.is_some_and(|standing| {
                *lease == standing.lease.lease(lease.ledger, &lease.partition)
                    && (*head, *chain) == (standing.head(), standing.chain())
            })
        }
        (Answer::AlreadyEnded { basis, successor, .. }, Verdict::AlreadyEnded(end)) => {
            *basis == end.basis && *successor == end.successor
        }
        (Answer::AlreadyVacant { vacancy, .. }, Verdict::AlreadyVacant(right)) => vacancy == right,
        (Answer::Advanced { replayed: true, .. }, Verdict::Replay) => true,
        _ => false,
    };
    if !right {
        let in_force = standing.map_or_else(|| "never claimed".to_owned(), described);
        let expected = format!("{verdict:?} at revision {}, where {in_force}", judged.revision);
        return Some((expected, format!("{answer:?}")));
    }
    if rests_on_expiry(answer) && place.is_some_and(|state| !timeline.is_last_of_its_tenure(state)) {
        let expected = "nothing of a tenure follows an answer that rests on its expiry (T2)".to_owned();
        return Some((expected, format!("a granted call of it does, after revision {}", judged.revision)));
    }
    let Answer::Rejected { current, earlier, .. } = answer else { return None };
    let truth = standing.map(|standing| Truth::of(&ledger_core::Current::of(standing)));
    if *current != truth {
        return Some((format!("the refusal tells the truth: {truth:?}"), format!("{current:?}")));
    }
    let known = match &call.call {
        Call::Append { id, .. } => earlier_entry(timeline, *id, place).map(|at| &timeline.part.log[at].entry),
        _ => None,
    };
    if earlier.as_ref() != known {
        let tell =
            |entry: Option<&std::sync::Arc<ledger_core::Entry>>| entry.map_or("none".to_owned(), |entry| told(entry));
        return Some((format!("the refusal tells the earlier entry (J3): {}", tell(known)), tell(earlier.as_ref())));
    }
    None
}

/// What the judgement says (J1).
fn verdict(
    timeline: &Timeline<'_>,
    call: &Invocation,
    judged: &Judged,
    state: Option<State>,
    standing: Option<&Standing>,
) -> Verdict {
    match &call.call {
        Call::Renew { lease, .. } => judge(standing, Request::Renew { lease }, judged),
        Call::Release(lease) => {
            let past =
                state.zip(standing).and_then(|(state, standing)| timeline.past(state, lease.generation, standing));
            judge(standing, Request::Release { lease, past: past.as_ref() }, judged)
        }
        Call::Claim(claim) => {
            let earlier = earlier_entry(timeline, claim.acquisition.into(), state);
            let earlier = earlier.map(|at| &*timeline.part.log[at].entry);
            judge(standing, Request::Claim { claim, earlier }, judged)
        }
        Call::EndTenure { observed, .. } => judge(standing, Request::EndTenure { observed: *observed }, judged),
        Call::Advance(advance) => {
            let place = timeline
                .joined
                .advance(advance.acquisition)
                .filter(|place| state.is_some_and(|state| *place <= state.place));
            let logged = place.map(|place| &timeline.part.log[place]);
            let taken = logged.and_then(|logged| match &logged.own {
                Some(Own::Advanced(record)) => Some((&*logged.entry, record)),
                _ => None,
            });
            let earlier = earlier_entry(timeline, advance.acquisition.into(), state);
            let earlier = earlier.map(|at| &*timeline.part.log[at].entry);
            judge(standing, Request::Advance { advance, tail: &Tail::of(standing), taken, earlier }, judged)
        }
        Call::Append { lease, id, content, expected, .. } => {
            // An append's own checks follow those that it shares with a renewal, and its events are not kept.
            match (judge(standing, Request::Renew { lease }, judged), standing) {
                (Verdict::Granted, Some(standing)) => {
                    let earlier = earlier_entry(timeline, *id, state);
                    append(earlier.map(|at| timeline.part.log[at].entry.content), *content, *expected, standing)
                }
                (verdict, _) => verdict,
            }
        }
        Call::Observe(_) | Call::Fate { .. } | Call::Read { .. } | Call::ReadBack { .. } => Verdict::Granted,
    }
}

fn append(earlier: Option<Digest>, content: Digest, expected: Expected, standing: &Standing) -> Verdict {
    match (earlier, expected) {
        (Some(earlier), _) if earlier == content => Verdict::Replay,
        (Some(_), _) => Verdict::Refused(Reason::AppendIdReused),
        (None, Expected::Position(head)) if head != standing.head() => Verdict::Refused(Reason::PositionConflict),
        (None, _) => Verdict::Granted,
    }
}

/// The place of an id, where it was in the log already.
fn earlier_entry(timeline: &Timeline<'_>, id: AppendId, state: Option<State>) -> Option<usize> {
    let place = *timeline.joined.ids.get(&id)?;
    (place <= state?.place).then_some(place)
}

fn look(
    timeline: &Timeline<'_>,
    call: &Invocation,
    tenure: Option<&Tenure>,
    state: Option<&(State, Moment, Standing)>,
) -> Complaint {
    let right = match (tenure, state) {
        (None, None) => true,
        (Some(seen), Some((_, moment, standing))) => {
            let (recorded, generation) = (moment.recorded, standing.lease.generation);
            let by_expiry = seen.recorded_at >= recorded.low
                && seen.recorded_at >= standing.lease.expires_at
                && timeline.may_have_expired(generation, call);
            let is_recorded = by_expiry || (recorded.has(seen.recorded_at) && !timeline.had_expired(generation, call));
            seen.lease == standing.lease.lease(seen.lease.ledger, &timeline.part.partition)
                && seen.vacancy == standing.lease.vacancy
                && (seen.head, seen.chain) == (standing.head(), standing.chain())
                && is_recorded
        }
        _ => false,
    };
    (!right).then(|| {
        let in_force = state.map_or_else(|| "never claimed".to_owned(), |(.., standing)| described(standing));
        (format!("a look at its revision shows {in_force}"), format!("{tenure:?}"))
    })
}

/// E1, E2: whether the answer says of the record what it must.
fn check_kept(call: &Invocation, reason: Reason, kept: &Kept, findings: &mut Findings) {
    let is_evidence = is_evidence(&call.call, reason);
    match (kept, is_evidence) {
        (Kept::NotEvidence, false) | (Kept::Stored | Kept::Counted, true) => {}
        (Kept::Missing(_), true) => findings.counts.evidence_missing += 1,
        _ => {
            findings.counts.without_evidence += u64::from(is_evidence);
            let must = if is_evidence { "stored or counted (E2)" } else { "no evidence (E1)" };
            findings.add(Kind::Evidence, Some(call), format!("a refusal as {reason} is {must}"), format!("{kept:?}"));
        }
    }
}

/// Whether a refusal is about the right to write (E1).
pub(super) fn is_evidence(call: &Call, reason: Reason) -> bool {
    let answer = matches!(reason, Reason::PositionConflict | Reason::ObservationOutdated | Reason::Held);
    !answer && !matches!(call, Call::EndTenure { .. } | Call::Advance(_))
}

/// Whether an answer rests on an expiry of the current tenure, and so has stored its time (T2).
pub(super) fn rests_on_expiry(answer: &Answer) -> bool {
    match answer {
        Answer::Rejected { reason, .. } => *reason == Reason::Expired,
        Answer::AlreadyEnded { basis: Basis::Expired { .. }, successor: None, .. } => true,
        _ => false,
    }
}

fn described(standing: &Standing) -> String {
    let lease = &standing.lease;
    let until = |time: Timestamp| time.as_micros();
    let how = lease.vacancy.as_ref().map_or_else(|| "valid until".to_owned(), |vacancy| format!("{vacancy:?}, expiry"));
    format!(
        "`{}` holds generation {}, acquisition {}, {how} {}, head {}",
        lease.holder,
        lease.generation,
        lease.acquisition,
        until(lease.expires_at),
        standing.head()
    )
}
