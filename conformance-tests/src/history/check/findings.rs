//! What a check found.

use ledger_core::PartitionId;
use serde::{Deserialize, Serialize};

use crate::history::invocation::Invocation;

/// So many violations are kept with their words; of the others only the number.
const KEPT: usize = 1_000;

/// What [`check`](super::check) found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Findings {
    /// What contradicts the contract: the first thousand.
    pub violations: Vec<Finding>,
    /// What happened, in numbers.
    pub counts: Counts,
    #[serde(skip)]
    partition: Option<PartitionId>,
}

/// One thing that contradicts the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of contradiction it is.
    pub kind: Kind,
    /// The partition.
    pub partition: PartitionId,
    /// The call, where it is about one.
    pub call: Option<String>,
    /// What the contract demands.
    pub expected: String,
    /// What was seen.
    pub seen: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} on `{}`", self.kind, self.partition)?;
        if let Some(call) = &self.call {
            write!(f, ": {call}")?;
        }
        write!(f, "\n    expected: {}\n        seen: {}", self.expected, self.seen)
    }
}

/// Kinds of contradictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The log contradicts itself: a gap, an edit, a tenure that does not follow from the one before.
    Log,
    /// A write is in force that was not the holder's to make.
    StaleWrite,
    /// An acknowledged write is not there, or not as it was acknowledged.
    Lost,
    /// A write is there that nobody sent, or that was told not to be.
    Ghost,
    /// A refusal that no state during the call justifies, or that tells something else than the truth.
    WrongRefusal,
    /// An answer other than a refusal that no state during the call justifies.
    WrongAnswer,
    /// An order that real time contradicts.
    Order,
    /// A time that went back.
    Time,
    /// An answer of `fate` that did not hold.
    Fate,
    /// A refusal without its record, or a record without its refusal.
    Evidence,
    /// Nothing went on, though the faults were over.
    Progress,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Calls.
    pub operations: u64,
    /// Entries of the logs.
    pub entries: u64,
    /// Granted claims.
    pub takeovers: u64,
    /// Calls that may write and were acknowledged.
    pub acknowledged: u64,
    /// Those of them that are lost.
    pub lost: u64,
    /// Calls that may write and whose answer was lost, or said so.
    pub unknown: u64,
    /// Those of them that were settled by the barrier: all, where the partition was taken over.
    pub settled: u64,
    /// Calls that surely wrote nothing.
    pub not_written: u64,
    /// Refusals.
    pub refusals: u64,
    /// Those of them that no state justifies.
    pub unjustified: u64,
    /// Those of them that should have left a record and have not.
    pub without_evidence: u64,
    /// Those of them that said themselves that their record could not be written (E2).
    pub evidence_missing: u64,
    /// Appends that were refused for want of the right to write, or accepted without it.
    pub stale_attempted: u64,
    /// Appends that were accepted without the right to write.
    pub stale_accepted: u64,
    /// Appends and renewals under a lease that was over by the caller's own clock when they were sent. No violation.
    #[serde(default)]
    pub beyond_trust: u64,
    /// Answers of `fate`.
    pub fates: u64,
    /// Those of them that did not hold.
    pub wrong_fates: u64,
    /// All violations.
    pub violations: u64,
}

impl Counts {
    /// Adds another check's numbers.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.entries += other.entries;
        self.takeovers += other.takeovers;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.unknown += other.unknown;
        self.settled += other.settled;
        self.not_written += other.not_written;
        self.refusals += other.refusals;
        self.unjustified += other.unjustified;
        self.without_evidence += other.without_evidence;
        self.evidence_missing += other.evidence_missing;
        self.stale_attempted += other.stale_attempted;
        self.stale_accepted += other.stale_accepted;
        self.beyond_trust += other.beyond_trust;
        self.fates += other.fates;
        self.wrong_fates += other.wrong_fates;
        self.violations += other.violations;
    }

    /// What follows from other numbers.
    pub(super) fn tally(&mut self) {
        self.stale_attempted += self.stale_accepted;
    }
}

impl Findings {
    /// The violations of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Finding> {
        self.violations.iter().filter(move |finding| finding.kind == kind)
    }

    pub(super) fn begin(&mut self, partition: &PartitionId) {
        self.partition = Some(partition.clone());
    }

    pub(super) fn add(
        &mut self,
        kind: Kind,
        call: Option<&Invocation>,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) {
        let counts = &mut self.counts;
        counts.violations += 1;
        match kind {
            Kind::Lost => counts.lost += 1,
            Kind::WrongRefusal => counts.unjustified += 1,
            Kind::Fate => counts.wrong_fates += 1,
            _ => {}
        }
        if self.violations.len() < KEPT {
            let partition = self.partition.clone().expect("a partition is named before anything is found of it");
            let call = call.map(ToString::to_string);
            self.violations.push(Finding { kind, partition, call, expected: expected.into(), seen: seen.into() });
        }
    }
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} violations in {} calls", self.counts.violations, self.counts.operations)?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "{violation}"))
    }
}
