//! Claims, and the record of how one tenure followed another.

use crate::{AcquisitionId, Digest, Generation, Holder, Judged, Lease, Note, PartitionId, Position, Timestamp, Ttl};

/// The state of a partition from which a claim starts (C1). A claim is granted only where it is still current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "closed: a partition was claimed before, or never")]
pub enum Observation {
    /// Nobody ever claimed the partition.
    NeverClaimed,
    /// The newest tenure, whether it still lasts or not.
    Tenure {
        /// Its generation.
        generation: Generation,
        /// Its acquisition: tells two tenures apart that a store which lost its newest writes numbered alike.
        acquisition: AcquisitionId,
    },
}

impl Observation {
    /// The observation of a tenure that is known by its lease.
    pub fn of(lease: &Lease) -> Self {
        Self::Tenure { generation: lease.generation, acquisition: lease.acquisition }
    }

    /// The generation observed, if any.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Self::NeverClaimed => None,
            Self::Tenure { generation, .. } => Some(*generation),
        }
    }
}

/// One attempt to become holder. Keep it, and send the same value again where an answer was lost (C4).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Claim {
    /// The partition to hold.
    pub partition: PartitionId,
    /// Who wants to hold it.
    pub holder: Holder,
    /// The id of this attempt.
    pub acquisition: AcquisitionId,
    /// How long the lease is to last.
    pub ttl: Ttl,
    /// The state from which the claim starts.
    pub observed: Observation,
}

impl Claim {
    /// An attempt under a newly minted acquisition.
    pub fn new(partition: PartitionId, holder: Holder, ttl: Ttl, observed: Observation) -> Self {
        Self { partition, holder, acquisition: AcquisitionId::mint(), ttl, observed }
    }

    /// The same attempt under a given acquisition.
    #[must_use]
    pub fn with_acquisition(mut self, acquisition: AcquisitionId) -> Self {
        self.acquisition = acquisition;
        self
    }

    /// The same attempt, started from another observation.
    #[must_use]
    pub fn observing(mut self, observed: Observation) -> Self {
        self.observed = observed;
        self
    }
}

/// The answer to a claim that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The lease: valid at the judged time (C4).
    pub lease: Lease,
    /// The position of the newest event: the `$claimed` entry, or later in a retry.
    pub head: Position,
    /// The chain value of the newest entry.
    pub chain: Digest,
    /// Whether this acquisition had been granted before, and this answer wrote nothing.
    pub replayed: bool,
    /// The moment of the judgement.
    pub judged: Judged,
}

impl Claimed {
    /// For a backend.
    pub fn new(lease: Lease, head: Position, chain: Digest, replayed: bool, judged: Judged) -> Self {
        Self { lease, head, chain, replayed, judged }
    }
}

/// The record of how one tenure followed another: the payload of a `$claimed` event (C5).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Succession {
    /// The tenure before, or `None` for the partition's first claim.
    pub previous: Option<Predecessor>,
    /// Why that tenure counts as ended.
    pub basis: Basis,
    /// The new holder.
    pub holder: Holder,
    /// The new generation.
    pub generation: Generation,
    /// The new acquisition.
    pub acquisition: AcquisitionId,
    /// The TTL of the new lease.
    pub ttl: Ttl,
    /// The expiry that the new lease was granted with.
    pub expires_at: Timestamp,
    /// The judged time of the claim.
    pub at: Timestamp,
}

impl Succession {
    /// For a backend: the succession that a granted claim writes.
    pub fn new(previous: Option<Predecessor>, basis: Basis, lease: &Lease, at: Timestamp) -> Self {
        Self {
            previous,
            basis,
            holder: lease.holder.clone(),
            generation: lease.generation,
            acquisition: lease.acquisition,
            ttl: lease.ttl,
            expires_at: lease.expires_at,
            at,
        }
    }
}

/// The tenure that a claim followed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Predecessor {
    /// Its holder.
    pub holder: Holder,
    /// Its generation.
    pub generation: Generation,
    /// Its acquisition.
    pub acquisition: AcquisitionId,
    /// The last position of the log before the claim.
    pub last_position: Position,
}

impl Predecessor {
    /// For a backend.
    pub fn new(holder: Holder, generation: Generation, acquisition: AcquisitionId, last_position: Position) -> Self {
        Self { holder, generation, acquisition, last_position }
    }
}

/// Why a tenure counts as ended (C5).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: C5 lists them")]
pub enum Basis {
    /// There was none before.
    First,
    /// Its holder released it.
    Released,
    /// Its lease had run out.
    Expired {
        /// The expiry that was stored.
        expires_at: Timestamp,
        /// The judged time, at or after it.
        judged_at: Timestamp,
    },
    /// An operator ended it.
    Ended {
        /// The operator's reason.
        reason: Note,
    },
    /// An operator's advance ended whatever was before (I4). The previous tenure is then the advance's own: its holder
    /// is the operator, and its `$advanced` entry stands at the last position before the claim.
    Advanced {
        /// The operator's reason.
        reason: Note,
    },
}
