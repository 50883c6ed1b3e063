//! The judgement (J1): one pure function, the same for every store.
//!
//! [`judge`] says what a request meets, and nothing else: it reads no clock and writes nothing. A store that judges in
//! another language is held to it by the same cases.

use crate::{
    Advance, AdvanceRecord, Append, Claim, Entry, Expected, Generation, Judged, Lease, Observation, PastTenure, Reason,
    Standing, Tail, TenureEnd, Timestamp, Vacancy, claim::Basis,
};

/// What is asked for, with what the store knows about just this request.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "closed: these are the calls that are judged")]
pub enum Request<'a> {
    /// To append.
    Append {
        /// The lease that is presented.
        lease: &'a Lease,
        /// The append.
        append: &'a Append,
        /// The entry of the partition that has the append's id, if there is one.
        earlier: Option<&'a Entry>,
    },
    /// To renew.
    Renew {
        /// The lease that is presented.
        lease: &'a Lease,
    },
    /// To release.
    Release {
        /// The lease that is presented.
        lease: &'a Lease,
        /// Where its generation is below the current one: the tenure of that generation, if there was one.
        past: Option<&'a PastTenure>,
    },
    /// To claim.
    Claim {
        /// The claim.
        claim: &'a Claim,
        /// The entry of the partition that has the claim's acquisition as its id, if there is one.
        earlier: Option<&'a Entry>,
    },
    /// To end a tenure, as an operator.
    EndTenure {
        /// The state that the operator observed.
        observed: Observation,
    },
    /// To advance a partition, as an operator.
    Advance {
        /// The step.
        advance: &'a Advance,
        /// Where the log ends.
        tail: &'a Tail,
        /// The `$advanced` entry of the partition that has the step's acquisition, if there is one, with its payload.
        taken: Option<(&'a Entry, &'a AdvanceRecord)>,
        /// The entry of the partition that has the step's acquisition as its id, if there is one.
        earlier: Option<&'a Entry>,
    },
}

/// What a request meets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: J1 lists the outcomes")]
pub enum Verdict {
    /// Granted: write it.
    Granted,
    /// An append or an advance that was written before (A4, I4): answer with the earlier entry, write nothing.
    Replay,
    /// A claim that was granted before and whose lease is valid (C4): answer with the lease, write nothing.
    LeaseStands,
    /// A release of a tenure that has ended (R3): a success without effect.
    AlreadyEnded(TenureEnd),
    /// An operator's end of a tenure whose partition is vacant: a success without effect.
    AlreadyVacant(Vacancy),
    /// Refused.
    Refused(Reason),
}

/// Judges `request` against a partition as it stands, or `None` where it was never claimed, at the judged time of
/// `judged`. The checks run in the order of J1, and the first that fails names the rejection.
pub fn judge(standing: Option<&Standing>, request: Request<'_>, judged: &Judged) -> Verdict {
    match request {
        Request::Append { lease, append, earlier } => match check_tenure(standing, lease, judged.time) {
            Err(reason) => Verdict::Refused(reason),
            Ok(standing) => judge_append(standing, append, earlier),
        },
        Request::Renew { lease } => match check_tenure(standing, lease, judged.time) {
            Err(reason) => Verdict::Refused(reason),
            Ok(_) => Verdict::Granted,
        },
        Request::Release { lease, past } => judge_release(standing, lease, past, judged.time),
        Request::Claim { claim, earlier } => judge_claim(standing, claim, earlier, judged.time),
        Request::EndTenure { observed } => judge_end(standing, observed),
        Request::Advance { advance, tail, taken, earlier } => judge_advance(standing, advance, tail, taken, earlier),
    }
}

/// The time and revision of a judgement at which the store's clock reads `clock` (T2, J2).
pub fn judged(standing: Option<&Standing>, clock: Timestamp) -> Judged {
    standing.map_or_else(
        || Judged::new(clock, crate::Revision::default(), false),
        |standing| {
            let recorded = standing.recorded_at();
            Judged::new(clock.max(recorded), standing.revision(), clock < recorded)
        },
    )
}

fn judge_append(standing: &Standing, append: &Append, earlier: Option<&Entry>) -> Verdict {
    match (earlier, append.expected()) {
        (Some(earlier), _) if earlier.content == append.content() => Verdict::Replay,
        (Some(_), _) => Verdict::Refused(Reason::AppendIdReused),
        (None, Expected::Position(head)) if head != standing.head() => Verdict::Refused(Reason::PositionConflict),
        (None, _) => Verdict::Granted,
    }
}

