//! V1, the part of it that the log alone tells: positions, tenures, and who was entitled to each entry.
//!
//! What hangs on the renewals in between, which no entry tells, is the [walk](super::walk)'s part.

use ledger_core::{
    AcquisitionId, AdvanceRecord, Basis, Entry, Generation, Holder, Position, Predecessor, Succession, Timestamp, Ttl,
    Vacancy,
};

use super::joined::{Joined, told};
use super::{Findings, Kind};
use crate::history::content::{Own, PartitionContent};

/// The span in which one generation is the current one: that of a granted claim, or of an operator's advance.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) generation: Generation,
    pub(super) holder: Holder,
    pub(super) acquisition: AcquisitionId,
    pub(super) ttl: Ttl,
    /// The expiry before the first renewal.
    pub(super) expires_at: Timestamp,
    /// What `$claimed` says; an advance has none.
    pub(super) succession: Option<Succession>,
    /// The place of its first entry.
    pub(super) begins: usize,
    /// The place of its end, or of the next tenure's beginning.
    pub(super) ended_by: Option<usize>,
}

/// What is in force once an entry is written.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    /// The number of the tenure.
    pub(super) tenure: usize,
    pub(super) vacancy: Option<Vacancy>,
}

/// Goes along the log, and gives its tenures and what is in force after each entry.
pub(super) fn walk(
    part: &PartitionContent,
    joined: &Joined<'_>,
    findings: &mut Findings,
) -> (Vec<Tenure>, Vec<InForce>) {
    let mut tenures: Vec<Tenure> = Vec::new();
    let mut in_force: Vec<InForce> = Vec::with_capacity(part.log.len());
    let mut next = Position::FIRST;
    let mut at = Timestamp::from_micros(i64::MIN);
    for (place, logged) in part.log.iter().enumerate() {
        let entry = &logged.entry;
        if entry.first != next || i64::from(logged.events) != entry.last.get() - entry.first.get() + 1 {
            let seen = format!("an entry from {} to {} with {} events", entry.first, entry.last, logged.events);
            findings.add(Kind::Log, None, format!("positions have no gap (A2): {next} is next"), seen);
        }
        next = entry.last.next().unwrap_or(Position::MAX);
        if entry.recorded_at < at {
            let expected = format!("times do not go back along the log (T2): at least {}", at.as_micros());
            findings.add(Kind::Time, joined.acknowledged[place], expected, told(entry));
        }
        at = at.max(entry.recorded_at);
        check_time(entry, joined, place, findings);
        let vacancy = in_force.last().and_then(|before| before.vacancy.clone());
        let before = tenures.last();
        let vacancy = match &logged.own {
            Some(Own::Claimed(succession)) => {
                check_claim(part, entry, succession, before.map(|before| (before, place)), vacancy.as_ref(), findings);
                check_unused(joined, entry, before, place, findings);
                let tenure = Tenure {
                    generation: succession.generation,
                    holder: succession.holder.clone(),
                    acquisition: succession.acquisition,
                    ttl: succession.ttl,
                    expires_at: succession.expires_at,
                    succession: Some(succession.clone()),
                    begins: place,
                    ended_by: None,
                };
                begin(&mut tenures, tenure);
                None
            }
            Some(Own::Advanced(record)) => {
                check_advance(part, entry, record, before.map(|before| (before, place)), findings);
                check_unused(joined, entry, None, place, findings);
                let tenure = Tenure {
                    generation: entry.generation,
                    holder: entry.holder.clone(),
                    acquisition: entry.acquisition,
                    ttl: before.map_or_else(Ttl::default, |before| before.ttl),
                    expires_at: entry.recorded_at,
                    succession: None,
                    begins: place,
                    ended_by: Some(place),
                };
                begin(&mut tenures, tenure);
                Some(Vacancy::Advanced { reason: record.reason.clone() })
            }
            own => {
                if let Some(before) = before {
                    check_entitled(joined, entry, place, (before, vacancy.as_ref()), own.is_none(), findings);
                }
                let vacancy = match own {
                    Some(Own::Released) => Some(Vacancy::Released),
                    Some(Own::Ended(reason)) => Some(Vacancy::Ended { reason: reason.clone() }),
                    _ => vacancy,
                };
                if let (Some(_), Some(tenure)) = (&vacancy, tenures.last_mut()) {
                    tenure.ended_by.get_or_insert(place);
                }
                vacancy
            }
        };
        in_force.push(InForce { tenure: tenures.len().saturating_sub(1), vacancy });
    }
    (tenures, in_force)
}

fn begin(tenures: &mut Vec<Tenure>, tenure: Tenure) {
    if let Some(before) = tenures.last_mut() {
        before.ended_by.get_or_insert(tenure.begins);
    }
    tenures.push(tenure);
}

