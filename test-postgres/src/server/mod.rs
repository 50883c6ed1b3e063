//! A server of one's own.

mod options;
mod replication;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::supervisor::Supervisor;
use crate::user::User;
use crate::{Client, ENV_URL, Error, Installation, Proxy, Wanted};

pub use options::Options;

const SUPERUSER: &str = "postgres";
const DATABASE: &str = "postgres";
const SOCKET: &str = ".s.PGSQL.5432";
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "PostgreSQL's own list has not changed in decades")]
pub enum Shutdown {
    /// Rolls transactions back, cuts connections, writes a checkpoint.
    Fast,
    /// Stops at once without a checkpoint; the next start recovers from the log. As after a loss of power, except that the operating
    /// system's caches survive.
    Immediate,
    /// SIGKILL to all processes.
    Kill,
}

/// A signal for [`Server::signal_process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the ones there is a use for")]
pub enum Signal {
    /// SIGSTOP: pauses the process.
    Stop,
    /// SIGCONT: lets it go on.
    Continue,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// A PostgreSQL server of this process alone, removed with all its files when the value is dropped or the process ends in any way.
///
/// Every method takes `&self`; the ones that start, stop and configure wait for one another.
#[derive(Debug)]
pub struct Server {
    installation: Installation,
    user: User,
    folder: PathBuf,
    state: Mutex<State>,
    proxies: Mutex<u32>,
}

#[derive(Debug)]
struct State {
    supervisor: Supervisor,
    postmaster: Option<i32>,
    settings: BTreeMap<String, String>,
}

impl Server {
    /// The installation it runs from, with its version.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The throw-away folder, which is also the folder of the socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of the socket: what clients call `host`.
    pub fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// The socket itself.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// The superuser's name. There is no password.
    pub fn user(&self) -> &'static str {
        SUPERUSER
    }

