//! A worker process: it opens the ledger, records every call, and works until it is told to stop, or killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance_tests::history::{Recorded, Recorder};
use ledger_core::{FencedLedger, Holder, Ttl};
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::work::Work;
use crate::{Result, control};

/// Tells a worker its task. Not an argument: a URL may hold a password, and anyone may list arguments.
pub(crate) const VARIABLE: &str = "FENCED_LEDGER_CAMPAIGN_TASK";

/// So many things a worker does at once.
const TASKS: u64 = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process, by a name that no other one of the round has.
    process: String,
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) store: Store,
    pub(crate) holder: String,
    pub(crate) ttl: Duration,
    pub(crate) partitions: usize,
    pub(crate) seed: u64,
    /// The folder of the histories.
    pub(crate) histories: PathBuf,
    /// The file whose being there says that it is time to stop.
    pub(crate) stop: PathBuf,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    // Also a worker that is stopped by a signal ends with its parent.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let task = std::env::var(VARIABLE).map_err(|_| "a worker is started by its parent alone")?;
    let task: Task = serde_json::from_str(&task)?;
    let stop = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(task.stop.clone(), stop.clone()));
    let opened = loop {
        match task.store.open(false).await {
            Ok(opened) => break opened,
            // The server may be down just now.
            Err(_) if !stop.load(Ordering::Relaxed) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(_) => return Ok(()),
        }
    };
    let file = task.histories.join(format!("{}.jsonl", arguments.process));
    let recorder = Arc::new(Recorder::create(file, &arguments.process)?);
    let ledger: Arc<dyn FencedLedger> = Arc::new(Recorded::new(opened.ledger(), recorder.clone()));
    let holder = Holder::new(&task.holder)?;
    let ttl = Ttl::try_from(task.ttl)?;
    let mut running = Vec::new();
    for nth in 0..TASKS {
        let work = Work::new(ledger.clone(), holder.clone(), ttl, task.partitions, task.seed + nth, stop.clone());
        running.push(tokio::spawn(work.run()));
    }
    running.push(tokio::spawn(control::run(task.store.clone(), task.seed, stop.clone())));
    for running in running {
        running.await?;
    }
    watching.await?;
    drop(ledger);
    opened.close().await;
    Ok(recorder.close()?)
}

async fn watch(file: PathBuf, stop: Arc<AtomicBool>) {
    while !file.exists() {
        // Between two looks for the file.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    stop.store(true, Ordering::Relaxed);
}
