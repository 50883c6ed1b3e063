//! The tables, and the rows in them.

use std::sync::Arc;

use ledger_core::decide::Write;
use ledger_core::{
    AcquisitionId, AdvanceRecord, AppendId, Entry, Event, EventKind, Generation, Json, LedgerError, OwnEvent, PageSize,
    PartitionId, PastTenure, Position, RejectionRecord, Result, Room, Standing, StoredLease, Succession,
};
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::{from_str, to_string};

use crate::ledger::{corrupt, not_written};

/// The ledger's id, under `id`.
pub(crate) const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
/// A partition's lease as JSON.
pub(crate) const LEASES: TableDefinition<'_, &str, &str> = TableDefinition::new("leases");
/// An entry as JSON, by partition and first position.
pub(crate) const ENTRIES: TableDefinition<'_, (&str, i64), &str> = TableDefinition::new("entries");
/// An event by partition and position: the first position of its entry, kind, payload, metadata.
pub(crate) const EVENTS: TableDefinition<'_, (&str, i64), (i64, &str, &str, &str)> = TableDefinition::new("events");
/// The first position of an entry, by partition and the entry's id.
pub(crate) const IDS: TableDefinition<'_, (&str, u128), i64> = TableDefinition::new("ids");
/// The position of `$claimed`, by partition and generation.
pub(crate) const CLAIMS: TableDefinition<'_, (&str, i64), i64> = TableDefinition::new("claims");
/// The rejection records of a partition as JSON. Those of never-claimed partitions stand under the empty name, which
/// no partition has.
pub(crate) const RECORDS: TableDefinition<'_, &str, &str> = TableDefinition::new("records");

