//! Journals against the log: what was acknowledged is there once and as it was told, what was refused is not, what was
//! not known is told by `fate`, and rightly.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger_core::{
    AcquisitionId, AppendId, Digest, Event, Fate, FencedLedger, FencedLedgerExt, Generation, Holder, OwnEvent,
    PageSize, PartitionId, Position, Ttl, Verification,
};

use crate::Result;
use crate::journal::{self, Line, Word};
use crate::place::Place;
use crate::report::Row;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The folder of the journals.
    #[arg(long)]
    journals: PathBuf,
    /// What was done to the cluster, for the table.
    #[arg(long, default_value = "as you say")]
    fault: String,
    /// How often.
    #[arg(long, default_value_t = 1)]
    times: usize,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let ledger = arguments.place.open().await?;
    let found = compare(&ledger, &arguments.journals).await?;
    println!("{found}\n\n{}", crate::report::table(&[found.row(&arguments.fault, arguments.times)]));
    found.must_be_whole()
}

/// What a comparison has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) writers: usize,
    pub(crate) acknowledged: usize,
    /// Acknowledged, and not there, or not as it was told.
    pub(crate) lost: usize,
    pub(crate) refused: usize,
    pub(crate) refused_found: usize,
    /// Not known when they were sent.
    pub(crate) unknown: usize,
    pub(crate) landed: usize,
    /// How often a keeper's trust ended, by reason.
    pub(crate) losses: BTreeMap<String, usize>,
    /// The longest time in which a partition had no acknowledged append, in microseconds.
    pub(crate) longest_stall: u64,
    /// Grants that the log does not know.
    pub(crate) grants_lost: usize,
    /// What may not be, whatever was lost.
    pub(crate) violations: Vec<String>,
    /// What may not be while nothing was lost.
    pub(crate) contradictions: Vec<String>,
}

/// What the log has.
#[derive(Default)]
struct Log {
    appends: HashMap<AppendId, (PartitionId, Position, Digest)>,
    claims: HashSet<(PartitionId, Generation, AcquisitionId)>,
}

/// Compares. It claims each partition, so that every earlier tenure has visibly ended and every fate is final.
pub(crate) async fn compare(ledger: &dyn FencedLedger, folder: &Path) -> Result<Found> {
    let journals = journal::read_all(folder)?;
    let mut found = Found { writers: journals.len(), ..Found::default() };
    let partitions = ledger.partitions(None, PageSize::MAX).await?.partitions;
    let mut log = Log::default();
    for partition in &partitions {
        let (holder, wait) = (Holder::new("check")?, Duration::from_secs(60));
        let claimed = ledger.claim_when_free(partition, &holder, Ttl::default(), wait).await?;
        ledger.release(&claimed.lease).await?;
        log = ledger.fold(partition, log, |log, event| log.with(partition, &event)).await?;
        let verified = ledger.verify(partition, None).await?;
        if !matches!(verified, Verification::Clean { .. }) {
            found.violations.push(format!("verify of {partition}: {verified:?}"));
        }
    }
    let mut sent = HashSet::new();
    for journal in &journals {
        found.generations(journal);
        found.silence(&log, journal);
        for line in journal {
            found.line(ledger, &log, line, &mut sent).await?;
        }
    }
    // What else is in the ledger is none of the writers'.
    let theirs: HashSet<&PartitionId> = journals.iter().flatten().map(|line| &line.partition).collect();
    for (id, (partition, ..)) in &log.appends {
        if theirs.contains(partition) && !sent.contains(id) {
            found.violations.push(format!("{id} is in the log of {partition}, and no writer was told anything of it"));
        }
    }
    found.longest_stall = longest_stall(&journals);
    Ok(found)
}

impl Log {
    fn with(mut self, partition: &PartitionId, event: &Event) -> Self {
        let entry = &event.entry;
        match OwnEvent::read(&event.kind, &event.payload) {
            Ok(Some(OwnEvent::Claimed(_))) => {
                self.claims.insert((partition.clone(), entry.generation, entry.acquisition));
            }
            _ => {
                if let Some(id) = entry.id {
                    self.appends.insert(id, (partition.clone(), entry.first, entry.chain));
                }
            }
        }
        self
    }
}

