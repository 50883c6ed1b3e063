//! Pages of events and of names, each from one short read transaction (D1, D2).

use std::sync::Arc;

use ledger_core::{
    Entry, Event, EventKind, Generation, Holder, Json, LedgerError, MAX_LOOKED, Page, PageSize, PartitionId,
    PartitionPage, Position, Room,
};
use rusqlite::{Connection, Row, params};

use crate::classify::Trouble;
use crate::row::{Fields, Unreadable};
use crate::statement;
use crate::store::{self, Found};

/// An event whose entry is not known yet.
struct Raw {
    position: Position,
    kind: EventKind,
    metadata: Json,
    payload: Json,
}

impl Raw {
    fn with(self, entry: Arc<Entry>) -> Event {
        Event::new(self.position, self.kind, self.payload, self.metadata, entry)
    }
}

/// The events from a position on, ascending.
pub(crate) fn forward(
    connection: &Connection,
    partition: &PartitionId,
    from: Position,
    limit: PageSize,
) -> Result<Page, Trouble> {
    let Some((found, head)) = begin(connection, partition, from)? else { return Ok(Page::forward(Vec::new(), None)) };
    let mut statement = connection.prepare_cached(statement::PAGE_FORWARD)?;
    let mut rows = statement.query(params![found.key, from.get(), limit.get()])?;
    let (mut events, mut open) = (Vec::new(), Vec::new());
    let (mut room, mut names) = (Room::new(limit), Names::default());
    let mut expected = Some(from);
    while let Some(row) = rows.next()? {
        let Some((raw, entry)) = read(row, partition, &mut room, &mut names)? else { break };
        in_line(partition, expected, raw.position)?;
        expected = raw.position.next();
        match entry {
            Some(entry) => {
                let entry = Arc::new(entry);
                seal(partition, &mut open, &entry, &mut events)?;
                covers(partition, &entry, raw.position)?;
                events.push(raw.with(entry));
            }
            None => open.push(raw),
        }
    }
    if let Some(last) = open.last() {
        let entry = end_of_entry(connection, &found, partition, last.position)?;
        seal(partition, &mut open, &entry, &mut events)?;
    }
    Ok(Page::forward(events, Some(head)))
}

/// The events of one kind from a position on, ascending (D7). SQLite walks along the positions: an index on the kind
/// would cost each append a page.
pub(crate) fn of_kind(
    connection: &Connection,
    partition: &PartitionId,
    kind: &EventKind,
    from: Position,
    limit: PageSize,
) -> Result<Page, Trouble> {
    let Some((found, head)) = begin(connection, partition, from)? else { return Ok(Page::forward(Vec::new(), None)) };
    let end = from.checked_add(MAX_LOOKED - 1).unwrap_or(Position::MAX);
    let mut statement = connection.prepare_cached(statement::PAGE_OF_KIND)?;
    let mut rows = statement.query(params![found.key, from.get(), end.get(), kind.as_str(), limit.get()])?;
    let mut events: Vec<Event> = Vec::new();
    let (mut room, mut names) = (Room::new(limit), Names::default());
    let mut entry: Option<Arc<Entry>> = None;
    let mut is_full = false;
    while let Some(row) = rows.next()? {
        let Some((raw, ends)) = read(row, partition, &mut room, &mut names)? else {
            is_full = true;
            break;
        };
        let known = entry.take().filter(|entry| (entry.first..=entry.last).contains(&raw.position));
        let of = match (ends, known) {
            (Some(ends), _) => Arc::new(ends),
            (None, Some(entry)) => entry,
            (None, None) => end_of_entry(connection, &found, partition, raw.position)?,
        };
        covers(partition, &of, raw.position)?;
        events.push(raw.with(of.clone()));
        entry = Some(of);
    }
    is_full |= events.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
    let looked = if is_full { events.last().map(|event| event.position) } else { Some(end.min(head.0)) };
    Ok(Page::of_kind(events, Some(head), looked))
}

/// The events from a position or else from the head, descending.
pub(crate) fn backward(
    connection: &Connection,
    partition: &PartitionId,
    from: Option<Position>,
    limit: PageSize,
) -> Result<Page, Trouble> {
    let Some(found) = store::find(connection, partition)? else {
        return match from {
            Some(from) => Err(LedgerError::AheadOfLog { from, head: None }.into()),
            None => Ok(Page::backward(Vec::new(), None)),
        };
    };
    let head = head_of(&found);
    let from = from.unwrap_or(head.0);
    if from > head.0 {
        return Err(LedgerError::AheadOfLog { from, head: Some(head.0) }.into());
    }
    let mut statement = connection.prepare_cached(statement::PAGE_BACKWARD)?;
    let mut rows = statement.query(params![found.key, from.get(), limit.get()])?;
    let mut events = Vec::new();
    let (mut room, mut names) = (Room::new(limit), Names::default());
    let mut entry: Option<Arc<Entry>> = None;
    let mut expected = Some(from);
    while let Some(row) = rows.next()? {
        let Some((raw, ends)) = read(row, partition, &mut room, &mut names)? else { break };
        in_line(partition, expected, raw.position)?;
        expected = Position::new(raw.position.get() - 1).ok();
        let of = match (ends, entry.take()) {
            (Some(ends), _) => Arc::new(ends),
            (None, Some(entry)) => entry,
            (None, None) => end_of_entry(connection, &found, partition, raw.position)?,
        };
        covers(partition, &of, raw.position)?;
        events.push(raw.with(of.clone()));
        entry = Some(of);
    }
    Ok(Page::backward(events, Some(head)))
}

