//! Errors: each says what it proves about the call that it answers (U1).

use std::error::Error;
use std::sync::Arc;

use crate::{Invalid, PartitionId, Position, Rejection, RolledBack};

/// Shorthand for the result of every call to a ledger.
pub type Result<T, E = LedgerError> = std::result::Result<T, E>;

/// Why a call did not do what was asked.
///
/// Flat, so that `?` stops a worker that has lost its lease. What each variant proves:
///
/// | variant | was anything written? | what to do |
/// |---|---|---|
/// | [`Rejected`](Self::Rejected) | no | see [`Reason`](crate::Reason) |
/// | [`Invalid`](Self::Invalid) | no, and the store was not asked | mend the input |
/// | [`NotWritten`](Self::NotWritten) | no | send the same call again, later |
/// | [`Unknown`](Self::Unknown) | perhaps | send the same append or claim again, or ask [`fate`](crate::FencedLedger::fate) |
/// | [`Corrupt`](Self::Corrupt) | no | stop; run [`verify`](crate::FencedLedgerExt::verify), call an operator |
/// | [`RolledBack`](Self::RolledBack) | only where it says `written` | stop; an operator looks, and [advances](crate::FencedLedger::advance) |
/// | [`AheadOfLog`](Self::AheadOfLog) | no (a read) | the store lost what was read before, or the position is another partition's |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LedgerError {
    /// The store refused. This call wrote nothing but, for evidence, its record.
    Rejected(Box<Rejection>),
    /// The input was refused before the store was asked.
    Invalid(Invalid),
    /// Surely not written; a read did not happen. The same call may be tried again.
    NotWritten(Failure),
    /// May have been written.
    Unknown(Failure),
    /// What is stored contradicts itself or can not be read.
    Corrupt {
        /// The partition, where it is known.
        partition: Option<PartitionId>,
        /// The position, where it is known.
        position: Option<Position>,
        /// What is wrong.
        detail: String,
        /// The engine's error, where there was one.
        source: Option<Source>,
    },
    /// The store went back in time (I3): told by a ledger with a [`Witness`](crate::Witness) alone.
    RolledBack(Box<RolledBack>),
    /// A read that starts behind the end of the log (D4).
    AheadOfLog {
        /// The position from which was to be read.
        from: Position,
        /// The newest position, or `None` where the partition was never claimed.
        head: Option<Position>,
    },
}

impl LedgerError {
    /// For a backend: something stored that can not be what was written.
    pub fn corrupt(partition: Option<&PartitionId>, position: Option<Position>, detail: impl Into<String>) -> Self {
        Self::Corrupt { partition: partition.cloned(), position, detail: detail.into(), source: None }
    }

    /// The rejection, if the store refused.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Rejected(rejection) => Some(rejection),
            _ => None,
        }
    }

    /// Whether this proves that the call wrote nothing (U1).
    ///
    /// It speaks of the call, not of the append: one that was sent before may be in the log, and the refusal of a later
    /// sending then says where ([`Rejection::earlier`], J3).
    pub fn proves_not_written(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::RolledBack(back) => !back.written,
            _ => true,
        }
    }
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rejected(rejection) => rejection.fmt(f),
            Self::Invalid(invalid) => write!(f, "invalid input: {invalid}"),
            Self::NotWritten(failure) => write!(f, "not written: {failure}"),
            Self::Unknown(failure) => write!(f, "outcome unknown: {failure}"),
            Self::Corrupt { partition, position, detail, .. } => {
                write!(f, "corrupt: {detail}{}", place(partition.as_ref(), *position))
            }
            Self::RolledBack(back) => back.fmt(f),
            Self::AheadOfLog { from, head } => {
                write!(f, "position {from} is ahead of the log, which ends at {}", head.map_or(0, Position::get))
            }
        }
    }
}

/// The source is the engine's own error: what `Display` prints is not given again.
impl Error for LedgerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotWritten(failure) | Self::Unknown(failure) => failure.source(),
            Self::Corrupt { source, .. } => source.as_deref().map(|source| source as &(dyn Error + 'static)),
            Self::Rejected(_) | Self::Invalid(_) | Self::RolledBack(_) | Self::AheadOfLog { .. } => None,
        }
    }
}

/// A refusal as [`decide`](crate::decide) gives it.
impl From<Box<Rejection>> for LedgerError {
    fn from(rejection: Box<Rejection>) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<Invalid> for LedgerError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<Rejection> for LedgerError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(Box::new(rejection))
    }
}

impl From<RolledBack> for LedgerError {
    fn from(back: RolledBack) -> Self {
        Self::RolledBack(Box::new(back))
    }
}

fn place(partition: Option<&PartitionId>, position: Option<Position>) -> String {
    match (partition, position) {
        (Some(partition), Some(position)) => format!(", partition `{partition}`, position {position}"),
        (Some(partition), None) => format!(", partition `{partition}`"),
        (None, Some(position)) => format!(", position {position}"),
        (None, None) => String::new(),
    }
}

/// An engine's own error, kept for `source()`. Shared, because one failure may answer many callers.
pub type Source = Arc<dyn Error + Send + Sync>;

/// A call that the store could not carry out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of trouble it is.
    pub kind: FailureKind,
    /// What happened, for people. Not part of the API.
    pub detail: String,
    /// How often the whole operation was tried (U4); at least 1 where the store was reached.
    pub tries: u32,
    /// The engine's error of the last try.
    pub source: Option<Source>,
}

impl Failure {
    /// For a backend: a failure of the first try.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), tries: 1, source: None }
    }

    /// The same failure with the engine's error.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same failure after so many tries.
    #[must_use]
    pub fn with_tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)?;
        if self.tries > 1 { write!(f, " (tries=`{}`)", self.tries) } else { Ok(()) }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// What kind of trouble a store has: advice on how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// Others are writing, or hold a lock. It passes by itself: try again.
    Busy,
    /// There is no room left. It works again when there is.
    StorageFull,
    /// The store can not be reached.
    Unavailable,
    /// The store may only be read.
    ReadOnly,
    /// The store's file was replaced or removed under this handle. Open it anew.
    Replaced,
    /// The handle was closed.
    Closed,
    /// Anything else: see the source.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_error_stays_reachable_and_is_printed_once() {
        let failure = Failure::new(FailureKind::Other, "the disk did not answer")
            .with_source(std::io::Error::other("EIO"))
            .with_tries(3);
        let error = LedgerError::NotWritten(failure);
        assert_eq!(error.to_string(), "not written: the disk did not answer (tries=`3`)");
        assert_eq!(error.source().expect("the engine's error").to_string(), "EIO");
        assert!(error.proves_not_written());
    }
}
