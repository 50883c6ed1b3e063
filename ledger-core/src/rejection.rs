//! Rejections: what was refused, why, what was presented and what is true.

use std::sync::Arc;

use crate::{
    AcquisitionId, AppendId, Entry, Expected, Generation, Holder, Judged, Observation, PartitionId, Position, Remark,
    Timestamp, Vacancy,
};

/// Why the store refused. The order of the variants is the order of judgement: the first check that fails names the
/// rejection (J1).
///
/// Closed: a new reason is a change of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "closed: J1 lists the reasons, and callers match on all of them")]
pub enum Reason {
    /// Nobody ever claimed the partition. Claim it first.
    NeverClaimed,
    /// Lease and log of the store contradict each other: something was edited, rewound or cut. Stop; an operator looks.
    Diverged,
    /// Another tenure has followed. Stop writing: claim anew only if the work is still to be done.
    StaleGeneration,
    /// The generation was never granted, or the store went back in time. Stop.
    UnknownGeneration,
    /// Right generation, another acquisition: the lease is of another history of the store, or forged. Stop.
    WrongAcquisition,
    /// Right generation and acquisition, another holder. Stop.
    WrongHolder,
    /// The tenure was released by its holder, or ended or advanced over by an operator; `current` says which. Claim
    /// anew.
    Released,
    /// The lease has run out and nobody has followed yet. Claim anew; nothing can be renewed.
    Expired,
    /// The id was used before for other content (A4). A bug of the caller.
    AppendIdReused,
    /// The head is not where the append expected it (A5). Read on, decide anew.
    PositionConflict,
    /// The acquisition of a claim or an advance was used before: its tenure has ended, another step was taken by it, or
    /// an append has that id (C4, I4). Mint another.
    AcquisitionSpent,
    /// The partition has changed since it was observed (C1). Observe again.
    ObservationOutdated,
    /// A valid lease is held (C3). Wait until it has expired or was released.
    Held,
    /// There is no generation above the current one (G1).
    GenerationExhausted,
}

impl Reason {
    /// All reasons, in the order of judgement.
    pub const ALL: [Self; 14] = [
        Self::NeverClaimed,
        Self::Diverged,
        Self::StaleGeneration,
        Self::UnknownGeneration,
        Self::WrongAcquisition,
        Self::WrongHolder,
        Self::Released,
        Self::Expired,
        Self::AppendIdReused,
        Self::PositionConflict,
        Self::AcquisitionSpent,
        Self::ObservationOutdated,
        Self::Held,
        Self::GenerationExhausted,
    ];

    /// The reason's name, which a store may keep: the variant's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverClaimed => "NeverClaimed",
            Self::Diverged => "Diverged",
            Self::StaleGeneration => "StaleGeneration",
            Self::UnknownGeneration => "UnknownGeneration",
            Self::WrongAcquisition => "WrongAcquisition",
            Self::WrongHolder => "WrongHolder",
            Self::Released => "Released",
            Self::Expired => "Expired",
            Self::AppendIdReused => "AppendIdReused",
            Self::PositionConflict => "PositionConflict",
            Self::AcquisitionSpent => "AcquisitionSpent",
            Self::ObservationOutdated => "ObservationOutdated",
            Self::Held => "Held",
            Self::GenerationExhausted => "GenerationExhausted",
        }
    }

    /// The reason of a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "closed: these are the calls that are judged")]
pub enum Operation {
    /// An append.
    Append,
    /// A claim.
    Claim,
    /// A renewal.
    Renew,
    /// A release.
    Release,
    /// An operator's end of a tenure.
    EndTenure,
    /// An operator's advance.
    Advance,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] = [Self::Append, Self::Claim, Self::Renew, Self::Release, Self::EndTenure, Self::Advance];

    /// The operation's name, which a store may keep: the variant's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Append => "Append",
            Self::Claim => "Claim",
            Self::Renew => "Renew",
            Self::Release => "Release",
            Self::EndTenure => "EndTenure",
            Self::Advance => "Advance",
        }
    }

    /// The operation of a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == name)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused operation: it wrote nothing but its record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// What was asked for.
    pub operation: Operation,
    /// Where.
    pub partition: PartitionId,
    /// What the caller presented.
    pub presented: Presented,
    /// What is true, or `None` where the partition was never claimed.
    pub current: Option<Current>,
    /// For an append: the entry that already has its id, if there is one (J3). An old holder whose reply was lost
    /// learns here that its append had landed. `None` is as of the judged state; whether it can still land is
    /// [`fate`](crate::FencedLedger::fate)'s answer.
    pub earlier: Option<Arc<Entry>>,
    /// The moment of the judgement.
    pub judged: Judged,
    /// What became of the rejection's record (E2).
    pub record: RecordState,
}

impl Rejection {
    /// For a backend: a rejection whose record is still to be kept.
    pub fn new(
        reason: Reason,
        operation: Operation,
        partition: PartitionId,
        presented: Presented,
        current: Option<Current>,
        earlier: Option<Arc<Entry>>,
        judged: Judged,
    ) -> Self {
        Self { reason, operation, partition, presented, current, earlier, judged, record: RecordState::NotEvidence }
    }

    /// Whether a record is kept: for everything that is about the right to write, but not for mere answers to races
    /// and not for an operator's steps (E1).
    pub fn is_evidence(&self) -> bool {
        let answer = matches!(self.reason, Reason::PositionConflict | Reason::ObservationOutdated | Reason::Held);
        !answer && !matches!(self.operation, Operation::EndTenure | Operation::Advance)
    }

