//! The parent: starts workers, stops the first holder in the middle, lets another take over, wakes the first. Then the same
//! with the second, when it has sent a request.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ledger_core::Json;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::bank::Bank;
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
    let bank = Bank::open()?;
    let mut cast = Cast::new(store, input, batch, bank.address)?;
    cast.start('a')?;
    cast.start('b')?;

    let first = first_act(&mut cast, lines.len(), kill)?;
    let second = if first == 'a' { 'b' } else { 'a' };
    second_act(&mut cast, &bank, second, kill)?;
    cast.until("the import to end", |report| matches!(report, Report::Finished { .. }))?;
    cast.end()?;

    summary::print(&*ledger, lines, bank.counted()).await
}

/// The first holder is stopped in the middle; gives which that was.
fn first_act(cast: &mut Cast, lines: usize, kill: bool) -> Result<char> {
    let first = cast.until(
        "one of them to be the holder and get a third done",
        |report| matches!(report, Report::Appended { imported, .. } if imported * 3 >= lines),
    )?;
    if kill {
        println!("--- `{first}` is killed (SIGKILL). Its lease goes on until it runs out.");
        cast.child(first).kill()?;
    } else {
        println!("--- `{first}` is paused in the middle (SIGSTOP). It does not know that time goes on.");
        cast.signal(first, Signal::STOP)?;
    }

    cast.until(
        "the other to take over and get some work done",
        |report| matches!(report, Report::Appended { imported, .. } if imported * 2 >= lines),
    )?;
    if !kill {
        println!("--- `{first}` is woken (SIGCONT). It still believes that it holds the partition, and writes.");
        cast.signal(first, Signal::CONT)?;
        let refused =
            cast.until("the woken worker to be refused", |report| matches!(report, Report::Refused { .. }))?;
        if refused != first {
            return Err(format!("`{refused}` was refused, and it holds the partition").into());
        }
    }
    Ok(first)
}

/// The second holder is stopped when its request has arrived at the bank and the answer has not arrived at it.
fn second_act(cast: &mut Cast, bank: &Bank, second: char, kill: bool) -> Result<()> {
    println!("--- A third process, `c`, waits for its turn.");
    cast.start('c')?;
    // It may have got so far while the first one was being refused.
    if !cast.has_sent {
        cast.until("the second holder to send its request", |report| matches!(report, Report::Sends { .. }))?;
    }
    let key = bank.payment()?;
    if kill {
        println!("--- The bank has got `{key}`; before it answers, `{second}` is killed (SIGKILL).");
        cast.child(second).kill()?;
    } else {
        println!("--- The bank has got `{key}`; before it answers, `{second}` is paused (SIGSTOP).");
        cast.signal(second, Signal::STOP)?;
        cast.is_stopped(second)?;
    }
    bank.answer();
    cast.until("the third to settle the request", |report| matches!(report, Report::Settled { .. }))?;
    if !kill {
        println!("--- `{second}` is woken (SIGCONT). The bank's answer is there, and it wants to write it down.");
        cast.signal(second, Signal::CONT)?;
        let refused =
            cast.until("the late answer to be refused", |report| matches!(report, Report::AnswerRefused { .. }))?;
        if refused != second {
            return Err(format!("`{refused}` was refused, and it holds the partition").into());
        }
    }
    Ok(())
}

/// The workers and what they report.
struct Cast {
    /// How each is started.
    store: (&'static str, String),
    arguments: Vec<OsString>,
    workers: Vec<(char, Child)>,
    sender: Sender<(char, Result<Report>)>,
    reports: Receiver<(char, Result<Report>)>,
    start: Instant,
    /// Whether one has reported that it sends a request.
    has_sent: bool,
}

impl Cast {
    fn new(store: &Store, input: &Path, batch: usize, bank: SocketAddr) -> Result<Self> {
        let (sender, reports) = channel();
        let numbers = [batch.to_string(), PACE_MILLIS.to_string(), bank.to_string()];
        let mut arguments: Vec<OsString> = vec!["--input".into(), input.into()];
        for (name, number) in ["--batch", "--pace", "--bank"].into_iter().zip(numbers) {
            arguments.extend([name.into(), number.into()]);
        }
        Ok(Self {
            store: store.tell()?,
            arguments,
            workers: Vec::new(),
            sender,
            reports,
            start: Instant::now(),
            has_sent: false,
        })
    }

    fn start(&mut self, name: char) -> Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .envs([self.store.clone()])
            .args(["worker", "--holder", &name.to_string()])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("a worker without standard output")?;
        self.workers.push((name, child));
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let report = line.map_err(Into::into).and_then(|line| Ok(serde_json::from_str(&line)?));
                // The parent has gone on without this report only when it is about to end.
                if sender.send((name, report)).is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    fn child(&mut self, name: char) -> &mut Child {
        let found = self.workers.iter_mut().find(|(worker, _)| *worker == name);
        &mut found.expect("only workers that were started are named").1
    }

    /// Waits until a worker that was paused stands still.
    fn is_stopped(&mut self, name: char) -> Result<()> {
        let pid = Pid::from_child(self.child(name));
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(()),
            other => Err(format!("`{name}` was to be paused, and is not: {other:?}").into()),
        }
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
            self.has_sent |= matches!(report, Report::Sends { .. });
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
            Report::Sends { key } => format!("has recorded the request `{key}`, and sends it to the bank"),
            Report::Found { key, generation } => {
                format!("finds the request `{key}` of generation {generation} open, and looks it up at the bank")
            }
            Report::Settled { key, transaction } => format!("settled `{key}`: the bank did it as `{transaction}`"),
            Report::MadeBefore { key, generation } => {
                format!("would pay, but `{key}` was sent under generation {generation}: sends nothing")
            }
            Report::AnswerRefused { key, why } => format!("wanted to settle `{key}`, was refused and stops: {why}"),
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
