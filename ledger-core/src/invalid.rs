//! Bad input, refused before the store is asked.

use crate::{LedgerId, Operation};

/// Input that no store is asked about (J4). Nothing was written and no rejection record is left.
///
/// Every variant names the limit and the actual value. Open: a new limit may bring a new variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A name or note without a single byte.
    #[error("{what} is empty: it needs at least 1 byte")]
    Empty {
        /// What was being made, such as `partition`.
        what: &'static str,
    },
    /// A text over its limit.
    #[error("{what} has {actual} bytes: the limit is {limit}")]
    TooLong {
        /// What was being made.
        what: &'static str,
        /// The limit in bytes of UTF-8.
        limit: usize,
        /// The bytes given.
        actual: usize,
    },
    /// A control character (Unicode category Cc) in a name.
    #[error("{what} holds the control character U+{code:04X} at byte {at}: control characters are not allowed")]
    ControlCharacter {
        /// What was being made.
        what: &'static str,
        /// The character's code point.
        code: u32,
        /// The byte at which it stands.
        at: usize,
    },
    /// A holder's name of white space alone.
    #[error("{what} is blank: {actual:?} has nothing but white space")]
    Blank {
        /// What was being made.
        what: &'static str,
        /// The text given.
        actual: String,
    },
    /// An event kind that starts with `$`: those are the ledger's own events (A6).
    #[error("event kind {actual:?} starts with `$`: such kinds belong to the ledger")]
    ReservedKind {
        /// The kind given.
        actual: String,
    },
    /// A number outside its range.
    #[error("{what} is {actual}: it must be from {min} to {max}")]
    OutOfRange {
        /// What was being made.
        what: &'static str,
        /// The smallest value that is accepted.
        min: i128,
        /// The largest value that is accepted.
        max: i128,
        /// The value given.
        actual: i128,
    },
    /// A duration that is not a whole number of microseconds (T1); it is never rounded.
    #[error("{what} of {nanoseconds} ns is not a whole number of microseconds")]
    FractionOfMicrosecond {
        /// What was being made.
        what: &'static str,
        /// The duration given, in nanoseconds.
        nanoseconds: u128,
    },
    /// The nil UUID, which names nothing.
    #[error("{what} is the nil UUID: mint one instead")]
    NilUuid {
        /// What was being made.
        what: &'static str,
    },
    /// Text that is not JSON (RFC 8259).
    #[error("{what} is not JSON: {problem}")]
    Json {
        /// `payload` or `metadata`.
        what: &'static str,
        /// What is wrong, with line and column.
        problem: String,
    },
    /// JSON that is nested too deep (A6).
    #[error("{what} is nested {actual} deep: the limit is {limit}")]
    Nesting {
        /// `payload` or `metadata`.
        what: &'static str,
        /// The limit: [`MAX_NESTING`](crate::MAX_NESTING).
        limit: usize,
        /// The nesting of the text given.
        actual: usize,
    },
    /// An append without events (A3).
    #[error("the append has no events: it needs at least 1")]
    NoEvents,
    /// An append of too many events (A6).
    #[error("the append has {actual} events: the limit is {limit}")]
    TooManyEvents {
        /// The limit: [`MAX_EVENTS`](crate::MAX_EVENTS).
        limit: usize,
        /// The events given.
        actual: usize,
    },
    /// An append whose kinds, payloads and metadata together are too large (A6).
    #[error("the append has {actual} bytes of kinds, payloads and metadata: the limit is {limit}")]
    AppendTooLarge {
        /// The limit: [`MAX_APPEND_BYTES`](crate::MAX_APPEND_BYTES).
        limit: usize,
        /// The bytes given.
        actual: usize,
    },
    /// A lease that another ledger granted (J4).
    #[error("the lease belongs to ledger {presented}: this is ledger {actual}")]
    WrongLedger {
        /// The ledger that the lease names.
        presented: LedgerId,
        /// The ledger that was asked.
        actual: LedgerId,
    },
    /// A digest that is not 64 hexadecimal digits.
    #[error("a digest is 64 hexadecimal digits: {actual:?} is not")]
    Digest {
        /// The text given.
        actual: String,
    },
    /// An operation that judges, on a handle that only reads, such as one on a standby.
    #[error("{operation} is not for a handle that only reads: open one on the store itself")]
    ReadOnly {
        /// What was asked for.
        operation: Operation,
    },
    /// Something that the backend can not take, such as a caller's transaction that can not carry an append.
    #[error("{what}: {problem}")]
    Unusable {
        /// What was given.
        what: &'static str,
        /// Why it can not be used.
        problem: String,
    },
}