    /// For a backend: the same rejection, with what became of its record.
    #[must_use]
    pub fn with_record(mut self, record: RecordState) -> Self {
        self.record = record;
        self
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} refused on partition `{}`: {}; presented {}",
            self.operation, self.partition, self.reason, self.presented
        )?;
        if let Some(current) = &self.current {
            write!(f, "; true is {current}")?;
        }
        write!(f, "; judged at {}", self.judged.time)
    }
}

/// What the caller of a refused operation presented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Presented {
    /// The holder, or who advances; none where an operator ends a tenure.
    pub holder: Option<Holder>,
    /// The generation: of the lease, the one that a claim or an operator observed, or the one to be advanced above.
    pub generation: Option<Generation>,
    /// The acquisition: of the lease, of the claim, or of the advance.
    pub acquisition: Option<AcquisitionId>,
    /// The observation of a claim or of an operator.
    pub observed: Option<Observation>,
    /// The id of an append.
    pub append: Option<AppendId>,
    /// The head that an append expected.
    pub expected: Option<Position>,
    /// What an append wants to have kept of it, in the record alone (E1).
    pub remark: Option<Remark>,
}

impl Presented {
    /// What a call with a lease presents; an append adds its id and its expectation.
    pub fn lease(lease: &crate::Lease, append: Option<&crate::Append>) -> Self {
        Self {
            holder: Some(lease.holder.clone()),
            generation: Some(lease.generation),
            acquisition: Some(lease.acquisition),
            observed: None,
            append: append.map(crate::Append::id),
            expected: append.and_then(|append| match append.expected() {
                Expected::Any => None,
                Expected::Position(head) => Some(head),
            }),
            remark: append.and_then(crate::Append::remark).cloned(),
        }
    }

    /// What a claim presents.
    pub fn claim(claim: &crate::Claim) -> Self {
        Self {
            holder: Some(claim.holder.clone()),
            generation: claim.observed.generation(),
            acquisition: Some(claim.acquisition),
            observed: Some(claim.observed),
            ..Self::default()
        }
    }

    /// What an operator's advance presents.
    pub fn advance(advance: &crate::Advance) -> Self {
        Self {
            holder: Some(advance.operator.clone()),
            generation: advance.above,
            acquisition: Some(advance.acquisition),
            ..Self::default()
        }
    }

    /// What an operator presents.
    pub fn observation(observed: Observation) -> Self {
        Self { generation: observed.generation(), observed: Some(observed), ..Self::default() }
    }
}

impl std::fmt::Display for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.holder, self.generation) {
            (Some(holder), Some(generation)) => write!(f, "holder `{holder}`, generation {generation}")?,
            (Some(holder), None) if self.observed.is_none() => write!(f, "holder `{holder}`")?,
            (Some(holder), None) => write!(f, "holder `{holder}`, never claimed")?,
            (None, Some(generation)) => write!(f, "generation {generation}")?,
            (None, None) => write!(f, "never claimed")?,
        }
        if let Some(acquisition) = self.acquisition {
            write!(f, ", acquisition {acquisition}")?;
        }
        if let Some(append) = self.append {
            write!(f, ", append {append}")?;
        }
        if let Some(expected) = self.expected {
            write!(f, ", expected head {expected}")?;
        }
        Ok(())
    }
}

/// What is true of the partition at the moment of the judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Current {
    /// The holder of the newest tenure.
    pub holder: Holder,
    /// Its generation.
    pub generation: Generation,
    /// Its acquisition.
    pub acquisition: AcquisitionId,
    /// Its stored expiry.
    pub expires_at: Timestamp,
    /// Why the partition is vacant, if it is.
    pub vacancy: Option<Vacancy>,
    /// The position of the newest event.
    pub head: Position,
}

impl Current {
    /// For a backend.
    pub fn new(
        (holder, generation, acquisition): (Holder, Generation, AcquisitionId),
        expires_at: Timestamp,
        vacancy: Option<Vacancy>,
        head: Position,
    ) -> Self {
        Self { holder, generation, acquisition, expires_at, vacancy, head }
    }

    /// What is true by a partition's standing.
    pub fn of(standing: &crate::Standing) -> Self {
        let lease = &standing.lease;
        Self::new(
            (lease.holder.clone(), lease.generation, lease.acquisition),
            lease.expires_at,
            lease.vacancy.clone(),
            standing.head(),
        )
    }
}

impl std::fmt::Display for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "holder `{}`, generation {}, acquisition {}, {} {}, head {}",
            self.holder,
            self.generation,
            self.acquisition,
            if self.vacancy.is_some() { "vacant, expiry was" } else { "expires" },
            self.expires_at,
            self.head
        )
    }
}

/// What became of a rejection's record (E2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: E2 knows these answers")]
pub enum RecordState {
    /// This kind of refusal leaves no record (E1).
    NotEvidence,
    /// The first of its key: the record is committed and durable.
    Stored,
    /// A repeat, or one past the bound: counted in a durable record. The last second of counting may be lost in a crash.
    Counted,
    /// It could not be written; the refusal stands all the same.
    Missing {
        /// Why it could not.
        cause: String,
    },
    /// Refused inside the caller's own transaction: nothing is written of it yet. Give the rejection to the backend's
    /// `record_rejection` once that transaction has ended.
    Carried,
}
