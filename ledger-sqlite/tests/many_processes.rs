//! Goal: many processes on one file lose nothing that was acknowledged, keep nothing that was refused, and never see a
//! busy file. Method: eight real processes take turns on four partitions; two are killed and one is paused past its
//! lease in the middle; each writes a journal of what it was told; then journals and log are compared.
//!
//! `FENCED_LEDGER_FULL=1` runs 20 seconds, the everyday run 4.

mod common;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use ledger_core::{
    Append, AppendId, Event, FencedLedger, FencedLedgerExt, Holder, Lease, LedgerError, NewEvent, PartitionId, Reason,
    Released, Ttl, Verification,
};
use ledger_sqlite::SqliteLedger;
use rustix::process::{Pid, Signal, kill_process};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const PROCESSES: usize = 8;
const PARTITIONS: usize = 4;
const TTL_MILLIS: i64 = 700;
/// How many appends a worker makes before it lets others have the partition.
const TURN: usize = 40;

#[test]
fn eight_processes_on_one_file_keep_what_was_acknowledged_and_nothing_else() {
    eight_processes().expect("nothing lost, nothing refused kept, no error seen by a caller");
}

#[test]
#[ignore = "one of the processes that the other test of this file starts"]
fn takes_turns_until_its_time_is_over() {
    let setting = |name: &str| std::env::var(name).expect("set by the test that starts this process");
    worker(&common::given_file(), Path::new(&setting("JOURNAL")), &setting("HOLDER"), &setting("SECONDS"))
        .expect("a worker ends when its time is over");
}

/// What a worker was told, a line each, written in one call so that a kill leaves whole lines.
struct Journal(File);

