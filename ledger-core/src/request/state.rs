//! A request as it is known: what was asked, under which generation, and what came of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Entry, Generation, Invalid, Json, Note};

use super::{RequestKey, RequestStep};

/// On what a change of a request rests (Q4): where the answer came from, and where it can be looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evidence {
    /// Who or what says so, such as `webhook` or `bank statement`.
    pub source: Note,
    /// Where it stands there, such as a transaction's number.
    pub reference: Note,
}

impl Evidence {
    /// Evidence from its two parts: each 1 to 255 bytes without control characters, and not blank.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the limit and the actual value.
    pub fn new(source: impl AsRef<str>, reference: impl AsRef<str>) -> Result<Self, Invalid> {
        Ok(Self { source: Note::new(source)?, reference: Note::new(reference)? })
    }
}

/// Who looks after an open request, and what there is to know (Q4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// The person or team. Not a holder of the partition: it has no right to write by this.
    pub owner: Note,
    /// What there is to know.
    pub note: Note,
}

impl Owner {
    /// An owner with a note: each 1 to 255 bytes without control characters, and not blank.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the limit and the actual value.
    pub fn new(owner: impl AsRef<str>, note: impl AsRef<str>) -> Result<Self, Invalid> {
        Ok(Self { owner: Note::new(owner)?, note: Note::new(note)? })
    }
}

/// How a request was settled: for good (Q3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: Q3 knows these two")]
pub enum Outcome {
    /// The other system did it.
    Succeeded,
    /// The other system surely did not do it, and never will. Not knowing is not this: see [`RequestState::Unknown`].
    Failed,
}

/// What is known of a request (Q3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a new state is a change of the contract")]
pub enum RequestState {
    /// Recorded. It may have been sent, or not. Open.
    Requested,
    /// Somebody tried to learn what came of it and could not. Open: this is not a failure.
    Unknown {
        /// On what that rests.
        evidence: Evidence,
    },
    /// Settled: done.
    Succeeded {
        /// On what that rests.
        evidence: Evidence,
    },
    /// Settled: surely not done.
    Failed {
        /// On what that rests.
        evidence: Evidence,
    },
}

impl RequestState {
    /// The state after a settling.
    pub fn settled(outcome: Outcome, evidence: Evidence) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded { evidence },
            Outcome::Failed => Self::Failed { evidence },
        }
    }

    /// Whether nobody has settled it yet.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Requested | Self::Unknown { .. })
    }
}

/// A request to another system, as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Request {
    /// Its idempotency key.
    pub key: RequestKey,
    /// What was asked for, byte for byte.
    pub what: Json,
    /// The entry that recorded it: position, time, and the holder and generation that sent it first.
    pub made: Arc<Entry>,
    /// The entry that recorded the newest sending: that of `made`, unless it was sent again.
    pub last_sent: Arc<Entry>,
    /// How many sendings were recorded: 1 or more. Each was recorded before it was sent, so there were at most so many.
    pub sends: u32,
    /// What is known of it.
    pub state: RequestState,
    /// Who looks after it, if anybody was named.
    pub owner: Option<Owner>,
    /// The entry of its newest change: that of `made` where there was none.
    pub changed: Arc<Entry>,
    /// How many changes there were.
    pub changes: u32,
    /// The number of the change that gave the state, and of the one that named the owner; 0 where there was none.
    pub(super) stated: u32,
    pub(super) assigned: u32,
}

impl Request {
    /// The generation that sent it first. It stays the same over takeovers and further sendings.
    pub fn generation(&self) -> Generation {
        self.made.generation
    }

    /// Whether nobody has settled it yet.
    pub fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// A request that was just recorded.
    pub(super) fn made(key: RequestKey, what: Json, made: Arc<Entry>) -> Self {
        Self {
            key,
            what,
            last_sent: made.clone(),
            changed: made.clone(),
            made,
            sends: 1,
            state: RequestState::Requested,
            owner: None,
            changes: 0,
            stated: 0,
            assigned: 0,
        }
    }

    /// The number under which a change is to be written: the next, or that of the change which it only repeats. A
    /// settled request has no next one: what is sent then meets the settling's own id, and the store refuses it (Q3).
    pub(super) fn number_for(&self, step: &RequestStep) -> u32 {
        let repeats_state = match step {
            RequestStep::Unknown { evidence } => {
                matches!(&self.state, RequestState::Unknown { evidence: known } if known == evidence)
            }
            _ => false,
        };
        if !self.is_open() || repeats_state {
            return self.stated;
        }
        match step {
            RequestStep::Owned { owner } if self.owner.as_ref() == Some(owner) => self.assigned,
            _ => self.changes + 1,
        }
    }

    /// Takes in the next change.
    pub(super) fn apply(&mut self, step: RequestStep, entry: Arc<Entry>) {
        self.changes += 1;
        self.changed = entry.clone();
        let state = match step {
            RequestStep::Unknown { evidence } => RequestState::Unknown { evidence },
            RequestStep::Settled { outcome, evidence } => RequestState::settled(outcome, evidence),
            RequestStep::SentAgain => {
                self.sends += 1;
                self.last_sent = entry;
                return;
            }
            RequestStep::Owned { owner } => {
                self.owner = Some(owner);
                self.assigned = self.changes;
                return;
            }
            // Never read as a change: `RequestEvent::read` gives it the number 0 alone.
            RequestStep::Made { .. } => return,
        };
        self.state = state;
        self.stated = self.changes;
    }
}
