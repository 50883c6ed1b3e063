//! One server for many tests.

use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::server::url_variable;
use crate::supervisor::Membership;
use crate::user::User;
use crate::{Client, Error, Installation, Options, Proxy, Server, Wanted};

/// A server that several tests use: it can be connected to, and nothing else. Keep to a schema or a database of your own
/// ([`fresh_schema_name`](Self::fresh_schema_name), [`fresh_database`](Self::fresh_database)).
///
/// It ends with the last process that holds it.
#[derive(Debug)]
pub struct Shared {
    target: Target,
    _holds: Holds,
}

#[derive(Debug)]
enum Target {
    Url(String),
    Folder(PathBuf),
}

#[derive(Debug)]
#[expect(dead_code, reason = "held, not read: the server ends with it")]
enum Holds {
    Nothing,
    Server(Box<Server>),
    Membership(Membership),
}

type Key = (bool, Options);

static SHARED: LazyLock<Mutex<HashMap<Key, &'static Shared>>> = LazyLock::new(Mutex::default);

impl Shared {
    /// The one server of this process with these options; started at the first call. Where the environment gives a URL (see the crate's
    /// documentation), it is that one.
    pub fn in_process(options: &Options) -> Result<&'static Self, Error> {
        Self::get(false, options)
    }

    /// The one server with these options for all processes that run now: the first starts it, the last to end ends it. For test runners
    /// with one process a test. Where the environment gives a URL, it is that one.
    pub fn among_processes(options: &Options) -> Result<&'static Self, Error> {
        Self::get(true, options)
    }

    /// The connection string; [`url_of`](Self::url_of) for another database.
    pub fn url(&self) -> String {
        match &self.target {
            Target::Url(url) => url.clone(),
            Target::Folder(folder) => crate::url(folder, "postgres", "postgres"),
        }
    }

    /// The connection string of another database of the server.
    pub fn url_of(&self, database: &str) -> String {
        match &self.target {
            Target::Folder(folder) => crate::url(folder, "postgres", database),
            Target::Url(url) => {
                // scheme://authority/database?parameters
                let (base, parameters) = url.split_once('?').map_or((url.as_str(), ""), |(base, rest)| (base, rest));
                let after_scheme = base.find("://").map_or(0, |at| at + 3);
                let authority = base[after_scheme..].find('/').map_or(base.len(), |at| after_scheme + at);
                let question = if parameters.is_empty() { "" } else { "?" };
                format!("{}/{database}{question}{parameters}", &base[..authority])
            }
        }
    }

    /// The folder of the socket, unless the server comes from a URL.
    pub fn socket_dir(&self) -> Option<&Path> {
        match &self.target {
            Target::Url(_) => None,
            Target::Folder(folder) => Some(folder),
        }
    }

    /// A connection of this crate's small client, unless the server comes from a URL.
    pub fn client(&self) -> Option<Result<Client, Error>> {
        Some(Client::connect(&self.socket_dir()?.join(".s.PGSQL.5432"), "postgres", "postgres"))
    }

    /// A proxy in front of the server, in a folder of its own, unless the server comes from a URL.
    pub fn proxy(&self) -> Option<Result<Proxy, Error>> {
        let upstream = self.socket_dir()?.join(".s.PGSQL.5432");
        let folder = env::temp_dir().join(crate::fresh_name("tpg-proxy"));
        let made = std::fs::create_dir(&folder).map_err(Error::io("making a folder for a proxy"));
        Some(made.and_then(|()| Proxy::start(folder, upstream, "postgres", "postgres")))
    }

    /// Creates a database with a name of its own and gives the name; `None` where the server comes from a URL.
    pub fn fresh_database(&self) -> Option<Result<String, Error>> {
        let name = crate::fresh_name("d");
        Some(self.client()?.and_then(|mut client| client.query(&format!("CREATE DATABASE {name}"))).map(|_| name))
    }

    /// A name for a schema that no other test of any process uses; nothing is created.
    pub fn fresh_schema_name(&self) -> String {
        crate::fresh_name("t")
    }

    fn get(among_processes: bool, options: &Options) -> Result<&'static Self, Error> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (among_processes, options.clone());
        if let Some(found) = shared.get(&key) {
            return Ok(found);
        }
        let new = if let Some(url) = external(options.wanted) {
            Self { target: Target::Url(url), _holds: Holds::Nothing }
        } else if among_processes {
            Self::join_or_start(options)?
        } else {
            let server = options.start()?;
            Self { target: Target::Folder(server.folder().to_owned()), _holds: Holds::Server(Box::new(server)) }
        };
        // Leaked on purpose: statics are not dropped, the end of the process is what ends the server.
        let new: &'static Self = Box::leak(Box::new(new));
        shared.insert(key, new);
        Ok(new)
    }

    fn join_or_start(options: &Options) -> Result<Self, Error> {
        let installation = Installation::find(options.wanted)?;
        let mut hasher = DefaultHasher::new();
        (&installation, options).hash(&mut hasher);
        let name = format!("tpg-shared-{}-{:08x}", User::of_server().uid, hasher.finish() as u32);
        // One process at a time joins or starts. What is locked is a file that is there anyway: a lock file would stay behind.
        let lock = File::open(installation.bin().join("postgres")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(Error::io("locking the installation"))?;
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            for parent in options.parents() {
                let folder = parent.join(&name);
                if let Some(membership) = Membership::join(&folder) {
                    return Ok(Self { target: Target::Folder(folder), _holds: Holds::Membership(membership) });
                }
            }
            match options.prepare(&installation, &name) {
                Ok(server) => {
                    server.initialise(true)?;
                    server.start()?;
                    // Only now can others join: what they find runs.
                    server.share()?;
                    return Ok(Self {
                        target: Target::Folder(server.folder().to_owned()),
                        _holds: Holds::Server(Box::new(server)),
                    });
                }
                // The last one's folder may be about to go.
                Err(Error::NoFolder { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// The URL that the environment gives for this version.
pub(crate) fn external(wanted: Wanted) -> Option<String> {
    env::var(url_variable(wanted)).ok().filter(|url| !url.is_empty())
}
