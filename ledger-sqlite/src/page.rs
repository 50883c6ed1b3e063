//! Pages of events and of names, each from one short read transaction (D1, D2).

use std::sync::Arc;

use ledger_core::{
    Entry, Event, EventKind, Generation, Holder, Json, LazyPage, LedgerError, MAX_LOOKED, Page, PageSize, PartitionId,
    PartitionPage, Position, Room,
};
use rusqlite::{Connection, Row, params};

use crate::classify::Trouble;
use crate::row::{Facts, Fields, Unreadable, new_holder, new_kind, new_metadata};
use crate::rows::{Rows, Texts};
use crate::statement;
use crate::store::{self, Found};

/// The events from a position on, ascending. What is wrong with one of them is told here; they are made by who takes
/// them.
pub(crate) fn forward(
    connection: &Connection,
    partition: &PartitionId,
    from: Position,
    limit: PageSize,
) -> Result<LazyPage, Trouble> {
    let mut page = Rows::default();
    let Some((found, head)) = begin(connection, partition, from)? else {
        return Ok(LazyPage::forward(page.into_events(), None, None));
    };
    let mut statement = connection.prepare_cached(statement::PAGE_FORWARD)?;
    let mut rows = statement.query(params![found.key, from.get(), limit.get()])?;
    let (mut room, mut expected) = (Room::new(limit), Some(from));
    while let Some(row) = rows.next()? {
        let Some(raw) = read(row, partition, &mut room)? else { break };
        let position = raw.position;
        in_line(partition, expected, position)?;
        expected = position.next();
        page.push(position, raw.texts).map_err(|bad| bad.at(Some(partition), Some(position)))?;
        if let Some((facts, holder)) = raw.ends {
            seal(partition, &mut page, facts, holder)?;
        }
    }
    let last = page.last();
    if let (Some(_), Some(last)) = (page.open(), last) {
        let entry = end_of_entry(connection, &found, partition, last)?;
        seal(partition, &mut page, Facts::of(&entry), entry.holder.as_str().as_bytes())?;
    }
    Ok(LazyPage::forward(page.into_events(), last, Some(head)))
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
        let Some(raw) = read(row, partition, &mut room)? else {
            is_full = true;
            break;
        };
        let known = entry.take().filter(|entry| (entry.first..=entry.last).contains(&raw.position));
        let of = match (names.entry(partition, &raw)?, known) {
            (Some(ends), _) => Arc::new(ends),
            (None, Some(entry)) => entry,
            (None, None) => end_of_entry(connection, &found, partition, raw.position)?,
        };
        covers(partition, of.first, raw.position)?;
        events.push(names.event(partition, &raw, of.clone())?);
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
        let Some(raw) = read(row, partition, &mut room)? else { break };
        in_line(partition, expected, raw.position)?;
        expected = Position::new(raw.position.get() - 1).ok();
        let of = match (names.entry(partition, &raw)?, entry.take()) {
            (Some(ends), _) => Arc::new(ends),
            (None, Some(entry)) => entry,
            (None, None) => end_of_entry(connection, &found, partition, raw.position)?,
        };
        covers(partition, of.first, raw.position)?;
        events.push(names.event(partition, &raw, of.clone())?);
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

/// A row of the log.
struct Raw<'a> {
    position: Position,
    /// On the last event of an entry: the entry and its holder.
    ends: Option<(Facts, &'a [u8])>,
    texts: Texts<'a>,
}

/// Reads a row; `None` where the page has no room for it (D5). Part of the loop over the rows, like what it calls: so what
/// is read goes to its place at once.
#[inline(always)]
fn read<'a>(row: &'a Row<'_>, partition: &PartitionId, room: &mut Room) -> Result<Option<Raw<'a>>, LedgerError> {
    let mut fields = Fields::of(row);
    let position = match fields.position() {
        Ok(position) => position,
        Err(bad) => return Err(bad.at(Some(partition), None)),
    };
    match Raw::read(fields, position, room) {
        Ok(raw) => Ok(raw),
        Err(bad) => Err(bad.at(Some(partition), Some(position))),
    }
}

impl<'a> Raw<'a> {
    #[inline(always)]
    fn read(mut fields: Fields<'a>, position: Position, room: &mut Room) -> Result<Option<Self>, Unreadable> {
        let ends = fields.facts(position)?;
        let texts = (fields.unchecked_text()?, fields.unchecked_text()?, fields.text()?);
        if room.take(texts.0.len() + texts.1.len() + texts.2.len()) {
            Ok(Some(Self { position, ends, texts }))
        } else {
            Ok(None)
        }
    }
}

/// What the row before had and most rows repeat: it is shared within the page, and not made anew. Not beyond it: the
/// counts of what two threads share would go to and fro between them.
#[derive(Default)]
struct Names {
    kind: Option<EventKind>,
    holder: Option<Holder>,
    metadata: Option<Json>,
}

impl Names {
    /// The entry that the row ends.
    fn entry(&mut self, partition: &PartitionId, raw: &Raw<'_>) -> Result<Option<Entry>, LedgerError> {
        let Some((facts, name)) = &raw.ends else { return Ok(None) };
        let holder = kept(&mut self.holder, |known| known.as_str().as_bytes() == *name, || new_holder(name));
        let holder = holder.map_err(|bad| bad.at(Some(partition), Some(raw.position)))?;
        Ok(Some(facts.clone().by(holder)))
    }

    /// The row's event, as part of an entry.
    fn event(&mut self, partition: &PartitionId, raw: &Raw<'_>, entry: Arc<Entry>) -> Result<Event, LedgerError> {
        let (kind, metadata, payload) = raw.texts;
        let kind = kept(&mut self.kind, |known| known.as_str().as_bytes() == kind, || new_kind(kind));
        let metadata =
            kept(&mut self.metadata, |known| known.as_str().as_bytes() == metadata, || new_metadata(metadata));
        let at = |bad: Unreadable| bad.at(Some(partition), Some(raw.position));
        Ok(Event::new(raw.position, kind.map_err(at)?, Json::stored(payload), metadata.map_err(at)?, entry))
    }
}

/// What the row before had, or else what is made anew.
fn kept<T: Clone>(
    before: &mut Option<T>,
    is_same: impl FnOnce(&T) -> bool,
    make: impl FnOnce() -> Result<T, Unreadable>,
) -> Result<T, Unreadable> {
    match before {
        Some(known) if is_same(known) => Ok(known.clone()),
        _ => Ok(before.insert(make()?).clone()),
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

fn covers(partition: &PartitionId, first: Position, position: Position) -> Result<(), LedgerError> {
    if first <= position {
        return Ok(());
    }
    Err(LedgerError::corrupt(Some(partition), Some(position), "the event is part of no entry"))
}

fn seal(partition: &PartitionId, page: &mut Rows, facts: Facts, holder: &[u8]) -> Result<(), LedgerError> {
    if let Some(first) = page.open() {
        covers(partition, facts.first, first)?;
    }
    page.seal(facts, holder).map_err(|bad| bad.at(Some(partition), page.last()))
}
