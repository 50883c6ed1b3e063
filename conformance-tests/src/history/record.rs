//! The format of a history: JSON lines, one file a process.

use std::sync::Arc;

use ledger_core::{
    Advance, Append, AppendId, Basis, Claim, Digest, Entry, Expected, Fate, Generation, Holder, Judged, Lease,
    LedgerError, Mark, Note, Observation, Page, PartitionId, Position, Reason, Rejection, Remark, Ttl, Vacancy,
};
use serde::{Deserialize, Serialize};

use super::facts::{Kept, Seen, Tenure, Truth};

/// The version of the format, in the first line of each file. A reader takes every earlier one, and refuses a later one.
///
/// 2 has an operator's advance, and the end of the faults.
pub const FORMAT: u32 = 2;

/// One line of a history file.
///
/// Every line is written with one call, before the ledger is asked or after it has answered, so that a process that is
/// killed leaves whole lines and, of the call under way, a [`Called`](Self::Called) without an
/// [`Answered`](Self::Answered): its outcome is unknown.
///
/// `at` counts nanoseconds of the machine's monotonic clock, which all of its processes share: two lines of two
/// processes can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a new kind of line is a new version of the format")]
pub enum Line {
    /// The first line of a file.
    Opened {
        /// [`FORMAT`].
        version: u32,
        /// The process, by a name that no other file of the history has.
        process: String,
        /// When.
        at: u64,
    },
    /// The ledger is about to be asked.
    Called {
        /// The number of the call within its process.
        number: u64,
        /// When, before the ledger was asked.
        at: u64,
        /// What it is asked.
        call: Call,
    },
    /// The ledger has answered.
    Answered {
        /// The number of the call.
        number: u64,
        /// When, after the answer had come.
        at: u64,
        /// The answer.
        answer: Answer,
    },
    /// The process has closed its ledger and ends: nothing that it had counted in memory is lost (E3).
    Closed {
        /// When.
        at: u64,
    },
    /// The store itself was ended by force: the last second of counted repeats may be lost (E3).
    StoreCrashed {
        /// When it was back.
        at: u64,
    },
    /// From now on nothing disturbs the store or its processes: what is asked is answered within a bound.
    Healed {
        /// When.
        at: u64,
        /// The bound, in nanoseconds.
        within: u64,
    },
    /// A remark for people, such as a fault that was injected. Not judged.
    Noted {
        /// When.
        at: u64,
        /// The remark.
        note: String,
    },
}

/// What a ledger was asked. Listings of partitions and records have no place in a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a new kind of call is a new version of the format")]
pub enum Call {
    /// [`append`](ledger_core::FencedLedger::append).
    Append {
        /// The lease that was presented.
        lease: Lease,
        /// The append's id.
        id: AppendId,
        /// The digest of its events.
        content: Digest,
        /// How many events it has.
        events: u32,
        /// The head that it expects.
        expected: Expected,
        /// What is to be kept of it if it is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remark: Option<Remark>,
    },
    /// [`claim`](ledger_core::FencedLedger::claim).
    Claim(Claim),
    /// [`renew`](ledger_core::FencedLedger::renew).
    Renew {
        /// The lease that was presented.
        lease: Lease,
        /// The TTL that was asked for, where one was.
        ttl: Option<Ttl>,
    },
    /// [`release`](ledger_core::FencedLedger::release).
    Release(Lease),
    /// [`end_tenure`](ledger_core::FencedLedger::end_tenure).
    EndTenure {
        /// The partition.
        partition: PartitionId,
        /// The state that the operator observed.
        observed: Observation,
        /// The reason given.
        reason: Note,
    },
    /// [`advance`](ledger_core::FencedLedger::advance).
    Advance(Advance),
    /// [`observe`](ledger_core::FencedLedger::observe).
    Observe(PartitionId),
    /// [`fate`](ledger_core::FencedLedger::fate).
    Fate {
        /// The partition.
        partition: PartitionId,
        /// The id that is asked about.
        id: AppendId,
        /// The generation under which it was sent.
        generation: Generation,
    },
    /// [`read`](ledger_core::FencedLedger::read).
    Read {
        /// The partition.
        partition: PartitionId,
        /// The first position.
        from: Position,
    },
    /// [`read_back`](ledger_core::FencedLedger::read_back).
    ReadBack {
        /// The partition.
        partition: PartitionId,
        /// The first position, or the head.
        from: Option<Position>,
    },
}

