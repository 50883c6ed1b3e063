//! Rows of answers, read into the types of the core.
//!
//! What is read is checked by the constructors of those types: a row that was edited into something that can not have
//! been written is told apart from one that can. Both of PostgreSQL's formats are read: binary, and the text that a
//! simple query answers with.

use std::sync::Arc;

use ledger_core::{
    AcquisitionId, AppendId, Current, Digest, Entry, Generation, Holder, Json, Judged, Lease, LedgerError, LedgerId,
    Note, Operation, PartitionId, Position, Reason, RecordSlot, RecordState, Refused, RejectionRecord, Remark,
    Revision, StoredLease, TenureState, Timestamp, Ttl, Vacancy,
};
use sqlx::postgres::{PgRow, PgValueFormat};
use sqlx::{Row, ValueRef};
use uuid::Uuid;

/// Why a field can not be what was written.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    /// The error of a call that came upon it.
    pub(crate) fn at(self, partition: Option<&PartitionId>, position: Option<Position>) -> LedgerError {
        LedgerError::corrupt(partition, position, self.0)
    }
}

pub(crate) type Field<T> = Result<T, Unreadable>;

pub(crate) fn checked<T, E: std::fmt::Display>(what: &str, value: Result<T, E>) -> Field<T> {
    value.map_err(|error| Unreadable(format!("{what}: {error}")))
}

/// Reads the fields of one row in the order of its columns.
pub(crate) struct Fields<'a> {
    row: &'a PgRow,
    next: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(row: &'a PgRow) -> Self {
        Self { row, next: 0 }
    }

    /// Leaves out so many columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    /// The bytes of the next value, and whether they are text.
    fn value(&mut self) -> Field<Option<(&'a [u8], bool)>> {
        let value = checked("a column", self.row.try_get_raw(self.next))?;
        self.next += 1;
        if value.is_null() {
            return Ok(None);
        }
        let text = value.format() == PgValueFormat::Text;
        checked("a column", value.as_bytes()).map(|bytes| Some((bytes, text)))
    }

    fn required<T>(&self, value: Option<T>) -> Field<T> {
        value.ok_or_else(|| Unreadable(format!("column {} is NULL", self.next)))
    }

    pub(crate) fn optional_integer(&mut self) -> Field<Option<i64>> {
        let Some((bytes, text)) = self.value()? else { return Ok(None) };
        if text {
            return checked("a number", checked("text", std::str::from_utf8(bytes))?.parse()).map(Some);
        }
        match bytes.len() {
            4 => Ok(Some(i64::from(i32::from_be_bytes(array(bytes)?)))),
            _ => Ok(Some(i64::from_be_bytes(array(bytes)?))),
        }
    }

    pub(crate) fn integer(&mut self) -> Field<i64> {
        let value = self.optional_integer()?;
        self.required(value)
    }

    pub(crate) fn optional_text(&mut self) -> Field<Option<&'a str>> {
        let Some((bytes, _)) = self.value()? else { return Ok(None) };
        checked("text", std::str::from_utf8(bytes)).map(Some)
    }

    pub(crate) fn text(&mut self) -> Field<&'a str> {
        let value = self.optional_text()?;
        self.required(value)
    }

    pub(crate) fn boolean(&mut self) -> Field<bool> {
        let value = self.value()?;
        let (bytes, _) = self.required(value)?;
        Ok(matches!(bytes, [1] | b"t"))
    }

    fn optional_uuid<T: TryFrom<Uuid, Error: std::fmt::Display>>(&mut self) -> Field<Option<T>> {
        let Some((bytes, text)) = self.value()? else { return Ok(None) };
        let uuid =
            if text { checked("a UUID", Uuid::try_parse_ascii(bytes))? } else { Uuid::from_bytes(array(bytes)?) };
        checked("a UUID", T::try_from(uuid)).map(Some)
    }

    pub(crate) fn uuid<T: TryFrom<Uuid, Error: std::fmt::Display>>(&mut self) -> Field<T> {
        let value = self.optional_uuid()?;
        self.required(value)
    }

    fn optional_digest(&mut self) -> Field<Option<Digest>> {
        let Some((bytes, text)) = self.value()? else { return Ok(None) };
        let bytes = if text { array(&unescaped(bytes)?)? } else { array(bytes)? };
        Ok(Some(Digest::new(bytes)))
    }

    pub(crate) fn digest(&mut self) -> Field<Digest> {
        let value = self.optional_digest()?;
        self.required(value)
    }

    pub(crate) fn optional_position(&mut self) -> Field<Option<Position>> {
        self.optional_integer()?.map(|number| checked("a position", Position::new(number))).transpose()
    }

    pub(crate) fn position(&mut self) -> Field<Position> {
        let value = self.optional_position()?;
        self.required(value)
    }

    pub(crate) fn generation(&mut self) -> Field<Generation> {
        checked("a generation", Generation::new(self.integer()?))
    }

    pub(crate) fn holder(&mut self) -> Field<Holder> {
        checked("a holder", Holder::new(self.text()?))
    }

    fn holder_or(&mut self, known: &mut Option<Holder>) -> Field<Holder> {
        let text = self.text()?;
        match known {
            Some(holder) if holder.as_str() == text => Ok(holder.clone()),
            _ => Ok(known.insert(checked("a holder", Holder::new(text))?).clone()),
        }
    }

    pub(crate) fn time(&mut self) -> Field<Timestamp> {
        self.integer().map(Timestamp::from_micros)
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

    /// The facts of an entry that ends at `last`, `entry_id` to `chain`; `None` where `first` is NULL.
    pub(crate) fn entry(&mut self, last: Position, known: &mut Option<Holder>) -> Field<Option<Arc<Entry>>> {
        self.entry_before(known)?.map(|partial| partial.ending(last)).transpose()
    }

    /// The same, where the last position comes just after it.
    pub(crate) fn entry_and_last(&mut self) -> Field<Option<Arc<Entry>>> {
        let partial = self.entry_before(&mut None)?;
        match (partial, self.optional_position()?) {
            (Some(partial), Some(last)) => partial.ending(last).map(Some),
            _ => Ok(None),
        }
    }

    /// The row of a partition, without its name.
    pub(crate) fn stored_lease(&mut self) -> Field<StoredLease> {
        let tenure = (self.generation()?, self.holder()?, self.uuid()?);
        let ttl = checked("a TTL", Ttl::from_micros(self.integer()?))?;
        let (expires_at, vacancy) = (self.time()?, self.vacancy()?);
        let renewals = checked("a number of renewals", u64::try_from(self.integer()?))?;
        let recorded_at = self.time()?;
        let head = (self.position()?, self.digest()?);
        Ok(StoredLease::new(tenure, (ttl, expires_at), vacancy, renewals, recorded_at, head))
    }

    /// The same as [`entry`](Self::entry), where the last position comes later. A holder that is the one before is not made anew.
    fn entry_before(&mut self, known: &mut Option<Holder>) -> Field<Option<Partial>> {
        let id = self.optional_uuid()?;
        let Some(first) = self.optional_position()? else {
            self.next += 6;
            return Ok(None);
        };
        Ok(Some(Partial {
            id,
            first,
            generation: self.generation()?,
            holder: self.holder_or(known)?,
            acquisition: self.uuid()?,
            recorded_at: self.time()?,
            content: self.digest()?,
            chain: self.digest()?,
        }))
    }
}

