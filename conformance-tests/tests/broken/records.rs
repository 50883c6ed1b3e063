//! The rejection records of the reference, and the bugs in them.

use ledger_core::{
    Generation, MAX_RECORD_KEYS, PartitionId, RecordSlot, RecordState, Refused, Rejection, RejectionRecord,
};

use crate::bugs::Bug;

#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Vec<RejectionRecord>);

impl Records {
    /// Those of one partition, or all.
    pub(crate) fn of(&self, partition: Option<&PartitionId>) -> Vec<RejectionRecord> {
        let of = |record: &&RejectionRecord| partition.is_none() || record.partition.as_ref() == partition;
        self.0.iter().filter(of).cloned().collect()
    }

    /// Keeps the record of a rejection, and says so in it.
    pub(crate) fn keep(&mut self, rejection: Rejection, bug: Option<Bug>) -> Rejection {
        let Some(mut refused) = Refused::of(&rejection) else { return rejection };
        match bug {
            Some(Bug::RefusalWithoutRecord) => return rejection,
            Some(Bug::RemarkNotKept) => refused.remark = None,
            Some(Bug::RecordRolledBackWithTheWrite) => return rejection.with_record(RecordState::Stored),
            _ => {}
        }
        let generation = rejection.current.as_ref().map(|current| current.generation);
        let state = self.count(generation, &rejection, refused, bug);
        rejection.with_record(state)
    }

    fn count(
        &mut self,
        generation: Option<Generation>,
        rejection: &Rejection,
        refused: Refused,
        bug: Option<Bug>,
    ) -> RecordState {
        let time = rejection.judged.time;
        let current = self.0.iter().filter(|record| record.slot.generation == generation).count();
        let is_same = |known: &Refused, refused: &Refused| {
            let mut known = known.clone();
            if bug == Some(Bug::LastRemarkOfAKey) {
                known.remark.clone_from(&refused.remark);
            }
            known.same_key(refused)
        };
        let same = |record: &&mut RejectionRecord| {
            record.slot.generation == generation
                && record.refused.as_ref().is_none_or(|known| {
                    is_same(known, &refused) && record.partition.as_ref() == Some(&rejection.partition)
                })
        };
        if let Some(record) = self.0.iter_mut().find(same) {
            record.count += if bug == Some(Bug::RepeatsCountedTwice) { 2 } else { 1 };
            record.last_at = record.last_at.max(time);
            record.refused = record.refused.take().map(|_| refused);
            return RecordState::Counted;
        }
        let number = u16::try_from(current + 1).expect("cases make fewer records than that");
        let overflows = number > MAX_RECORD_KEYS && bug != Some(Bug::RecordsWithoutBound);
        let shared = overflows && generation.is_none();
        let partition = (!shared).then(|| rejection.partition.clone());
        let slot = RecordSlot::new(generation, number);
        self.0.push(RejectionRecord::new(slot, partition, (!overflows).then_some(refused), 1, (time, time)));
        if overflows { RecordState::Counted } else { RecordState::Stored }
    }
}
