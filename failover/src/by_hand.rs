//! A primary, a standby and writers; a SIGKILL, a promotion, and what is there afterwards.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ledger_core::{
    Append, Claim, FencedLedger, Generation, Holder, Lease, NewEvent, PageSize, PartitionId, Reason, Ttl,
};
use ledger_postgres::PostgresLedger;
use test_postgres::{Options, Server, Wanted};

use crate::Result;
use crate::check::{self, Found};
use crate::journal::{self, Word};
use crate::place::Place;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many writers, a process each.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// How many partitions they share.
    #[arg(long, default_value_t = 4)]
    partitions: usize,
    /// How often each fault is injected, each time on servers of its own.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many appends each writer has had acknowledged before the fault comes.
    #[arg(long, default_value_t = 200)]
    appends: usize,
}

/// How the standby follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standby {
    /// Nothing is acknowledged that it has not got.
    Synchronous,
    /// Its receiver is stopped a while before the primary is killed.
    Stopped,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let mut rows = Vec::new();
    for (standby, fault) in [
        (Standby::Synchronous, "SIGKILL of the primary, synchronous standby promoted"),
        (Standby::Stopped, "the same, asynchronous standby whose receiver had been stopped"),
    ] {
        let mut all = Found::default();
        for nth in 1..=arguments.rounds {
            let found = round(&arguments, standby).await?;
            println!("{fault}, {nth} of {}: {found}", arguments.rounds);
            match standby {
                Standby::Synchronous => found.must_be_whole()?,
                Standby::Stopped => {
                    found.must_be_consistent()?;
                    if found.lost == 0 {
                        return Err("nothing was lost, so nothing was shown".into());
                    }
                }
            }
            all = all.and(found);
        }
        rows.push(all.row(fault, arguments.rounds));
    }
    println!("\n{}", crate::report::table(&rows));
    Ok(())
}

async fn round(arguments: &Arguments, standby: Standby) -> Result<Found> {
    let (primary, second) = servers(standby)?;
    let hosts = [&second, &primary].map(|server| server.socket_dir().display().to_string()).join(",");
    let url = format!("postgresql:///postgres?host={hosts}&user=postgres");
    let place = Place { url, schema: "failover".to_owned() };
    Place { url: primary.url(), ..place.clone() }.install().await?;
    let ledger = place.open().await?;
    let kept = claim(&ledger, "kept", 3_600_000).await?;
    append(&ledger, &kept).await?;
    // All that follows stands on the standby or is lost; what is before it stands on both.
    second.catch_up_with(&primary)?;
    let watch = Watch::start(ledger.clone());
    let mut writers = Writers::start(&place, arguments)?;
    writers.wait_for("every writer to be in the midst of it", arguments.appends, 0)?;
    if standby == Standby::Stopped {
        stop_the_receiver(&second)?;
        writers.wait_for("every writer to go on", arguments.appends, now()?)?;
    }
    let brief = claim(&ledger, "brief", 1_500).await?;

    primary.kill()?;
    second.promote()?;
    let promoted = now()?;

    // Whose lease has not run out by the store's clock goes on under it; whose has is refused.
    append(&ledger, &kept).await?;
    if standby == Standby::Synchronous {
        expect_expired(&ledger, &brief).await?;
    }
    writers.wait_for("every writer to be back", 3, promoted)?;
    writers.stop()?;
    let fell = watch.stop().await?;
    ledger.release(&kept).await?;
    let mut found = check::compare(&ledger, &writers.folder()).await?;
    if fell > 0 {
        found.contradictions.push(format!("{fell} times a generation was seen to fall"));
    }
    Ok(found)
}

fn servers(standby: Standby) -> Result<(Server, Server)> {
    let primary = Options::new(Wanted::OLDEST).start()?;
    let second = primary.standby("second")?;
    if standby == Standby::Synchronous {
        primary.set_synchronous(&["second"])?;
    }
    Ok((primary, second))
}

/// As when the network between the two is gone: what is acknowledged from here on is on the primary alone.
fn stop_the_receiver(standby: &Server) -> Result<()> {
    standby.set("primary_conninfo", "")?;
    standby.reload()?;
    wait_until("the receiver to end", || Ok(standby.value("select count(*) from pg_stat_wal_receiver")? == "0"))
}

