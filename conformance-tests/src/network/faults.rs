//! What the network does to messages.

use std::time::Duration;

/// How bad the network is. Chances are out of 1,000 messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Requests that do not arrive.
    pub request_lost: u16,
    /// Answers that do not arrive, though the call was done.
    pub answer_lost: u16,
    /// Requests that arrive twice, each in its own time.
    pub doubled: u16,
    /// Requests that arrive late, by up to [`late`](Self::late).
    pub delayed: u16,
    /// The usual time of a message is anything up to this.
    pub usual: Duration,
    /// How late a delayed one may be: longer than a lease, so that it meets a successor.
    pub late: Duration,
    /// After so long without an answer a client is told that nobody knows.
    pub time_out: Duration,
}

impl Faults {
    /// A network that loses, doubles and delays some of each hundred messages.
    pub fn some() -> Self {
        Self {
            request_lost: 30,
            answer_lost: 30,
            doubled: 20,
            delayed: 40,
            usual: Duration::from_millis(40),
            late: Duration::from_secs(9),
            time_out: Duration::from_secs(2),
        }
    }

    /// A network that carries everything, in order of sending, in no time.
    pub fn none() -> Self {
        Self { request_lost: 0, answer_lost: 0, doubled: 0, delayed: 0, usual: Duration::ZERO, ..Self::some() }
    }
}
