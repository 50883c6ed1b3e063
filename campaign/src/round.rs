//! One round: a store of its own, workers, faults, a barrier, the check, and the positive control.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance_tests::history::{Call, Content, Counts, Finding, History, Recorded, Recorder, barrier};
use ledger_core::{AppendId, FencedLedger, Generation, PartitionId};
use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::nemesis::Nemesis;
use crate::plan::Plan;
use crate::restore::{self, Restored};
use crate::{Result, checked, control};

/// The process that takes everything over in the end.
pub(crate) const BARRIER: &str = "barrier";

/// How long a lease may keep the barrier waiting, before an operator frees the partition.
const PATIENCE: Duration = Duration::from_millis(1_200);

/// Within what time a call is answered once the faults are over. Other work of the machine must not break it.
const ANSWERED: Duration = Duration::from_secs(60);

/// What a round showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) plan: Plan,
    pub(crate) store: String,
    pub(crate) counts: Counts,
    /// Outcomes that were asked after in the end and were not decided.
    pub(crate) undecided: u64,
    /// What contradicts the contract; of a restored store everything does.
    pub(crate) violations: Vec<Finding>,
    pub(crate) restored: Option<Restored>,
    pub(crate) faults: BTreeMap<String, u64>,
    /// Stale writes of the positive control.
    pub(crate) control: u64,
    pub(crate) not_run: Vec<String>,
    /// Workers that did not end when they were told.
    pub(crate) stuck: usize,
    pub(crate) seconds: f64,
    /// Where the round is kept, if it is.
    pub(crate) kept: Option<PathBuf>,
}

impl Round {
    /// Whether something is wrong that must not be. Of a round with a restore: that the loss went unnoticed.
    pub(crate) fn has_failed(&self) -> bool {
        match &self.restored {
            Some(restored) => restored.noticed < restored.behind || (restored.behind > 0 && self.counts.lost == 0),
            None => !self.violations.is_empty() || self.undecided > 0 || self.counts.settled < self.counts.unknown,
        }
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (plan, counts) = (&self.plan, &self.counts);
        write!(
            f,
            "round {:3} {:16} {:5.1} s  {} calls, {} takeovers, {} stale attempts, {} unknown, {} refusals, control {}",
            plan.number,
            self.store,
            self.seconds,
            counts.operations,
            counts.takeovers,
            counts.stale_attempted,
            counts.unknown,
            counts.refusals,
            self.control
        )?;
        if let Some(restored) = &self.restored {
            write!(f, "; restored: {} partitions behind, {} noticed", restored.behind, restored.noticed)?;
        }
        if self.has_failed() {
            write!(f, "\n  FAILED: {} violations, {} undecided", counts.violations, self.undecided)?;
            for violation in self.violations.iter().take(5) {
                write!(f, "\n  {violation}")?;
            }
            if let Some(kept) = &self.kept {
                write!(f, "\n  kept; judge it again with: campaign check {}", kept.display())?;
            }
        }
        Ok(())
    }
}

/// Runs a round in a folder of its own, which goes with it unless it has failed.
pub(crate) async fn run(plan: &Plan, parent: &Path) -> Result<Round> {
    let start = Instant::now();
    let folder = parent.join(format!("round-{}", plan.number));
    // What an earlier campaign that was killed has left; also a mounted file system.
    let _ = rustix::mount::unmount(folder.join("disk"), rustix::mount::UnmountFlags::DETACH);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let mut round = play(plan, &folder).await?;
    round.seconds = start.elapsed().as_secs_f64();
    if round.has_failed() {
        let kept = parent.join(format!("failed-seed-{}-round-{}", plan.seed, plan.number));
        // An earlier one of the same seed and number makes room.
        let _ = fs::remove_dir_all(&kept);
        fs::rename(&folder, &kept)?;
        fs::write(kept.join("round.json"), serde_json::to_string_pretty(&round)?)?;
        round.kept = Some(kept);
    } else {
        fs::remove_dir_all(&folder)?;
    }
    Ok(round)
}

async fn play(plan: &Plan, folder: &Path) -> Result<Round> {
    let mut field = Field::set_up(plan, folder)?;
    field.store.install().await?;
    control::install(&field.store).await?;
    // The first opening installs SQLite's layout, before anything can go wrong.
    field.store.open(true).await?.close().await;
    field.start_workers()?;

    let mut nemesis = Nemesis::new(plan.seed ^ plan.number);
    let mut restored = None;
    nemesis = rage(&mut field, nemesis, plan.time).await?;
    if plan.restore {
        let copy = restore::copy(&field)?;
        nemesis = rage(&mut field, nemesis, plan.time).await?;
        nemesis.heal(&mut field)?;
        restored = Some(restore::put_back(&mut field, &copy).await?);
        *nemesis.struck.entry("restore".to_owned()).or_default() += 1;
        nemesis = rage(&mut field, nemesis, plan.time / 2).await?;
    }
    nemesis.heal(&mut field)?;

    let stuck = field.end_workers(Duration::from_secs(15))?;

    // Nothing of the faults is to meet the barrier.
    field.proxy = None;
    let content = take_over(&field).await?;

    let control = control::stale(&field.store).await?;
    let (findings, undecided) = checked::check_round(folder, &content)?;

    Ok(Round {
        plan: plan.clone(),
        store: field.engine(),
        counts: findings.counts,
        undecided,
        violations: findings.violations.into_iter().take(50).collect(),
        restored,
        faults: nemesis.struck.clone(),
        control,
        not_run: field.not_run.clone(),
        stuck,
        seconds: 0.0,
        kept: None,
    })
}

/// The nemesis works with the operating system's waits, beside the runtime.
async fn rage(field: &mut Field, mut nemesis: Nemesis, time: Duration) -> Result<Nemesis> {
    tokio::task::block_in_place(|| nemesis.rage(field, time))?;
    Ok(nemesis)
}

/// The barrier; then the fate of everything that nobody was told; then everything that is there.
async fn take_over(field: &Field) -> Result<Content> {
    let opened = field.store.open(true).await?;
    let recorder = Arc::new(Recorder::create(field.histories().join(format!("{BARRIER}.jsonl")), BARRIER)?);
    let recorded = Recorded::new(opened.ledger(), recorder.clone());
    let history = History::load(field.histories())?;
    recorder.healed(ANSWERED)?;
    barrier(&recorded, &history.partitions(), PATIENCE).await.map_err(|stop| stop.to_string())?;
    for (partition, id, generation) in open_appends(&history) {
        recorded.fate(&partition, id, generation).await?;
    }
    let content = Content::read(&*opened.ledger()).await.map_err(|stop| stop.to_string())?;
    drop(recorded);
    opened.close().await;
    recorder.close()?;
    Ok(content)
}

fn open_appends(history: &History) -> Vec<(PartitionId, AppendId, Generation)> {
    let open = history.invocations.iter().filter(|call| call.is_open());
    open.filter_map(|call| match &call.call {
        Call::Append { lease, id, .. } => Some((lease.partition.clone(), *id, lease.generation)),
        Call::Claim(claim) => {
            let generation = claim.observed.generation().unwrap_or(Generation::FIRST);
            Some((claim.partition.clone(), claim.acquisition.into(), generation))
        }
        _ => None,
    })
    .collect()
}