/// An entry without its last position.
struct Partial {
    id: Option<AppendId>,
    first: Position,
    generation: Generation,
    holder: Holder,
    acquisition: AcquisitionId,
    recorded_at: Timestamp,
    content: Digest,
    chain: Digest,
}

impl Partial {
    fn ending(self, last: Position) -> Field<Arc<Entry>> {
        if self.first > last {
            return Err(Unreadable(format!("an entry begins at {}, after its end", self.first)));
        }
        Ok(Arc::new(Entry::new(
            self.id,
            (self.first, last),
            self.generation,
            self.holder,
            self.acquisition,
            self.recorded_at,
            self.content,
            self.chain,
        )))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Field<[u8; N]> {
    bytes.try_into().map_err(|_| Unreadable(format!("a value of {N} bytes has {}", bytes.len())))
}

/// The bytes of a `bytea` that was sent as text, in either of the forms that `bytea_output` knows.
fn unescaped(text: &[u8]) -> Field<Vec<u8>> {
    let bad = || Unreadable("a bytea is neither hexadecimal nor escaped".to_owned());
    let digit = |byte: &u8, radix| char::from(*byte).to_digit(radix).and_then(|value| u8::try_from(value).ok());
    if let Some(digits) = text.strip_prefix(b"\\x") {
        let pair = |pair: &[u8]| Some(digit(pair.first()?, 16)? * 16 + digit(pair.get(1)?, 16)?);
        return digits.chunks(2).map(|chunk| pair(chunk).ok_or_else(bad)).collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        (bytes, rest) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (pushed(bytes, b'\\'), after),
            (b'\\', [a, b, c, after @ ..]) => {
                let (a, b, c) = (digit(a, 8), digit(b, 8), digit(c, 8));
                let (Some(a @ ..=3), Some(b), Some(c)) = (a, b, c) else { return Err(bad()) };
                (pushed(bytes, a * 64 + b * 8 + c), after)
            }
            (b'\\', _) => return Err(bad()),
            (byte, after) => (pushed(bytes, *byte), after),
        };
    }
    Ok(bytes)
}

fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}

/// A row of the type `answer`.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: String,
    /// What is stored of the partition after the call, or `None` where it was never claimed.
    pub(crate) state: Option<State>,
    pub(crate) judged: Judged,
    pub(crate) entry: Option<Arc<Entry>>,
    pub(crate) record: Option<RecordState>,
    /// The payload of the `$claimed` entry after an older tenure.
    pub(crate) successor: Option<Json>,
}

/// What an answer says of the partition.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) generation: Generation,
    pub(crate) holder: Holder,
    pub(crate) acquisition: AcquisitionId,
    pub(crate) ttl: Ttl,
    pub(crate) expires_at: Timestamp,
    pub(crate) vacancy: Option<Vacancy>,
    pub(crate) recorded_at: Timestamp,
    pub(crate) head: Position,
    pub(crate) chain: Digest,
}

