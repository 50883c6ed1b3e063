//! The rows of a page as a reader hands them over: checked, small, and in few pieces of memory. The events are made of
//! them where they are consumed.
//!
//! Made by the reader, each event would be two allocations that another thread frees, and three counts of shared names.

use std::sync::Arc;

use ledger_core::{Entry, Event, EventKind, Holder, Json, Position};

use crate::row::{Facts, Unreadable, new_holder, new_kind, new_metadata};

/// So many rows or entries are one piece: below what the allocator gives back to the system at once, so that the next
/// page has memory that was touched before.
const PIECE: usize = 256;

/// So many bytes of payloads are one piece, and a larger payload is one by itself.
const PIECE_BYTES: usize = 32 * 1024;

/// Kind, metadata and payload of a row. The first two are for the most part those of the row before, which is known by
/// their bytes.
pub(crate) type Texts<'a> = (&'a [u8], &'a [u8], &'a str);

/// An event: the number of its names, and how many of the next bytes are its payload.
struct Row {
    position: Position,
    names: u32,
    payload: usize,
}

/// Rows, and the entries that they are part of, in one order.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<Vec<Row>>,
    payloads: Vec<String>,
    entries: Vec<Vec<(Facts, u32)>>,
    names: Vec<(EventKind, Json)>,
    holders: Vec<Holder>,
    open: Option<Position>,
    last: Option<Position>,
}

impl Rows {
    /// Adds an event of the entry that is added next.
    #[inline(always)]
    pub(crate) fn push(&mut self, position: Position, (kind, metadata, payload): Texts<'_>) -> Result<(), Unreadable> {
        match self.names.last() {
            Some(last) if last.0.as_str().as_bytes() == kind && last.1.as_str().as_bytes() == metadata => {}
            _ => self.names.push((new_kind(kind)?, new_metadata(metadata)?)),
        }
        match self.payloads.last_mut() {
            Some(piece) if piece.capacity() - piece.len() >= payload.len() => piece.push_str(payload),
            _ => {
                let mut piece = String::with_capacity(PIECE_BYTES.max(payload.len()));
                piece.push_str(payload);
                self.payloads.push(piece);
            }
        }
        add(&mut self.rows, Row { position, names: number_of_last(&self.names), payload: payload.len() });
        self.open.get_or_insert(position);
        self.last = Some(position);
        Ok(())
    }

    /// Adds the entry of all events that have none yet.
    #[inline(always)]
    pub(crate) fn seal(&mut self, facts: Facts, holder: &[u8]) -> Result<(), Unreadable> {
        match self.holders.last() {
            Some(last) if last.as_str().as_bytes() == holder => {}
            _ => self.holders.push(new_holder(holder)?),
        }
        add(&mut self.entries, (facts, number_of_last(&self.holders)));
        self.open = None;
        Ok(())
    }

    /// The first of the events that have no entry yet.
    pub(crate) fn open(&self) -> Option<Position> {
        self.open
    }

    /// The newest event.
    pub(crate) fn last(&self) -> Option<Position> {
        self.last
    }

    /// Makes the events, one at a time, and frees what it has read.
    pub(crate) fn into_events(self) -> impl Iterator<Item = Event> + Send + 'static {
        let Self { rows, payloads, entries, names, holders, .. } = self;
        let (mut payloads, mut entries) = (payloads.into_iter(), entries.into_iter().flatten());
        let (mut piece, mut start) = (String::new(), 0);
        let mut entry: Option<Arc<Entry>> = None;
        rows.into_iter().flatten().map_while(move |row| {
            if piece.len() - start < row.payload {
                (piece, start) = (payloads.next()?, 0);
            }
            let payload = Json::stored(&piece[start..start + row.payload]);
            start += row.payload;
            let of = match entry.take() {
                Some(entry) => entry,
                None => {
                    let (facts, holder) = entries.next()?;
                    Arc::new(facts.by(holders.get(index(holder))?.clone()))
                }
            };
            if row.position < of.last {
                entry = Some(of.clone());
            }
            let (kind, metadata) = names.get(index(row.names))?.clone();
            Some(Event::new(row.position, kind, payload, metadata, of))
        })
    }
}

#[inline(always)]
fn add<T>(pieces: &mut Vec<Vec<T>>, item: T) {
    match pieces.last_mut() {
        Some(piece) if piece.len() < PIECE => piece.push(item),
        _ => {
            // The first piece grows: most pages that are asked for by themselves are short.
            let mut piece = Vec::with_capacity(if pieces.is_empty() { 0 } else { PIECE });
            piece.push(item);
            pieces.push(piece);
        }
    }
}

/// A page has 10,000 rows at most, so every number fits.
fn number_of_last<T>(of: &[T]) -> u32 {
    u32::try_from(of.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use ledger_core::{AcquisitionId, Digest, Generation, Timestamp};

    use super::*;

    fn entry(first: i64, last: i64, holder: &str) -> Entry {
        let at = |number| Position::new(number).expect("a position");
        Entry::new(
            None,
            (at(first), at(last)),
            Generation::FIRST,
            Holder::new(holder).expect("a holder"),
            AcquisitionId::mint(),
            Timestamp::from_micros(last),
            Digest::new([1; 32]),
            Digest::new([2; 32]),
        )
    }

    /// Pieces end within entries and between them, and payloads are empty (after an edit), small, and larger than a piece.
    #[test]
    fn events_are_made_as_they_were_added() {
        let (mut rows, mut expected, mut first) = (Rows::default(), Vec::new(), 1_i64);
        for number in 0..500_i64 {
            let last = first + number % 3;
            let entry = Arc::new(entry(first, last, if number % 100 < 50 { "a" } else { "b" }));
            for position in first..=last {
                let length = [0, 100, PIECE_BYTES + 1, 7][usize::try_from(position % 4).expect("small")];
                let payload = char::from(b'a' + u8::try_from(position % 26).expect("small")).to_string().repeat(length);
                let position = Position::new(position).expect("a position");
                let kind = if number % 10 == 0 { "other" } else { "result" };
                rows.push(position, (kind.as_bytes(), b"{}", &payload)).expect("readable");
                let kind = EventKind::stored(kind).expect("a kind");
                let payload = Json::stored(payload);
                expected.push(Event::new(position, kind, payload, Json::empty_object(), entry.clone()));
            }
            assert_eq!(rows.open().map(Position::get), Some(first));
            rows.seal(Facts::of(&entry), entry.holder.as_str().as_bytes()).expect("readable");
            assert_eq!((rows.open(), rows.last().map(Position::get)), (None, Some(last)));
            first = last + 1;
        }
        let events: Vec<Event> = rows.into_events().collect();
        assert!(events == expected, "the same events, {} of {}", events.len(), expected.len());
    }
}
