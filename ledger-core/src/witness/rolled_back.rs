//! What is told of a store that went back in time.

use crate::{Mark, PartitionId};

/// A store that does not hold what it is known to have held (I3).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolledBack {
    /// The partition.
    pub partition: PartitionId,
    /// What is known: the witness's mark, or the newest entry that the store had acknowledged to the holder.
    pub mark: Mark,
    /// The newest entry that the store shows, or `None` where it says that nobody ever claimed the partition.
    pub seen: Option<Mark>,
    /// How the two differ.
    pub rewind: Rewind,
    /// Whether the call that noticed it was itself granted, and stands in the store's log.
    pub written: bool,
}

/// How a store differs from what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "closed: the log ends before the mark, or it does not")]
pub enum Rewind {
    /// Its log ends before the mark: it was rewound, or its tail was cut.
    Behind,
    /// Its log reaches the mark and has another entry there: another history. It was rewound and has gone on since, or
    /// somebody wrote it anew.
    OtherHistory,
}

impl std::fmt::Display for RolledBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mark { generation, position, .. } = self.mark;
        write!(f, "the store went back in time on partition `{}`: ", self.partition)?;
        write!(f, "known are generation {generation} and position {position}, ")?;
        match (self.rewind, &self.seen) {
            (_, None) => f.write_str("and it says that nobody ever claimed the partition")?,
            (Rewind::Behind, Some(seen)) => {
                write!(f, "and its log ends at generation {}, position {}", seen.generation, seen.position)?;
            }
            (Rewind::OtherHistory, Some(seen)) => write!(
                f,
                "where its log has another entry; it ends at generation {}, position {}",
                seen.generation, seen.position
            )?,
        }
        if self.written { f.write_str("; this call was written there") } else { Ok(()) }
    }
}