/// What a judgement reads, from within a write transaction or beside it.
pub(crate) trait View {
    type Leases: ReadableTable<&'static str, &'static str>;
    type Entries: ReadableTable<(&'static str, i64), &'static str>;
    type Events: ReadableTable<(&'static str, i64), (i64, &'static str, &'static str, &'static str)>;
    type Ids: ReadableTable<(&'static str, u128), i64>;
    type Claims: ReadableTable<(&'static str, i64), i64>;

    fn leases(&self) -> Result<Self::Leases>;
    fn entries(&self) -> Result<Self::Entries>;
    fn events(&self) -> Result<Self::Events>;
    fn ids(&self) -> Result<Self::Ids>;
    fn claims(&self) -> Result<Self::Claims>;

    fn standing(&self, name: &PartitionId) -> Result<Option<Standing>> {
        let leases = self.leases()?;
        let Some(lease) = leases.get(name.as_str()).map_err(not_written)? else { return Ok(None) };
        let lease: StoredLease = from_str(lease.value()).map_err(|error| corrupt(name, error))?;
        let entries = self.entries()?;
        let all = (name.as_str(), 0)..=(name.as_str(), i64::MAX);
        let tip = match entries.range(all).map_err(not_written)?.next_back() {
            Some(row) => Some(entry_of(name, row.map_err(not_written)?.1.value())?),
            None => None,
        };
        Ok(Some(Standing::new(lease, tip)))
    }

    fn entry_at(&self, name: &PartitionId, first: i64) -> Result<Option<Arc<Entry>>> {
        let entries = self.entries()?;
        let row = entries.get((name.as_str(), first)).map_err(not_written)?;
        row.map(|row| entry_of(name, row.value())).transpose()
    }

    fn entry(&self, name: &PartitionId, id: AppendId) -> Result<Option<Arc<Entry>>> {
        let ids = self.ids()?;
        match ids.get((name.as_str(), id.as_uuid().as_u128())).map_err(not_written)? {
            Some(first) => self.entry_at(name, first.value()),
            None => Ok(None),
        }
    }

    /// The tenure of a generation that another has followed.
    fn past(&self, name: &PartitionId, generation: Generation) -> Result<Option<PastTenure>> {
        let claims = self.claims()?;
        let position = |generation: i64| {
            let row = claims.get((name.as_str(), generation)).map_err(not_written)?;
            Ok::<_, LedgerError>(row.map(|row| row.value()))
        };
        let Some(at) = position(generation.get())? else { return Ok(None) };
        // An operator's advance may have left a gap in the generations.
        let after = claims.range((name.as_str(), generation.get() + 1)..=(name.as_str(), i64::MAX));
        let next = match after.map_err(not_written)?.next() {
            Some(row) => self.succession(name, row.map_err(not_written)?.1.value())?,
            None => None,
        };
        // An entry that was cut away names no tenure; that the log was edited is told by the judgement (G4).
        let (Some(claimed), Some(standing)) = (self.entry_at(name, at)?, self.standing(name)?) else { return Ok(None) };
        let held_by = (claimed.holder.clone(), claimed.acquisition);
        Ok(PastTenure::before(held_by, next.as_ref(), &standing.lease))
    }

    /// The `$advanced` entry that has an acquisition. Advances are rare, so the log is looked through.
    fn advance(&self, name: &PartitionId, acquisition: AcquisitionId) -> Result<Option<(Arc<Entry>, AdvanceRecord)>> {
        for event in self.page(name, 0, i64::MAX, true, None)? {
            if event.entry.acquisition == acquisition
                && let Ok(Some(OwnEvent::Advanced(record))) = OwnEvent::read(&event.kind, &event.payload)
            {
                return Ok(Some((event.entry, record)));
            }
        }
        Ok(None)
    }

    fn succession(&self, name: &PartitionId, position: i64) -> Result<Option<Succession>> {
        let events = self.events()?;
        let Some(row) = events.get((name.as_str(), position)).map_err(not_written)? else { return Ok(None) };
        let (_, kind, payload, _) = row.value();
        let kind = EventKind::stored(kind).map_err(|error| corrupt(name, error))?;
        match OwnEvent::read(&kind, &Json::stored(payload)) {
            Ok(Some(OwnEvent::Claimed(succession))) => Ok(Some(succession)),
            _ => Err(corrupt(name, "a `$claimed` event can not be read")),
        }
    }

    /// Events from one position to another, in ascending order or backward, as many as a page of that size takes; all
    /// of them without a size.
    fn page(
        &self,
        name: &PartitionId,
        from: i64,
        to: i64,
        backward: bool,
        size: Option<PageSize>,
    ) -> Result<Vec<Event>> {
        let events = self.events()?;
        let mut range = events.range((name.as_str(), from)..=(name.as_str(), to)).map_err(not_written)?;
        let (mut page, mut entry): (Vec<Event>, Option<Arc<Entry>>) = (Vec::new(), None);
        let mut room = size.map(Room::new);
        while let Some(row) = if backward { range.next_back() } else { range.next() } {
            let (key, value) = row.map_err(not_written)?;
            let (first, kind, payload, metadata) = value.value();
            if room.as_mut().is_some_and(|room| !room.take(kind.len() + payload.len() + metadata.len())) {
                break;
            }
            let known = entry.take().filter(|entry| entry.first.get() == first);
            let of = match known {
                Some(entry) => entry,
                None => self.entry_at(name, first)?.ok_or_else(|| corrupt(name, "an event has no entry"))?,
            };
            page.push(Event::new(
                Position::new(key.value().1).map_err(|error| corrupt(name, error))?,
                EventKind::stored(kind).map_err(|error| corrupt(name, error))?,
                Json::stored(payload),
                Json::stored(metadata),
                of.clone(),
            ));
            entry = Some(of);
        }
        Ok(page)
    }
}

macro_rules! view {
    ($transaction:ty, $table:ident $(, $life:lifetime)?) => {
        impl$(<$life>)? View for &$($life)? $transaction {
            type Leases = redb::$table<$($life,)? &'static str, &'static str>;
            type Entries = redb::$table<$($life,)? (&'static str, i64), &'static str>;
            type Events = redb::$table<$($life,)? (&'static str, i64), (i64, &'static str, &'static str, &'static str)>;
            type Ids = redb::$table<$($life,)? (&'static str, u128), i64>;
            type Claims = redb::$table<$($life,)? (&'static str, i64), i64>;

            fn leases(&self) -> Result<Self::Leases> {
                self.open_table(LEASES).map_err(not_written)
            }

            fn entries(&self) -> Result<Self::Entries> {
                self.open_table(ENTRIES).map_err(not_written)
            }

            fn events(&self) -> Result<Self::Events> {
                self.open_table(EVENTS).map_err(not_written)
            }

            fn ids(&self) -> Result<Self::Ids> {
                self.open_table(IDS).map_err(not_written)
            }

            fn claims(&self) -> Result<Self::Claims> {
                self.open_table(CLAIMS).map_err(not_written)
            }
        }
    };
}

view!(ReadTransaction, ReadOnlyTable);
view!(WriteTransaction, Table, 'a);

fn entry_of(name: &PartitionId, json: &str) -> Result<Arc<Entry>> {
    from_str(json).map(Arc::new).map_err(|error| corrupt(name, error))
}

/// Writes what was decided.
pub(crate) fn write(transaction: &WriteTransaction, name: &PartitionId, write: &Write) -> Result<()> {
    let json = |error| corrupt(name, error);
    if let Some(lease) = &write.lease {
        let row = to_string(lease).map_err(json)?;
        transaction.leases()?.insert(name.as_str(), row.as_str()).map_err(not_written)?;
    }
    let Some((entry, events)) = &write.entry else { return Ok(()) };
    let first = entry.first.get();
    let row = to_string(&**entry).map_err(json)?;
    transaction.entries()?.insert((name.as_str(), first), row.as_str()).map_err(not_written)?;
    if let Some(id) = entry.id {
        transaction.ids()?.insert((name.as_str(), id.as_uuid().as_u128()), first).map_err(not_written)?;
    }
    if events[0].kind.as_str() == OwnEvent::CLAIMED {
        transaction.claims()?.insert((name.as_str(), entry.generation.get()), first).map_err(not_written)?;
    }
    let mut table = transaction.events()?;
    for (position, event) in (first..).zip(events.iter()) {
        let row = (first, event.kind.as_str(), event.payload.as_str(), event.metadata.as_str());
        table.insert((name.as_str(), position), row).map_err(not_written)?;
    }
    Ok(())
}

/// Writes the records of a budget.
pub(crate) fn write_records(transaction: &WriteTransaction, name: &str, records: &[RejectionRecord]) -> Result<()> {
    let row = to_string(records).map_err(|error| LedgerError::corrupt(None, None, error.to_string()))?;
    let mut table = transaction.open_table(RECORDS).map_err(not_written)?;
    table.insert(name, row.as_str()).map_err(not_written)?;
    Ok(())
}

/// Reads the records of a budget.
pub(crate) fn read_records(transaction: &ReadTransaction, name: &str) -> Result<Vec<RejectionRecord>> {
    let table = transaction.open_table(RECORDS).map_err(not_written)?;
    match table.get(name).map_err(not_written)? {
        None => Ok(Vec::new()),
        Some(row) => from_str(row.value()).map_err(|error| LedgerError::corrupt(None, None, error.to_string())),
    }
}
