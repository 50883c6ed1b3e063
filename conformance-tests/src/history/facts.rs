//! What answers tell of a partition, as a history keeps it.

use std::sync::Arc;

use ledger_core::{
    AcquisitionId, Current, Digest, Entry, Generation, Holder, Lease, Position, RecordState, TenureState, Timestamp,
    Vacancy,
};
use serde::{Deserialize, Serialize};

/// What a page has of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Seen {
    /// The entry.
    pub entry: Arc<Entry>,
    /// The positions of its events in the page, in the page's order.
    pub positions: Vec<Position>,
}

/// A [`TenureState`], as a history keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tenure {
    /// The lease.
    pub lease: Lease,
    /// Why the partition is vacant, if it is.
    pub vacancy: Option<Vacancy>,
    /// The recorded time.
    pub recorded_at: Timestamp,
    /// The head.
    pub head: Position,
    /// The chain value at the head.
    pub chain: Digest,
}

impl Tenure {
    /// What is kept of a tenure.
    pub fn of(tenure: &TenureState) -> Self {
        let TenureState { lease, vacancy, recorded_at, head, chain, .. } = tenure.clone();
        Self { lease, vacancy, recorded_at, head, chain }
    }
}

/// A [`Current`], as a history keeps it: what a refusal says is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Truth {
    /// The holder.
    pub holder: Holder,
    /// The generation.
    pub generation: Generation,
    /// The acquisition.
    pub acquisition: AcquisitionId,
    /// The stored expiry.
    pub expires_at: Timestamp,
    /// Why the partition is vacant, if it is.
    pub vacancy: Option<Vacancy>,
    /// The head.
    pub head: Position,
}

impl Truth {
    /// What is kept of it.
    pub fn of(current: &Current) -> Self {
        let Current { holder, generation, acquisition, expires_at, vacancy, head, .. } = current.clone();
        Self { holder, generation, acquisition, expires_at, vacancy, head }
    }
}

/// What became of a rejection's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: E2 knows these answers")]
pub enum Kept {
    /// It is no evidence.
    NotEvidence,
    /// The first of its key.
    Stored,
    /// A repeat.
    Counted,
    /// It could not be written, for this reason.
    Missing(String),
    /// It was left to the caller, whose transaction was open.
    Carried,
}

impl Kept {
    /// What is kept of it.
    pub fn of(record: &RecordState) -> Self {
        match record {
            RecordState::NotEvidence => Self::NotEvidence,
            RecordState::Stored => Self::Stored,
            RecordState::Counted => Self::Counted,
            RecordState::Missing { cause } => Self::Missing(cause.clone()),
            RecordState::Carried => Self::Carried,
        }
    }
}
