//! A proxy that understands enough of PostgreSQL's protocol to fail where it hurts.

mod fault;
mod relay;
mod stream;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use fault::{Armed, Fault, Trigger};

use crate::{Client, Error};
use fault::{ArmedFault, Progress, Verdict};
use relay::Shared;
use stream::Stream;

/// What went through a [`Proxy`]. Subtract two to get what a call cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Messages from clients, without those that start a connection and without `Terminate`.
    pub messages: u64,
    /// Requests that executed something (see [`Trigger`]).
    pub requests: u64,
    /// `ReadyForQuery` replies after the one that ends the start of a connection: the ends of `Query` and `Sync`.
    pub round_trips: u64,
    /// How often a client spoke after the server had: what the latency of a network multiplies. Less than `round_trips` where a client
    /// sends several requests without waiting.
    pub turns: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            connections: self.connections - earlier.connections,
            messages: self.messages - earlier.messages,
            requests: self.requests - earlier.requests,
            round_trips: self.round_trips - earlier.round_trips,
            turns: self.turns - earlier.turns,
        }
    }
}

/// A proxy between clients and a server's socket, made by [`Server::proxy`](crate::Server::proxy).
///
/// It listens on a Unix socket in the server's folder, and on a TCP port of 127.0.0.1 where asked to. Each connection has one of its own
/// to the server and two threads. Faults strike one request each, in the order they were armed; without any, the proxy passes on every
/// byte. It refuses encryption, so that it can read along. When dropped, it cuts all connections.
pub struct Proxy {
    shared: Arc<Shared>,
    folder: PathBuf,
    user: &'static str,
    database: &'static str,
    tcp: Mutex<Option<SocketAddr>>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Proxy {
    pub(crate) fn start(
        folder: PathBuf,
        upstream: PathBuf,
        user: &'static str,
        database: &'static str,
    ) -> Result<Self, Error> {
        let listener =
            UnixListener::bind(folder.join(".s.PGSQL.5432")).map_err(Error::io("listening on the proxy's socket"))?;
        let shared = Arc::new(Shared { upstream: Mutex::new(upstream), ..Shared::default() });
        let proxy = Self { shared, folder, user, database, tcp: Mutex::new(None), threads: Mutex::new(Vec::new()) };
        proxy.serve(move || listener.accept().map(|(stream, _)| Stream::Unix(stream)));
        Ok(proxy)
    }

    fn serve(&self, accept: impl Fn() -> io::Result<Stream> + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let accepting = thread::spawn(move || {
            while let Ok(client) = accept() {
                if shared.stopped.load(Ordering::SeqCst) {
                    break;
                }
                shared.take(client);
            }
        });
        lock(&self.threads).push(accepting);
    }

    /// The folder of the proxy's socket: what clients call `host`.
    pub fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// The connection string of the server's first database, through the proxy.
    pub fn url(&self) -> String {
        self.url_of(self.database)
    }

    /// The connection string of another database, through the proxy.
    pub fn url_of(&self, database: &str) -> String {
        crate::url(&self.folder, self.user, database)
    }

    /// A connection through the proxy.
    pub fn client(&self) -> Result<Client, Error> {
        Client::connect(&self.folder.join(".s.PGSQL.5432"), self.user, self.database)
    }

    /// Listens on a free TCP port of 127.0.0.1 too (one for each proxy), and gives its address.
    pub fn tcp(&self) -> Result<SocketAddr, Error> {
        let mut tcp = lock(&self.tcp);
        if let Some(address) = *tcp {
            return Ok(address);
        }
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::io("listening on a TCP port"))?;
        let address = listener.local_addr().map_err(Error::io("listening on a TCP port"))?;
        self.serve(move || {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        });
        *tcp = Some(address);
        Ok(address)
    }

    /// What has gone through so far.
    pub fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counts {
            connections: get(&counters.connections),
            messages: get(&counters.messages),
            requests: get(&counters.requests),
            round_trips: get(&counters.round_trips),
            turns: get(&counters.turns),
        }
    }

    /// Arms a fault for the next request that fits and that no earlier fault takes.
    pub fn arm(&self, trigger: Trigger, fault: Fault) -> Armed {
        let armed =
            Arc::new(ArmedFault { trigger, fault, progress: Mutex::new(Progress::default()), changed: Condvar::new() });
        lock(&self.shared.armed).push(Arc::clone(&armed));
        Armed { fault: armed, proxy: Arc::downgrade(&self.shared) }
    }

    /// Delays every request from now on by this time, like a distant server.
    pub fn delay_all(&self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.shared.delay_nanos.store(nanos, Ordering::SeqCst);
    }

    /// Cuts all connections that are open now, on both sides.
    pub fn cut_all(&self) {
        self.shared.cut_all();
    }

    /// Whether new connections are taken; with `false` they are closed at once, as if there were no server.
    pub fn accept(&self, accept: bool) {
        self.shared.refusing.store(!accept, Ordering::SeqCst);
    }

    /// Sends new connections to another server, such as a promoted standby. Old ones stay: see [`cut_all`](Self::cut_all).
    pub fn redirect(&self, server: &crate::Server) {
        *lock(&self.shared.upstream) = server.socket();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // No thread is to wait for a verdict that nobody can give any more.
        for struck in lock(&self.shared.struck).drain(..).filter_map(|fault| fault.upgrade()) {
            struck.step(|progress| progress.verdict = progress.verdict.or(Some(Verdict::Discard)));
        }
        // A connection wakes each accepting thread.
        let _ = UnixStream::connect(self.folder.join(".s.PGSQL.5432"));
        if let Some(address) = *lock(&self.tcp) {
            let _ = TcpStream::connect(address);
        }
        for accepting in lock(&self.threads).drain(..) {
            let _ = accepting.join();
        }
        self.shared.cut_all();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("folder", &self.folder).field("counts", &self.counts()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