impl Found {
    async fn line(
        &mut self,
        ledger: &dyn FencedLedger,
        log: &Log,
        line: &Line,
        sent: &mut HashSet<AppendId>,
    ) -> Result<()> {
        let Line { partition, generation, word, .. } = line;
        match word {
            Word::Granted(acquisition) => {
                let known = log.claims.contains(&(partition.clone(), *generation, *acquisition));
                self.grants_lost += usize::from(!known);
            }
            Word::Stored(id, first, chain) => {
                sent.insert(*id);
                self.acknowledged += 1;
                let there = log.appends.get(id) == Some(&(partition.clone(), *first, *chain));
                self.lost += usize::from(!there);
            }
            Word::Refused(id, _) | Word::NotWritten(id) => {
                sent.insert(*id);
                let is_refusal = matches!(word, Word::Refused(..));
                self.refused += usize::from(is_refusal);
                if log.appends.contains_key(id) {
                    self.refused_found += usize::from(is_refusal);
                    self.violations.push(format!("{id} was said to be not written and is in the log: {line:?}"));
                }
            }
            Word::Unknown(id) => {
                sent.insert(*id);
                self.unknown += 1;
                let there = log.appends.contains_key(id);
                self.landed += usize::from(there);
                let fate = ledger.fate(partition, *id, *generation).await?;
                let right = match &fate {
                    Fate::Recorded(_) => there,
                    Fate::Never => !there,
                    // Its generation was granted on the other side alone, and never here.
                    Fate::Undecided => false,
                };
                if !right {
                    self.contradictions.push(format!("the fate of {id} is {fate:?}, and in the log it is {there}"));
                }
            }
            Word::Settled(id, recorded) => {
                if log.appends.contains_key(id) != *recorded {
                    self.contradictions.push(format!("{id} was settled as recorded = {recorded}, which is not so"));
                }
            }
            Word::Lost(reason) => *self.losses.entry(reason.clone()).or_default() += 1,
        }
        Ok(())
    }

    /// In no writer's eyes does a generation fall.
    fn generations(&mut self, journal: &[Line]) {
        let mut highest: HashMap<&PartitionId, Generation> = HashMap::new();
        for line in journal.iter().filter(|line| matches!(line.word, Word::Granted(_))) {
            let before = highest.insert(&line.partition, line.generation);
            if before.is_some_and(|before| before >= line.generation) {
                self.contradictions.push(format!("after generation {before:?}, {line:?}"));
            }
        }
    }

    /// A tenure that lost what was acknowledged to it is told so by the next append that is written, and ends.
    fn silence(&mut self, log: &Log, journal: &[Line]) {
        let mut lost_one: Option<(&PartitionId, Generation)> = None;
        let mut written_after = 0;
        for Line { partition, generation, word, .. } in journal {
            match word {
                Word::Granted(_) | Word::Lost(_) => lost_one = None,
                Word::Stored(id, ..) if !log.appends.contains_key(id) => {
                    lost_one = Some((partition, *generation));
                    written_after = 0;
                }
                Word::Stored(id, ..) if lost_one == Some((partition, *generation)) => {
                    written_after += 1;
                    if written_after > 1 {
                        self.violations.push(format!("{id}: a writer went on in silence in {partition} {generation}"));
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds another comparison, of another run.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.writers = self.writers.max(other.writers);
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.refused += other.refused;
        self.refused_found += other.refused_found;
        self.unknown += other.unknown;
        self.landed += other.landed;
        for (reason, count) in other.losses {
            *self.losses.entry(reason).or_default() += count;
        }
        self.longest_stall = self.longest_stall.max(other.longest_stall);
        self.grants_lost += other.grants_lost;
        self.violations.extend(other.violations);
        self.contradictions.extend(other.contradictions);
        self
    }

    pub(crate) fn row(&self, fault: &str, times: usize) -> Row {
        Row {
            fault: fault.to_owned(),
            times,
            acknowledged: self.acknowledged,
            lost: self.lost,
            refused: self.refused,
            refused_found: self.refused_found,
            unknown: self.unknown,
            longest_stall: Duration::from_micros(self.longest_stall),
        }
    }

    /// Nothing was lost, and nothing contradicts the journals.
    pub(crate) fn must_be_whole(&self) -> Result<()> {
        if self.lost == 0
            && self.grants_lost == 0
            && self.acknowledged > 0
            && self.contradictions.is_empty()
            && self.violations.is_empty()
        {
            return Ok(());
        }
        let all: Vec<_> = self.violations.iter().chain(&self.contradictions).take(10).collect();
        Err(format!(
            "{} lost, {} grants lost, {} acknowledged; {all:#?}",
            self.lost, self.grants_lost, self.acknowledged
        )
        .into())
    }

    /// Something may be gone; but what is there is consistent, and nothing is there that was refused.
    pub(crate) fn must_be_consistent(&self) -> Result<()> {
        if self.violations.is_empty() { Ok(()) } else { Err(format!("{:#?}", self.violations).into()) }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { writers, acknowledged, lost, refused, refused_found, unknown, landed, .. } = self;
        write!(
            f,
            "{writers} writers: {acknowledged} appends acknowledged, {lost} of them lost; {refused} refused, \
             {refused_found} of them found; {unknown} unknown, of which {landed} had landed"
        )?;
        for (reason, count) in &self.losses {
            write!(f, "; {count} x trust lost: {reason}")?;
        }
        Ok(())
    }
}

/// Over all partitions, the longest time between two acknowledged appends, whoever made them.
fn longest_stall(journals: &[Vec<Line>]) -> u64 {
    let mut times: HashMap<&PartitionId, Vec<u64>> = HashMap::new();
    for line in journals.iter().flatten().filter(|line| matches!(line.word, Word::Stored(..))) {
        times.entry(&line.partition).or_default().push(line.at);
    }
    let longest = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    times.values_mut().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
