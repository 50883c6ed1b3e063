//! Cases: what they are, and how they end.

use std::panic::Location;

use futures_util::future::BoxFuture;
use ledger_core::{Invalid, LedgerError, RequestError};

use crate::{Context, HarnessError, Hook, HookError};

/// One thing that must hold of every ledger.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Its name, such as `tko03_granted_at_expiry`: also the name of its test.
    pub id: &'static str,
    /// The family, which is also the module that it stands in.
    pub family: &'static str,
    /// The rules of the [contract](ledger_core::contract) that it checks.
    pub rules: &'static [&'static str],
    /// Why a plausible backend gets it wrong.
    pub why: &'static str,
    /// The hooks without which it is skipped.
    pub needs: &'static [Hook],
    /// Runs it on a fresh storage.
    pub run: fn(Context) -> BoxFuture<'static, Verdict>,
}

/// How a case ends: well, or with the reason why not.
pub type Verdict = Result<(), Stop>;

/// Why a case ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The ledger broke a rule.
    Violation(Violation),
    /// The harness lacks a hook.
    Skip {
        /// The hook.
        hook: Hook,
        /// Why it is not there.
        reason: String,
    },
}

/// What was expected of the ledger, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// What the contract demands.
    pub expected: String,
    /// What the ledger did.
    pub seen: String,
    /// Where in the suite it was noticed.
    pub at: String,
}

impl Violation {
    /// A violation that was noticed by the caller.
    #[track_caller]
    pub fn new(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        let at = Location::caller();
        Self { expected: expected.into(), seen: seen.into(), at: format!("{}:{}", at.file(), at.line()) }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected: {}\n    seen: {}\n      at: {}", self.expected, self.seen, self.at)
    }
}

impl std::error::Error for Violation {}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Skip { hook, reason } => write!(f, "skipped for want of `{hook}`: {reason}"),
        }
    }
}

impl std::error::Error for Stop {}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

/// A call that should have been granted.
impl From<LedgerError> for Stop {
    #[track_caller]
    fn from(error: LedgerError) -> Self {
        Violation::new("the call succeeds", told(&error)).into()
    }
}

/// A change of a request that should have been made.
impl From<RequestError> for Stop {
    #[track_caller]
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Ledger(error) => error.into(),
            other => Violation::new("the request can be made or changed", other.to_string()).into(),
        }
    }
}

/// Input that should have been accepted.
impl From<Invalid> for Stop {
    #[track_caller]
    fn from(invalid: Invalid) -> Self {
        Violation::new("the input is accepted", invalid.to_string()).into()
    }
}

/// A harness that could not open its own storage.
impl From<HarnessError> for Stop {
    #[track_caller]
    fn from(error: HarnessError) -> Self {
        Violation::new("the harness does its part", error.to_string()).into()
    }
}

/// An error for people: a rejection says all in its own words, of the others the engine's error counts too.
pub(crate) fn told(error: &LedgerError) -> String {
    if error.rejection().is_some() { error.to_string() } else { format!("{error} ({error:?})") }
}

impl Stop {
    /// What becomes of a case whose hook did nothing.
    #[track_caller]
    pub(crate) fn of_hook(hook: Hook, error: HookError) -> Self {
        match error {
            HookError::Unsupported { reason } => Self::Skip { hook, reason },
            HookError::Failed(error) => Violation::new(format!("the hook `{hook}` works"), error.to_string()).into(),
        }
    }
}
