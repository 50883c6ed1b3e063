//! The rejection records of one budget (E3), for every store that keeps them in Rust.

use crate::{
    Generation, MAX_RECORD_KEYS, PartitionId, RecordPage, RecordSlot, RecordState, Refused, Rejection, RejectionRecord,
};

/// For a backend: records in the order of their slots, those of one partition, or those of all never-claimed ones.
///
/// It knows the key, the bound and the overflow record of E3. Where and when the records are stored is the store's
/// part: the first of a key must be durable before the refusal is answered (E2).
#[derive(Clone, Debug, Default)]
pub struct RecordBudget {
    records: Vec<RejectionRecord>,
}

impl RecordBudget {
    /// A budget with the records that were stored of it, in the order of their slots.
    pub fn of(records: Vec<RejectionRecord>) -> Self {
        Self { records }
    }

    /// All records, in the order of their slots.
    pub fn records(&self) -> &[RejectionRecord] {
        &self.records
    }

    /// Keeps the record of a rejection, if it is evidence, and says so in it: [`RecordState::Stored`] where the record
    /// is new, [`RecordState::Counted`] where an earlier one counts it.
    pub fn keep(&mut self, rejection: Rejection) -> Rejection {
        let Some(refused) = Refused::of(&rejection) else { return rejection };
        let generation = rejection.current.as_ref().map(|current| current.generation);
        let state = self.count(generation, &rejection, refused);
        rejection.with_record(state)
    }

    /// The records after a slot, those of one partition alone where one is named.
    pub fn page(&self, partition: Option<&PartitionId>, after: Option<RecordSlot>, limit: usize) -> RecordPage {
        let mut found = self
            .records
            .iter()
            .filter(|record| partition.is_none() || record.partition.as_ref() == partition)
            .filter(|record| after.is_none_or(|after| record.slot > after));
        let records: Vec<_> = found.by_ref().take(limit).cloned().collect();
        RecordPage::new(records, found.next().is_some())
    }

    fn count(&mut self, generation: Option<Generation>, rejection: &Rejection, refused: Refused) -> RecordState {
        let time = rejection.judged.time;
        // Generations never fall, so the records of the current one stand last.
        let start = self.records.partition_point(|record| record.slot.generation < generation);
        let current = &mut self.records[start..];
        let same = |record: &&mut RejectionRecord| {
            record
                .refused
                .as_ref()
                .is_none_or(|known| known.same_key(&refused) && record.partition.as_ref() == Some(&rejection.partition))
        };
        if let Some(record) = current.iter_mut().find(same) {
            record.count += 1;
            record.last_at = record.last_at.max(time);
            if record.refused.is_some() {
                record.refused = Some(refused);
            }
            return RecordState::Counted;
        }
        let number = u16::try_from(current.len() + 1).expect("there are at most 257 records of a generation");
        let (partition, refused) = if number > MAX_RECORD_KEYS {
            (generation.map(|_| rejection.partition.clone()), None)
        } else {
            (Some(rejection.partition.clone()), Some(refused))
        };
        let slot = RecordSlot::new(generation, number);
        let is_overflow = refused.is_none();
        self.records.push(RejectionRecord::new(slot, partition, refused, 1, (time, time)));
        if is_overflow { RecordState::Counted } else { RecordState::Stored }
    }
}
