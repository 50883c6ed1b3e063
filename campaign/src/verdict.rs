//! The verdict over all rounds: one line, and the same as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use conformance_tests::history::Counts;
use serde::Serialize;

use crate::plan::Engine;
use crate::round::Round;

/// From so many minutes on, the full figures are asked for.
const FULL: f64 = 10.0;

pub(crate) struct Verdict {
    seed: u64,
    minutes: f64,
    engines: &'static [Engine],
    rounds: Vec<Round>,
}

/// The verdict, told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) passed: bool,
    /// Why not, if it has not.
    pub(crate) because: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) minutes: f64,
    pub(crate) stores: BTreeSet<String>,
    pub(crate) stale_attempted: u64,
    pub(crate) stale_accepted: u64,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    pub(crate) unknown: u64,
    pub(crate) settled: u64,
    pub(crate) wrong_fates: u64,
    pub(crate) fates: u64,
    pub(crate) refusals: u64,
    pub(crate) unjustified: u64,
    pub(crate) without_evidence: u64,
    /// Refusals that said themselves that their record could not be written (E2).
    pub(crate) evidence_missing: u64,
    pub(crate) violations: u64,
    pub(crate) operations: u64,
    pub(crate) entries: u64,
    pub(crate) takeovers: u64,
    pub(crate) control_stale: u64,
    pub(crate) rounds: u64,
    /// Rounds whose positive control wrote something stale.
    pub(crate) rounds_counted: u64,
    pub(crate) restores: u64,
    /// Partitions that a restore has put behind what was acknowledged, and of those how many were noticed.
    pub(crate) restored_behind: u64,
    pub(crate) restored_noticed: u64,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) by_store: BTreeMap<String, PerStore>,
    pub(crate) not_run: BTreeSet<String>,
}

/// The figures of one kind of store.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PerStore {
    pub(crate) rounds: u64,
    pub(crate) operations: u64,
    pub(crate) takeovers: u64,
    pub(crate) stale_attempted: u64,
    pub(crate) unknown: u64,
    pub(crate) faults: BTreeMap<String, u64>,
}

impl Verdict {
    pub(crate) fn new(seed: u64, minutes: f64, engines: &'static [Engine]) -> Self {
        Self { seed, minutes, engines, rounds: Vec::new() }
    }

    pub(crate) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    pub(crate) fn told(&self) -> Told {
        // A restored store has lost what was acknowledged: such a round is judged by whether that was noticed.
        let (restored, plain): (Vec<&Round>, Vec<&Round>) =
            self.rounds.iter().partition(|round| round.restored.is_some());
        let mut counts = Counts::default();
        let counted: Vec<&&Round> = plain.iter().filter(|round| round.control > 0).collect();
        counted.iter().for_each(|round| counts.add(&round.counts));
        let (mut faults, mut by_store) = (BTreeMap::new(), BTreeMap::<String, PerStore>::new());
        for round in &self.rounds {
            let of_store = by_store.entry(round.plan.engine.to_string()).or_default();
            of_store.rounds += 1;
            of_store.operations += round.counts.operations;
            of_store.takeovers += round.counts.takeovers;
            of_store.stale_attempted += round.counts.stale_attempted;
            of_store.unknown += round.counts.unknown;
            for (fault, count) in &round.faults {
                *faults.entry(fault.clone()).or_default() += count;
                *of_store.faults.entry(fault.clone()).or_default() += count;
            }
        }
        let told = restored.iter().filter_map(|round| round.restored);
        let (behind, noticed) = told.fold((0, 0), |sum, it| (sum.0 + it.behind, sum.1 + it.noticed));
        let mut told = Told {
            passed: false,
            because: Vec::new(),
            seed: self.seed,
            minutes: self.minutes,
            stores: self.rounds.iter().map(|round| round.store.clone()).collect(),
            stale_attempted: counts.stale_attempted,
            stale_accepted: counts.stale_accepted,
            acknowledged: counts.acknowledged,
            lost: counts.lost,
            unknown: counts.unknown,
            settled: counts.settled,
            wrong_fates: counts.wrong_fates,
            fates: counts.fates,
            refusals: counts.refusals,
            unjustified: counts.unjustified,
            without_evidence: counts.without_evidence,
            evidence_missing: counts.evidence_missing,
            violations: counts.violations,
            operations: self.rounds.iter().map(|round| round.counts.operations).sum(),
            entries: self.rounds.iter().map(|round| round.counts.entries).sum(),
            takeovers: self.rounds.iter().map(|round| round.counts.takeovers).sum(),
            control_stale: self.rounds.iter().map(|round| round.control).sum(),
            rounds: self.rounds.len() as u64,
            rounds_counted: counted.len() as u64 + restored.len() as u64,
            restores: restored.len() as u64,
            restored_behind: behind,
            restored_noticed: noticed,
            faults,
            by_store,
            not_run: self.rounds.iter().flat_map(|round| round.not_run.iter().cloned()).collect(),
        };
        told.because = self.why_not(&told);
        told.passed = told.because.is_empty();
        told
    }

    fn why_not(&self, told: &Told) -> Vec<String> {
        let failed = self.rounds.iter().filter(|round| round.has_failed());
        let mut because: Vec<String> = failed.map(|round| format!("round {} failed", round.plan.number)).collect();
        // What a short campaign on a busy machine must show all the same; speed alone decides how much more it is.
        let is_full = self.minutes >= FULL;
        let (stale, unknown) = if is_full { (10_000, 500) } else { (100, 10) };
        let mut at_least = |what: &str, count: u64, least: u64| {
            if count < least {
                because.push(format!("{what}: {count}, and at least {least} are needed"));
            }
        };
        at_least("stale writes attempted", told.stale_attempted, stale);
        at_least("unknown outcomes", told.unknown, unknown);
        for engine in self.engines {
            let plain = |round: &&Round| round.plan.engine == *engine && round.restored.is_none() && round.control > 0;
            let rounds = self.rounds.iter().filter(plain).count() as u64;
            at_least(&format!("rounds on {engine} that count"), rounds, 1);
        }
        because
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.told().passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = self.told();
        let faults: Vec<String> = told.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        write!(
            f,
            "verdict: {}: stale writes {} attempted, {} accepted; acknowledged {}, lost {}; unknown {}, settled {}, wrong {}; \
             refusals {}, unjustified {}, without evidence {}; positive control {} stale, {} of {} rounds count; \
             restores {}, {} of {} partitions noticed; {} operations, {} takeovers; faults: {}",
            if told.passed { "PASSED" } else { "FAILED" },
            told.stale_attempted,
            told.stale_accepted,
            told.acknowledged,
            told.lost,
            told.unknown,
            told.settled,
            told.wrong_fates,
            told.refusals,
            told.unjustified,
            told.without_evidence,
            told.control_stale,
            told.rounds_counted,
            told.rounds,
            told.restores,
            told.restored_noticed,
            told.restored_behind,
            told.operations,
            told.takeovers,
            faults.join(", ")
        )?;
        if !told.not_run.is_empty() {
            let not_run: Vec<&str> = told.not_run.iter().map(String::as_str).collect();
            write!(f, "; NOT RUN: {}", not_run.join("; "))?;
        }
        if !told.because.is_empty() {
            write!(f, "; because: {}", told.because.join("; "))?;
        }
        Ok(())
    }
}
