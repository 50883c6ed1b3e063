//! Rejection records: the evidence that a store keeps of what it refused (E1 to E3).

use crate::{
    AcquisitionId, AppendId, Generation, Holder, Operation, PartitionId, Reason, Rejection, Remark, Revision, Timestamp,
};

/// The most keys that a store keeps for one partition and current generation, and for all never-claimed partitions
/// together: 256. What comes after is counted in one overflow record (E3).
pub const MAX_RECORD_KEYS: u16 = 256;

/// What a store keeps of the refusals of one key. The key is partition, current generation, operation, reason, and
/// presented holder, generation and remark; repeats are counted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct RejectionRecord {
    /// Where it stands among the records.
    pub slot: RecordSlot,
    /// The partition, or `None` in the overflow record of the never-claimed ones.
    pub partition: Option<PartitionId>,
    /// What was refused, or `None` in an overflow record, which only counts.
    pub refused: Option<Refused>,
    /// How many refusals it stands for.
    pub count: u64,
    /// The judged time of the first.
    pub first_at: Timestamp,
    /// The judged time of the last.
    pub last_at: Timestamp,
}

impl RejectionRecord {
    /// For a backend: a record as it is stored.
    pub fn new(
        slot: RecordSlot,
        partition: Option<PartitionId>,
        refused: Option<Refused>,
        count: u64,
        (first_at, last_at): (Timestamp, Timestamp),
    ) -> Self {
        Self { slot, partition, refused, count, first_at, last_at }
    }
}

/// Where a record stands: records are listed by generation, then in the order in which their keys were first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct RecordSlot {
    /// The generation that was current, or `None` where the partition was never claimed.
    pub generation: Option<Generation>,
    /// 1 to [`MAX_RECORD_KEYS`], then one more for the overflow record.
    pub number: u16,
}

impl RecordSlot {
    /// The slot of the overflow record.
    pub const OVERFLOW: u16 = MAX_RECORD_KEYS + 1;

    /// For a backend, or to page from a place that was kept.
    pub fn new(generation: Option<Generation>, number: u16) -> Self {
        Self { generation, number }
    }
}

/// What was refused: the key of a record, and the facts of its last refusal. No payload, only what the append itself
/// remarked for this case (E1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Refused {
    /// What was asked for. Part of the key.
    pub operation: Operation,
    /// Why it was refused. Part of the key.
    pub reason: Reason,
    /// The holder that was presented. Part of the key.
    pub holder: Holder,
    /// The generation that was presented, or `None` for a claim of a partition seen as never claimed. Part of the key.
    pub generation: Option<Generation>,
    /// The acquisition that was presented last.
    pub acquisition: AcquisitionId,
    /// The id of the append that was refused last.
    pub append: Option<AppendId>,
    /// Holder, acquisition and expiry that were true, or `None` where the partition was never claimed.
    pub current: Option<(Holder, AcquisitionId, Timestamp)>,
    /// The revision at the last refusal.
    pub revision: Revision,
    /// What the append wanted to have kept. Part of the key, so that no remark takes another's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<Remark>,
}

impl Refused {
    /// What a record keeps of a rejection; `None` where it is no evidence (E1).
    pub fn of(rejection: &Rejection) -> Option<Self> {
        if !rejection.is_evidence() {
            return None;
        }
        Some(Self {
            operation: rejection.operation,
            reason: rejection.reason,
            holder: rejection.presented.holder.clone()?,
            generation: rejection.presented.generation,
            acquisition: rejection.presented.acquisition?,
            append: rejection.presented.append,
            current: rejection
                .current
                .as_ref()
                .map(|current| (current.holder.clone(), current.acquisition, current.expires_at)),
            revision: rejection.judged.revision,
            remark: rejection.presented.remark.clone(),
        })
    }

    /// For a backend: what a stored record says was refused.
    pub fn new(
        (operation, reason): (Operation, Reason),
        (holder, generation, acquisition): (Holder, Option<Generation>, AcquisitionId),
        append: Option<AppendId>,
        current: Option<(Holder, AcquisitionId, Timestamp)>,
        revision: Revision,
    ) -> Self {
        Self { operation, reason, holder, generation, acquisition, append, current, revision, remark: None }
    }

    /// For a backend: the same, with the remark that is stored.
    #[must_use]
    pub fn with_remark(mut self, remark: Option<Remark>) -> Self {
        self.remark = remark;
        self
    }

    /// Whether both belong to one record of a partition and a current generation.
    pub fn same_key(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> (Operation, Reason, &Holder, Option<Generation>, Option<&Remark>) {
        (self.operation, self.reason, &self.holder, self.generation, self.remark.as_ref())
    }
}