impl Call {
    /// An append, as a history keeps it.
    pub fn append(lease: &Lease, append: &Append) -> Self {
        Self::Append {
            lease: lease.clone(),
            id: append.id(),
            content: append.content(),
            events: u32::try_from(append.events().len()).unwrap_or(u32::MAX),
            expected: append.expected(),
            remark: append.remark().cloned(),
        }
    }

    /// The partition that it is about.
    pub fn partition(&self) -> &PartitionId {
        match self {
            Self::Append { lease, .. } | Self::Renew { lease, .. } | Self::Release(lease) => &lease.partition,
            Self::Claim(claim) => &claim.partition,
            Self::Advance(advance) => &advance.partition,
            Self::EndTenure { partition, .. }
            | Self::Observe(partition)
            | Self::Fate { partition, .. }
            | Self::Read { partition, .. }
            | Self::ReadBack { partition, .. } => partition,
        }
    }

    /// Whether it may write.
    pub fn may_write(&self) -> bool {
        matches!(
            self,
            Self::Append { .. }
                | Self::Claim(_)
                | Self::Renew { .. }
                | Self::Release(_)
                | Self::EndTenure { .. }
                | Self::Advance(_)
        )
    }
}

/// For people: the kind of the call and what identifies it.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |f: &mut std::fmt::Formatter<'_>, what: &str, lease: &Lease| {
            write!(f, "{what} by `{}` of generation {} on `{}`", lease.holder, lease.generation, lease.partition)
        };
        match self {
            Self::Append { lease, id, .. } => of(f, &format!("append {id}"), lease),
            Self::Renew { lease, .. } => of(f, "renewal", lease),
            Self::Release(lease) => of(f, "release", lease),
            Self::Claim(claim) => {
                write!(f, "claim {} by `{}` on `{}`", claim.acquisition, claim.holder, claim.partition)
            }
            Self::EndTenure { partition, .. } => write!(f, "end of the tenure of `{partition}`"),
            Self::Advance(advance) => write!(f, "advance {} of `{}`", advance.acquisition, advance.partition),
            Self::Observe(partition) => write!(f, "look at `{partition}`"),
            Self::Fate { partition, id, generation } => {
                write!(f, "fate of {id} under generation {generation} on `{partition}`")
            }
            Self::Read { partition, from } => write!(f, "read of `{partition}` from {from}"),
            Self::ReadBack { partition, .. } => write!(f, "backward read of `{partition}`"),
        }
    }
}

