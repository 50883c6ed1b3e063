//! Rows of the tables, read into the types of the core.
//!
//! What is read is checked by the constructors of those types: a row that was edited into something that can not have
//! been written is told apart from one that can.

use std::sync::Arc;

use ledger_core::{
    AcquisitionId, AppendId, Digest, Entry, EventKind, Generation, Holder, Json, LedgerError, LedgerId, Note,
    Operation, PartitionId, Position, Reason, RecordSlot, Refused, RejectionRecord, Remark, Revision, Standing,
    StoredLease, Timestamp, Ttl, Vacancy,
};
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use uuid::Uuid;

/// Why a field can not be what was written.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    /// The error of a call that came upon it.
    #[cold]
    pub(crate) fn at(self, partition: Option<&PartitionId>, position: Option<Position>) -> LedgerError {
        LedgerError::corrupt(partition, position, self.0)
    }
}

type Field<T> = Result<T, Unreadable>;

#[inline(always)]
fn checked<T, E: std::fmt::Display>(what: &str, value: Result<T, E>) -> Field<T> {
    match value {
        Ok(value) => Ok(value),
        Err(error) => Err(unreadable(what, &error)),
    }
}

/// Out of the way of what is read for each row.
#[cold]
fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Unreadable {
    Unreadable(format!("{what}: {error}"))
}

/// Reads the fields of one row in the order of its columns.
///
/// What each row of a page goes through is made part of the loop over them: as calls that hand an error along, the same
/// costs a fifth of the reader's time.
pub(crate) struct Fields<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    /// The value of the next column, as rusqlite's own types read it: what `get_ref` returns is moved about for each.
    #[inline(always)]
    fn value<T: FromSql>(&mut self, wanted: &str) -> Field<T> {
        let column = self.next;
        self.next += 1;
        match self.row.get(column) {
            Ok(value) => Ok(value),
            Err(_) => Err(self.wrong(wanted)),
        }
    }

    /// What is wrong with the value that was just read.
    #[cold]
    fn wrong(&self, wanted: &str) -> Unreadable {
        let column = self.next - 1;
        let name = self.row.as_ref().column_name(column).unwrap_or("?").to_owned();
        Unreadable(match self.row.get_ref(column) {
            Ok(ValueRef::Text(bytes)) if let Err(error) = std::str::from_utf8(bytes) => format!("`{name}`: {error}"),
            Ok(ValueRef::Blob(bytes)) => format!("`{name}` is no {wanted} but {} bytes", bytes.len()),
            Ok(other) => format!("`{name}` is no {wanted} but {}", other.data_type()),
            Err(error) => format!("`{name}`: {error}"),
        })
    }

    #[inline(always)]
    fn optional_integer(&mut self) -> Field<Option<i64>> {
        self.value("integer")
    }

    #[inline(always)]
    pub(crate) fn integer(&mut self) -> Field<i64> {
        self.value("integer")
    }

    #[inline(always)]
    fn optional_text(&mut self) -> Field<Option<&'a str>> {
        let column = self.next;
        self.next += 1;
        match self.row.get_ref(column) {
            Ok(ValueRef::Text(bytes)) if let Ok(text) = std::str::from_utf8(bytes) => Ok(Some(text)),
            Ok(ValueRef::Null) => Ok(None),
            _ => Err(self.wrong("text")),
        }
    }

    #[inline(always)]
    pub(crate) fn text(&mut self) -> Field<&'a str> {
        match self.optional_text()? {
            Some(text) => Ok(text),
            None => Err(self.wrong("text")),
        }
    }

    /// A text that is most likely the one of the row before: not yet known to be UTF-8.
    #[inline(always)]
    pub(crate) fn unchecked_text(&mut self) -> Field<&'a [u8]> {
        let column = self.next;
        self.next += 1;
        match self.row.get_ref(column) {
            Ok(ValueRef::Text(bytes)) => Ok(bytes),
            _ => Err(self.wrong("text")),
        }
    }

    #[inline(always)]
    fn bytes<const N: usize>(&mut self) -> Field<[u8; N]> {
        self.value(if N == 16 { "UUID" } else { "digest" })
    }

    #[inline(always)]
    fn optional_uuid<T: TryFrom<Uuid, Error: std::fmt::Display>>(&mut self) -> Field<Option<T>> {
        let Some(bytes) = self.value("UUID")? else { return Ok(None) };
        checked("a UUID", T::try_from(Uuid::from_bytes(bytes))).map(Some)
    }

    #[inline(always)]
    pub(crate) fn uuid<T: TryFrom<Uuid, Error: std::fmt::Display>>(&mut self) -> Field<T> {
        checked("a UUID", T::try_from(Uuid::from_bytes(self.bytes()?)))
    }

    #[inline(always)]
    pub(crate) fn digest(&mut self) -> Field<Digest> {
        self.bytes().map(Digest::new)
    }

    #[inline(always)]
    pub(crate) fn position(&mut self) -> Field<Position> {
        checked("a position", Position::new(self.integer()?))
    }

    #[inline(always)]
    pub(crate) fn optional_position(&mut self) -> Field<Option<Position>> {
        self.optional_integer()?.map(|number| checked("a position", Position::new(number))).transpose()
    }

    #[inline(always)]
    pub(crate) fn generation(&mut self) -> Field<Generation> {
        checked("a generation", Generation::new(self.integer()?))
    }

    #[inline(always)]
    pub(crate) fn holder(&mut self) -> Field<Holder> {
        checked("a holder", Holder::new(self.text()?))
    }

    #[inline(always)]
    pub(crate) fn time(&mut self) -> Field<Timestamp> {
        self.integer().map(Timestamp::from_micros)
    }

    #[inline(always)]
    fn unsigned(&mut self) -> Field<u64> {
        checked("a count", u64::try_from(self.integer()?))
    }

    /// The entry whose facts stand on the row of its last event; `None` on an event that is not the last.
    pub(crate) fn entry(&mut self, last: Position) -> Field<Option<Entry>> {
        let Some((facts, holder)) = self.facts(last)? else { return Ok(None) };
        Ok(Some(facts.by(new_holder(holder)?)))
    }

    /// The same, its holder as it stands in the row.
    #[inline(always)]
    pub(crate) fn facts(&mut self, last: Position) -> Field<Option<(Facts, &'a [u8])>> {
        let start = self.next;
        let id: Option<AppendId> = self.optional_uuid()?;
        let Some(first) = self.optional_integer()? else {
            self.next = start + 8;
            return Ok(None);
        };
        let first = checked("a position", Position::new(first))?;
        if first > last {
            return Err(Unreadable(format!("an entry begins at {first}, after its end")));
        }
        let generation = self.generation()?;
        let holder = self.unchecked_text()?;
        let acquisition = self.uuid()?;
        let recorded_at = self.time()?;
        let content = self.digest()?;
        let chain = self.digest()?;
        Ok(Some((Facts { id, first, last, generation, acquisition, recorded_at, content, chain }, holder)))
    }

    fn vacancy(&mut self) -> Field<Option<Vacancy>> {
        let kind = self.optional_text()?;
        let reason = self.optional_text()?;
        Ok(Some(match (kind, reason) {
            (None, None) => return Ok(None),
            (Some("released"), None) => Vacancy::Released,
            (Some("ended"), Some(reason)) => Vacancy::Ended { reason: checked("a reason", Note::new(reason))? },
            (Some("advanced"), Some(reason)) => Vacancy::Advanced { reason: checked("a reason", Note::new(reason))? },
            (kind, reason) => return Err(Unreadable(format!("no vacancy is {kind:?} with reason {reason:?}"))),
        }))
    }
}

