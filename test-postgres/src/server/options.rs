//! What server is wanted.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{SOCKET, Server, State};
use crate::supervisor::Supervisor;
use crate::user::User;
use crate::{ENV_FOLDER, Error, Installation, Wanted};

/// What server is wanted, to be started with [`start`](Self::start).
///
/// The cluster is UTF-8 with the C locale. Its settings are PostgreSQL's own, fsync on among them, except for: no TCP,
/// `max_connections = 200`, the log on standard error, and `dynamic_shared_memory_type = mmap` (POSIX segments would outlive a SIGKILL
/// in `/dev/shm`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    pub(crate) wanted: Wanted,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) parent: Option<PathBuf>,
    pub(super) in_memory: bool,
    pub(super) own_initdb: bool,
    pub(super) environment: BTreeMap<String, String>,
}

impl Options {
    /// A server of the wanted version.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            settings: BTreeMap::new(),
            parent: None,
            in_memory: false,
            own_initdb: false,
            environment: BTreeMap::new(),
        }
    }

    /// A setting of `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A variable of the environment that the server runs in, such as `LD_PRELOAD`. All else is left out of it, but for a few.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Turns off `fsync`, `synchronous_commit` and `full_page_writes`: for tests in which nothing depends on durability. Not for
    /// benchmarks, nor for tests that crash the server.
    #[must_use]
    pub fn without_fsync(self) -> Self {
        self.set("fsync", "off").set("synchronous_commit", "off").set("full_page_writes", "off")
    }

    /// The parent of the throw-away folder, instead of [`ENV_FOLDER`], the system's folder for temporary files, or `/tmp`. The server's
    /// user must be able to write there, and the path has to be short. What a benchmark measures depends on the disk: see
    /// [`Server::is_in_memory`].
    #[must_use]
    pub fn folder(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// [`without_fsync`](Self::without_fsync), and the folder in `/dev/shm` where that has a gigabyte to spare: the fastest start
    /// (0.15 s), and the disk is left alone.
    #[must_use]
    pub fn in_memory(self) -> Self {
        Self { in_memory: true, ..self.without_fsync() }
    }

    /// Runs `initdb` even where `fetch` has prepared a template. Servers copied from one template have the same system identifier.
    #[must_use]
    pub fn own_initdb(mut self) -> Self {
        self.own_initdb = true;
        self
    }

    /// Finds an installation and starts a server, ready for connections.
    ///
    /// [`Error::NotFound`] names the command that fetches one; [`Error::External`] where the environment gives a URL instead.
    pub fn start(&self) -> Result<Server, Error> {
        if crate::shared::external(self.wanted).is_some() {
            return Err(Error::External);
        }
        self.start_from(&Installation::find(self.wanted)?)
    }

    /// [`start`](Self::start) with a known installation.
    pub fn start_from(&self, installation: &Installation) -> Result<Server, Error> {
        let server = self.prepare(installation, &format!("tpg-{}", crate::unique()))?;
        server.initialise(!self.own_initdb)?;
        server.start()?;
        Ok(server)
    }

    /// A folder with its supervisor, without a cluster.
    pub(crate) fn prepare(&self, installation: &Installation, name: &str) -> Result<Server, Error> {
        let user = User::of_server();
        let mut tried = String::new();
        for parent in self.parents() {
            let folder = parent.join(name);
            if folder.join("p99").join(SOCKET).as_os_str().as_bytes().len() > 107 {
                tried += &format!("\n    {}: too long", parent.display());
            } else if let Some(supervisor) = Supervisor::start(&folder, installation, &user, &self.environment)? {
                let state = State { supervisor, postmaster: None, settings: self.settings.clone() };
                return Ok(Server {
                    installation: installation.clone(),
                    user,
                    folder,
                    state: Mutex::new(state),
                    proxies: Mutex::new(0),
                });
            } else {
                tried += &format!("\n    {}: cannot create {}", parent.display(), folder.display());
            }
        }
        Err(Error::NoFolder { user: user.name, tried })
    }

    pub(crate) fn parents(&self) -> Vec<PathBuf> {
        if let Some(parent) = self.parent.clone().or_else(|| env::var_os(ENV_FOLDER).map(PathBuf::from)) {
            return vec![parent];
        }
        let memory = Path::new("/dev/shm");
        // Containers often have 64 MB there, hardly more than an empty cluster.
        let has_room = || rustix::fs::statvfs(memory).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) > 1 << 30);
        let memory = (self.in_memory && has_room()).then(|| memory.to_owned());
        memory.into_iter().chain([env::temp_dir(), "/tmp".into()]).collect()
    }
}
