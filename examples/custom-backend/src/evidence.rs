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
