//! The leave to send, which only a recorded request gives.

use super::Request;

/// The answer to a request that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: Q1 knows these two answers")]
pub enum Asked {
    /// This call has recorded it. Send it now, once, with its key.
    Send(Sending),
    /// It had been recorded before, by whomever. Send nothing: look up what came of it, and settle it or
    /// [send it again](super::RequestBook::send_again).
    Known(Box<Request>),
}

/// Leave to send a request to the other system once, under its key.
///
/// What is to be sent comes from the log and can not be changed, so that no second sending has another identity (Q5).
/// Leave was given by the store's judgement at that moment: it can not recall what is sent after a takeover, which is
/// why the key must be sent too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sending {
    /// What to send: `key` and `what`.
    pub request: Request,
    /// Which sending this is: 1 for the first.
    pub attempt: u32,
}

impl Sending {
    /// The newest recorded sending of a request.
    pub(super) fn of(request: Request) -> Self {
        Self { attempt: request.sends, request }
    }
}
