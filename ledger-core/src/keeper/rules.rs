//! What a keeper decides, apart from how it comes about: K1 to K4 and K8 as functions of what it knows.
//!
//! Its tests put a module of the same functions in this one's place, each with a bug in it.

use super::changes::State;
use super::clock::Moment;
use super::end::{Loss, WriteError};
use super::terms::Terms;
use crate::{Append, Appended, Digest, LedgerError, Position, Reason};
use std::time::Duration;

/// The moment until which a grant is trusted: counted from before the request was sent, since the store's time began
/// to run somewhere between then and the answer; less the margin; and never for more than was granted (K1).
pub(super) fn trusted_until(terms: &Terms, sent: Moment, granted: Duration) -> Moment {
    sent.after(granted.saturating_sub(terms.margin))
}

/// Why a trust has ended by the clock, if it has (K1, K3). `trouble` is what went wrong with renewals since the last
/// grant.
pub(super) fn loss_by_time(until: Moment, now: Moment, trouble: Option<&LedgerError>) -> Option<Loss> {
    (now >= until).then(|| trouble.cloned().map_or(Loss::Expired, Loss::Unrenewed))
}

/// Why the store's answer to an append or a renewal ends the tenure, if it does: not by itself where the outcome is
/// unknown (K2, K3).
pub(super) fn loss_by_answer(error: &LedgerError) -> Option<Loss> {
    match error {
        LedgerError::Rejected(rejection) if is_fencing(rejection.reason) => Some(Loss::Refused(rejection.clone())),
        LedgerError::RolledBack(back) => Some(Loss::RolledBack(back.clone())),
        _ => None,
    }
}

/// Whether a store whose newest entry is `head` has lost or changed what it had acknowledged (K3, R2).
pub(super) fn went_back(acknowledged: (Position, Digest), head: (Position, Digest)) -> bool {
    head.0 < acknowledged.0 || (head.0 == acknowledged.0 && head.1 != acknowledged.1)
}

/// The newest entry that the store has acknowledged, with the one that another answer tells: an append's, or the head
/// that a renewal found, whoever wrote it (K3). Answers may come in another order than they were given.
pub(super) fn newest(acknowledged: (Position, Digest), told: (Position, Digest)) -> (Position, Digest) {
    if told.0 > acknowledged.0 { told } else { acknowledged }
}

/// Whether an append was written where another had been acknowledged before it was sent: what is written later stands
/// after that, or the store has lost it (K3). A replay may stand anywhere.
pub(super) fn was_written_behind(acknowledged: Position, appended: &Appended) -> bool {
    !appended.replayed && appended.entry.first <= acknowledged
}

/// Whether an append may begin (K3, K4): during a drain only an answer, and that until the release is sent.
pub(super) fn admit(state: &State, releasing: bool, append: &Append) -> Result<(), WriteError> {
    match state {
        State::Held => Ok(()),
        State::Draining if is_for_the_record(append) && !releasing => Ok(()),
        State::Draining => Err(WriteError::Draining),
        State::Ended(end) => Err(WriteError::Ended(end.clone())),
    }
}

/// Whether an append that has begun may be sent again: while the trust lasts, also during a drain (K8).
pub(super) fn may_send_again(state: &State) -> bool {
    !matches!(state, State::Ended(_))
}

/// Whether an append is sent although it may not begin: for the record of its refusal, which keeps what it wanted to
/// say (Q6).
pub(super) fn is_for_the_record(append: &Append) -> bool {
    append.remark().is_some()
}

/// Whether an append may be in the log, by the answer to it (K8).
pub(super) fn may_be_written(error: &LedgerError) -> bool {
    !error.proves_not_written()
}

/// Whether the lease is still renewed; `releasing` from the moment at which its release is sent (K2, K4).
pub(super) fn renews(state: &State, releasing: bool) -> bool {
    !matches!(state, State::Ended(_)) && !releasing
}

/// Whether a release may be sent while so much is in flight (K4).
pub(super) fn is_drained(in_flight: usize) -> bool {
    in_flight == 0
}

/// Whether a reason is about the right to write: for any append under this lease the answer would be the same.
pub(crate) fn is_fencing(reason: Reason) -> bool {
    match reason {
        Reason::NeverClaimed
        | Reason::Diverged
        | Reason::StaleGeneration
        | Reason::UnknownGeneration
        | Reason::WrongAcquisition
        | Reason::WrongHolder
        | Reason::Released
        | Reason::Expired => true,
        Reason::AppendIdReused
        | Reason::PositionConflict
        | Reason::AcquisitionSpent
        | Reason::ObservationOutdated
        | Reason::Held
        | Reason::GenerationExhausted => false,
    }
}
