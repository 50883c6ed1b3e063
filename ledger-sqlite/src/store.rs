//! Reads and writes of one partition, inside whatever transaction the connection is in.

use std::sync::Arc;

use ledger_core::decide::Write;
use ledger_core::{
    AcquisitionId, AdvanceRecord, AppendId, Entry, Generation, Json, LedgerError, NewEvent, OwnEvent, PartitionId,
    PastTenure, Position, Standing, StoredLease, Tail,
};
use ledger_core::{EventKind, Succession};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::classify::Trouble;
use crate::row::{self, Fields, Unreadable};
use crate::statement;

/// A claimed partition as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its key in the tables.
    pub(crate) key: i64,
    /// Its lease and its newest entry.
    pub(crate) standing: Standing,
}

/// The partition, or `None` where it was never claimed.
pub(crate) fn find(connection: &Connection, partition: &PartitionId) -> Result<Option<Found>, Trouble> {
    let mut statement = connection.prepare_cached(statement::STANDING)?;
    let mut rows = statement.query([partition.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (key, standing) = row::standing(row).map_err(|bad| bad.at(Some(partition), None))?;
    Ok(Some(Found { key, standing }))
}

/// The entry of a partition that has an id.
pub(crate) fn entry_by_id(
    connection: &Connection,
    (partition, key): (&PartitionId, i64),
    id: AppendId,
) -> Result<Option<Arc<Entry>>, Trouble> {
    let mut statement = connection.prepare_cached(statement::ENTRY_BY_ID)?;
    entry_of(statement.query_row(params![id.as_uuid().as_bytes(), key], |row| Ok(read_entry(row, partition))))
}

/// The entry that an event belongs to which is not its last.
pub(crate) fn entry_at(
    connection: &Connection,
    (partition, key): (&PartitionId, i64),
    position: Position,
) -> Result<Option<Arc<Entry>>, Trouble> {
    let mut statement = connection.prepare_cached(statement::ENTRY_AT)?;
    entry_of(statement.query_row(params![key, position.get()], |row| Ok(read_entry(row, partition))))
}

fn entry_of(found: rusqlite::Result<Result<Option<Entry>, LedgerError>>) -> Result<Option<Arc<Entry>>, Trouble> {
    match found.optional()? {
        None => Ok(None),
        Some(entry) => Ok(entry?.map(Arc::new)),
    }
}

fn read_entry(row: &Row<'_>, partition: &PartitionId) -> Result<Option<Entry>, LedgerError> {
    let mut fields = Fields::of(row);
    let last = fields.position().map_err(|bad| bad.at(Some(partition), None))?;
    fields.entry(last).map_err(|bad| bad.at(Some(partition), Some(last)))
}

/// Where a partition's log ends, whatever its lease says (I4): an end that can not be read is none.
pub(crate) fn tail(connection: &Connection, (partition, key): (&PartitionId, i64)) -> Result<Tail, Trouble> {
    let mut statement = connection.prepare_cached(statement::TAIL)?;
    let read = |row: &Row<'_>| {
        let mut fields = Fields::of(row);
        let last = fields.optional_position().map_err(|bad| bad.at(Some(partition), None))?;
        let end = fields.optional_position().map_err(|bad| bad.at(Some(partition), last))?;
        let Some(end) = end else { return Ok((last, Ok(None))) };
        Ok::<_, LedgerError>((last, fields.entry(end).map_err(|_| end.get() - 1)))
    };
    let mut up_to = i64::MAX;
    loop {
        match statement.query_row([key, up_to], |row| Ok(read(row)))?? {
            (last, Ok(entry)) => return Ok(Tail::new(last, entry.map(Arc::new))),
            (_, Err(before)) => up_to = before,
        }
    }
}

/// The `$advanced` entry that has an acquisition, with its payload (I4).
pub(crate) fn advance_taken(
    connection: &Connection,
    (partition, key): (&PartitionId, i64),
    acquisition: AcquisitionId,
) -> Result<Option<(Entry, AdvanceRecord)>, Trouble> {
    let mut statement = connection.prepare_cached(statement::ADVANCE_TAKEN)?;
    let mut rows = statement.query(params![key, acquisition.as_uuid().as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut fields = Fields::of(row);
    let position = fields.position().map_err(|bad| bad.at(Some(partition), None))?;
    let unreadable = |bad: Unreadable| bad.at(Some(partition), Some(position));
    let entry = fields.entry(position).map_err(unreadable)?;
    let payload = Json::stored(fields.text().map_err(unreadable)?);
    let kind = EventKind::stored(OwnEvent::ADVANCED).map_err(LedgerError::Invalid)?;
    match (entry, OwnEvent::read(&kind, &payload)) {
        (Some(entry), Ok(Some(OwnEvent::Advanced(record)))) => Ok(Some((entry, record))),
        _ => Err(LedgerError::corrupt(Some(partition), Some(position), "an `$advanced` event can not be read").into()),
    }
}

/// The tenure of a generation that another has followed (R3).
pub(crate) fn past(
    connection: &Connection,
    (partition, found): (&PartitionId, &Found),
    generation: Generation,
) -> Result<Option<PastTenure>, Trouble> {
    let mut statement = connection.prepare_cached(statement::CLAIMS_FROM)?;
    let mut rows = statement.query(params![found.key, generation.get()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut fields = Fields::of(row);
    let unreadable = |bad: Unreadable| bad.at(Some(partition), None);
    let _position = fields.position().map_err(unreadable)?;
    if fields.generation().map_err(unreadable)? != generation {
        return Ok(None);
    }
    let holder = fields.holder().map_err(unreadable)?;
    let acquisition = fields.uuid().map_err(unreadable)?;
    let next = rows.next()?.map(|row| succession(row, partition)).transpose()?;
    Ok(PastTenure::before((holder, acquisition), next.as_ref(), &found.standing.lease))
}

fn succession(row: &Row<'_>, partition: &PartitionId) -> Result<Succession, LedgerError> {
    let mut fields = Fields::of(row);
    let unreadable = |bad: Unreadable| bad.at(Some(partition), None);
    let position = fields.position().map_err(unreadable)?;
    let unreadable = |bad: Unreadable| bad.at(Some(partition), Some(position));
    let (_, _, _): (Generation, _, uuid::Uuid) = (
        fields.generation().map_err(unreadable)?,
        fields.holder().map_err(unreadable)?,
        fields.uuid().map_err(unreadable)?,
    );
    let payload = Json::stored(fields.text().map_err(unreadable)?);
    let kind = EventKind::stored(OwnEvent::CLAIMED).map_err(LedgerError::Invalid)?;
    match OwnEvent::read(&kind, &payload) {
        Ok(Some(OwnEvent::Claimed(succession))) => Ok(succession),
        _ => Err(LedgerError::corrupt(Some(partition), Some(position), "a `$claimed` event holds no succession")),
    }
}

/// What decisions write in one transaction.
pub(crate) struct Writes<'c> {
    connection: &'c Connection,
    /// Prepared once: to look a statement up in the connection's cache costs a tenth of what it does.
    insert_event: Option<CachedStatement<'c>>,
}

impl<'c> Writes<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, insert_event: None }
    }

    /// Does what a decision says, and keeps `found` as it then is.
    pub(crate) fn write(
        &mut self,
        partition: &PartitionId,
        found: &mut Option<Found>,
        write: Write,
    ) -> Result<(), Trouble> {
        let position = write.entry.as_ref().map(|(entry, _)| entry.last);
        if self.write_new(partition, found, write)? {
            return Ok(());
        }
        Err(LedgerError::corrupt(Some(partition), position, "the id of an entry is taken, and can not be found").into())
    }

    /// The same, where nobody has looked whether the id of its entry is taken (A4): `false` if it is. Then of an entry of
    /// one event nothing is written, nor in `found`.
    pub(crate) fn write_new(
        &mut self,
        partition: &PartitionId,
        found: &mut Option<Found>,
        write: Write,
    ) -> Result<bool, Trouble> {
        if let Some(lease) = write.lease {
            match found {
                Some(found) => {
                    update_partition(self.connection, found.key, &lease)?;
                    found.standing.lease = lease;
                }
                None => {
                    let key = insert_partition(self.connection, partition, &lease)?;
                    *found = Some(Found { key, standing: Standing::new(lease, None) });
                }
            }
        }
        if let Some((entry, events)) = write.entry {
            let Some(found) = found else {
                let detail = "an entry was decided for a partition that was never claimed";
                return Err(LedgerError::corrupt(Some(partition), Some(entry.first), detail).into());
            };
            if !insert_events(self.insert_event()?, found.key, &entry, &events)? {
                return Ok(false);
            }
            found.standing.tip = Some(entry);
        }
        Ok(true)
    }

    fn insert_event(&mut self) -> Result<&mut CachedStatement<'c>, Trouble> {
        Ok(match &mut self.insert_event {
            Some(statement) => statement,
            none => none.insert(self.connection.prepare_cached(statement::INSERT_EVENT)?),
        })
    }
}

fn insert_partition(connection: &Connection, partition: &PartitionId, lease: &StoredLease) -> Result<i64, Trouble> {
    let (vacancy, reason) = row::vacancy_columns(lease.vacancy.as_ref());
    connection
        .prepare_cached(statement::INSERT_PARTITION)?
        .insert(params![
            partition.as_str(),
            lease.generation.get(),
            lease.holder.as_str(),
            lease.acquisition.as_uuid().as_bytes(),
            lease.ttl.as_micros(),
            lease.expires_at.as_micros(),
            vacancy,
            reason,
            lease.renewals.cast_signed(),
            lease.recorded_at.as_micros(),
            lease.head.get(),
            lease.chain.as_bytes(),
        ])
        .map_err(Trouble::from)
}

fn update_partition(connection: &Connection, key: i64, lease: &StoredLease) -> Result<(), Trouble> {
    let (vacancy, reason) = row::vacancy_columns(lease.vacancy.as_ref());
    connection.prepare_cached(statement::UPDATE_PARTITION)?.execute(params![
        key,
        lease.generation.get(),
        lease.holder.as_str(),
        lease.acquisition.as_uuid().as_bytes(),
        lease.ttl.as_micros(),
        lease.expires_at.as_micros(),
        vacancy,
        reason,
        lease.renewals.cast_signed(),
        lease.recorded_at.as_micros(),
        lease.head.get(),
        lease.chain.as_bytes(),
    ])?;
    Ok(())
}

/// Whether the entry's id was a new one, which its last event shows.
fn insert_events(
    statement: &mut CachedStatement<'_>,
    key: i64,
    entry: &Entry,
    events: &[NewEvent],
) -> Result<bool, Trouble> {
    let mut is_new = true;
    let last = events.len() - 1;
    for (nth, event) in (0_i64..).zip(events) {
        let position = entry.first.get() + nth;
        let texts = (event.kind.as_str(), event.metadata.as_str(), event.payload.as_str());
        let of = (position == entry.last.get()).then_some(entry);
        debug_assert_eq!(of.is_some(), usize::try_from(nth) == Ok(last), "an entry ends with its last event");
        is_new = 1
            == statement.execute(params![
                key,
                position,
                of.and_then(|entry| entry.id).map(|id| *id.as_uuid().as_bytes()),
                of.map(|entry| entry.first.get()),
                of.map(|entry| entry.generation.get()),
                of.map(|entry| entry.holder.as_str()),
                of.map(|entry| *entry.acquisition.as_uuid().as_bytes()),
                of.map(|entry| entry.recorded_at.as_micros()),
                of.map(|entry| *entry.content.as_bytes()),
                of.map(|entry| *entry.chain.as_bytes()),
                texts.0,
                texts.1,
                texts.2,
            ])?;
    }
    Ok(is_new)
}
