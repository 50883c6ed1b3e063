//! Pages of events: one statement each, its rows decoded while they arrive (D1, D2, D5 to D7).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{Stream, TryStreamExt};
use ledger_core::{
    Entry, Event, EventKind, Generation, Holder, Json, LedgerError, MAX_LOOKED, Page, PageSize, PartitionId, Position,
    Result, Room,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::call::{Statement, Statements, Value, Way};
use crate::retry::{Ask, Runner};
use crate::row::{Field, Fields, checked};
use crate::statement::{ENTRY_ENDS, PAGE, PAGE_BACK};

/// So many events whose entry ends elsewhere are asked about at a time: each may cost a walk along 10,000 events.
const ENDS_AT_ONCE: usize = 32;

/// Which page.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Forward {
        from: Position,
        kind: Option<EventKind>,
    },
    /// From a position or else from the head.
    Back {
        from: Option<Position>,
    },
}

impl Wanted {
    fn from(&self) -> Option<Position> {
        match self {
            Self::Forward { from, .. } => Some(*from),
            Self::Back { from } => *from,
        }
    }

    fn kind(&self) -> Option<&EventKind> {
        match self {
            Self::Forward { kind, .. } => kind.as_ref(),
            Self::Back { .. } => None,
        }
    }

    /// The last position that is looked at.
    fn end(&self) -> Position {
        match self {
            Self::Forward { from, kind: Some(_) } => from.checked_add(MAX_LOOKED - 1).unwrap_or(Position::MAX),
            _ => Position::MAX,
        }
    }

    /// The newest position that may be asked for.
    fn newest(&self, head: Position) -> Position {
        match self {
            Self::Forward { .. } => head.next().unwrap_or(head),
            Self::Back { .. } => head,
        }
    }
}

/// Reads a page.
pub(crate) async fn read(runner: &Runner, partition: &PartitionId, wanted: Wanted, limit: PageSize) -> Result<Page> {
    let mut filled = runner.run(&Filling { partition, wanted: &wanted, limit }, false).await?;
    if let Some(error) = filled.error {
        return Err(error);
    }
    let from = wanted.from();
    let head = filled.header.as_ref().map(|header| header.head);
    // What never was, or was lost: the log ends before the start, or there is none (D4).
    let newest = head.map_or(Position::FIRST, |head| wanted.newest(head));
    let is_forward = matches!(wanted, Wanted::Forward { .. });
    if let Some(from) = from.filter(|from| *from > newest || (head.is_none() && !is_forward)) {
        return Err(LedgerError::AheadOfLog { from, head });
    }
    filled.find_entries(runner, partition, is_forward).await?;
    let (rows, header) = (filled.rows, filled.header);
    let last = rows.last().map(|row| row.position);
    let is_full = filled.is_cut || header.as_ref().is_some_and(|header| rows.len() >= header.looked_for);
    let events = rows.into_iter().map(|row| row.into_event(partition)).collect::<Result<_>>()?;
    let head = header.map(|header| (header.head, header.generation));
    Ok(match &wanted {
        Wanted::Forward { kind: Some(_), .. } => {
            let looked = if is_full { last } else { head.map(|(head, _)| head.min(wanted.end())) };
            Page::of_kind(events, head, looked)
        }
        Wanted::Forward { kind: None, .. } => Page::forward(events, head),
        Wanted::Back { .. } => Page::backward(events, head),
    })
}

/// The first row: the newest position, its generation, and how many events the statement looked for.
struct Header {
    head: Position,
    generation: Generation,
    looked_for: usize,
}

/// An event, and the entry that it is part of once that is known.
struct Read {
    position: Position,
    kind: EventKind,
    payload: Json,
    metadata: Json,
    entry: Option<Arc<Entry>>,
}

impl Read {
    fn into_event(self, partition: &PartitionId) -> Result<Event> {
        let entry = self.entry.ok_or_else(|| no_entry(partition, self.position))?;
        Ok(Event::new(self.position, self.kind, self.payload, self.metadata, entry))
    }
}

