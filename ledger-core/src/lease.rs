//! Leases: who may write to a partition, and until when.

use std::time::Duration;

use crate::{
    AcquisitionId, Digest, Generation, Invalid, LedgerId, PartitionId, Position, Revision, Succession, Timestamp, Ttl,
    name,
};

name::text_newtype!(
    /// The name of a writer: 1 to 255 bytes of UTF-8 without control characters, and not blank.
    Holder(name::Hashed),
    "holder",
    |text: &str| {
        name::check("holder", text)?;
        if text.trim().is_empty() {
            return Err(Invalid::Blank { what: "holder", actual: text.to_owned() });
        }
        Ok(())
    }
);

impl Holder {
    /// The SHA-256 of the name, which enters the chain (I1). Computed when the name is made.
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }
}

name::text_newtype!(
    /// A short text that somebody answers for, such as an operator's reason or a request's owner: 1 to 255 bytes of
    /// UTF-8 without control characters, and not blank.
    Note(std::sync::Arc<str>),
    "note",
    |text: &str| {
        name::check("note", text)?;
        if text.trim().is_empty() {
            return Err(Invalid::Blank { what: "note", actual: text.to_owned() });
        }
        Ok(())
    }
);

/// The right to write to a partition until it expires, as the store granted it.
///
/// A lease is a value: it can be stored, sent to another process and shown again. Whether it still holds is the
/// store's judgement at each call, by holder, generation, acquisition and expiry; a copy of it that was edited is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Lease {
    /// The ledger that granted it.
    pub ledger: LedgerId,
    /// The partition that it is for.
    pub partition: PartitionId,
    /// The writer that it was granted to.
    pub holder: Holder,
    /// The fencing token.
    pub generation: Generation,
    /// The attempt by which it was acquired.
    pub acquisition: AcquisitionId,
    /// How long it lasts from a grant or a renewal.
    pub ttl: Ttl,
    /// The moment by the store's clock from which on it is expired; at equality it is (T3).
    pub expires_at: Timestamp,
}

impl Lease {
    /// For a backend, or for a lease that was kept elsewhere.
    pub fn new(
        ledger: LedgerId,
        partition: PartitionId,
        holder: Holder,
        generation: Generation,
        acquisition: AcquisitionId,
        ttl: Ttl,
        expires_at: Timestamp,
    ) -> Self {
        Self { ledger, partition, holder, generation, acquisition, ttl, expires_at }
    }

    /// For a backend: refuses a lease of another ledger before the store is asked (J4).
    ///
    /// # Errors
    ///
    /// [`Invalid::WrongLedger`].
    pub fn check_ledger(&self, actual: LedgerId) -> Result<(), Invalid> {
        if self.ledger == actual { Ok(()) } else { Err(Invalid::WrongLedger { presented: self.ledger, actual }) }
    }
}

/// The moment of a judgement (J2). Every answer carries one, beside the stored facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// The judged time: the later of the store's clock and the recorded time (T2).
    pub time: Timestamp,
    /// The partition's revision after the call.
    pub revision: Revision,
    /// Whether the clock stood behind the recorded time, so that `time` is not the clock's.
    pub clock_behind: bool,
}

impl Judged {
    /// For a backend.
    pub fn new(time: Timestamp, revision: Revision, clock_behind: bool) -> Self {
        Self { time, revision, clock_behind }
    }
}

/// Why a partition is vacant although its newest tenure has not expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "closed: a new way to end a tenure is a change of the contract")]
pub enum Vacancy {
    /// The holder released it.
    Released,
    /// An operator ended the tenure, for the reason given (C3).
    Ended {
        /// The operator's reason.
        reason: Note,
    },
    /// An operator advanced the partition, for the reason given (I4). Nobody has held its generation.
    Advanced {
        /// The operator's reason.
        reason: Note,
    },
}

/// How the newest tenure counts as ended where its partition is vacant.
impl From<&Vacancy> for crate::Basis {
    fn from(vacancy: &Vacancy) -> Self {
        match vacancy {
            Vacancy::Released => Self::Released,
            Vacancy::Ended { reason } => Self::Ended { reason: reason.clone() },
            Vacancy::Advanced { reason } => Self::Advanced { reason: reason.clone() },
        }
    }
}

/// The answer to a renewal that was granted (R1, R2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renewal {
    /// The lease with its new expiry: never earlier than the old one.
    pub lease: Lease,
    /// What is left of it, counted from the judged time.
    pub remaining: Duration,
    /// The position of the newest event. A holder that was acknowledged a later one knows that the store has lost it.
    pub head: Position,
    /// The chain value of the newest entry.
    pub chain: Digest,
    /// The moment of the judgement.
    pub judged: Judged,
}

impl Renewal {
    /// For a backend.
    pub fn new(lease: Lease, head: Position, chain: Digest, judged: Judged) -> Self {
        let remaining = lease.expires_at.since(judged.time);
        Self { lease, remaining, head, chain, judged }
    }
}

/// The answer to a release (R3). Both are successes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: R3 knows these two answers")]
pub enum Released {
    /// The tenure was ended by this call.
    Now {
        /// Where the `$released` entry stands.
        position: Position,
        /// The moment of the judgement.
        judged: Judged,
    },
    /// The tenure had ended before; nothing was written. A retry after a lost reply looks just so.
    AlreadyEnded {
        /// How it had ended, and who came after.
        end: TenureEnd,
        /// The moment of the judgement.
        judged: Judged,
    },
}

impl Released {
    /// The moment of the judgement.
    pub fn judged(&self) -> Judged {
        match self {
            Self::Now { judged, .. } | Self::AlreadyEnded { judged, .. } => *judged,
        }
    }
}

/// How a tenure ended, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenureEnd {
    /// How it ended.
    pub basis: crate::Basis,
    /// The holder and the generation that came next, where somebody did.
    pub successor: Option<(Holder, Generation)>,
}

impl TenureEnd {
    /// The end of a tenure that nobody has followed yet.
    pub fn new(basis: crate::Basis) -> Self {
        Self { basis, successor: None }
    }
}

/// The end of the tenure that a `$claimed` entry followed.
impl From<&Succession> for TenureEnd {
    fn from(succession: &Succession) -> Self {
        Self { basis: succession.basis.clone(), successor: Some((succession.holder.clone(), succession.generation)) }
    }
}

/// The answer to an operator's [`end_tenure`](crate::FencedLedger::end_tenure).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: the step is taken, or there was nothing to end")]
pub enum Ended {
    /// The tenure was ended by this call.
    Now {
        /// Where the `$ended` entry stands.
        position: Position,
        /// The moment of the judgement.
        judged: Judged,
    },
    /// The partition was vacant already; nothing was written.
    AlreadyVacant {
        /// How the tenure had ended.
        vacancy: Vacancy,
        /// The moment of the judgement.
        judged: Judged,
    },
}
