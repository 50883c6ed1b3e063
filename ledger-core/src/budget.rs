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
    ///
    /// The record is one of the generation that the rejection names as current, also where records of a later one are
    /// there: it may have been decided on an older view (E4).
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
        // Not always the last ones: a refusal that an older view decided (E4) can come behind one of a newer generation.
        let start = self.records.partition_point(|record| record.slot.generation < generation);
        let end = self.records.partition_point(|record| record.slot.generation <= generation);
        let current = &mut self.records[start..end];
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
        self.records.insert(end, RejectionRecord::new(slot, partition, refused, 1, (time, time)));
        if is_overflow { RecordState::Counted } else { RecordState::Stored }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcquisitionId, Current, Holder, Judged, Operation, Position, Presented, Reason, Revision, Timestamp};

    /// A refusal of a holder's append, decided where a generation was the current one.
    fn refused(current: i64, holder: &str) -> Rejection {
        let holder = Holder::new(holder).expect("a name");
        let current = Generation::new(current).expect("a generation");
        let acquisition = AcquisitionId::from_uuid(uuid::Uuid::from_u128(7)).expect("not nil");
        let presented = Presented {
            holder: Some(holder.clone()),
            generation: Some(Generation::FIRST),
            acquisition: Some(acquisition),
            ..Presented::default()
        };
        let time = Timestamp::from_micros(1);
        Rejection::new(
            Reason::StaleGeneration,
            Operation::Append,
            PartitionId::new("jobs").expect("a name"),
            presented,
            Some(Current::new((holder, current, acquisition), time, None, Position::FIRST)),
            None,
            Judged::new(time, Revision::default(), false),
        )
    }

    fn slots(budget: &RecordBudget) -> Vec<(i64, u16, u64)> {
        let told = |record: &RejectionRecord| {
            (record.slot.generation.map_or(0, Generation::get), record.slot.number, record.count)
        };
        budget.records().iter().map(told).collect()
    }

    #[test]
    fn a_refusal_decided_on_an_older_view_is_one_of_its_generation() {
        let mut budget = RecordBudget::default();
        for (current, holder) in [(5, "a"), (6, "b"), (5, "c"), (6, "d"), (6, "e"), (5, "a"), (5, "b"), (6, "b")] {
            budget.keep(refused(current, holder));
        }
        let expected = [(5, 1, 2), (5, 2, 1), (5, 3, 1), (6, 1, 2), (6, 2, 1), (6, 3, 1)];
        assert_eq!(slots(&budget), expected);
        let read = RecordBudget::of(budget.records().to_vec());
        assert_eq!(
            read.page(None, Some(RecordSlot::new(Generation::new(5).ok(), 3)), 2).records,
            budget.records()[3..5]
        );
    }

    #[test]
    fn each_generation_has_its_own_bound() {
        let mut budget = RecordBudget::default();
        for nth in 0..300 {
            for current in [6, 5] {
                budget.keep(refused(current, &format!("h{nth}")));
            }
        }
        let slots = slots(&budget);
        assert!(slots.is_sorted(), "{slots:?}");
        for generation in [5, 6] {
            let own: Vec<_> = slots.iter().filter(|slot| slot.0 == generation).collect();
            assert_eq!(own.len(), 257);
            assert_eq!(own.last(), Some(&&(generation, RecordSlot::OVERFLOW, 44)));
        }
    }
}