impl Journal {
    fn note(&mut self, word: &str, what: impl std::fmt::Display) -> Result<()> {
        Ok(self.0.write_all(format!("{word} {what}\n").as_bytes())?)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn worker(database: &Path, journal: &Path, name: &str, seconds: &str) -> Result<()> {
    let mut journal = Journal(File::create(journal)?);
    let ledger = SqliteLedger::open(database)?;
    let (start, time) = (Instant::now(), Duration::from_secs(seconds.parse()?));
    let first: usize = name.bytes().map(usize::from).sum();
    let mut turn = first;
    while start.elapsed() < time {
        turn += 1;
        let partition = partition(turn % PARTITIONS)?;
        let ttl = Ttl::from_millis(TTL_MILLIS)?;
        match ledger.claim_when_free(&partition, &Holder::new(name)?, ttl, Duration::from_millis(200)).await {
            Ok(claimed) => {
                journal.note("holds", &partition)?;
                write_for_a_while(&ledger, claimed.lease, &mut journal).await?;
                journal.note("left", &partition)?;
            }
            // Others hold it: go and look at the next one.
            Err(LedgerError::Rejected(rejection))
                if matches!(rejection.reason, Reason::Held | Reason::ObservationOutdated) => {}
            Err(error) => journal.note("error", error)?,
        }
    }
    Ok(())
}

async fn write_for_a_while(ledger: &SqliteLedger, mut lease: Lease, journal: &mut Journal) -> Result<()> {
    for number in 0..TURN {
        let id = AppendId::mint();
        let append = Append::with_id(id, [NewEvent::of("entry", &id)?, NewEvent::of("entry", &id)?])?;
        journal.note("sent", id)?;
        match ledger.append(&lease, &append).await {
            Ok(appended) => journal.note("stored", format_args!("{id} {}", appended.entry.first))?,
            Err(LedgerError::Rejected(rejection)) => {
                journal.note("refused", format_args!("{id} {}", rejection.reason))?;
                return Ok(());
            }
            Err(error) => journal.note("error", error)?,
        }
        if number % 10 == 9 {
            match ledger.renew(&lease, None).await {
                Ok(renewal) => lease = renewal.lease,
                Err(LedgerError::Rejected(rejection)) => {
                    journal.note("late", rejection.reason)?;
                    return Ok(());
                }
                Err(error) => journal.note("error", error)?,
            }
        }
    }
    match ledger.release(&lease).await {
        Ok(Released::AlreadyEnded { .. }) => journal.note("late", "AlreadyEnded"),
        Ok(Released::Now { .. }) => Ok(()),
        Err(error) => journal.note("error", error),
    }
}

fn eight_processes() -> Result<()> {
    let seconds = if std::env::var_os("FENCED_LEDGER_FULL").is_some() { 20 } else { 4 };
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&database)?;
    let start = Instant::now();
    let journals: Vec<PathBuf> = (0..PROCESSES).map(|nth| folder.path().join(format!("journal-{nth}"))).collect();
    let mut workers = Workers::start(&database, &journals, seconds)?;

    // Phase 1: in the first third, one holder is paused in the middle of its tenure, until another has taken over.
    let quarter = Duration::from_secs(seconds) / 4;
    wait_until("all processes to write", || Ok(journals.iter().all(|journal| stored(journal) > 0)))?;
    let (held, generation) = pause_a_holder(&workers, &journals, &database, &ledger)?;
    wait_until("another to take over from the paused one", || Ok(generation_of(&ledger, &held)? > generation))?;
    kill_process(workers.pid(0), Signal::CONT)?;

    // Phase 2: two others are killed, at a quarter and at half of the time.
    for (nth, when) in [(1, quarter), (2, quarter * 2)] {
        wait_until("the time of a kill", || Ok(start.elapsed() >= when))?;
        workers.0[nth].kill()?;
        workers.0[nth].wait()?;
    }

    // Phase 3: the rest ends by itself.
    for nth in (0..PROCESSES).filter(|nth| !(1..=2).contains(nth)) {
        let mut status = None;
        wait_until(&format!("worker {nth} to end"), || {
            status = workers.0[nth].try_wait()?;
            Ok(status.is_some())
        })?;
        if !status.is_some_and(|status| status.success()) {
            return Err(format!("worker {nth} ended with {status:?}").into());
        }
    }
    compare(&ledger, &journals)
}

/// Stops process 0 at a moment at which its journal says that it holds a partition whose lease is its own.
fn pause_a_holder(
    workers: &Workers,
    journals: &[PathBuf],
    database: &Path,
    ledger: &SqliteLedger,
) -> Result<(PartitionId, i64)> {
    let mut paused = None;
    wait_until("process 0 to be paused while it holds a partition", || {
        kill_process(workers.pid(0), Signal::STOP)?;
        let text = std::fs::read_to_string(&journals[0])?;
        let last = text.lines().rfind(|line| line.starts_with("holds ") || line.starts_with("left "));
        if let Some(name) = last.and_then(|line| line.strip_prefix("holds ")) {
            let partition = PartitionId::new(name)?;
            // One that was stopped inside of its COMMIT holds the lock of the whole file: then nobody goes on.
            if !is_file_free(database)? {
                kill_process(workers.pid(0), Signal::CONT)?;
                return Ok(false);
            }
            paused = Some((partition.clone(), generation_of(ledger, &partition)?));
            return Ok(true);
        }
        kill_process(workers.pid(0), Signal::CONT)?;
        Ok(false)
    })?;
    paused.ok_or_else(|| "no holder was paused".into())
}

/// Whether the write lock can be had: the others let it go within milliseconds, a stopped one does not.
fn is_file_free(database: &Path) -> Result<bool> {
    // A signal reaches the threads of a process one after the other.
    std::thread::sleep(Duration::from_millis(5));
    let shell = rusqlite::Connection::open(database)?;
    for _ in 0..50 {
        // Own pauses: the engine's handler starves among so many writers.
        shell.busy_timeout(Duration::ZERO)?;
        if shell.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_micros(700));
    }
    Ok(false)
}