async fn claim(ledger: &PostgresLedger, partition: &str, millis: i64) -> Result<Lease> {
    let partition = PartitionId::new(partition)?;
    let observed = ledger.observe(&partition).await?.observation();
    Ok(ledger.claim(&Claim::new(partition, Holder::new("by-hand")?, Ttl::from_millis(millis)?, observed)).await?.lease)
}

async fn append(ledger: &PostgresLedger, lease: &Lease) -> Result<()> {
    let append = Append::new([NewEvent::of("kept", &1)?])?;
    let start = Instant::now();
    // The first try may meet the end of the old server: the same append again is written once.
    loop {
        match ledger.append(lease, &append).await {
            Ok(_) => return Ok(()),
            Err(error) if error.rejection().is_none() && start.elapsed() < Duration::from_secs(30) => {}
            Err(error) => return Err(format!("a lease of an hour does not go on: {error}").into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn expect_expired(ledger: &PostgresLedger, lease: &Lease) -> Result<()> {
    while ledger.observe(&lease.partition).await?.judged.time < lease.expires_at {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let append = Append::new([NewEvent::of("late", &1)?])?;
    match ledger.append(lease, &append).await {
        Err(error) if error.rejection().is_some_and(|rejection| rejection.reason == Reason::Expired) => Ok(()),
        other => Err(format!("a lease that has run out by the store's clock: {other:?}").into()),
    }
}

/// Looks at every partition again and again, over the failover.
struct Watch(Arc<AtomicBool>, tokio::task::JoinHandle<usize>);

impl Watch {
    fn start(ledger: PostgresLedger) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        Self(stop, tokio::spawn(async move { watch(&ledger, &stopped).await }))
    }

    /// How often a generation was lower than before.
    async fn stop(self) -> Result<usize> {
        self.0.store(true, Ordering::SeqCst);
        Ok(self.1.await?)
    }
}

async fn watch(ledger: &PostgresLedger, stop: &AtomicBool) -> usize {
    let (mut fell, mut highest) = (0, std::collections::HashMap::<PartitionId, Generation>::new());
    while !stop.load(Ordering::SeqCst) {
        // While there is no primary there is nothing to see.
        let Ok(page) = ledger.partitions(None, PageSize::MAX).await else { continue };
        for partition in page.partitions {
            let Ok(state) = ledger.observe(&partition).await else { continue };
            let Some(tenure) = state.tenure else { continue };
            let seen = tenure.lease.generation;
            let before = highest.insert(partition, seen);
            fell += usize::from(before.is_some_and(|before| before > seen));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fell
}

/// Writers, a process each. None outlives this.
struct Writers {
    folder: tempfile::TempDir,
    children: Vec<(String, Child)>,
}

impl Writers {
    fn start(place: &Place, arguments: &Arguments) -> Result<Self> {
        let mut writers = Self { folder: tempfile::tempdir()?, children: Vec::new() };
        for nth in 0..arguments.writers {
            let name = format!("w{nth}");
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["worker", "--seconds", "120", "--schema", &place.schema, "--holder", &name]);
            command.arg("--partitions").arg(arguments.partitions.to_string()).arg("--journals").arg(writers.folder());
            command.env("FENCED_LEDGER_FAILOVER_URL", &place.url).stdin(Stdio::null());
            writers.children.push((name, command.spawn()?));
        }
        Ok(writers)
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Waits until each has so many appends acknowledged since a moment.
    fn wait_for(&mut self, what: &str, appends: usize, since: u64) -> Result<()> {
        let folder = self.folder();
        wait_until(what, || {
            for (name, child) in &mut self.children {
                if let Some(status) = child.try_wait()? {
                    return Err(format!("writer {name} ended before its time: {status}").into());
                }
                let file = folder.join(format!("{name}.journal"));
                let lines = if file.exists() { journal::read(&file)? } else { Vec::new() };
                let stored = lines.iter().filter(|line| line.at > since && matches!(line.word, Word::Stored(..)));
                if stored.count() < appends {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn stop(&mut self) -> Result<()> {
        std::fs::write(self.folder.path().join("stop"), "")?;
        for (name, child) in &mut self.children {
            let mut ended = None;
            wait_until("a writer to end", || {
                ended = child.try_wait()?;
                Ok(ended.is_some())
            })?;
            if !ended.is_some_and(|status| status.success()) {
                return Err(format!("writer {name}: {ended:?}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn now() -> Result<u64> {
    Ok(u64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros())?)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > Duration::from_secs(90) {
            return Err(format!("waited 90 s for {what}").into());
        }
        // Between two looks at the condition.
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
