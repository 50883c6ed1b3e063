//! How a writer's time ends, and why.

use std::sync::Arc;

use crate::{Digest, LedgerError, Position, Rejection, Released, RolledBack};

/// How the trust of a writer ended. It ends once, and the first end stays.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "closed: K3 to K5 list the ways, and callers match on them")]
pub enum End {
    /// It was released, after what was in flight had ended (K4).
    Released(Released),
    /// The last [`Writer`](super::Writer) was dropped without a release: the lease runs out by itself (K5).
    Abandoned,
    /// It was lost (K3).
    Lost(Loss),
}

/// Why a writer lost its trust (K3). Whoever wants to go on claims anew; nothing does so by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// The store refused a renewal or an append for want of the right to write.
    Refused(Box<Rejection>),
    /// The time ran out by the local clock, and no renewal had failed: the process was suspended or starved, or the
    /// driver was not polled.
    Expired,
    /// The time ran out by the local clock while renewals failed or stayed unanswered. The last trouble is given. The
    /// store may have renewed the lease all the same: nobody knows.
    Unrenewed(LedgerError),
    /// The store is behind what it had acknowledged, or has other content there: told by a renewal (R2), or by an append
    /// that was written at a position which had been acknowledged before.
    WentBack {
        /// Position and chain value of the newest entry that the store had acknowledged to this writer.
        acknowledged: (Position, Digest),
        /// Position and chain value of its newest entry now, which may be that append.
        head: (Position, Digest),
    },
    /// The ledger compares its store with a witness, and has told that it went back in time (I3).
    RolledBack(Box<RolledBack>),
    /// The [`Driver`](super::Driver) was dropped: nobody renews or watches the time any more.
    Unkept,
}

impl Loss {
    /// The reason in one word, for counters and logs: `refused`, `expired`, `unrenewed`, `went_back`, `rolled_back`,
    /// `unkept`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Expired => "expired",
            Self::Unrenewed(_) => "unrenewed",
            Self::WentBack { .. } => "went_back",
            Self::RolledBack(_) => "rolled_back",
            Self::Unkept => "unkept",
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Released(_) => f.write_str("released"),
            Self::Abandoned => f.write_str("abandoned: the last writer was dropped"),
            Self::Lost(loss) => write!(f, "lost: {loss}"),
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(rejection) => rejection.fmt(f),
            Self::Expired => f.write_str("its time ran out by the local clock"),
            Self::Unrenewed(error) => write!(f, "its time ran out while renewals failed: {error}"),
            Self::WentBack { acknowledged, head } => {
                write!(f, "the store had acknowledged position {} and ends at {}", acknowledged.0, head.0)?;
                if acknowledged.0 <= head.0 { f.write_str(", with other content") } else { Ok(()) }
            }
            Self::RolledBack(back) => back.fmt(f),
            Self::Unkept => f.write_str("its driver was dropped"),
        }
    }
}

/// Why a writer did not do what was asked.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "closed: before the store was asked, or by the store")]
pub enum WriteError {
    /// The writer's time has ended. The store was not asked, so this call wrote nothing.
    Ended(Arc<End>),
    /// A release has begun. The store was not asked, so this call wrote nothing.
    Draining,
    /// The store was asked: what the error proves is the [`LedgerError`]'s to say (U1).
    Ledger(LedgerError),
}

impl WriteError {
    /// The store's rejection, if it refused this call.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Ledger(error) => error.rejection(),
            Self::Ended(_) | Self::Draining => None,
        }
    }

    /// Whether this proves that the call wrote nothing (U1).
    pub fn proves_not_written(&self) -> bool {
        match self {
            Self::Ledger(error) => error.proves_not_written(),
            Self::Ended(_) | Self::Draining => true,
        }
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(end) => write!(f, "not sent: the writer's time has ended: {end}"),
            Self::Draining => f.write_str("not sent: the writer is being released"),
            Self::Ledger(error) => error.fmt(f),
        }
    }
}

/// What `Display` prints is not given again: the source is the engine's own error.
impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ledger(error) => error.source(),
            Self::Ended(_) | Self::Draining => None,
        }
    }
}
