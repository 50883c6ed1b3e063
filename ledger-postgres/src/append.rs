//! One append: what is sent, and what is answered.

use ledger_core::{
    Append, AppendId, Appended, Digest, Entry, Expected, Judged, Lease, LedgerError, NewEvent, Operation, Position,
    Presented, RecordState, Rejection, Remark, Result, Revision, Timestamp,
};
use sqlx::postgres::PgRow;

use crate::call::{self, Call, Value};
use crate::ledger::{foreign, read_answer, refused, tenure};
use crate::row::{Fields, Unreadable};

/// What a call is about, as an append sends it.
pub(crate) fn call<'a>(lease: &'a Lease, append: &'a Append, content: &'a [u8], caller: Option<i32>) -> Call<'a> {
    let expected = match append.expected() {
        Expected::Any => None,
        Expected::Position(head) => Some(head.get()),
    };
    let texts = |of: fn(&NewEvent) -> &str| append.events().iter().map(of).collect::<Vec<_>>();
    // What all events have is sent once.
    let shared = |of: fn(&NewEvent) -> &str| {
        let mut texts = texts(of);
        if texts.iter().all(|text| *text == texts[0]) {
            texts.truncate(1);
        }
        Value::Texts(texts)
    };
    let mut values = tenure(lease);
    values.extend([
        Value::Uuid(Some(append.id().as_uuid())),
        Value::Big(expected),
        Value::Bytes(content),
        shared(|event| event.kind.as_str()),
        Value::Texts(texts(|event| event.payload.as_str())),
        shared(|event| event.metadata.as_str()),
        Value::Text(append.remark().map(Remark::as_str)),
        Value::Bool(caller.is_none()),
        Value::Small(caller),
    ]);
    Call { function: &call::APPEND, values }
}

/// The answer to an append. `unsaid` as with [`refused`].
pub(crate) fn appended(
    rows: &[PgRow],
    lease: &Lease,
    append: &Append,
    unsaid: impl FnOnce(&Rejection) -> RecordState,
) -> Result<Appended> {
    let partition = &lease.partition;
    let granted = rows.first().map(Granted::read).transpose().map_err(|bad| bad.at(Some(partition), None))?.flatten();
    match granted {
        Some((id, _)) if id != append.id() => return Err(foreign()),
        Some((_, granted)) => return granted.appended(lease, append),
        None => {}
    }
    let answer = read_answer(partition, rows)?;
    match answer.entry.clone() {
        Some(entry) if answer.verdict == "Replay" && entry.id == Some(append.id()) => {
            Ok(Appended::new(entry, true, answer.judged))
        }
        Some(_) if answer.verdict == "Replay" => Err(foreign()),
        _ => Err(refused(partition, Operation::Append, Presented::lease(lease, Some(append)), answer, unsaid)),
    }
}

/// What is stored of an append, beside what its caller knows.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) last: i64,
    pub(crate) time: i64,
    pub(crate) revision: i64,
    pub(crate) behind: bool,
    pub(crate) chain: Digest,
}

impl Granted {
    /// Reads the answer to an append that was granted, with the append's id; `None` where another verdict is answered.
    pub(crate) fn read(row: &PgRow) -> Result<Option<(AppendId, Self)>, Unreadable> {
        let mut fields = Fields::of(row);
        if fields.text()? != "Granted" {
            return Ok(None);
        }
        fields.skip(10);
        let (time, revision, behind) = (fields.integer()?, fields.integer()?, fields.boolean()?);
        let id = fields.uuid()?;
        fields.skip(6);
        let (chain, last) = (fields.digest()?, fields.integer()?);
        Ok(Some((id, Self { last, time, revision, behind, chain })))
    }

    /// The caller's answer. Holder, generation and acquisition were compared with the lease's.
    pub(crate) fn appended(self, lease: &Lease, append: &Append) -> Result<Appended> {
        let corrupt = |detail: String| LedgerError::corrupt(Some(&lease.partition), None, detail);
        let last = Position::new(self.last).map_err(|bad| corrupt(bad.to_string()))?;
        let count = i64::try_from(append.events().len()).unwrap_or(i64::MAX);
        let first = Position::new(last.get() - count + 1).map_err(|bad| corrupt(bad.to_string()))?;
        let revision = u64::try_from(self.revision).map_err(|_| corrupt("a revision is negative".to_owned()))?;
        let time = Timestamp::from_micros(self.time);
        let entry = Entry::new(
            Some(append.id()),
            (first, last),
            lease.generation,
            lease.holder.clone(),
            lease.acquisition,
            time,
            append.content(),
            self.chain,
        );
        Ok(Appended::new(entry.into(), false, Judged::new(time, Revision::new(revision), self.behind)))
    }
}
