//! What a round happens on: the store with what is around it, and the worker processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conformance_tests::history::Recorder;
use rustix::process::{Pid, Signal, kill_process};
use test_postgres::{Clock, Installation, Options, Proxy, Server};

use crate::Result;
use crate::clock::SteppedClock;
use crate::disk::SmallDisk;
use crate::plan::{Engine, Plan};
use crate::store::Store;
use crate::worker::{Task, VARIABLE};

/// A field, set up; all of it ends with the value.
pub(crate) struct Field {
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    pub(crate) workers: Vec<Worker>,
    /// Cut and held before the server is gone.
    pub(crate) proxy: Option<Proxy>,
    pub(crate) server: Option<Server>,
    pub(crate) clock: Option<Clock>,
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) recorder: Recorder,
    /// What could not be set up, and why.
    pub(crate) not_run: Vec<String>,
    pub(crate) folder: PathBuf,
}

impl Field {
    pub(crate) fn set_up(plan: &Plan, folder: &Path) -> Result<Self> {
        let histories = folder.join("histories");
        fs::create_dir_all(&histories)?;
        let recorder = Recorder::create(histories.join("nemesis.jsonl"), "nemesis")?;
        let mut not_run = Vec::new();
        let mut disk = None;
        if plan.small_disk {
            match SmallDisk::mount(&folder.join("disk")) {
                Ok(mounted) => disk = Some(mounted),
                Err(error) => not_run.push(format!("full disk: {error}")),
            }
        }
        let home = disk.as_ref().map_or_else(|| folder.to_owned(), |disk| disk.folder().to_owned());
        let (mut server, mut proxy, mut clock) = (None, None, None);
        let store = match plan.engine {
            Engine::Sqlite => Store::Sqlite {
                file: home.join("ledger.db"),
                clock: folder.join("clock"),
                control: folder.join("control.db"),
            },
            Engine::Postgres => {
                let shared = clock_folder(plan)?;
                match Clock::new(&shared) {
                    Ok(found) => clock = Some(found),
                    Err(error) => not_run.push(format!("clock steps on PostgreSQL: {error}")),
                }
                let started = start_server(plan, disk.as_ref(), clock.as_ref())?;
                let front = started.proxy()?;
                let store = Store::Postgres { url: front.url(), direct: started.url() };
                (server, proxy) = (Some(started), Some(front));
                store
            }
        };
        Ok(Self {
            plan: plan.clone(),
            store,
            workers: Vec::new(),
            proxy,
            server,
            clock,
            disk,
            recorder,
            not_run,
            folder: folder.to_owned(),
        })
    }

    /// What the store says it is.
    pub(crate) fn engine(&self) -> String {
        match &self.server {
            Some(server) => format!("PostgreSQL {}", server.installation().version()),
            None => "SQLite".to_owned(),
        }
    }

    pub(crate) fn histories(&self) -> PathBuf {
        self.folder.join("histories")
    }

    pub(crate) fn stop_file(&self) -> PathBuf {
        self.folder.join("stop")
    }

    pub(crate) fn start_workers(&mut self) -> Result<()> {
        for nth in 0..self.plan.workers {
            let worker = Worker { holder: format!("w{nth}"), lives: 0, child: None };
            self.workers.push(worker);
            self.start_worker(nth)?;
        }
        Ok(())
    }

    /// Starts a worker, or starts it again: under the same holder's name, as another process.
    pub(crate) fn start_worker(&mut self, nth: usize) -> Result<()> {
        let worker = &mut self.workers[nth];
        worker.lives += 1;
        let process = format!("{}-{}", worker.holder, worker.lives);
        let seed = self.plan.seed.wrapping_add(self.plan.number * 1_000 + nth as u64 * 100 + worker.lives * 10);
        let task = Task {
            store: self.store.clone(),
            holder: worker.holder.clone(),
            ttl: self.plan.ttl,
            partitions: self.plan.partitions,
            seed,
            histories: self.folder.join("histories"),
            stop: self.folder.join("stop"),
        };
        let child = Command::new(std::env::current_exe()?)
            .env(VARIABLE, serde_json::to_string(&task)?)
            .args(["worker", &process])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        worker.child = Some(child);
        Ok(())
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        // A note is for people: the round goes on without it.
        let _ = self.recorder.note(what);
    }

    /// Sets the clock of the store ahead of the real one, or behind it.
    pub(crate) fn set_clock(&self, ahead: f64) -> Result<()> {
        match (&self.store, &self.clock) {
            (Store::Sqlite { clock, .. }, _) => SteppedClock::set(clock, ahead),
            (Store::Postgres { .. }, Some(clock)) => Ok(clock.set(ahead)?),
            (Store::Postgres { .. }, None) => Ok(()),
        }
    }

    /// Waits until all workers have ended by themselves, and kills those that do not. Says how many that were.
    pub(crate) fn end_workers(&mut self, patience: Duration) -> Result<usize> {
        fs::write(self.stop_file(), "")?;
        let deadline = Instant::now() + patience;
        let mut killed = 0;
        for worker in &mut self.workers {
            worker.signal(Signal::CONT);
            let Some(child) = &mut worker.child else { continue };
            while child.try_wait()?.is_none() && Instant::now() < deadline {
                // Between two looks: what is waited for is the end of the process.
                std::thread::sleep(Duration::from_millis(10));
            }
            killed += usize::from(child.try_wait()?.is_none());
            worker.kill();
        }
        Ok(killed)
    }
}

/// One holder's name and the process that uses it now.
pub(crate) struct Worker {
    pub(crate) holder: String,
    lives: u64,
    child: Option<Child>,
}

impl Worker {
    /// A signal to the process; one that has gone meanwhile is none to complain about.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Ends the process, paused or not.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether the process has ended by itself, which it does not do before it is told.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where a server's user can read the clock's file, which the folder of a round need not be.
fn clock_folder(plan: &Plan) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("campaign-clock-{}-{}", std::process::id(), plan.number));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

impl Drop for Field {
    fn drop(&mut self) {
        if let Ok(folder) = clock_folder(&self.plan) {
            // Whoever reads it now is about to end.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// A server of its own for each round, by turns of each major that is installed.
fn start_server(plan: &Plan, disk: Option<&SmallDisk>, clock: Option<&Clock>) -> Result<Server> {
    let mut found = Installation::all();
    found.dedup_by_key(|installation| installation.major());
    // Shifted by one after four, so that each major has its share of the rounds with a restore.
    let turn = usize::try_from(plan.number / 2)?;
    let nth = (turn + turn / 4) % found.len().max(1);
    let Some(installation) = found.get(nth) else {
        return Err(Installation::find(test_postgres::Wanted::Any).err().map_or("no server".into(), Into::into));
    };
    let mut options = Options::new(test_postgres::Wanted::Any).set("max_wal_size", "64MB");
    if let Some(disk) = disk {
        options = options.folder(disk.folder());
    }
    if let Some(clock) = clock {
        options = clock.under(options);
    }
    Ok(options.start_from(installation)?)
}