/// The partition and its head.
type Begun = (Found, (Position, Generation));

/// What a forward page begins with; `None` where the partition was never claimed. A start beyond the position after the head is an
/// error (D4).
fn begin(connection: &Connection, partition: &PartitionId, from: Position) -> Result<Option<Begun>, Trouble> {
    let Some(found) = store::find(connection, partition)? else {
        if from > Position::FIRST {
            return Err(LedgerError::AheadOfLog { from, head: None }.into());
        }
        return Ok(None);
    };
    let head = head_of(&found);
    if from.get() - 1 > head.0.get() {
        return Err(LedgerError::AheadOfLog { from, head: Some(head.0) }.into());
    }
    Ok(Some((found, head)))
}

/// The names after one, in the order of their bytes.
pub(crate) fn partitions(
    connection: &Connection,
    after: Option<&PartitionId>,
    limit: PageSize,
) -> Result<PartitionPage, Trouble> {
    let mut statement = connection.prepare_cached(statement::PARTITIONS)?;
    let mut rows = statement.query(params![after.map_or("", PartitionId::as_str), limit.get() + 1])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let name = Fields::of(row).text().map_err(|bad| bad.at(None, None))?;
        let read = PartitionId::new(name).map_err(|bad| Unreadable(format!("a partition: {bad}")).at(None, None))?;
        names.push(read);
    }
    let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
    let more = names.len() > limit;
    names.truncate(limit);
    Ok(PartitionPage::new(names, more))
}

fn head_of(found: &Found) -> (Position, Generation) {
    let standing = &found.standing;
    let generation = standing.tip.as_ref().map_or(standing.lease.generation, |tip| tip.generation);
    (standing.head(), generation)
}

/// Reads an event and, on the last of its entry, the entry; `None` where the page has no room for it (D5).
fn read(
    row: &Row<'_>,
    partition: &PartitionId,
    room: &mut Room,
    names: &mut Names,
) -> Result<Option<(Raw, Option<Entry>)>, LedgerError> {
    let mut fields = Fields::of(row);
    let position = fields.position().map_err(|bad| bad.at(Some(partition), None))?;
    let mut read = || {
        let entry = fields.entry_like(position, &mut names.holder)?;
        let (kind, metadata, payload) = (fields.text()?, fields.text()?, fields.text()?);
        if !room.take(kind.len() + metadata.len() + payload.len()) {
            return Ok(None);
        }
        let kind = names.kind(kind)?;
        let metadata = if metadata == "{}" { Json::empty_object() } else { Json::stored(metadata) };
        Ok(Some((Raw { position, kind, metadata, payload: Json::stored(payload) }, entry)))
    };
    read().map_err(|bad: Unreadable| bad.at(Some(partition), Some(position)))
}

/// The names of the row before, which most rows repeat: they are shared and not made anew.
#[derive(Default)]
struct Names {
    kind: Option<EventKind>,
    holder: Option<Holder>,
}

impl Names {
    fn kind(&mut self, text: &str) -> Result<EventKind, Unreadable> {
        match &self.kind {
            Some(kind) if kind.as_str() == text => Ok(kind.clone()),
            _ => {
                let kind = EventKind::stored(text).map_err(|bad| Unreadable(format!("an event kind: {bad}")))?;
                Ok(self.kind.insert(kind).clone())
            }
        }
    }
}

/// A gap is never shown (D2): an event that is not there stops the read, at its position.
fn in_line(partition: &PartitionId, expected: Option<Position>, actual: Position) -> Result<(), LedgerError> {
    if expected == Some(actual) {
        return Ok(());
    }
    Err(LedgerError::corrupt(Some(partition), expected, "the event is missing, though the log goes on after it"))
}

fn end_of_entry(
    connection: &Connection,
    found: &Found,
    partition: &PartitionId,
    position: Position,
) -> Result<Arc<Entry>, Trouble> {
    store::entry_at(connection, (partition, found.key), position)?
        .ok_or_else(|| LedgerError::corrupt(Some(partition), Some(position), "the entry has no end").into())
}

fn covers(partition: &PartitionId, entry: &Entry, position: Position) -> Result<(), LedgerError> {
    if entry.first <= position {
        return Ok(());
    }
    Err(LedgerError::corrupt(Some(partition), Some(position), "the event is part of no entry"))
}

fn seal(
    partition: &PartitionId,
    open: &mut Vec<Raw>,
    entry: &Arc<Entry>,
    events: &mut Vec<Event>,
) -> Result<(), LedgerError> {
    for raw in open.drain(..) {
        covers(partition, entry, raw.position)?;
        events.push(raw.with(entry.clone()));
    }
    Ok(())
}