/// A holder as it stands in a row.
pub(crate) fn new_holder(name: &[u8]) -> Field<Holder> {
    checked("a holder", Holder::new(utf8(name)?))
}

/// A kind as it stands in a row.
pub(crate) fn new_kind(text: &[u8]) -> Field<EventKind> {
    checked("an event kind", EventKind::stored(utf8(text)?))
}

/// Metadata as they stand in a row.
pub(crate) fn new_metadata(text: &[u8]) -> Field<Json> {
    Ok(Json::stored(utf8(text)?))
}

fn utf8(text: &[u8]) -> Field<&str> {
    checked("text", std::str::from_utf8(text))
}

/// The facts of an entry, but for its holder.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    id: Option<AppendId>,
    pub(crate) first: Position,
    last: Position,
    generation: Generation,
    acquisition: AcquisitionId,
    recorded_at: Timestamp,
    content: Digest,
    chain: Digest,
}

impl Facts {
    /// The entry, of a holder.
    pub(crate) fn by(self, holder: Holder) -> Entry {
        let Self { id, first, last, generation, acquisition, recorded_at, content, chain } = self;
        Entry::new(id, (first, last), generation, holder, acquisition, recorded_at, content, chain)
    }

    /// Those of an entry.
    pub(crate) fn of(entry: &Entry) -> Self {
        let Entry { id, first, last, generation, acquisition, recorded_at, content, chain, .. } = *entry;
        Self { id, first, last, generation, acquisition, recorded_at, content, chain }
    }
}

/// The two columns of a vacancy.
pub(crate) fn vacancy_columns(vacancy: Option<&Vacancy>) -> (Option<&'static str>, Option<&str>) {
    match vacancy {
        None => (None, None),
        Some(Vacancy::Released) => (Some("released"), None),
        Some(Vacancy::Ended { reason }) => (Some("ended"), Some(reason.as_str())),
        Some(Vacancy::Advanced { reason }) => (Some("advanced"), Some(reason.as_str())),
    }
}

/// The ledger's id.
pub(crate) fn ledger_id(row: &Row<'_>) -> Field<LedgerId> {
    Fields::of(row).uuid()
}

