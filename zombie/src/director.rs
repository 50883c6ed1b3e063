//! The parent: starts two workers, stops the first holder in the middle, lets the other take over, wakes the first.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ledger_core::Json;
use rustix::process::{Pid, Signal, kill_process};

use crate::report::Report;
use crate::store::{self, Store};
use crate::{Result, summary};

const SHIPPED: &str = include_str!("../data/time-zones.jsonl");
/// How long the whole import may take, for a file of any size.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many appends the import is cut into.
const BATCHES: usize = 20;
const PACE_MILLIS: u64 = 100;

/// `postgres`: on PostgreSQL, by this URL or on a server of its own.
pub(crate) async fn run(file: Option<PathBuf>, kill: bool, postgres: Option<Option<String>>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let input = match file {
        Some(file) => file,
        None => {
            let shipped = folder.path().join("time-zones.jsonl");
            std::fs::write(&shipped, SHIPPED)?;
            shipped
        }
    };
    let lines = store::lines(&input)?;
    let store = match postgres {
        None => Store::Sqlite { file: folder.path().join("ledger.db") },
        Some(url) => Store::on_postgres(url)?,
    };
    // Installed before the workers come, so that what they do first is to claim.
    store.install().await?;
    let outcome = import(&store, &input, &lines, kill).await;
    store.remove().await?;
    outcome
}

async fn import(store: &Store, input: &Path, lines: &[Json], kill: bool) -> Result<()> {
    let ledger = store.open().await?;
    let described = ledger.describe().await?;
    println!(
        "Two processes, `a` and `b`, want to import {} lines into one ledger on {} {}. One of them holds the partition \
         at a time.",
        lines.len(),
        described.engine,
        described.version
    );
    let batch = lines.len().div_ceil(BATCHES).max(1);
    let mut cast = Cast::start(store, input, batch)?;

    let first = cast.until(
        "one of them to be the holder and get a third done",
        |report| matches!(report, Report::Appended { imported, .. } if imported * 3 >= lines.len()),
    )?;
    let second = if first == 'a' { 'b' } else { 'a' };
    if kill {
        println!("--- `{first}` is killed (SIGKILL). Its lease goes on until it runs out.");
        cast.child(first).kill()?;
    } else {
        println!("--- `{first}` is paused in the middle (SIGSTOP). It does not know that time goes on.");
        cast.signal(first, Signal::STOP)?;
    }

    cast.until(
        "the other to take over and get some work done",
        |report| matches!(report, Report::Appended { imported, .. } if imported * 2 >= lines.len()),
    )?;
    if !kill {
        println!("--- `{first}` is woken (SIGCONT). It still believes that it holds the partition, and writes.");
        cast.signal(first, Signal::CONT)?;
        let refused =
            cast.until("the woken worker to be refused", |report| matches!(report, Report::Refused { .. }))?;
        if refused != first {
            return Err(format!("`{second}` was refused, and it holds the partition").into());
        }
    }
    cast.until("the import to end", |report| matches!(report, Report::Finished { .. }))?;
    cast.end()?;

    summary::print(&*ledger, lines).await
}

/// The two workers and what they report.
struct Cast {
    workers: Vec<(char, Child)>,
    reports: Receiver<(char, Result<Report>)>,
    start: Instant,
}

impl Cast {
    fn start(store: &Store, input: &Path, batch: usize) -> Result<Self> {
        let (sender, reports) = channel();
        let mut cast = Self { workers: Vec::new(), reports, start: Instant::now() };
        for name in ['a', 'b'] {
            let mut child = Command::new(std::env::current_exe()?)
                .envs([store.tell()?])
                .args(["worker", "--holder", &name.to_string(), "--input"])
                .arg(input)
                .args(["--batch", &batch.to_string(), "--pace", &PACE_MILLIS.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            let output = child.stdout.take().ok_or("a worker without standard output")?;
            cast.workers.push((name, child));
            let sender: Sender<_> = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let report = line.map_err(Into::into).and_then(|line| Ok(serde_json::from_str(&line)?));
                    // The parent has gone on without this report only when it is about to end.
                    if sender.send((name, report)).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(cast)
    }

    fn child(&mut self, name: char) -> &mut Child {
        let place = usize::from(name == 'b');
        &mut self.workers[place].1
    }

    fn signal(&mut self, name: char, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(self.child(name));
        Ok(kill_process(pid, signal)?)
    }

    /// Prints reports until one is what is waited for, and says whose it was.
    fn until(&mut self, what: &str, wanted: impl Fn(&Report) -> bool) -> Result<char> {
        loop {
            let left = PATIENCE.saturating_sub(self.start.elapsed());
            let (name, report) =
                self.reports.recv_timeout(left).map_err(|error| format!("waiting for {what}: {error}"))?;
            let report = report?;
            self.say(name, &report);
            if wanted(&report) {
                return Ok(name);
            }
        }
    }

    fn say(&self, name: char, report: &Report) {
        let seconds = self.start.elapsed().as_secs_f64();
        let text = match report {
            Report::Claimed { generation, found: 0 } => {
                format!("became holder, generation {generation}; the log is empty")
            }
            Report::Claimed { generation, found } => {
                format!("took over, generation {generation}; found {found} lines in the log and goes on from there")
            }
            Report::Appended { lines, imported, head } => {
                format!("appended {lines} lines, {imported} in all; the log ends at {head}")
            }
            Report::Refused { why } => format!("was refused and stops: {why}"),
            Report::Finished { imported } => {
                format!("finished: {imported} lines are in the ledger; released the partition")
            }
        };
        println!("{seconds:6.2} s  {name}  {text}");
    }

    fn end(mut self) -> Result<()> {
        for (_, child) in &mut self.workers {
            child.wait()?;
        }
        self.workers.clear();
        Ok(())
    }
}

/// No worker outlives the parent, also where the parent gives up.
impl Drop for Cast {
    fn drop(&mut self) {
        for (_, child) in &mut self.workers {
            // It may have ended by itself; a paused one is killed just so.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
