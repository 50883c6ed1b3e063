//! The rejection records: in memory, where repeats are counted (E4), and in the store.
//!
//! One process has the file, so what is in memory is what is true. The first record of a key is committed before the
//! refusal is answered; repeats are written with the next commit, or by the writer that looks for them twice a second.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger_core::{PartitionId, RecordBudget, RecordPage, RecordSlot, RecordState, Rejection, Result};
use redb::{ReadTransaction, WriteTransaction};

use crate::store;

#[derive(Debug, Default)]
pub(crate) struct Evidence(Mutex<Budgets>);

#[derive(Debug, Default)]
struct Budgets {
    /// By partition; those of never-claimed ones under the empty name.
    known: HashMap<String, RecordBudget>,
    /// Those with counts that are not yet written.
    dirty: HashSet<String>,
}

impl Budgets {
    fn of(&mut self, reader: &ReadTransaction, name: &str) -> Result<&mut RecordBudget> {
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), RecordBudget::of(store::read_records(reader, name)?));
        }
        Ok(self.known.get_mut(name).expect("it was just put there"))
    }
}

impl Evidence {
    fn lock(&self) -> MutexGuard<'_, Budgets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a rejection whose key has a record. Nothing is stored, and no lock of the store is waited for.
    pub(crate) fn count(&self, reader: &ReadTransaction, rejection: &Rejection) -> Result<Option<Rejection>> {
        let mut budgets = self.lock();
        let name = name_of(rejection);
        let mut tried = budgets.of(reader, &name)?.clone();
        let kept = tried.keep(rejection.clone());
        if kept.record == RecordState::Stored {
            return Ok(None);
        }
        // An overflow record that is new is counted too, and must be stored like a first one.
        let is_new = tried.records().len() > budgets.of(reader, &name)?.records().len();
        if kept.record == RecordState::Counted {
            if is_new {
                return Ok(None);
            }
            budgets.known.insert(name.clone(), tried);
            budgets.dirty.insert(name);
        }
        Ok(Some(kept))
    }

    /// Keeps a rejection and writes the records of its budget into a transaction that is about to commit.
    pub(crate) fn keep(
        &self,
        reader: &ReadTransaction,
        writer: &WriteTransaction,
        rejection: Rejection,
    ) -> Result<Rejection> {
        let mut budgets = self.lock();
        let name = name_of(&rejection);
        let budget = budgets.of(reader, &name)?;
        let kept = budget.keep(rejection);
        if kept.record != RecordState::NotEvidence {
            store::write_records(writer, &name, budget.records())?;
        }
        Ok(kept)
    }

    /// Forgets what is not stored, after a transaction that failed.
    pub(crate) fn forget(&self, rejection: &Rejection) {
        let mut budgets = self.lock();
        let name = name_of(rejection);
        budgets.known.remove(&name);
        budgets.dirty.remove(&name);
    }

    /// Writes the counts that are only in memory. Whether there were any.
    pub(crate) fn write_counts(&self, writer: &WriteTransaction) -> Result<bool> {
        let mut budgets = self.lock();
        let dirty: Vec<String> = budgets.dirty.drain().collect();
        for name in &dirty {
            if let Some(budget) = budgets.known.get(name) {
                store::write_records(writer, name, budget.records())?;
            }
        }
        Ok(!dirty.is_empty())
    }

    pub(crate) fn has_counts(&self) -> bool {
        !self.lock().dirty.is_empty()
    }

    pub(crate) fn page(
        &self,
        reader: &ReadTransaction,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: usize,
    ) -> Result<RecordPage> {
        let mut budgets = self.lock();
        // What was refused before the first claim stands first, under no generation.
        let mut page = budgets.of(reader, "")?.page(partition, after, limit);
        if let (Some(name), None) = (partition, page.next) {
            // One more than there is room for tells whether there are more.
            let own = budgets.of(reader, name.as_str())?.page(Some(name), after, limit + 1 - page.records.len());
            let more = own.next.is_some() || page.records.len() + own.records.len() > limit;
            page.records.extend(own.records);
            page.records.truncate(limit);
            page = RecordPage::new(page.records, more);
        }
        Ok(page)
    }
}

fn name_of(rejection: &Rejection) -> String {
    if rejection.current.is_some() { rejection.partition.to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use ledger_core::{
        AcquisitionId, Current, Generation, Holder, Judged, Operation, Position, Presented, Reason, Revision, Timestamp,
    };

    use super::*;

    fn refused(current: i64) -> Rejection {
        let holder = Holder::new("zombie").expect("a name");
        let acquisition = AcquisitionId::mint();
        let mut presented = Presented::default();
        presented.holder = Some(holder.clone());
        presented.generation = Some(Generation::FIRST);
        presented.acquisition = Some(acquisition);
        let current = (holder, Generation::new(current).expect("a generation"), acquisition);
        let time = Timestamp::from_micros(1);
        Rejection::new(
            Reason::StaleGeneration,
            Operation::Append,
            PartitionId::new("jobs").expect("a name"),
            presented,
            Some(Current::new(current, time, None, Position::FIRST)),
            None,
            Judged::new(time, Revision::default(), false),
        )
    }

    /// A refusal that an older view decided, once a newer generation has a record of the same key: it is decided again
    /// where the store is locked, and counts in no record of another generation.
    #[test]
    fn a_refusal_of_an_older_view_is_not_counted_under_a_newer_generation() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = redb::Database::create(folder.path().join("ledger")).expect("a database");
        let reader = redb::ReadableDatabase::begin_read(&database).expect("a view");
        let mut budget = RecordBudget::default();
        budget.keep(refused(6));
        let known = HashMap::from([("jobs".to_owned(), budget)]);
        let evidence = Evidence(Mutex::new(Budgets { known, dirty: HashSet::new() }));
        assert_eq!(evidence.count(&reader, &refused(5)).expect("counted"), None);
        let counted = evidence.count(&reader, &refused(6)).expect("counted").expect("its key has a record");
        assert_eq!(counted.record, RecordState::Counted);
        let kept: Vec<_> = evidence.lock().known["jobs"].records().iter().map(|record| record.count).collect();
        assert_eq!(kept, [2]);
    }
}
