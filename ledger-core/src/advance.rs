//! An operator's advance: how a partition goes on after its store went back in time, or contradicts itself (I4).

use crate::{AcquisitionId, Digest, Generation, Holder, Judged, Mark, Note, PartitionId, Position};

/// One step of an operator's. Keep it, and send the same value again where an answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Advance {
    /// The partition that is to go on.
    pub partition: PartitionId,
    /// Who takes the step. Stands as holder in the entry; it holds nothing.
    pub operator: Holder,
    /// The highest generation that anybody has ever seen of the partition, in any copy of the store; `None` where nobody
    /// knows of a later one than this store has.
    pub above: Option<Generation>,
    /// The id of this step.
    pub acquisition: AcquisitionId,
    /// Why.
    pub reason: Note,
}

impl Advance {
    /// A step under a newly minted id.
    pub fn new(partition: PartitionId, operator: Holder, above: Option<Generation>, reason: Note) -> Self {
        Self { partition, operator, above, acquisition: AcquisitionId::mint(), reason }
    }

    /// The same step under a given id.
    #[must_use]
    pub fn with_acquisition(mut self, acquisition: AcquisitionId) -> Self {
        self.acquisition = acquisition;
        self
    }
}

/// The answer to an advance. The partition is vacant at its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advanced {
    /// The generation of the step: above every one before. The next claim gets the one after it.
    pub generation: Generation,
    /// Where the `$advanced` entry stands.
    pub position: Position,
    /// The chain value after it.
    pub chain: Digest,
    /// Whether this step had been taken before, and this answer wrote nothing.
    pub replayed: bool,
    /// The moment of the judgement.
    pub judged: Judged,
}

impl Advanced {
    /// For a backend.
    pub fn new(mark: Mark, replayed: bool, judged: Judged) -> Self {
        let Mark { generation, position, chain } = mark;
        Self { generation, position, chain, replayed, judged }
    }

    /// The mark of the `$advanced` entry.
    pub fn mark(&self) -> Mark {
        Mark::new(self.generation, self.position, self.chain)
    }
}

/// What an advance found and why it was made: the payload of an `$advanced` event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct AdvanceRecord {
    /// The generation that the operator named as the highest ever seen.
    pub above: Option<Generation>,
    /// The stored lease as it was found, or `None` where the partition was never claimed in this store.
    pub lease: Option<FoundLease>,
    /// The last entry of the log as it was found. Where lease and log contradict each other, the log goes on from here.
    pub log: Option<Mark>,
    /// The operator's reason.
    pub reason: Note,
}

impl AdvanceRecord {
    /// For a backend: what an advance writes.
    pub fn new(advance: &Advance, lease: Option<FoundLease>, log: Option<Mark>) -> Self {
        Self { above: advance.above, lease, log, reason: advance.reason.clone() }
    }

    /// Whether it is the record of just this step, so that the step was taken before.
    pub fn is_of(&self, advance: &Advance) -> bool {
        self.above == advance.above && self.reason == advance.reason
    }
}

/// A stored lease as an advance found it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct FoundLease {
    /// Its holder.
    pub holder: Holder,
    /// Its generation.
    pub generation: Generation,
    /// Its acquisition.
    pub acquisition: AcquisitionId,
    /// Where it says that the log ended when it was last changed.
    pub head: Position,
    /// The chain value there.
    pub chain: Digest,
}

/// The lease as it is stored.
impl From<&crate::StoredLease> for FoundLease {
    fn from(lease: &crate::StoredLease) -> Self {
        Self {
            holder: lease.holder.clone(),
            generation: lease.generation,
            acquisition: lease.acquisition,
            head: lease.head,
            chain: lease.chain,
        }
    }
}
