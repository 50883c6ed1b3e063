//! A run of writers over a bad network, and what must hold when it is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use ledger_core::keeper::Terms;
use ledger_core::{
    AppendId, Claim, Entry, Fate, FencedLedger, FencedLedgerExt, Holder, ManualClock, PartitionId, Ttl, Verification,
};

use super::worker::{Facts, Told, Worker};
use super::{Faults, Figures, SimNetwork};
use crate::context::read_all;
use crate::{Stop, Violation};

/// Writers that compete for partitions of one ledger over a [`SimNetwork`].
///
/// Some are right; with a [`Habit`] they are not, which must be found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simulation {
    /// All chance comes from it.
    pub seed: u64,
    /// How many partitions.
    pub partitions: u32,
    /// How many writers compete for each of them.
    pub writers: u32,
    /// Virtual time.
    pub time: Duration,
    /// What the network does.
    pub faults: Faults,
    /// What writers do wrong.
    pub habit: Habit,
}

/// A mistake of a writer that shows what a simulation finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "tests go through all of them")]
pub enum Habit {
    /// None.
    Right,
    /// An append without an answer counts as not written.
    TakesUnknownForFailure,
    /// A request that was recorded before is sent all the same.
    SendsWhatIsKnown,
}

impl Simulation {
    /// Ten minutes of three writers for each of four partitions, over a bad network.
    pub fn new(seed: u64) -> Self {
        let time = Duration::from_secs(600);
        Self { seed, partitions: 4, writers: 3, time, faults: Faults::some(), habit: Habit::Right }
    }

    /// Runs it on a fresh ledger whose clock is `clock`, and takes every partition over at the end: after that what
    /// was unknown is final.
    ///
    /// # Errors
    ///
    /// The first thing that was wrong: a stale write that was accepted, an acknowledged one that is lost, a false
    /// answer of `fate`, a request that two were told to send, a log that does not verify.
    pub fn run(&self, ledger: Arc<dyn FencedLedger>, clock: &ManualClock) -> Result<Figures, Stop> {
        let network = SimNetwork::new(self.seed, self.faults, clock.clone());
        let (remote, told) = (network.connect(ledger.clone()), Told::default());
        let terms = Terms::new(Ttl::default());
        for nth in 0..self.partitions {
            let partition = PartitionId::new(format!("partition-{nth}"))?;
            for writer in 0..self.writers {
                let worker = Worker {
                    network: network.clone(),
                    ledger: remote.clone(),
                    partition: partition.clone(),
                    name: format!("writer-{writer}"),
                    terms,
                    told: told.clone(),
                    habit: self.habit,
                };
                network.spawn(worker.run());
            }
        }
        network.run(self.time);
        network.stop();
        let mut state = network.lock();
        if let Some(violation) = state.violation.take() {
            return Err(violation.into());
        }
        let mut figures = state.figures;
        drop(state);
        let facts = std::mem::take(&mut *told.lock());
        self.settle(ledger, clock, &facts, &mut figures)?;
        figures.time = self.time;
        Ok(figures)
    }

    fn settle(
        &self,
        ledger: Arc<dyn FencedLedger>,
        clock: &ManualClock,
        facts: &Facts,
        figures: &mut Figures,
    ) -> Result<(), Stop> {
        clock.advance(Duration::from_secs(60));
        for nth in 0..self.partitions {
            let partition = PartitionId::new(format!("partition-{nth}"))?;
            let Some(tenure) = block_on(ledger.observe(&partition))?.tenure else { continue };
            let observed = ledger_core::Observation::of(&tenure.lease);
            let last = Claim::new(partition.clone(), Holder::new("the last")?, Ttl::default(), observed);
            block_on(ledger.claim(&last))?;
            let log = log_of(&*ledger, &partition)?;
            figures.leased += log.leased;
            self.compare(&*ledger, &partition, &log.entries, facts)?;
        }
        figures.unknown += facts.unknown.len() as u64;
        figures.settled_by_fate += facts.settled_by_fate;
        figures.requests += facts.sendings.values().map(|sent| u64::from(*sent)).sum::<u64>();
        let twice = facts.sendings.iter().find(|(_, sent)| **sent > 1);
        twice.map_or(Ok(()), |(key, sent)| {
            Err(Violation::new("leave for a first sending is given once (Q1)", format!("{key:?}: {sent} times")).into())
        })
    }

    /// Compares what writers were told with what is there.
    fn compare(
        &self,
        ledger: &dyn FencedLedger,
        partition: &PartitionId,
        entries: &HashMap<AppendId, Arc<Entry>>,
        facts: &Facts,
    ) -> Result<(), Stop> {
        for (_, id, position) in facts.acknowledged.iter().filter(|(of, ..)| of == partition) {
            match entries.get(id) {
                Some(entry) if entry.last == *position => {}
                other => {
                    let seen = format!("append {id} of {partition}, told to be at {position}: {other:?}");
                    return Err(Violation::new("what was acknowledged is there (S2, A7)", seen).into());
                }
            }
        }
        for (_, id, generation) in facts.never.iter().filter(|(of, ..)| of == partition) {
            if let Some(entry) = entries.get(id).filter(|entry| entry.generation == *generation) {
                let seen = format!("append {id} of {partition} is there after all: {entry:?}");
                return Err(Violation::new("what was told not to be written is not there (U1, U2)", seen).into());
            }
        }
        for (_, id, generation) in facts.unknown.iter().filter(|(of, ..)| of == partition) {
            let fate = block_on(ledger.fate(partition, *id, *generation))?;
            let right = match (&fate, entries.get(id)) {
                (Fate::Recorded(told), Some(there)) => told == there,
                (Fate::Never, None) => true,
                _ => false,
            };
            if !right {
                let seen = format!("append {id} of {partition}: {fate:?}, and there is {:?}", entries.get(id));
                return Err(Violation::new("after a takeover `fate` is final and right (U2)", seen).into());
            }
        }
        Ok(())
    }
}

/// A log that has been verified.
struct Log {
    entries: HashMap<AppendId, Arc<Entry>>,
    /// From the first to the last entry of each tenure.
    leased: Duration,
}

fn log_of(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Log, Stop> {
    let verified = block_on(ledger.verify(partition, None))?;
    if !matches!(verified, Verification::Clean { .. }) {
        return Err(Violation::new("the log verifies (I2)", format!("{verified:?}")).into());
    }
    let (mut entries, mut leased) = (HashMap::new(), Duration::ZERO);
    let mut before: Option<Arc<Entry>> = None;
    for event in block_on(read_all(ledger, partition))? {
        let entry = event.entry;
        if let Some(before) = before.filter(|before| before.generation == entry.generation) {
            leased += entry.recorded_at.since(before.recorded_at);
        }
        if let Some(id) = entry.id {
            entries.insert(id, entry.clone());
        }
        before = Some(entry);
    }
    Ok(Log { entries, leased })
}