fn judge_release(standing: Option<&Standing>, lease: &Lease, past: Option<&PastTenure>, time: Timestamp) -> Verdict {
    let standing = match check_standing(standing) {
        Ok(standing) => standing,
        Err(reason) => return Verdict::Refused(reason),
    };
    if lease.generation < standing.lease.generation {
        return match past {
            None => Verdict::Refused(Reason::UnknownGeneration),
            Some(past) if past.acquisition != lease.acquisition => Verdict::Refused(Reason::WrongAcquisition),
            Some(past) if past.holder != lease.holder => Verdict::Refused(Reason::WrongHolder),
            Some(past) => Verdict::AlreadyEnded(past.end.clone()),
        };
    }
    match check_tenure(Some(standing), lease, time) {
        Ok(_) => Verdict::Granted,
        Err(Reason::Released | Reason::Expired) => Verdict::AlreadyEnded(TenureEnd::new(basis(standing, time))),
        Err(reason) => Verdict::Refused(reason),
    }
}

fn judge_claim(standing: Option<&Standing>, claim: &Claim, earlier: Option<&Entry>, time: Timestamp) -> Verdict {
    let Some(standing) = standing else {
        return match claim.observed {
            Observation::NeverClaimed => Verdict::Granted,
            Observation::Tenure { .. } => Verdict::Refused(Reason::ObservationOutdated),
        };
    };
    let current = &standing.lease;
    let expired = time >= current.expires_at;
    let observed = Observation::Tenure { generation: current.generation, acquisition: current.acquisition };
    if standing.has_diverged() {
        Verdict::Refused(Reason::Diverged)
    } else if claim.acquisition == current.acquisition {
        if claim.holder != current.holder {
            Verdict::Refused(Reason::WrongHolder)
        } else if current.vacancy.is_some() {
            Verdict::Refused(Reason::Released)
        } else if expired {
            Verdict::Refused(Reason::Expired)
        } else {
            Verdict::LeaseStands
        }
    } else if earlier.is_some() {
        Verdict::Refused(Reason::AcquisitionSpent)
    } else if claim.observed != observed {
        Verdict::Refused(Reason::ObservationOutdated)
    } else if current.vacancy.is_none() && !expired {
        Verdict::Refused(Reason::Held)
    } else if current.generation == Generation::MAX {
        Verdict::Refused(Reason::GenerationExhausted)
    } else {
        Verdict::Granted
    }
}

fn judge_end(standing: Option<&Standing>, observed: Observation) -> Verdict {
    let standing = match check_standing(standing) {
        Ok(standing) => standing,
        Err(reason) => return Verdict::Refused(reason),
    };
    let current = &standing.lease;
    if observed != (Observation::Tenure { generation: current.generation, acquisition: current.acquisition }) {
        return Verdict::Refused(Reason::ObservationOutdated);
    }
    match &current.vacancy {
        Some(vacancy) => Verdict::AlreadyVacant(vacancy.clone()),
        None => Verdict::Granted,
    }
}

fn judge_advance(
    standing: Option<&Standing>,
    advance: &Advance,
    tail: &Tail,
    taken: Option<(&Entry, &AdvanceRecord)>,
    earlier: Option<&Entry>,
) -> Verdict {
    match taken {
        Some((entry, record)) if entry.holder == advance.operator && record.is_of(advance) => Verdict::Replay,
        Some(_) => Verdict::Refused(Reason::AcquisitionSpent),
        None if earlier.is_some() => Verdict::Refused(Reason::AcquisitionSpent),
        None if highest(standing, advance, tail) == Some(Generation::MAX) => {
            Verdict::Refused(Reason::GenerationExhausted)
        }
        None => Verdict::Granted,
    }
}

/// The highest generation that is known when an advance is made: by the operator, the lease and the log.
pub(crate) fn highest(standing: Option<&Standing>, advance: &Advance, tail: &Tail) -> Option<Generation> {
    let stored = standing.map(|standing| standing.lease.generation);
    advance.above.max(stored).max(tail.entry.as_ref().map(|entry| entry.generation))
}

fn check_standing(standing: Option<&Standing>) -> Result<&Standing, Reason> {
    let standing = standing.ok_or(Reason::NeverClaimed)?;
    if standing.has_diverged() { Err(Reason::Diverged) } else { Ok(standing) }
}

/// The checks that append and renewal share, `NeverClaimed` to `Expired`.
fn check_tenure<'a>(standing: Option<&'a Standing>, lease: &Lease, time: Timestamp) -> Result<&'a Standing, Reason> {
    let standing = check_standing(standing)?;
    let current = &standing.lease;
    if lease.generation < current.generation {
        Err(Reason::StaleGeneration)
    } else if lease.generation > current.generation {
        Err(Reason::UnknownGeneration)
    } else if lease.acquisition != current.acquisition {
        Err(Reason::WrongAcquisition)
    } else if lease.holder != current.holder {
        Err(Reason::WrongHolder)
    } else if current.vacancy.is_some() {
        Err(Reason::Released)
    } else if time >= current.expires_at {
        Err(Reason::Expired)
    } else {
        Ok(standing)
    }
}

/// Why the newest tenure counts as ended at `time`.
pub(crate) fn basis(standing: &Standing, time: Timestamp) -> Basis {
    match &standing.lease.vacancy {
        Some(vacancy) => vacancy.into(),
        None => Basis::Expired { expires_at: standing.lease.expires_at, judged_at: time },
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
