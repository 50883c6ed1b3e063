//! An append that was granted: the server tells what the caller does not know.

use ledger_core::{
    Append, AppendId, Appended, Digest, Entry, Judged, Lease, LedgerError, Position, Result, Revision, Timestamp,
};
use sqlx::postgres::PgRow;

use crate::row::{Fields, Unreadable};

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