    /// The database that is there from the start.
    pub fn database(&self) -> &'static str {
        DATABASE
    }

    /// The connection string of [`database`](Self::database): `postgresql:///postgres?host=/tmp/…&user=postgres`.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The connection string of another database.
    pub fn url_of(&self, database: &str) -> String {
        crate::url(&self.folder, SUPERUSER, database)
    }

    /// A connection to [`database`](Self::database).
    pub fn client(&self) -> Result<Client, Error> {
        Client::connect(&self.socket(), SUPERUSER, DATABASE)
    }

    /// Runs a query on a connection of its own.
    pub fn query(&self, sql: &str) -> Result<Vec<crate::Row>, Error> {
        self.client()?.query(sql)
    }

    /// The one value of a query on a connection of its own.
    pub fn value(&self, sql: &str) -> Result<String, Error> {
        self.client()?.value(sql)
    }

    /// Creates a database with a name of its own (about 30 ms) and gives the name.
    pub fn fresh_database(&self) -> Result<String, Error> {
        let name = crate::fresh_name("d");
        self.query(&format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// A name for a schema that no other test of any process uses; nothing is created. Lower-case letters, digits and `_`.
    pub fn fresh_schema_name(&self) -> String {
        crate::fresh_name("t")
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read(self.folder.join("server.log"))
            .map_or_else(|e| e.to_string(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// Whether the folder is on a file system in memory, where fsync costs nothing: a benchmark has to say so.
    pub fn is_in_memory(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        rustix::fs::statfs(&self.folder).is_ok_and(|fs| [TMPFS, RAMFS].contains(&(fs.f_type as u64 & 0xffff_ffff)))
    }

    /// Starts the server after [`stop`](Self::stop) or [`crash`](Self::crash) and waits until it takes connections (after recovery).
    /// Does nothing where it runs.
    pub fn start(&self) -> Result<(), Error> {
        let mut state = self.state();
        if state.postmaster.is_some_and(runs) {
            return Ok(());
        }
        self.write_settings(&state.settings)?;
        let pid = state.supervisor.ask("start")?;
        let pid: i32 = pid.parse().map_err(|_| self.failed("starting the server"))?;
        state.postmaster = Some(pid);
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Refusals and failed connections alike mean "not yet" as long as the process lives.
            if self.client().is_ok() {
                return Ok(());
            }
            if !runs(pid) {
                return Err(self.failed("starting the server"));
            }
            if Instant::now() > deadline {
                return Err(self.failed("waiting for the server to take connections"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server and waits until all its processes are gone. The folder stays. Does nothing where it does not run.
    pub fn shut_down(&self, how: Shutdown) -> Result<(), Error> {
        self.end(&mut self.state(), how)
    }

    /// [`Shutdown::Fast`].
    pub fn stop(&self) -> Result<(), Error> {
        self.shut_down(Shutdown::Fast)
    }

    /// [`Shutdown::Immediate`].
    pub fn crash(&self) -> Result<(), Error> {
        self.shut_down(Shutdown::Immediate)
    }

    /// [`Shutdown::Kill`].
    pub fn kill(&self) -> Result<(), Error> {
        self.shut_down(Shutdown::Kill)
    }

    /// Stops and starts.
    pub fn restart(&self) -> Result<(), Error> {
        self.stop()?;
        self.start()
    }

    /// Writes a setting to the configuration; it counts from the next [`reload`](Self::reload) or [`restart`](Self::restart) on.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let mut state = self.state();
        state.settings.insert(name.to_owned(), value.to_owned());
        self.write_settings(&state.settings)
    }

    /// Takes a setting back.
    pub fn reset(&self, name: &str) -> Result<(), Error> {
        let mut state = self.state();
        state.settings.remove(name);
        self.write_settings(&state.settings)
    }

    /// Makes the server read its configuration, and waits until new connections have it. Old ones follow before their next statement. A
    /// setting that needs a restart is left as it was; a wrong one is an error, and the others count all the same.
    pub fn reload(&self) -> Result<(), Error> {
        const LOADED: &str = "SELECT pg_conf_load_time()::text";
        // The time changes even where a line of the file was refused; one that waits for a restart counts as refused there.
        const WRONG: &str = "SELECT count(*) FROM pg_file_settings AS file LEFT JOIN pg_settings AS setting USING (name) \
                             WHERE file.error IS NOT NULL AND setting.pending_restart IS NOT TRUE";
        let before = self.value(LOADED)?;
        self.signal(self.postmaster().ok_or(Error::NotRunning)?, rustix::process::Signal::HUP)?;
        let loaded = wait_until(Duration::from_secs(5), || Ok(self.value(LOADED)? != before))?;
        if loaded && self.value(WRONG)? == "0" { Ok(()) } else { Err(self.failed("loading the configuration")) }
    }

    /// The process id of the postmaster.
    pub fn postmaster(&self) -> Option<i32> {
        self.state().postmaster.filter(|pid| runs(*pid))
    }

    /// All processes of the server, the postmaster first.
    pub fn processes(&self) -> Vec<i32> {
        let mut all = members(&self.data());
        let postmaster = self.postmaster();
        all.sort_by_key(|pid| (Some(*pid) != postmaster, *pid));
        all
    }

    /// Sends a signal to one process of the server, such as a [`Client::backend`] or the receiver of a standby
    /// (`SELECT pid FROM pg_stat_wal_receiver`).
    pub fn signal_process(&self, pid: i32, signal: Signal) -> Result<(), Error> {
        if !self.processes().contains(&pid) {
            return Err(Error::NotRunning);
        }
        self.signal(pid, signal.into())
    }

    /// Pauses all processes with SIGSTOP: connections stay open and nothing is answered.
    pub fn pause(&self) -> Result<(), Error> {
        // The postmaster comes first, so that no process is forked behind our back.
        self.processes().into_iter().try_for_each(|pid| self.signal(pid, rustix::process::Signal::STOP))
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) -> Result<(), Error> {
        self.processes().into_iter().try_for_each(|pid| self.signal(pid, rustix::process::Signal::CONT))
    }

    /// Starts a proxy in front of this server; it ends with the value.
    pub fn proxy(&self) -> Result<Proxy, Error> {
        let number = {
            let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
            *proxies += 1;
            *proxies
        };
        let name = format!("p{number}");
        if !self.state().supervisor.succeeds(format!("folder {name}"))? {
            return Err(self.failed("making a folder for a proxy"));
        }
        Proxy::start(self.folder.join(name), self.socket(), SUPERUSER, DATABASE)
    }

    /// Makes the cluster, by copying a template where there is one.
    pub(crate) fn initialise(&self, from_template: bool) -> Result<(), Error> {
        let template = self.installation.template(&self.user);
        let mut state = self.state();
        // A template is there whole or not at all: it got its name last.
        let done = if from_template && template.exists() {
            state.supervisor.copy(&template)?
        } else {
            state.supervisor.succeeds("initdb")?
        };
        if done { Ok(()) } else { Err(self.failed("initialising the cluster")) }
    }

    /// Puts an initialised cluster into the cache, for `initialise` to copy.
    pub(crate) fn prepare_template(installation: &Installation) -> Result<PathBuf, Error> {
        let server = Options::new(Wanted::Any).prepare(installation, &format!("tpg-{}", crate::unique()))?;
        server.initialise(false)?;
        let template = installation.template(&server.user);
        let parent = template.parent().unwrap_or(Path::new("/")).to_owned();
        crate::fetch::create_for_all(&parent)?;
        // The copy is the server's user's; the folder it is made in is ours, and only its name changes in the end.
        let workshop = parent.join(crate::unique());
        fs::create_dir(&workshop).and_then(|()| server.user.own(&workshop)).map_err(Error::io("creating a folder"))?;
        let copy = server
            .user
            .command("cp", &workshop)
            .args(["-R", "-p"])
            .arg(server.data())
            .arg(workshop.join("data"))
            .output();
        let moved = copy.and_then(|copy| match copy.status.success() {
            true => fs::rename(workshop.join("data"), &template),
            false => Err(std::io::Error::other(String::from_utf8_lossy(&copy.stderr).into_owned())),
        });
        let _ = fs::remove_dir_all(&workshop);
        match moved {
            Err(e) if e.kind() != ErrorKind::DirectoryNotEmpty => Err(Error::io("making a template")(e)),
            _ => Ok(template),
        }
    }

    pub(crate) fn share(&self) -> Result<(), Error> {
        self.state().supervisor.share()
    }

    fn write_settings(&self, settings: &BTreeMap<String, String>) -> Result<(), Error> {
        let folder = self.folder.display().to_string();
        let ours: [(&str, &str); 6] = [
            ("listen_addresses", ""),
            ("unix_socket_directories", &folder),
            ("port", "5432"),
            ("max_connections", "200"),
            ("log_line_prefix", "%m [%p] "),
            ("dynamic_shared_memory_type", "mmap"),
        ];
        let ours = ours.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let text: String = ours
            .chain(settings.clone())
            .map(|(name, value)| format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''")))
            .collect();
        let (path, new) = (self.folder.join("postgresql.conf"), self.folder.join("postgresql.conf.new"));
        let written = fs::write(&new, text).and_then(|()| self.user.own(&new)).and_then(|()| fs::rename(&new, &path));
        written.map_err(Error::io("writing the configuration"))
    }

    fn end(&self, state: &mut State, how: Shutdown) -> Result<(), Error> {
        let Some(postmaster) = state.postmaster.take() else { return Ok(()) };
        let data = self.data();
        if how != Shutdown::Kill && runs(postmaster) {
            let how = if how == Shutdown::Fast { rustix::process::Signal::INT } else { rustix::process::Signal::QUIT };
            self.signal(postmaster, how)?;
            // A paused process would not notice.
            members(&data).into_iter().try_for_each(|pid| self.signal(pid, rustix::process::Signal::CONT))?;
            if wait_until(PATIENCE, || Ok(!runs(postmaster) && members(&data).is_empty()))? {
                return Ok(());
            }
        }
        // Again and again: a process may have been forked since we looked.
        let gone = wait_until(PATIENCE, || {
            let all = members(&data);
            all.iter().try_for_each(|pid| self.signal(*pid, rustix::process::Signal::KILL))?;
            if runs(postmaster) {
                self.signal(postmaster, rustix::process::Signal::KILL)?;
            }
            Ok(all.is_empty() && !runs(postmaster))
        })?;
        if gone { Ok(()) } else { Err(Error::TimedOut("the end of the server's processes".to_owned())) }
    }

    /// A process that has gone in the meantime is none to complain about.
    fn signal(&self, pid: i32, signal: rustix::process::Signal) -> Result<(), Error> {
        let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
        match rustix::process::kill_process(pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(Error::io("sending a signal")(e.into())),
        }
    }

    fn failed(&self, what: &str) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        Error::Failed { what: what.to_owned(), log: lines[lines.len().saturating_sub(40)..].join("\n") }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half-done here that the next call could not see for itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Stop => Self::STOP,
            Signal::Continue => Self::CONT,
            Signal::Terminate => Self::TERM,
            Signal::Kill => Self::KILL,
        }
    }
}

/// The processes that work in this folder: a postmaster and all it forked, orphans too. Zombies are not among them.
fn members(data: &Path) -> Vec<i32> {
    let Ok(data) = fs::canonicalize(data) else { return Vec::new() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data)).collect()
}

/// Whether a process exists and is no zombie.
fn runs(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn wait_until(patience: Duration, mut done: impl FnMut() -> Result<bool, Error>) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    loop {
        if done()? {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The URL variables, for messages: kept here so that the one place that reads them is `shared`.
pub(crate) fn url_variable(wanted: Wanted) -> String {
    match wanted {
        Wanted::Any => ENV_URL.to_owned(),
        Wanted::Major(major) => format!("{ENV_URL}_{major}"),
    }
}
