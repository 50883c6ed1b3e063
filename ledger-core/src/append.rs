//! Appends: one or more events, written together or not at all.

use std::sync::Arc;

use crate::{AppendId, Digest, Entry, Invalid, Judged, NewEvent, Position, Remark, chain};

/// The most events of one append: 10,000 (A6).
pub const MAX_EVENTS: usize = 10_000;

/// The most bytes of one append, over kinds, payloads and metadata: 4 MiB (A6).
pub const MAX_APPEND_BYTES: usize = 4 * 1024 * 1024;

/// The head that an append expects (A5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "closed: A5 knows these two")]
pub enum Expected {
    /// Met by every head.
    #[default]
    Any,
    /// Met when the newest event stands at this position, else [`Reason::PositionConflict`](crate::Reason).
    Position(Position),
}

/// Events to be written together under one id. Cheap to clone: a retry sends the same value.
///
/// Validated and hashed when it is made, so that no store is asked about input that it may not accept, and a
/// retry hashes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    id: AppendId,
    events: Arc<[NewEvent]>,
    expected: Expected,
    content: Digest,
    bytes: usize,
    remark: Option<Remark>,
}

impl Append {
    /// An append under a newly minted id. Keep the value and send it again where an answer was lost.
    ///
    /// # Errors
    ///
    /// As [`Append::with_id`].
    pub fn new(events: impl Into<Arc<[NewEvent]>>) -> Result<Self, Invalid> {
        Self::with_id(AppendId::mint(), events)
    }

    /// An append under a given id.
    ///
    /// # Errors
    ///
    /// [`Invalid::NoEvents`] (A3), [`Invalid::TooManyEvents`] or [`Invalid::AppendTooLarge`] (A6).
    pub fn with_id(id: AppendId, events: impl Into<Arc<[NewEvent]>>) -> Result<Self, Invalid> {
        let events = events.into();
        if events.is_empty() {
            return Err(Invalid::NoEvents);
        }
        if events.len() > MAX_EVENTS {
            return Err(Invalid::TooManyEvents { limit: MAX_EVENTS, actual: events.len() });
        }
        let bytes = events.iter().map(NewEvent::bytes).sum();
        if bytes > MAX_APPEND_BYTES {
            return Err(Invalid::AppendTooLarge { limit: MAX_APPEND_BYTES, actual: bytes });
        }
        let content = chain::content(&events);
        Ok(Self { id, events, expected: Expected::Any, content, bytes, remark: None })
    }

    /// The same append, to be written only where the newest event stands at `head`.
    #[must_use]
    pub fn expecting(mut self, head: Position) -> Self {
        self.expected = Expected::Position(head);
        self
    }

    /// The same append without an expectation of the head.
    pub(crate) fn expecting_any(mut self) -> Self {
        self.expected = Expected::Any;
        self
    }

    /// The same append, with what is to be kept of it if it is refused (E1).
    #[must_use]
    pub fn remarking(mut self, remark: Remark) -> Self {
        self.remark = Some(remark);
        self
    }

    /// The id.
    pub fn id(&self) -> AppendId {
        self.id
    }

    /// The events, in their order.
    pub fn events(&self) -> &Arc<[NewEvent]> {
        &self.events
    }

    /// The head that is expected.
    pub fn expected(&self) -> Expected {
        self.expected
    }

    /// The digest of the events (I1): what "the same content" means (A4).
    pub fn content(&self) -> Digest {
        self.content
    }

    /// What is to be kept of it if it is refused, and only then.
    pub fn remark(&self) -> Option<&Remark> {
        self.remark.as_ref()
    }

    /// The bytes of kinds, payloads and metadata.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many events it has: 1 to [`MAX_EVENTS`].
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.events.len()).expect("checked against MAX_EVENTS when it was made")
    }
}

/// The answer to an append that is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// What is stored, the same in a replay and in a later read (A7).
    pub entry: Arc<Entry>,
    /// Whether it had been written before, and this call wrote nothing (A4).
    pub replayed: bool,
    /// The moment of this call's judgement.
    pub judged: Judged,
}

impl Appended {
    /// For a backend.
    pub fn new(entry: Arc<Entry>, replayed: bool, judged: Judged) -> Self {
        Self { entry, replayed, judged }
    }
}

/// What became of an append whose answer was lost (U2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: U2 knows these three answers")]
pub enum Fate {
    /// It is in the log. Final.
    Recorded(Arc<Entry>),
    /// It is not in the log and can never come into it under that generation. Final within one history of the store.
    Never,
    /// It is not in the log, and may still come. Whoever needs a final answer claims the partition.
    Undecided,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, Json};

    fn event(payload: &str) -> NewEvent {
        NewEvent::new(EventKind::new("k").expect("a kind"), Json::new(payload).expect("JSON"))
    }

    #[test]
    fn the_limits_of_an_append_are_exact_and_name_both_numbers() {
        assert_eq!(Append::new([]), Err(Invalid::NoEvents));
        assert!(Append::new(vec![event("1"); MAX_EVENTS]).is_ok());
        assert_eq!(
            Append::new(vec![event("1"); MAX_EVENTS + 1]),
            Err(Invalid::TooManyEvents { limit: 10_000, actual: 10_001 })
        );
        // The kind is 1 byte, the metadata `{}` 2, the quotes of the payload 2.
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 5));
        let full = Append::new([event(&text(MAX_APPEND_BYTES))]).expect("just at the limit");
        assert_eq!(full.bytes(), MAX_APPEND_BYTES);
        assert_eq!(
            Append::new([event(&text(MAX_APPEND_BYTES + 1))]),
            Err(Invalid::AppendTooLarge { limit: 4_194_304, actual: 4_194_305 })
        );
    }

    #[test]
    fn content_is_the_events_and_nothing_else() {
        let first = Append::new([event("1")]).expect("valid");
        let remark = Remark::new("late").expect("a remark");
        let second = Append::new([event("1")]).expect("valid").expecting(Position::FIRST).remarking(remark);
        assert_ne!(first.id(), second.id());
        assert_eq!(first.content(), second.content());
        assert_ne!(first.content(), Append::new([event("1 ")]).expect("valid").content());
    }
}
