//! Why a request was not recorded or changed.

use crate::{Invalid, LedgerError, Rejection};

use super::{Request, RequestKey};

/// Why a request was not recorded or changed. Nothing was written, but for what [`LedgerError`] leaves open.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The ledger refused, or failed. A stale holder's write ends here; its answer is kept (Q6).
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The key names another request: the one given here (Q1). A bug of the caller.
    #[error("request key `{}` names another request, made at position {}", .0.key, .0.made.first)]
    KeyReused(Box<Request>),
    /// There is no request of this key. Record it before it is sent.
    #[error("request `{key}` was never made")]
    NotMade {
        /// The key.
        key: RequestKey,
    },
    /// It is settled, as the request given here says, and stays so (Q3).
    #[error("request `{}` was settled otherwise, at position {}", .0.key, .0.changed.first)]
    Settled(Box<Request>),
}

impl RequestError {
    /// The rejection, if the store refused the write.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Ledger(error) => error.rejection(),
            _ => None,
        }
    }
}

impl From<Invalid> for RequestError {
    fn from(invalid: Invalid) -> Self {
        Self::Ledger(invalid.into())
    }
}