impl State {
    pub(crate) fn lease(&self, ledger: LedgerId, partition: &PartitionId) -> Lease {
        Lease::new(
            ledger,
            partition.clone(),
            self.holder.clone(),
            self.generation,
            self.acquisition,
            self.ttl,
            self.expires_at,
        )
    }

    pub(crate) fn tenure(&self, ledger: LedgerId, partition: &PartitionId) -> TenureState {
        let lease = self.lease(ledger, partition);
        TenureState::new(lease, self.vacancy.clone(), self.recorded_at, self.head, self.chain)
    }

    pub(crate) fn current(&self) -> Current {
        let tenure = (self.holder.clone(), self.generation, self.acquisition);
        Current::new(tenure, self.expires_at, self.vacancy.clone(), self.head)
    }
}

/// Reads a row of the type `answer`.
pub(crate) fn answer(row: &PgRow) -> Field<Answer> {
    let mut fields = Fields::of(row);
    let verdict = fields.text()?.to_owned();
    let state = match fields.optional_integer()? {
        None => {
            fields.next += 9;
            None
        }
        Some(generation) => Some(State {
            generation: checked("a generation", Generation::new(generation))?,
            holder: fields.holder()?,
            acquisition: fields.uuid()?,
            ttl: checked("a TTL", Ttl::from_micros(fields.integer()?))?,
            expires_at: fields.time()?,
            vacancy: fields.vacancy()?,
            recorded_at: fields.time()?,
            head: fields.position()?,
            chain: fields.digest()?,
        }),
    };
    let time = fields.optional_integer()?.unwrap_or_default();
    let revision = checked("a revision", u64::try_from(fields.optional_integer()?.unwrap_or_default()))?;
    let behind = fields.value()?.is_some_and(|(bytes, _)| matches!(bytes, [1] | b"t"));
    let judged = Judged::new(Timestamp::from_micros(time), Revision::new(revision), behind);
    let entry = fields.entry_and_last()?;
    let record = match fields.optional_text()? {
        None => None,
        Some("Stored") => Some(RecordState::Stored),
        Some("Counted") => Some(RecordState::Counted),
        Some(other) => return Err(Unreadable(format!("no state of a record is {other:?}"))),
    };
    let successor = fields.optional_text()?.map(Json::stored);
    Ok(Answer { verdict, state, judged, entry, record, successor })
}

/// Reads a row of `rejections`.
pub(crate) fn record(row: &PgRow) -> Field<RejectionRecord> {
    let mut fields = Fields::of(row);
    let generation = match fields.integer()? {
        0 => None,
        number => Some(checked("a generation", Generation::new(number))?),
    };
    let slot = RecordSlot::new(generation, checked("a slot", u16::try_from(fields.integer()?))?);
    let name = fields.optional_text()?;
    let partition = name.map(|name| checked("a partition", PartitionId::new(name))).transpose()?;
    let operation = fields.optional_text()?;
    let refused = match operation {
        None => {
            fields.next += 10;
            None
        }
        Some(operation) => Some(refused(&mut fields, operation)?),
    };
    let count = checked("a count", u64::try_from(fields.integer()?))?;
    Ok(RejectionRecord::new(slot, partition, refused, count, (fields.time()?, fields.time()?)))
}

fn refused(fields: &mut Fields<'_>, operation: &str) -> Field<Refused> {
    let operation = Operation::from_name(operation);
    let operation = operation.ok_or_else(|| Unreadable("a record names no operation".to_owned()))?;
    let reason = Reason::from_name(fields.text()?);
    let reason = reason.ok_or_else(|| Unreadable("a record names no reason".to_owned()))?;
    let holder = fields.holder()?;
    let presented = match fields.integer()? {
        0 => None,
        number => Some(checked("a generation", Generation::new(number))?),
    };
    let remark = fields.optional_text()?.map(|text| checked("a remark", Remark::new(text))).transpose()?;
    let acquisition = fields.uuid()?;
    let append = fields.optional_uuid()?;
    let current_holder = fields.optional_text()?;
    let current_acquisition = fields.optional_uuid()?;
    let current_expires_at = fields.optional_integer()?;
    let current = match (current_holder, current_acquisition, current_expires_at) {
        (Some(holder), Some(acquisition), Some(time)) => {
            Some((checked("a holder", Holder::new(holder))?, acquisition, Timestamp::from_micros(time)))
        }
        _ => None,
    };
    let revision = checked("a revision", u64::try_from(fields.integer()?))?;
    let presented = (holder, presented, acquisition);
    Ok(Refused::new((operation, reason), presented, append, current, Revision::new(revision)).with_remark(remark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_bytea_are_read() {
        assert_eq!(unescaped(b"\\x00ff5c").expect("hexadecimal"), [0, 255, b'\\']);
        assert_eq!(unescaped(b"a\\000\\377\\\\").expect("escaped"), [b'a', 0, 255, b'\\']);
        for bad in [b"\\x0".as_slice(), b"\\9", b"\\400", b"\\"] {
            assert!(unescaped(bad).is_err());
        }
    }
}
