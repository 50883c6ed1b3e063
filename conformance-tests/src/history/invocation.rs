//! A call of a process as a checker sees it: what was recorded before it and after it, in one.

use std::sync::Arc;

use super::record::{Answer, Call};

/// One call of one process, with what is known of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invocation {
    /// The process.
    pub process: Arc<str>,
    /// The number of the call within its process.
    pub number: u64,
    /// When it was made.
    pub called_at: u64,
    /// What was asked.
    pub call: Call,
    /// When the answer had come, and what it was; `None` where the process did not live to see it.
    pub answer: Option<(u64, Answer)>,
}

impl Invocation {
    /// A call, as it was recorded.
    pub fn new(process: Arc<str>, number: u64, called_at: u64, call: Call, answer: Option<(u64, Answer)>) -> Self {
        Self { process, number, called_at, call, answer }
    }

    /// Whether the answer leaves open what was written, or there is none.
    pub fn is_open(&self) -> bool {
        self.answer.as_ref().is_none_or(|(_, answer)| answer.is_unknown())
    }

    /// When its answer had come; never, for one whose effect may come at any time.
    pub(crate) fn returned_at(&self) -> u64 {
        self.answer.as_ref().filter(|(_, answer)| !answer.is_unknown()).map_or(u64::MAX, |(at, _)| *at)
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call {} of `{}`, {}", self.number, self.process, self.call)
    }
}
