//! Events: what an append writes and what a read returns.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{AcquisitionId, AppendId, Digest, Generation, Holder, Invalid, Position, Timestamp, name};

/// The deepest nesting of a payload or metadata: 128 arrays and objects inside one another (A6).
pub const MAX_NESTING: usize = 128;

name::text_newtype!(
    /// What happened: 1 to 255 bytes of UTF-8 without control characters.
    ///
    /// [`EventKind::new`] refuses kinds that start with `$`, which are the ledger's own (A6); reads return those too.
    EventKind(std::sync::Arc<str>),
    "event kind",
    |text: &str| {
        name::check("event kind", text)?;
        if text.starts_with('$') {
            return Err(Invalid::ReservedKind { actual: text.to_owned() });
        }
        Ok(())
    }
);

impl EventKind {
    /// For a backend: a kind as it stands in the log, the ledger's own among them.
    ///
    /// # Errors
    ///
    /// As [`EventKind::new`], but for [`Invalid::ReservedKind`].
    pub fn stored(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        name::check("event kind", text)?;
        Ok(Self(text.into()))
    }

    /// Whether this is one of the ledger's own events.
    pub fn is_own(&self) -> bool {
        self.as_str().starts_with('$')
    }
}

/// JSON text (RFC 8259), kept byte for byte: key order, duplicate keys, number spelling, escapes and white space
/// stay as they are (A6).
///
/// Cheap to clone. Escapes need only be well-formed: a lone surrogate or `\u0000` is kept.
#[derive(Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Json(Arc<str>);

impl Json {
    /// Checks that `text` is JSON and nested at most [`MAX_NESTING`] deep.
    ///
    /// # Errors
    ///
    /// [`Invalid::Json`] with line and column, or [`Invalid::Nesting`].
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        Self::checked("payload", text.into())
    }

    /// The JSON of a value.
    ///
    /// # Errors
    ///
    /// [`Invalid::Json`] where the value can not be written as JSON (a map with keys that are no text), or
    /// [`Invalid::Nesting`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        let text = serde_json::to_string(value)
            .map_err(|error| Invalid::Json { what: "payload", problem: error.to_string() })?;
        Self::checked("payload", text.into())
    }

    /// For a backend: text as it was stored, which is not checked again. What an edit made of it is for
    /// [`verify`](crate::FencedLedgerExt::verify) to tell.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// `{}`, the metadata of an event that has none.
    pub fn empty_object() -> Self {
        static EMPTY: OnceLock<Json> = OnceLock::new();
        EMPTY.get_or_init(|| Self("{}".into())).clone()
    }

    /// The text, byte for byte.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text as a value. Everything that [`Json::new`] accepts is read, as deep as it is nested.
    ///
    /// # Errors
    ///
    /// serde_json's, where the text does not fit the type, or an edit of what was stored has nested it deeper than
    /// [`MAX_NESTING`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(&self.0);
        // serde_json stops at a nesting of 127, and A6 allows 128. Nobody has checked what was stored since: without a
        // limit, an edit could nest it so deep that the stack overflows.
        if nesting(&self.0) <= MAX_NESTING {
            deserializer.disable_recursion_limit();
        }
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }

    fn checked(what: &'static str, text: Arc<str>) -> Result<Self, Invalid> {
        // IgnoredAny is read without recursion and looks at syntax alone, so numbers and escapes of any value pass.
        serde_json::from_str::<IgnoredAny>(&text)
            .map_err(|error| Invalid::Json { what, problem: error.to_string() })?;
        let actual = nesting(&text);
        if actual > MAX_NESTING {
            return Err(Invalid::Nesting { what, limit: MAX_NESTING, actual });
        }
        Ok(Self(text))
    }
}

impl TryFrom<String> for Json {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl From<Json> for String {
    fn from(json: Json) -> String {
        json.0.as_ref().to_owned()
    }
}

impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How deep JSON is nested, 0 for a scalar; of what is none, at least as deep as its valid beginning.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An event to be appended. Cheap to clone: a retry sends the same value.
///
/// For a backend: its serde form is for input, and refuses the ledger's own kinds and what an edit has made of a
/// payload. Store the texts, and read them back with [`EventKind::stored`] and [`Json::stored`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// The data.
    pub payload: Json,
    /// What is known about the data: `{}` where nothing is.
    pub metadata: Json,
}

impl NewEvent {
    /// An event without metadata.
    pub fn new(kind: EventKind, payload: Json) -> Self {
        Self { kind, payload, metadata: Json::empty_object() }
    }

    /// An event from a kind and a value.
    ///
    /// # Errors
    ///
    /// Those of [`EventKind::new`] and [`Json::of`].
    pub fn of<T: Serialize + ?Sized>(kind: impl AsRef<str>, payload: &T) -> Result<Self, Invalid> {
        Ok(Self::new(EventKind::new(kind)?, Json::of(payload)?))
    }

