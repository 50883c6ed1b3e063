//! The keeper's rules, with one bug in them where a test has switched it on.

#[path = "../rules.rs"]
mod sound;

use std::time::Duration;

use super::changes::State;
use super::clock::Moment;
use super::end::{Loss, WriteError};
use super::terms::Terms;
use super::tests::{Bug, bug, now};
use crate::{Append, Appended, Digest, LedgerError, Position, Reason};

/// Where the rules look for what they use, as if they stood in their own place.
use super::{changes, clock, end, terms};

pub(super) fn trusted_until(terms: &Terms, sent: Moment, granted: Duration) -> Moment {
    match bug() {
        Some(Bug::TrustFromTheReply) => sound::trusted_until(terms, now(), granted),
        Some(Bug::TrustByTheTtl) => sound::trusted_until(terms, sent, terms.ttl.as_duration()),
        Some(Bug::NoMargin) => sound::trusted_until(&terms.with_margin(Duration::ZERO), sent, granted),
        _ => sound::trusted_until(terms, sent, granted),
    }
}

pub(super) fn loss_by_time(until: Moment, now: Moment, trouble: Option<&LedgerError>) -> Option<Loss> {
    match bug() {
        Some(Bug::ValidAtTheEnd) if now == until => None,
        Some(Bug::GoesOnWhileUnknown) if trouble.is_some() => None,
        Some(Bug::RenewalRevives) if trouble.is_some_and(is_under_way) => None,
        _ => sound::loss_by_time(until, now, trouble),
    }
}

/// Whether a renewal has no answer yet.
fn is_under_way(trouble: &LedgerError) -> bool {
    trouble.to_string().contains("was sent and not answered")
}

pub(super) fn loss_by_answer(error: &LedgerError) -> Option<Loss> {
    match bug() {
        Some(Bug::RefusalIsNoEnd) => None,
        Some(Bug::UnknownIsALoss) => Some(Loss::Unrenewed(error.clone())),
        _ => sound::loss_by_answer(error),
    }
}

pub(super) fn went_back(acknowledged: (Position, Digest), head: (Position, Digest)) -> bool {
    bug() != Some(Bug::StoreThatWentBackIsTrusted) && sound::went_back(acknowledged, head)
}

pub(super) fn was_written_behind(acknowledged: Position, appended: &Appended) -> bool {
    bug() != Some(Bug::AppendBehindIsTrusted) && sound::was_written_behind(acknowledged, appended)
}

pub(super) fn newest(acknowledged: (Position, Digest), told: (Position, Digest)) -> (Position, Digest) {
    if bug() == Some(Bug::WhatWasAcknowledgedIsForgotten) { acknowledged } else { sound::newest(acknowledged, told) }
}

pub(super) fn admit(state: &State, releasing: bool, append: &Append) -> Result<(), WriteError> {
    match state {
        State::Draining if bug() == Some(Bug::AppendsWhileDraining) => Ok(()),
        State::Draining if bug() == Some(Bug::AnswersAreNotWaitedFor) => Err(WriteError::Draining),
        state => sound::admit(state, releasing, append),
    }
}

pub(super) fn may_be_written(error: &LedgerError) -> bool {
    bug() != Some(Bug::StoreThatWentBackProvesAbsence) && sound::may_be_written(error)
}

pub(super) fn may_send_again(state: &State) -> bool {
    bug() == Some(Bug::SettlesByAppendingWithoutTrust) || sound::may_send_again(state)
}

pub(super) fn is_for_the_record(append: &Append) -> bool {
    bug() != Some(Bug::KeepsLateAnswersBack) && sound::is_for_the_record(append)
}

pub(super) fn renews(state: &State, releasing: bool) -> bool {
    sound::renews(state, releasing && bug() != Some(Bug::RenewsAfterTheRelease))
}

pub(super) fn is_drained(in_flight: usize) -> bool {
    bug() == Some(Bug::ReleaseBeforeTheDrain) || sound::is_drained(in_flight)
}

pub(crate) fn is_fencing(reason: Reason) -> bool {
    sound::is_fencing(reason)
}