/// What came of a page.
#[derive(Default)]
pub(crate) struct Filled {
    header: Option<Header>,
    rows: Vec<Read>,
    error: Option<LedgerError>,
    /// Rows came that are not on the page.
    is_cut: bool,
    /// So many rows came after it that they were not all read.
    is_left: bool,
}

/// The statement of a page.
struct Filling<'a> {
    partition: &'a PartitionId,
    wanted: &'a Wanted,
    limit: PageSize,
}

impl Ask for Filling<'_> {
    type Answer = Filled;

    fn writes(&self) -> bool {
        false
    }

    async fn send(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        way: Way,
        _: Option<i32>,
    ) -> sqlx::Result<Filled> {
        let items = i32::try_from(self.limit.get()).unwrap_or(i32::MAX);
        let mut values = vec![
            Value::Text(Some(self.partition.as_str())),
            Value::Big(self.wanted.from().map(Position::get)),
            Value::Small(Some(items)),
            Value::Big(Some(i64::from(self.limit.bytes()))),
        ];
        let is_forward = matches!(self.wanted, Wanted::Forward { .. });
        if is_forward {
            let kind = self.wanted.kind().map(EventKind::as_str);
            values.extend([Value::Text(kind), Value::Big(Some(self.wanted.end().get()))]);
        }
        let statement = Statement { sql: if is_forward { PAGE } else { PAGE_BACK }, values };
        self.fill(statement.rows(connection, statements, way)?).await
    }

    fn is_read_out(filled: &Filled) -> bool {
        !filled.is_left
    }
}

impl Filling<'_> {
    async fn fill(&self, mut rows: impl Stream<Item = sqlx::Result<PgRow>> + Unpin) -> sqlx::Result<Filled> {
        let (mut filled, mut room, mut names) = (Filled::default(), Room::new(self.limit), Names::default());
        let mut left = usize::try_from(self.limit.bytes()).unwrap_or(usize::MAX);
        while let Some(row) = rows.try_next().await? {
            if filled.is_cut || filled.error.is_some() {
                // As much again may come to nothing before the connection is given up instead.
                let bytes = (0..row.len()).filter_map(|nth| row.try_get_raw(nth).ok());
                let bytes = bytes.map(|value| value.as_bytes().map_or(0, <[u8]>::len)).sum();
                left = left.saturating_sub(bytes);
                if left == 0 {
                    filled.is_left = true;
                    break;
                }
                continue;
            }
            if let Err(error) = self.take(&row, &mut filled, &mut room, &mut names) {
                filled.error = Some(error);
            }
        }
        Ok(filled)
    }

    fn take(&self, row: &PgRow, filled: &mut Filled, room: &mut Room, names: &mut Names) -> Result<()> {
        let mut fields = Fields::of(row);
        let mut position = None;
        let mut read = || -> Field<()> {
            let (kind, payload) = (fields.optional_text()?, fields.optional_text()?);
            let metadata = fields.optional_text()?;
            let at = fields.position()?;
            let Some(kind) = kind else {
                fields.skip(1);
                let looked_for = checked("a number of events", usize::try_from(fields.integer()?))?;
                filled.header = Some(Header { head: at, generation: fields.generation()?, looked_for });
                return Ok(());
            };
            position = Some(at);
            let (payload, metadata) = (payload.unwrap_or_default(), metadata.unwrap_or_default());
            if !room.take(kind.len() + payload.len() + metadata.len()) {
                filled.is_cut = true;
                return Ok(());
            }
            let entry = fields.entry(at, &mut names.holder)?;
            let (kind, payload, metadata) = (names.kind(kind)?, Json::stored(payload), names.metadata(metadata));
            filled.rows.push(Read { position: at, kind, payload, metadata, entry });
            Ok(())
        };
        read().map_err(|bad| bad.at(Some(self.partition), position))
    }
}