    /// The bytes of kind, payload and metadata: what limits count (A6, D5).
    pub fn bytes(&self) -> usize {
        self.kind.as_str().len() + self.payload.as_str().len() + self.metadata.as_str().len()
    }

    /// The same event with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Json) -> Self {
        self.metadata = metadata;
        self
    }
}

/// What moved a partition's log on in one step: an append, or one of the ledger's own events.
///
/// Stored facts, the same in an append's answer, a replay, a fate and a read (A7).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The append's id; the acquisition for `$claimed`; none for the other events of the ledger.
    pub id: Option<AppendId>,
    /// The position of its first event.
    pub first: Position,
    /// The position of its last event.
    pub last: Position,
    /// The generation under which it was written.
    pub generation: Generation,
    /// The holder that wrote it.
    pub holder: Holder,
    /// The acquisition under which it was written.
    pub acquisition: AcquisitionId,
    /// The judged time at which it was written.
    pub recorded_at: Timestamp,
    /// The digest of its events (I1).
    pub content: Digest,
    /// The partition's chain value after it (I1).
    pub chain: Digest,
}

impl Entry {
    /// For a backend: an entry as it is stored.
    #[allow(
        clippy::too_many_arguments,
        reason = "an entry has nine stored facts, and a backend reads them all at once"
    )]
    pub fn new(
        id: Option<AppendId>,
        (first, last): (Position, Position),
        generation: Generation,
        holder: Holder,
        acquisition: AcquisitionId,
        recorded_at: Timestamp,
        content: Digest,
        chain: Digest,
    ) -> Self {
        Self { id, first, last, generation, holder, acquisition, recorded_at, content, chain }
    }
}

/// An event as a read returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Where it stands in its partition.
    pub position: Position,
    /// What happened. The ledger's own kinds start with `$`.
    pub kind: EventKind,
    /// The data, byte for byte as it was appended.
    pub payload: Json,
    /// What is known about the data.
    pub metadata: Json,
    /// The entry that it is part of.
    pub entry: Arc<Entry>,
}

impl Event {
    /// For a backend.
    pub fn new(position: Position, kind: EventKind, payload: Json, metadata: Json, entry: Arc<Entry>) -> Self {
        Self { position, kind, payload, metadata, entry }
    }

    /// The bytes of kind, payload and metadata: what a page's bound counts (D5).
    pub fn bytes(&self) -> usize {
        self.kind.as_str().len() + self.payload.as_str().len() + self.metadata.as_str().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_byte_for_byte() {
        for text in [
            r#"{"b":1,"a":2,"a":3}"#,
            "1e2",
            "-0.0",
            "1e400",
            "1234567890123456789012345678901234567890",
            r#""\u0000""#,
            r#""\ud800""#,
            " [ 1 ,\n2 ] ",
            "null",
            r#""[[[[""#,
        ] {
            assert_eq!(Json::new(text).expect("valid JSON").as_str(), text);
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for text in ["", "{", "{'a':1}", "[1,]", "\"\u{1}\"", "1 2", "NaN", "+1", "01", r#""\ud80""#, "\u{feff}1"] {
            let refused = Json::new(text).expect_err(text);
            assert!(refused.to_string().contains("column"), "{refused}");
        }
    }

    #[test]
    fn nesting_is_counted_outside_of_strings_and_readable_to_the_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deepest = Json::new(nested(MAX_NESTING)).expect("128 is the limit");
        assert_eq!(
            Json::new(nested(MAX_NESTING + 1)),
            Err(Invalid::Nesting { what: "payload", limit: 128, actual: 129 })
        );
        let mut value: serde_json::Value = deepest.decode().expect("what is accepted is readable");
        for _ in 1..MAX_NESTING {
            value = value[0].take();
        }
        assert_eq!(value, serde_json::json!([]));
        assert_eq!(nesting(r#"{"\"[[[":[{}]}"#), 3);
        assert!(Json::new(nested(100_000)).is_err(), "depth never overflows the stack");
    }

    /// What a backend reads is not checked again: an edit may have nested it as deep as it likes.
    #[test]
    fn what_was_edited_into_the_storage_does_not_overflow_the_stack() {
        let open = Json::stored("[".repeat(2_000_000));
        assert!(open.decode::<serde_json::Value>().is_err());
        let deeper = "[".repeat(MAX_NESTING + 1) + &"]".repeat(MAX_NESTING + 1);
        assert!(Json::stored(deeper).decode::<serde_json::Value>().is_err(), "one deeper than what is accepted");
    }

    #[test]
    fn kinds_of_the_ledger_are_reserved() {
        assert_eq!(EventKind::new("$claimed"), Err(Invalid::ReservedKind { actual: "$claimed".to_owned() }));
        assert!(EventKind::stored("$claimed").expect("reads return it").is_own());
        assert!(serde_json::from_str::<EventKind>("\"$x\"").is_err());
    }
}