#[tokio::main(flavor = "current_thread")]
async fn generation_of(ledger: &SqliteLedger, partition: &PartitionId) -> Result<i64> {
    let state = ledger.observe(partition).await?;
    Ok(state.tenure.map_or(0, |tenure| tenure.lease.generation.get()))
}

/// Journals against the log: what was acknowledged is there once, what was refused is not, and nobody saw an error.
#[tokio::main(flavor = "current_thread")]
async fn compare(ledger: &SqliteLedger, journals: &[PathBuf]) -> Result<()> {
    let mut in_log: HashMap<String, Vec<i64>> = HashMap::new();
    for nth in 0..PARTITIONS {
        let partition = partition(nth)?;
        let start: Vec<(String, i64)> = Vec::new();
        let found = ledger.fold(&partition, start, |mut found, event: Event| {
            if !event.kind.is_own() && event.position == event.entry.first {
                found.push((event.payload.as_str().trim_matches('"').to_owned(), event.position.get()));
            }
            found
        });
        for (id, position) in found.await? {
            in_log.entry(id).or_default().push(position);
        }
        match ledger.verify(&partition, None).await? {
            Verification::Clean { .. } => {}
            broken => return Err(format!("verify of {partition}: {broken:?}").into()),
        }
    }

    let (mut stored, mut refused, mut late, mut sent) = (0, 0, 0, HashSet::new());
    for journal in journals {
        for line in std::fs::read_to_string(journal)?.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["stored", id, first] => {
                    stored += 1;
                    if in_log.get(*id) != Some(&vec![first.parse()?]) {
                        return Err(format!("{id}, acknowledged at {first}, is at {:?}", in_log.get(*id)).into());
                    }
                }
                ["refused", id, ..] => {
                    refused += 1;
                    if in_log.contains_key(*id) {
                        return Err(format!("{id} was refused and is in the log").into());
                    }
                }
                ["sent", id] => {
                    sent.insert((*id).to_owned());
                }
                ["late", _] => late += 1,
                ["error", ..] => return Err(format!("a caller saw: {line}").into()),
                _ => {}
            }
        }
    }
    if let Some(foreign) = in_log.keys().find(|id| !sent.contains(*id)) {
        return Err(format!("{foreign} is in the log and nobody sent it").into());
    }
    // What the paused one does first when it wakes: an append, a renewal, or the release of what is no longer its own.
    if stored < PROCESSES || refused + late == 0 {
        return Err(format!("too little happened: {stored} stored, {refused} refused, {late} late").into());
    }
    println!(
        "{stored} appends acknowledged and found, {refused} refused and not found, {late} late renewals and releases, {} sent",
        sent.len()
    );
    Ok(())
}

fn partition(nth: usize) -> Result<PartitionId> {
    Ok(PartitionId::new(format!("p{nth}"))?)
}

fn stored(journal: &Path) -> usize {
    // A worker that has not started yet has no journal.
    std::fs::read_to_string(journal).map_or(0, |text| text.lines().filter(|line| line.starts_with("stored ")).count())
}

fn wait_until(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > Duration::from_secs(60) {
            return Err(format!("waited a minute for {what}").into());
        }
        // Between two looks at the condition.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

struct Workers(Vec<Child>);

impl Workers {
    fn start(database: &Path, journals: &[PathBuf], seconds: u64) -> Result<Self> {
        let start = |(nth, journal): (usize, &PathBuf)| {
            let journal = journal.to_str().ok_or("a journal with an odd name")?;
            let setting = [("JOURNAL", journal), ("HOLDER", &format!("w{nth}")), ("SECONDS", &seconds.to_string())];
            Ok(common::process("takes_turns_until_its_time_is_over", database, &setting))
        };
        Ok(Self(journals.iter().enumerate().map(start).collect::<Result<_>>()?))
    }

    fn pid(&self, nth: usize) -> Pid {
        Pid::from_child(&self.0[nth])
    }
}

/// No worker outlives a test that failed.
impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // It may have ended by itself.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}