impl Filled {
    /// Gives each event its entry, whose facts stand on its last event. Asks for those that end beyond the page, or on
    /// an event of another kind.
    async fn find_entries(&mut self, runner: &Runner, partition: &PartitionId, is_forward: bool) -> Result<()> {
        let mut found: BTreeMap<Position, Arc<Entry>> = BTreeMap::new();
        loop {
            let asked = self.spread_entries(&found, is_forward);
            if asked.is_empty() {
                return Ok(());
            }
            for row in runner.run(&Ends { partition, positions: &asked }, false).await? {
                let mut fields = Fields::of(&row);
                let mut read = || -> Field<Option<Arc<Entry>>> {
                    fields.skip(1);
                    let Some(last) = fields.optional_position()? else { return Ok(None) };
                    fields.entry(last, &mut None)
                };
                if let Some(entry) = read().map_err(|bad| bad.at(Some(partition), None))? {
                    found.insert(entry.last, entry);
                }
            }
            if let Some(lost) = asked.iter().find(|position| covering(&found, **position).is_none()) {
                return Err(no_entry(partition, *lost));
            }
        }
    }

    /// Goes from the newest to the oldest, and returns some of those whose entry is not known.
    fn spread_entries(&mut self, found: &BTreeMap<Position, Arc<Entry>>, is_forward: bool) -> Vec<Position> {
        let (mut unknown, mut current) = (Vec::new(), None);
        let count = self.rows.len();
        for nth in 0..count {
            let nth = if is_forward { count - 1 - nth } else { nth };
            if self.rows[nth].entry.is_none() {
                let position = self.rows[nth].position;
                let known = current.and_then(|at: usize| self.rows[at].entry.clone());
                let known = known.filter(|entry| entry.first <= position && position <= entry.last);
                self.rows[nth].entry = known.or_else(|| covering(found, position));
            }
            match self.rows[nth].entry {
                Some(_) => current = Some(nth),
                None if unknown.len() < ENDS_AT_ONCE => unknown.push(self.rows[nth].position),
                None => {}
            }
        }
        unknown
    }
}

/// The entry that a position is part of.
fn covering(found: &BTreeMap<Position, Arc<Entry>>, position: Position) -> Option<Arc<Entry>> {
    found.range(position..).next().map(|(_, entry)| entry).filter(|entry| entry.first <= position).cloned()
}

fn no_entry(partition: &PartitionId, position: Position) -> LedgerError {
    LedgerError::corrupt(Some(partition), Some(position), "the event belongs to no entry")
}

/// Where entries end.
struct Ends<'a> {
    partition: &'a PartitionId,
    positions: &'a [Position],
}

impl Ask for Ends<'_> {
    type Answer = Vec<PgRow>;

    fn writes(&self) -> bool {
        false
    }

    async fn send(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        way: Way,
        _: Option<i32>,
    ) -> sqlx::Result<Vec<PgRow>> {
        let positions = self.positions.iter().map(|position| Some(position.get())).collect();
        let values = vec![Value::Text(Some(self.partition.as_str())), Value::Bigs(positions)];
        Statement { sql: ENTRY_ENDS, values }.rows(connection, statements, way)?.try_collect().await
    }

    /// All positions were read before, so a log that ends below one of them, or is not there, is an older one.
    fn is_behind(&self, rows: &Vec<PgRow>) -> bool {
        rows.is_empty() || rows.iter().any(|row| matches!(Fields::of(row).boolean(), Ok(false)))
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
    fn metadata(&mut self, text: &str) -> Json {
        match &self.metadata {
            Some(json) if json.as_str() == text => json.clone(),
            _ => self.metadata.insert(Json::stored(text)).clone(),
        }
    }

    fn kind(&mut self, text: &str) -> Field<EventKind> {
        match &self.kind {
            Some(kind) if kind.as_str() == text => Ok(kind.clone()),
            _ => Ok(self.kind.insert(checked("a kind", EventKind::stored(text))?).clone()),
        }
    }
}
