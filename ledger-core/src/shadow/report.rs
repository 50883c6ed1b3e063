//! What a trial has shown: from the log and the rejection records, with the counts of the processes (W6).

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use serde::Serialize;

use super::counts::ShadowCounts;
use super::mark::{is_shadow, unmarked};
use crate::request::records_since;
use crate::{
    FencedLedger, FencedLedgerExt, Generation, Holder, Operation, OwnEvent, PartitionId, Position, Reason, Result,
    Timestamp,
};

/// The sum of a trial.
///
/// Writers, tenures and refusals are what the store has kept: whoever reads them gets the same, whichever processes
/// have ended. The counts are those that were added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShadowReport {
    /// Who held partitions, in the order of their names; those that enforce among them.
    pub writers: Vec<ShadowTenures>,
    /// What would have been refused, in the order of the records.
    pub refusals: Vec<WouldBeRefusal>,
    /// Refusals beyond the bound of E3, of which only the number is known; those of who enforces may be among them.
    pub overflow: u64,
    /// The counts that were added, summed up.
    pub counts: ShadowCounts,
}

/// The tenures of one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShadowTenures {
    /// The writer's name, without the mark.
    pub writer: String,
    /// Whether it enforced. A writer that was switched over is listed twice.
    pub enforces: bool,
    /// In how many partitions it had tenures.
    pub partitions: u64,
    /// How many tenures.
    pub tenures: u64,
    /// How many appends are in the log under them.
    pub appends: u64,
}

/// What a writer did that would have been refused: one record of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WouldBeRefusal {
    /// The partition.
    pub partition: PartitionId,
    /// The writer, without the mark.
    pub writer: String,
    /// What it did.
    pub operation: Operation,
    /// Why that would have been refused.
    pub reason: Reason,
    /// Who held the partition at the last of them, or had held it last.
    pub holder: Option<Holder>,
    /// How often.
    pub count: u64,
    /// The judged time of the first.
    pub first_at: Timestamp,
    /// The judged time of the last.
    pub last_at: Timestamp,
}

impl ShadowReport {
    /// Reads logs and records of these partitions, page by page. Needs no lease, and writes nothing. Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`read`](FencedLedger::read) and [`rejections`](FencedLedger::rejections).
    pub async fn read(ledger: &dyn FencedLedger, partitions: &[PartitionId]) -> Result<Self> {
        let mut report = Self::default();
        let mut writers = BTreeMap::new();
        for partition in partitions {
            read_log(ledger, partition, &mut writers).await?;
            report.read_records(ledger, partition).await?;
        }
        report.writers = writers.into_values().collect();
        Ok(report)
    }

    /// The same with the counts of one more shadow.
    #[must_use]
    pub fn with_counts(mut self, counts: &ShadowCounts) -> Self {
        self.counts.add(counts);
        self
    }

    /// How many refusals there would have been, as the store knows it.
    pub fn would_be_refusals(&self) -> u64 {
        self.refusals.iter().map(|refusal| refusal.count).sum()
    }

    async fn read_records(&mut self, ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<()> {
        let mut records = records_since(ledger, partition, Generation::FIRST);
        while let Some(record) = records.try_next().await? {
            match record.refused {
                None => self.overflow += record.count,
                Some(refused) if is_shadow(&refused.holder) => self.refusals.push(WouldBeRefusal {
                    partition: partition.clone(),
                    writer: unmarked(&refused.holder).to_owned(),
                    operation: refused.operation,
                    reason: refused.reason,
                    holder: refused.current.map(|(holder, ..)| holder),
                    count: record.count,
                    first_at: record.first_at,
                    last_at: record.last_at,
                }),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

async fn read_log(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    writers: &mut BTreeMap<(String, bool), ShadowTenures>,
) -> Result<()> {
    // Nobody ever claimed it: there is no log to read.
    if ledger.observe(partition).await?.tenure.is_none() {
        return Ok(());
    }
    let mut here = BTreeSet::new();
    let mut events = ledger.events(partition, Position::FIRST);
    while let Some(event) = events.try_next().await? {
        let holder = &event.entry.holder;
        let (writer, enforces) = (unmarked(holder).to_owned(), !is_shadow(holder));
        let new = ShadowTenures { writer: writer.clone(), enforces, partitions: 0, tenures: 0, appends: 0 };
        let key = (writer, enforces);
        let of = writers.entry(key.clone()).or_insert(new);
        if event.kind.as_str() == OwnEvent::CLAIMED {
            of.tenures += 1;
            of.partitions += u64::from(here.insert(key));
        } else if !event.kind.is_own() && event.position == event.entry.first {
            of.appends += 1;
        }
    }
    Ok(())
}

/// For people: a few lines, the refusals one by one.
impl std::fmt::Display for ShadowReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for of in &self.writers {
            let how = if of.enforces { "enforces" } else { "shadowed" };
            let ShadowTenures { writer, partitions, tenures, appends, .. } = of;
            writeln!(f, "`{writer}` {how}: {tenures} tenures in {partitions} partitions, {appends} appends")?;
        }
        writeln!(f, "would have been refused: {}", self.would_be_refusals())?;
        for refusal in &self.refusals {
            let WouldBeRefusal { partition, writer, operation, reason, count, first_at, last_at, .. } = refusal;
            let holder = refusal.holder.as_ref().map_or("nobody", Holder::as_str);
            writeln!(
                f,
                "  {count} x {operation} of `{writer}` on `{partition}`: {reason}; `{holder}` held it last; \
                 {first_at} to {last_at}"
            )?;
        }
        if self.overflow > 0 {
            writeln!(f, "refusals beyond the bound of records, of whomever: {}", self.overflow)?;
        }
        let counts = &self.counts;
        write!(
            f,
            "handed over: {} appends; unknown: {}; dropped: {} (no room {}, too old {}, undriven {}); waiting: {}; \
             time lost: {:?} in all, {:?} at most",
            counts.offered,
            counts.unknown,
            counts.dropped(),
            counts.dropped_full,
            counts.dropped_old,
            counts.dropped_undriven,
            counts.waiting,
            counts.time_lost,
            counts.longest
        )
    }
}