/// What a ledger answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a new kind of answer is a new version of the format")]
pub enum Answer {
    /// To an append that is in the log.
    Appended {
        /// What is stored.
        entry: Arc<Entry>,
        /// Whether it had been written before.
        replayed: bool,
        /// The judgement.
        judged: Judged,
    },
    /// To a claim that was granted.
    Claimed {
        /// The lease.
        lease: Lease,
        /// The head.
        head: Position,
        /// The chain value at the head.
        chain: Digest,
        /// Whether it had been granted before.
        replayed: bool,
        /// The judgement.
        judged: Judged,
    },
    /// To a renewal that was granted.
    Renewed {
        /// The lease with its new expiry.
        lease: Lease,
        /// The head.
        head: Position,
        /// The chain value at the head.
        chain: Digest,
        /// The judgement.
        judged: Judged,
    },
    /// To a release that ended the tenure.
    Released {
        /// Where `$released` stands.
        position: Position,
        /// The judgement.
        judged: Judged,
    },
    /// To a release of a tenure that had ended.
    AlreadyEnded {
        /// How it had ended.
        basis: Basis,
        /// Who came next, where somebody did.
        successor: Option<(Holder, Generation)>,
        /// The judgement.
        judged: Judged,
    },
    /// To an operator's step that ended the tenure.
    Ended {
        /// Where `$ended` stands.
        position: Position,
        /// The judgement.
        judged: Judged,
    },
    /// To an operator's step where there was nothing to end.
    AlreadyVacant {
        /// How the tenure had ended.
        vacancy: Vacancy,
        /// The judgement.
        judged: Judged,
    },
    /// To an advance that was made.
    Advanced {
        /// The `$advanced` entry.
        mark: Mark,
        /// Whether it had been made before.
        replayed: bool,
        /// The judgement.
        judged: Judged,
    },
    /// To a look.
    Observed {
        /// The newest tenure.
        tenure: Option<Tenure>,
        /// The judgement.
        judged: Judged,
    },
    /// To a question of fate: it is in the log.
    Recorded(Arc<Entry>),
    /// To a question of fate: it can never come into the log under that generation.
    Never,
    /// To a question of fate: it is not in the log, and may still come.
    Undecided,
    /// To a read: one page.
    Page {
        /// The entries of its events, and the positions that it has of each.
        entries: Vec<Seen>,
        /// The newest position and its generation.
        head: Option<(Position, Generation)>,
        /// Whether more follows.
        more: bool,
    },
    /// To a read that starts behind the log.
    AheadOfLog {
        /// The newest position.
        head: Option<Position>,
    },
    /// Refused.
    Rejected {
        /// Why.
        reason: Reason,
        /// What is true.
        current: Option<Truth>,
        /// The entry that has the append's id.
        earlier: Option<Arc<Entry>>,
        /// The judgement.
        judged: Judged,
        /// What became of the record.
        record: Kept,
    },
    /// Refused before the store was asked.
    Invalid(String),
    /// Surely not written.
    NotWritten(String),
    /// May have been written.
    Unknown(String),
    /// What is stored contradicts itself.
    Corrupt(String),
}

impl Answer {
    /// What is kept of an error.
    pub fn of_error(error: &LedgerError) -> Self {
        match error {
            LedgerError::Rejected(rejection) => Self::of_rejection(rejection),
            LedgerError::Invalid(_) => Self::Invalid(error.to_string()),
            LedgerError::NotWritten(_) => Self::NotWritten(error.to_string()),
            LedgerError::Corrupt { .. } => Self::Corrupt(error.to_string()),
            LedgerError::AheadOfLog { head, .. } => Self::AheadOfLog { head: *head },
            // Also an error that this version does not know: it proves nothing.
            _ => Self::Unknown(error.to_string()),
        }
    }

    /// What is kept of a rejection.
    pub fn of_rejection(rejection: &Rejection) -> Self {
        Self::Rejected {
            reason: rejection.reason,
            current: rejection.current.as_ref().map(Truth::of),
            earlier: rejection.earlier.clone(),
            judged: rejection.judged,
            record: Kept::of(&rejection.record),
        }
    }

    /// What is kept of an answer of fate.
    pub fn of_fate(fate: &Fate) -> Self {
        match fate {
            Fate::Recorded(entry) => Self::Recorded(entry.clone()),
            Fate::Never => Self::Never,
            Fate::Undecided => Self::Undecided,
        }
    }

    /// What is kept of a page.
    pub fn of_page(page: &Page) -> Self {
        let mut entries: Vec<Seen> = Vec::new();
        for event in &page.events {
            match entries.last_mut() {
                Some(seen) if seen.entry == event.entry => seen.positions.push(event.position),
                _ => entries.push(Seen { entry: event.entry.clone(), positions: vec![event.position] }),
            }
        }
        Self::Page { entries, head: page.head, more: page.next.is_some() }
    }

    /// The judgement that it carries.
    pub fn judged(&self) -> Option<Judged> {
        match self {
            Self::Appended { judged, .. }
            | Self::Claimed { judged, .. }
            | Self::Renewed { judged, .. }
            | Self::Released { judged, .. }
            | Self::AlreadyEnded { judged, .. }
            | Self::Ended { judged, .. }
            | Self::AlreadyVacant { judged, .. }
            | Self::Advanced { judged, .. }
            | Self::Observed { judged, .. }
            | Self::Rejected { judged, .. } => Some(*judged),
            _ => None,
        }
    }

    /// Whether it leaves open what was written.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}