/// Whether the time of an acknowledged entry is that of its judgement.
fn check_time(entry: &Entry, joined: &Joined<'_>, place: usize, findings: &mut Findings) {
    let Some(call) = joined.acknowledged[place] else { return };
    let Some(judged) = call.answer.as_ref().and_then(|(_, answer)| answer.judged()) else { return };
    if judged.time != entry.recorded_at {
        let expected = format!("it is stored with the time of its judgement, {}", judged.time.as_micros());
        findings.add(Kind::WrongAnswer, Some(call), expected, entry.recorded_at.as_micros().to_string());
    }
}

/// Whether an entry other than a claim and an advance is of the lease in force, and that is not over.
fn check_entitled(
    joined: &Joined<'_>,
    entry: &Entry,
    place: usize,
    (tenure, vacancy): (&Tenure, Option<&Vacancy>),
    is_append: bool,
    findings: &mut Findings,
) {
    let expected = if !is_of(entry, tenure) {
        format!(
            "the lease in force wrote it: `{}`, generation {}, acquisition {}",
            tenure.holder, tenure.generation, tenure.acquisition
        )
    } else if vacancy.is_some() {
        "nothing is written to a vacant partition".to_owned()
    } else {
        return;
    };
    findings.counts.stale_accepted += u64::from(is_append);
    let call = joined.acknowledged[place].or(joined.open[place]);
    findings.add(Kind::StaleWrite, call, expected, told(entry));
}

pub(super) fn is_of(entry: &Entry, tenure: &Tenure) -> bool {
    entry.generation == tenure.generation && entry.acquisition == tenure.acquisition && entry.holder == tenure.holder
}

/// Whether a claim follows from the tenure before it (C1, C3, C5, G1), as far as no expiry is concerned.
fn check_claim(
    part: &PartitionContent,
    entry: &Entry,
    claimed: &Succession,
    previous: Option<(&Tenure, usize)>,
    vacancy: Option<&Vacancy>,
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
    let is_of = (entry.generation, entry.acquisition, &entry.holder)
        == (claimed.generation, claimed.acquisition, &claimed.holder);
    if claimed.previous != before || !is_of || claimed.at != entry.recorded_at {
        wrong(Kind::Log, format!("the succession names the tenure before it (C5): {before:?}; and {}", told(entry)));
    }
    if claimed.expires_at != claimed.at.after(claimed.ttl) {
        wrong(Kind::Log, "the lease is granted for its TTL from the judged time on".to_owned());
    }
    let is_free = match (&claimed.basis, vacancy) {
        (Basis::First, None) => previous.is_none(),
        (Basis::Expired { expires_at, judged_at }, None) => {
            previous.is_some() && judged_at >= expires_at && *judged_at == claimed.at
        }
        (basis, Some(vacancy)) => *basis == Basis::from(vacancy),
        _ => false,
    };
    if !is_free {
        let how = vacancy.map_or_else(|| "nothing ended it".to_owned(), |vacancy| format!("{vacancy:?}"));
        wrong(Kind::StaleWrite, format!("a valid lease is never taken (C3); of the tenure before it: {how}"));
    }
}

/// Whether the acquisition of a claim or an advance was free: no id of an earlier entry, nor a claim's that of the tenure
/// before (J1).
fn check_unused(joined: &Joined<'_>, entry: &Entry, before: Option<&Tenure>, place: usize, findings: &mut Findings) {
    let earlier = joined.ids.get(&entry.acquisition.into()).is_some_and(|first| *first < place);
    if earlier || before.is_some_and(|before| before.acquisition == entry.acquisition) {
        let expected = "the acquisition of a claim or an advance is free: neither spent nor in force (J1)";
        findings.add(Kind::Log, joined.acknowledged[place], expected, told(entry));
    }
}

/// Whether an advance follows from what was there before it (I4).
fn check_advance(
    part: &PartitionContent,
    entry: &Entry,
    record: &AdvanceRecord,
    previous: Option<(&Tenure, usize)>,
    findings: &mut Findings,
) {
    let mut wrong = |expected: String, seen: String| findings.add(Kind::Log, None, expected, seen);
    let stored = previous.map(|(before, _)| before.generation);
    let highest = record.above.max(stored);
    if Some(entry.generation) != highest.map_or(Some(Generation::FIRST), Generation::next) {
        let expected = format!("an advance is one above every generation known, {highest:?} (I4)");
        wrong(expected, told(entry));
    }
    let tip = previous.and_then(|(_, place)| part.log.get(place.checked_sub(1)?));
    let tip = tip.map(|logged| ledger_core::Mark::of(&logged.entry));
    let found = record.lease.as_ref().map(|lease| (&lease.holder, lease.generation, lease.acquisition));
    let in_force = previous.map(|(before, _)| (&before.holder, before.generation, before.acquisition));
    // Where lease and log contradict each other, the step is right, and the store had lost something.
    let is_whole = record.lease.as_ref().is_none_or(|lease| tip.is_some_and(|tip| lease.head <= tip.position));
    if record.log != tip || found != in_force || !is_whole {
        let expected = format!("the advance tells what it found (I4): lease {in_force:?}, log {tip:?}");
        wrong(expected, format!("{record:?}"));
    }
}