/// The partition's key and standing, from a row of `standing.sql`.
///
/// A newest row that is no end of an entry, or can not be read as one, is no tip: that is `Diverged` (G4), so every
/// judgement refuses, while reads and `verify` still reach the place and name it.
pub(crate) fn standing(row: &Row<'_>) -> Field<(i64, Standing)> {
    let mut fields = Fields::of(row);
    let key = fields.integer()?;
    let tenure = (fields.generation()?, fields.holder()?, fields.uuid::<AcquisitionId>()?);
    let ttl = checked("a TTL", Ttl::from_micros(fields.integer()?))?;
    let expires_at = fields.time()?;
    let vacancy = fields.vacancy()?;
    let renewals = fields.unsigned()?;
    let recorded_at = fields.time()?;
    let end = (fields.position()?, fields.digest()?);
    let lease = StoredLease::new(tenure, (ttl, expires_at), vacancy, renewals, recorded_at, end);
    let tip = fields.position().and_then(|last| fields.entry(last)).ok().flatten();
    Ok((key, Standing::new(lease, tip.map(Arc::new))))
}

/// Where a record stands in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The partition's key, or 0 for the never-claimed.
    pub(crate) scope: i64,
    /// The current generation, or 0.
    pub(crate) generation: i64,
    /// 1 to 257.
    pub(crate) slot: u16,
}

/// A rejection record and its place, from a row of `records.sql`.
pub(crate) fn record(row: &Row<'_>) -> Field<(Place, RejectionRecord)> {
    let mut fields = Fields::of(row);
    let (scope, generation) = (fields.integer()?, fields.integer()?);
    let slot = checked("a slot", u16::try_from(fields.integer()?))?;
    let place = Place { scope, generation, slot };
    let partition = match fields.optional_text()? {
        None => None,
        Some(name) => Some(checked("a partition", PartitionId::new(name))?),
    };
    let refused = refused(&mut fields)?;
    let (count, first_at, last_at) = (fields.unsigned()?, fields.time()?, fields.time()?);
    let generation = if generation == 0 { None } else { Some(checked("a generation", Generation::new(generation))?) };
    let slot = RecordSlot::new(generation, slot);
    Ok((place, RejectionRecord::new(slot, partition, refused, count, (first_at, last_at))))
}

fn refused(fields: &mut Fields<'_>) -> Field<Option<Refused>> {
    let Some(key) = key(fields)? else {
        fields.next += 6;
        return Ok(None);
    };
    let (operation, reason, holder, generation, remark) = key;
    let acquisition = fields.uuid()?;
    let append = fields.optional_uuid()?;
    let current = match (fields.optional_text()?, fields.optional_uuid()?, fields.optional_integer()?) {
        (Some(holder), Some(acquisition), Some(expires_at)) => {
            Some((checked("a holder", Holder::new(holder))?, acquisition, Timestamp::from_micros(expires_at)))
        }
        _ => None,
    };
    let revision = Revision::new(fields.unsigned()?);
    let refused = Refused::new((operation, reason), (holder, generation, acquisition), append, current, revision);
    Ok(Some(refused.with_remark(remark)))
}

/// The key of a record beside its partition; `None` in an overflow record.
pub(crate) type RecordKey = (Operation, Reason, Holder, Option<Generation>, Option<Remark>);

/// Reads a record's key: five columns.
pub(crate) fn key(fields: &mut Fields<'_>) -> Field<Option<RecordKey>> {
    let operation = fields.optional_text()?;
    let reason = fields.optional_text()?;
    let holder = fields.optional_text()?;
    let presented = fields.optional_integer()?;
    let remark = fields.optional_text()?;
    let (Some(operation), Some(reason), Some(holder), Some(presented)) = (operation, reason, holder, presented) else {
        return Ok(None);
    };
    let unknown = |what: &str, name: &str| Unreadable(format!("`{name}` is no {what}"));
    let operation = Operation::from_name(operation).ok_or_else(|| unknown("operation", operation))?;
    let reason = Reason::from_name(reason).ok_or_else(|| unknown("reason", reason))?;
    let holder = checked("a holder", Holder::new(holder))?;
    let presented = if presented == 0 { None } else { Some(checked("a generation", Generation::new(presented))?) };
    let remark = remark.map(|text| checked("a remark", Remark::new(text))).transpose()?;
    Ok(Some((operation, reason, holder, presented, remark)))
}

/// Slot, partition and key, from a row of `records_of_budget.sql`.
pub(crate) fn budget_row(row: &Row<'_>) -> Field<(u16, Option<PartitionId>, Option<RecordKey>)> {
    let mut fields = Fields::of(row);
    let slot = checked("a slot", u16::try_from(fields.integer()?))?;
    let partition = match fields.optional_text()? {
        None => None,
        Some(name) => Some(checked("a partition", PartitionId::new(name))?),
    };
    Ok((slot, partition, key(&mut fields)?))
}
