//! Pages: what reads return, a bounded part at a time.

use crate::{Event, Generation, Invalid, PartitionId, Position, RecordSlot, RejectionRecord};

/// How much a page may hold: 1 to 10,000 items, by default 1,000, and of events 1 byte to 16 MiB, by default 8 MiB (D5).
///
/// The bytes of an event are those of its kind, payload and metadata. A page holds its first event however large that
/// is, and is shorter than its count where the next event would not fit. Names and records are counted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize {
    items: u32,
    bytes: u32,
}

impl PageSize {
    /// The largest: 10,000 items, of events up to 16 MiB.
    pub const MAX: Self = Self { items: 10_000, bytes: 16 * 1024 * 1024 };

    /// What a stream reads at a time: 10,000 events of 1 MiB.
    pub(crate) const fn of_stream() -> Self {
        Self { bytes: 1024 * 1024, ..Self::MAX }
    }

    /// Checks a number of items.
    ///
    /// # Errors
    ///
    /// [`Invalid::OutOfRange`] for 0 or more than 10,000.
    pub fn new(items: u32) -> Result<Self, Invalid> {
        Ok(Self { items: within("page size", items, Self::MAX.items)?, ..Self::default() })
    }

    /// The largest of so many items.
    pub(crate) const fn of_items(items: u32) -> Self {
        Self { items, ..Self::MAX }
    }

    /// The same number of items, with another bound of bytes.
    ///
    /// # Errors
    ///
    /// [`Invalid::OutOfRange`] for 0 or more than 16 MiB.
    pub fn with_bytes(self, bytes: u32) -> Result<Self, Invalid> {
        Ok(Self { bytes: within("bytes of a page", bytes, Self::MAX.bytes)?, ..self })
    }

    /// The number of items.
    pub fn get(self) -> u32 {
        self.items
    }

    /// The bound of bytes.
    pub fn bytes(self) -> u32 {
        self.bytes
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self { items: 1_000, bytes: 8 * 1024 * 1024 }
    }
}

fn within(what: &'static str, actual: u32, max: u32) -> Result<u32, Invalid> {
    if (1..=max).contains(&actual) {
        return Ok(actual);
    }
    Err(Invalid::OutOfRange { what, min: 1, max: i128::from(max), actual: i128::from(actual) })
}

/// How much of a page is taken: for a backend that fills one event by event (D5).
#[derive(Clone, Copy, Debug)]
pub struct Room {
    items: u32,
    bytes: usize,
    is_empty: bool,
}

impl Room {
    /// An empty page of that size.
    pub fn new(size: PageSize) -> Self {
        Self { items: size.items, bytes: usize::try_from(size.bytes).unwrap_or(usize::MAX), is_empty: true }
    }

    /// Takes the room of an event of so many bytes; `false` where it does not fit.
    pub fn take(&mut self, bytes: usize) -> bool {
        if !self.is_empty && (self.items == 0 || bytes > self.bytes) {
            return false;
        }
        (self.items, self.bytes) = (self.items.saturating_sub(1), self.bytes.saturating_sub(bytes));
        self.is_empty = false;
        true
    }
}

/// Events of one partition, in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The events: ascending from a read, descending from a backward read, without a gap. From a read by kind those of
    /// the kind alone, and there may be none though `next` says where to go on.
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
        let next = after(events.last().map(|event| event.position), head);
        Self { events, head, next }
    }

    /// For a backend: a page of one kind, all events up to `looked` having been looked at.
    pub fn of_kind(events: Vec<Event>, head: Option<(Position, Generation)>, looked: Option<Position>) -> Self {
        Self { events, head, next: after(looked, head) }
    }

    /// For a backend: a backward page, its `next` found from its last event.
    pub fn backward(events: Vec<Event>, head: Option<(Position, Generation)>) -> Self {
        let next = events.last().and_then(|last| Position::new(last.position.get() - 1).ok());
        Self { events, head, next }
    }
}

/// A page whose events are made one by one, when they are taken: what a stream reads.
///
/// A store that reads on a thread of its own hands rows over in one piece. The allocations of an event are then made and
/// freed by the thread that consumes it, beside the one that reads.
pub struct LazyPage {
    events: Box<dyn Iterator<Item = Event> + Send>,
    /// As of a [`Page`].
    pub head: Option<(Position, Generation)>,
    /// As of a [`Page`].
    pub next: Option<Position>,
}

impl LazyPage {
    /// For a backend: a page, with `next` as [`Page::forward`] finds it from its last event, at `last`.
    pub fn forward(
        events: impl Iterator<Item = Event> + Send + 'static,
        last: Option<Position>,
        head: Option<(Position, Generation)>,
    ) -> Self {
        Self { events: Box::new(events), head, next: after(last, head) }
    }
}

impl Iterator for LazyPage {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.events.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.events.size_hint()
    }
}

impl std::fmt::Debug for LazyPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyPage").field("head", &self.head).field("next", &self.next).finish_non_exhaustive()
    }
}

impl From<Page> for LazyPage {
    fn from(page: Page) -> Self {
        Self { events: Box::new(page.events.into_iter()), head: page.head, next: page.next }
    }
}

impl From<LazyPage> for Page {
    fn from(page: LazyPage) -> Self {
        Self { events: page.events.collect(), head: page.head, next: page.next }
    }
}

/// Where the page after the one that ends at `last` begins.
fn after(last: Option<Position>, head: Option<(Position, Generation)>) -> Option<Position> {
    match (last, head) {
        (Some(last), Some((head, _))) if last < head => last.next(),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_bounds() {
        let size = |items, bytes| PageSize::new(items).and_then(|size| size.with_bytes(bytes));
        assert_eq!(size(10_000, 16 * 1024 * 1024), Ok(PageSize::MAX));
        for (items, bytes) in [(0, 1), (10_001, 1), (1, 0), (1, 16 * 1024 * 1024 + 1)] {
            assert!(matches!(size(items, bytes), Err(Invalid::OutOfRange { .. })), "{items} and {bytes}");
        }
    }

    #[test]
    fn a_page_takes_its_first_event_and_then_what_fits() {
        let mut room = Room::new(PageSize { items: 3, bytes: 10 });
        assert!(room.take(11));
        assert!(!room.take(1), "the first one has taken it all");
        let mut room = Room::new(PageSize { items: 3, bytes: 10 });
        assert!(room.take(5) && room.take(5) && room.take(0), "just as many bytes and items");
        assert!(!room.take(0), "no more items");
    }
}
