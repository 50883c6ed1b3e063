//! A holder's append beside another process that hammers the same file with appends under an ended tenure.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ledger_core::{FencedLedger, Lease, PageSize, PartitionId};
use ledger_sqlite::SqliteLedger;

use crate::report::{Report, Row};
use crate::{Plan, Result, fenced};

const ALONE: &str = "alone";

/// Hammers until it is killed.
#[derive(clap::Args)]
pub(crate) struct Hammer {
    #[arg(long)]
    database: PathBuf,
    /// The ended lease, as JSON.
    #[arg(long)]
    lease: String,
}

impl Hammer {
    pub(crate) async fn run(self) -> Result<()> {
        let ledger = SqliteLedger::open(&self.database)?;
        let lease: Lease = serde_json::from_str(&self.lease)?;
        loop {
            if ledger.append(&lease, &fenced::one_event()?).await.is_ok() {
                return Err("a stale append was accepted".into());
            }
        }
    }
}

pub(crate) async fn run(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir_in(&plan.folder)?;
    let database = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&database)?;
    let partition = PartitionId::new("contested")?;
    let stale = fenced::claim(&ledger, &partition, "zombie").await?;
    ledger.release(&stale).await?;
    let lease = fenced::claim(&ledger, &partition, "owner").await?;

    let mut rows = [
        Row::new(ALONE, None),
        Row::new("alone, slowest of 100", None),
        Row::new("beside a zombie", Some(ALONE)),
        Row::new("beside a zombie, slowest of 100", Some("alone, slowest of 100")),
    ];
    for _ in 0..plan.rounds {
        let (median, slow) = latency(&ledger, &lease, plan.time).await?;
        rows[0].rounds.push(median);
        rows[1].rounds.push(slow);
        let zombie = Zombie::start(&database, &stale)?;
        zombie.is_hammering(&ledger, &partition).await?;
        let (median, slow) = latency(&ledger, &lease, plan.time).await?;
        rows[2].rounds.push(median);
        rows[3].rounds.push(slow);
        drop(zombie);
    }
    let refused: u64 =
        ledger.rejections(Some(&partition), None, PageSize::MAX).await?.records.iter().map(|record| record.count).sum();
    let title = format!("a holder's append on SQLite ({refused} stale ones refused beside it)");
    Ok(Report { title, unit: "us", rows: rows.into() })
}

/// Appends one after the other, and returns the median and the 99th percentile, in microseconds.
async fn latency(ledger: &SqliteLedger, lease: &Lease, time: Duration) -> Result<(f64, f64)> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let append = fenced::one_event()?;
        let sent = Instant::now();
        ledger.append(lease, &append).await?;
        samples.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    samples.sort_by(f64::total_cmp);
    let at = |share: usize| samples.get(samples.len() * share / 100).copied().ok_or("no append ended in time");
    Ok((at(50)?, at(99)?))
}

struct Zombie(Child);

impl Zombie {
    fn start(database: &std::path::Path, stale: &Lease) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["hammer", "--database"])
            .arg(database)
            .args(["--lease", &serde_json::to_string(stale)?])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    /// Waits until the count of refusals grows, so that the measurement meets the zombie at work.
    async fn is_hammering(&self, ledger: &SqliteLedger, partition: &PartitionId) -> Result<()> {
        let count = async || -> Result<u64> {
            let page = ledger.rejections(Some(partition), None, PageSize::MAX).await?;
            Ok(page.records.iter().map(|record| record.count).sum())
        };
        let (before, start) = (count().await?, Instant::now());
        while count().await? <= before {
            if start.elapsed() > Duration::from_secs(10) {
                return Err("the zombie did not start".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Zombie {
    fn drop(&mut self) {
        // It has ended by itself only where it failed, and it has said so then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
