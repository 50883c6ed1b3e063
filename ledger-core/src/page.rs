//! Pages: what reads return, a bounded part at a time.

use crate::{Event, Generation, Invalid, PartitionId, Position, RecordSlot, RejectionRecord};

/// How many items a page may have: 1 to 10,000. The default is 1,000.
///
/// A page may be shorter than that though more follows, so that a store can bound its bytes; it is never empty
/// where there is something to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// The largest: 10,000.
    pub const MAX: Self = Self(10_000);

    /// Checks a size.
    ///
    /// # Errors
    ///
    /// [`Invalid::OutOfRange`] for 0 or more than 10,000.
    pub fn new(size: u32) -> Result<Self, Invalid> {
        if (1..=Self::MAX.0).contains(&size) {
            Ok(Self(size))
        } else {
            let max = i128::from(Self::MAX.0);
            Err(Invalid::OutOfRange { what: "page size", min: 1, max, actual: i128::from(size) })
        }
    }

    /// The size.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self(1_000)
    }
}

/// Events of one partition, in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The events: ascending from a read, descending from a backward read, without a gap.
    pub events: Vec<Event>,
    /// The newest position and the generation that wrote it, as of this page; `None` where the partition was never
    /// claimed.
    pub head: Option<(Position, Generation)>,
    /// Where the next page starts, or `None` where this page reached the end (or, backwards, the beginning).
    pub next: Option<Position>,
}

impl Page {
    /// For a backend: a page, its `next` found from its last event.
    pub fn forward(events: Vec<Event>, head: Option<(Position, Generation)>) -> Self {
        let next = match (events.last(), head) {
            (Some(last), Some((head, _))) if last.position < head => last.position.next(),
            _ => None,
        };
        Self { events, head, next }
    }

    /// For a backend: a backward page, its `next` found from its last event.
    pub fn backward(events: Vec<Event>, head: Option<(Position, Generation)>) -> Self {
        let next = events.last().and_then(|last| Position::new(last.position.get() - 1).ok());
        Self { events, head, next }
    }
}

/// Names of partitions, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionPage {
    /// The names.
    pub partitions: Vec<PartitionId>,
    /// The name after which the next page starts, or `None` at the end.
    pub next: Option<PartitionId>,
}

impl PartitionPage {
    /// For a backend: a page of names, of which `more` follow or not.
    pub fn new(partitions: Vec<PartitionId>, more: bool) -> Self {
        let next = partitions.last().filter(|_| more).cloned();
        Self { partitions, next }
    }
}

/// Rejection records, in the order of their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordPage {
    /// The records.
    pub records: Vec<RejectionRecord>,
    /// The slot after which the next page starts, or `None` at the end.
    pub next: Option<RecordSlot>,
}

impl RecordPage {
    /// For a backend: a page of records, of which `more` follow or not.
    pub fn new(records: Vec<RejectionRecord>, more: bool) -> Self {
        let next = records.last().filter(|_| more).map(|record| record.slot);
        Self { records, next }
    }
}
