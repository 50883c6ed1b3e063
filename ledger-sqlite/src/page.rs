//! Pages of events and of names, each from one short read transaction (D1, D2).

use std::sync::Arc;

use ledger_core::{
    Entry, Event, EventKind, Generation, Json, LedgerError, Page, PageSize, PartitionId, PartitionPage, Position,
};
use rusqlite::{Connection, Row, params};

use crate::classify::Trouble;
use crate::row::{Fields, Unreadable};
use crate::statement;
use crate::store::{self, Found};

/// A page ends after this many bytes of texts, though more events would fit.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

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

    fn bytes(&self) -> usize {
        self.kind.as_str().len() + self.metadata.as_str().len() + self.payload.as_str().len()
    }
}

/// The events from a position on, ascending.
pub(crate) fn forward(
    connection: &Connection,
    partition: &PartitionId,
    from: Position,
    limit: PageSize,
) -> Result<Page, Trouble> {
    let Some(found) = store::find(connection, partition)? else {
        if from > Position::FIRST {
            return Err(LedgerError::AheadOfLog { from, head: None }.into());
        }
        return Ok(Page::forward(Vec::new(), None));
    };
    let head = head_of(&found);
    if from.get() - 1 > head.0.get() {
        return Err(LedgerError::AheadOfLog { from, head: Some(head.0) }.into());
    }
    let mut statement = connection.prepare_cached(statement::PAGE_FORWARD)?;
    let mut rows = statement.query(params![found.key, from.get(), limit.get()])?;
    let (mut events, mut open, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut expected = Some(from);
    while bytes < MAX_PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let (raw, entry) = read(row, partition)?;
        in_line(partition, expected, raw.position)?;
        expected = raw.position.next();
        bytes += raw.bytes();
        open.push(raw);
        if let Some(entry) = entry {
            seal(partition, &mut open, &Arc::new(entry), &mut events)?;
        }
    }
    if let Some(last) = open.last() {
        let entry = end_of_entry(connection, &found, partition, last.position)?;
        seal(partition, &mut open, &entry, &mut events)?;
    }
    Ok(Page::forward(events, Some(head)))
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
    let (mut events, mut bytes) = (Vec::new(), 0);
    let mut entry: Option<Arc<Entry>> = None;
    let mut expected = Some(from);
    while bytes < MAX_PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let (raw, ends) = read(row, partition)?;
        in_line(partition, expected, raw.position)?;
        expected = Position::new(raw.position.get() - 1).ok();
        bytes += raw.bytes();
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

/// Reads an event and, on the last of its entry, the entry.
fn read(row: &Row<'_>, partition: &PartitionId) -> Result<(Raw, Option<Entry>), LedgerError> {
    let mut fields = Fields::of(row);
    let position = fields.position().map_err(|bad| bad.at(Some(partition), None))?;
    let mut read = || {
        let entry = fields.entry(position)?;
        let kind = EventKind::stored(fields.text()?).map_err(|bad| Unreadable(format!("an event kind: {bad}")))?;
        let metadata = Json::stored(fields.text()?);
        let payload = Json::stored(fields.text()?);
        Ok((Raw { position, kind, metadata, payload }, entry))
    };
    read().map_err(|bad: Unreadable| bad.at(Some(partition), Some(position)))
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
