//! One group: the calls that are judged and written in one transaction.

use std::collections::VecDeque;

use ledger_core::decide::Write;
use ledger_core::{Generation, Operation, PartitionId, RecordState, Refused, Rejection, Timestamp};
use rusqlite::Connection;

use crate::classify::Trouble;
use crate::evidence::{self, Effect};
use crate::shared::Shared;
use crate::standings::Standings;
use crate::store::{self, Found, Writes};
use crate::work::{View, Work};

/// A transaction under way: it holds the write lock.
pub(crate) struct Group<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) shared: &'a Shared,
    standings: &'a mut Standings,
    writes: Writes<'a>,
    effects: Vec<Effect>,
    ended: Vec<(PartitionId, Generation)>,
    owed: VecDeque<(Rejection, u64)>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(connection: &'a Connection, shared: &'a Shared, standings: &'a mut Standings) -> Self {
        let writes = Writes::new(connection);
        Self { connection, shared, standings, writes, effects: Vec::new(), ended: Vec::new(), owed: VecDeque::new() }
    }

    /// Judges a call and writes what was decided. Of a refusal, the record is still to be kept.
    pub(crate) fn judge<W: Work>(&mut self, work: &W) -> Result<Result<W::Answer, Box<Rejection>>, Trouble> {
        let (connection, shared) = (self.connection, self.shared);
        let found = self.standings.of(connection, work.partition())?;
        let view = View { connection, ledger: shared.ledger, clock: &*shared.clock, found: found.as_ref() };
        if let Some(decision) = work.decide_as_new(&view)
            && self.writes.write_new(work.partition(), found, decision.write)?
        {
            return Ok(decision.answer);
        }
        let view = View { connection, ledger: shared.ledger, clock: &*shared.clock, found: found.as_ref() };
        let decision = work.decide(&view)?;
        if !decision.write.is_empty() {
            self.writes.write(work.partition(), found, decision.write)?;
        }
        if let (Err(_), Some(generation), Some(found)) = (&decision.answer, work.presented(), found)
            && found.standing.has_visibly_ended(generation)
        {
            self.ended.push((work.partition().clone(), generation));
        }
        Ok(decision.answer)
    }

    /// Keeps the record of a refusal, where it is evidence.
    pub(crate) fn record(&mut self, rejection: &Rejection) -> Result<RecordState, Trouble> {
        self.record_all(rejection, 1)
    }

    fn record_all(&mut self, rejection: &Rejection, count: u64) -> Result<RecordState, Trouble> {
        let Some(refused) = Refused::of(rejection) else { return Ok(RecordState::NotEvidence) };
        if let Some(place) = self.shared.evidence.place(rejection, &refused) {
            self.effects.push(Effect::Count(place, Box::new(rejection.clone()), count));
            return Ok(RecordState::Counted);
        }
        let scope = if rejection.current.is_some() {
            let Some(found) = self.found(&rejection.partition)? else {
                let detail = "the partition of a refusal is not there any more";
                return Err(ledger_core::LedgerError::corrupt(Some(&rejection.partition), None, detail).into());
            };
            found.key
        } else {
            0
        };
        evidence::store(self.connection, scope, (rejection, count), &refused, &mut self.effects)
    }

    /// Keeps the records that could not be kept when they were to.
    pub(crate) fn record_owed(&mut self) -> Result<(), Trouble> {
        self.owed = self.shared.evidence.take_owed();
        for nth in 0..self.owed.len() {
            let (rejection, count) = self.owed[nth].clone();
            match self.record_all(&rejection, count) {
                // Its partition is gone or damaged: another time is no better one.
                Ok(_) | Err(Trouble::Answer(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stores the time at which a tenure was seen to have expired, if it is still the current one (T2).
    pub(crate) fn observe_expiry(
        &mut self,
        partition: &PartitionId,
        generation: Generation,
        at: Timestamp,
    ) -> Result<(), Trouble> {
        let found = self.standings.of(self.connection, partition)?;
        let Some(standing) = found.as_ref().map(|found| &found.standing) else { return Ok(()) };
        let lease = &standing.lease;
        if lease.generation == generation && standing.recorded_at() < lease.expires_at && at >= lease.expires_at {
            let mut observed = lease.clone();
            observed.recorded_at = at;
            let mut write = Write::default();
            write.lease = Some(observed);
            self.writes.write(partition, found, write)?;
        }
        Ok(())
    }

    /// Believes what the group found out: it is committed.
    pub(crate) fn committed(self) {
        for (partition, generation) in &self.ended {
            self.shared.ended.remember(partition, *generation);
        }
        self.shared.evidence.apply(self.effects);
    }

    /// What the group found out holds no longer.
    pub(crate) fn rolled_back(self) {
        for (rejection, count) in self.owed {
            self.shared.evidence.owe(rejection, count);
        }
    }

    fn found(&mut self, partition: &PartitionId) -> Result<&mut Option<Found>, Trouble> {
        self.standings.of(self.connection, partition)
    }
}

/// A refusal as a snapshot shows it, if the presented tenure has visibly ended there (E4).
pub(crate) fn look<W: Work>(
    connection: &Connection,
    shared: &Shared,
    work: &W,
) -> Result<Option<Box<Rejection>>, Trouble> {
    let Some(generation) = work.presented() else { return Ok(None) };
    let Some(found) = store::find(connection, work.partition())? else { return Ok(None) };
    if !found.standing.has_visibly_ended(generation) {
        return Ok(None);
    }
    let view = View { connection, ledger: shared.ledger, clock: &*shared.clock, found: Some(&found) };
    let refused = work.decide(&view)?.answer.err();
    debug_assert!(
        refused.as_ref().is_none_or(|refused| refused.operation != Operation::Claim),
        "claims are not looked up"
    );
    Ok(refused)
}
