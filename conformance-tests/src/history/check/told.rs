//! What an answer tells of the state in which it was given.

use ledger_core::{Basis, Generation, Judged, Position, Timestamp};

use super::Kind;
use crate::history::invocation::Invocation;
use crate::history::record::Answer;

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
pub(super) fn generation_told(answer: &Answer) -> Option<Generation> {
    match answer {
        Answer::Rejected { current, .. } => current.as_ref().map(|current| current.generation),
        Answer::Observed { tenure, .. } => tenure.as_ref().map(|tenure| tenure.lease.generation),
        Answer::Claimed { lease, .. } | Answer::Renewed { lease, .. } => Some(lease.generation),
        _ => None,
    }
}

/// The recorded time that an answer tells of the state at its revision, or a later one; and whether it is just what a granted
/// call has stored there, and not what the first answer stored that rested on the expiry (T2).
pub(super) fn recorded_told(answer: &Answer) -> Option<(Timestamp, bool)> {
    match answer {
        Answer::Observed { tenure: Some(tenure), .. } => {
            Some((tenure.recorded_at, tenure.vacancy.is_none() && tenure.recorded_at < tenure.lease.expires_at))
        }
        Answer::Rejected { current: Some(current), judged, .. } if judged.clock_behind => {
            Some((judged.time, current.vacancy.is_none() && judged.time < current.expires_at))
        }
        _ => None,
    }
}

/// The head and the judgement that an answer tells of one state.
pub(super) fn head_told(call: &Invocation) -> Option<(Position, Judged)> {
    let (_, answer) = call.answer.as_ref()?;
    match answer {
        Answer::Appended { entry, replayed: false, judged } => Some((entry.last, *judged)),
        Answer::Claimed { head, judged, .. } | Answer::Renewed { head, judged, .. } => Some((*head, *judged)),
        Answer::Released { position, judged } | Answer::Ended { position, judged } => Some((*position, *judged)),
        Answer::Advanced { mark, replayed: false, judged } => Some((mark.position, *judged)),
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
                | Answer::Advanced { replayed: false, .. }
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
