//! A proxy that understands enough of PostgreSQL's protocol to fail where it hurts.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::{Client, Error};

/// Which request a [`Fault`] strikes: the next one, on any connection, that fits.
///
/// A *request* is what a client sends up to a `Query` or a `Sync` message. It *executes* the text of its `Query`, and of the prepared
/// statements of its `Execute` messages. Pings without a statement, preparing alone, and the start of a connection are no requests here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// Executes anything at all.
    Query,
    /// Executes `COMMIT` or `END`, alone or as one of several statements.
    Commit,
    /// Executes a text that contains this one, whatever the case of its letters.
    Containing(String),
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The server executes it to its end; nothing of the reply reaches the client, whose connection is cut.
    DropReply,
    /// The server executes it; this many bytes of the reply reach the client, then its connection is cut.
    CutReply(usize),
    /// Nothing of it reaches the server; both connections are cut.
    DropRequest,
    /// This many bytes of it reach the server (all but one at most), then both connections are cut.
    CutRequest(usize),
    /// It reaches the server after this time.
    Delay(Duration),
    /// The server gets it at once, the client the reply after this time.
    DelayReply(Duration),
    /// It waits until [`Armed::deliver`] or [`Armed::discard`]; the client may leave in between ([`Armed::cut_client`]) and the server
    /// will execute it all the same.
    Hold,
}

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

/// A fault that was armed: to see whether it has struck, and to end a [`Fault::Hold`]. Dropping it changes nothing.
#[derive(Debug)]
pub struct Armed {
    fault: Arc<ArmedFault>,
    proxy: Weak<Shared>,
}

impl Armed {
    /// Waits until a request has been struck; `false` if none was in that time.
    #[must_use]
    pub fn wait_struck(&self, patience: Duration) -> bool {
        self.fault.wait(patience, |progress| progress.connection.is_some())
    }

    /// Waits until all is over: the request is dropped or cut, or the server has answered it to its end. `false` if not in that time.
    #[must_use]
    pub fn wait_done(&self, patience: Duration) -> bool {
        self.fault.wait(patience, |progress| progress.done)
    }

    /// [`wait_done`](Self::wait_done) with ten seconds of patience.
    ///
    /// # Panics
    ///
    /// Where the fault has not run its course by then.
    pub fn expect_done(&self) {
        assert!(self.wait_done(Duration::from_secs(10)), "the fault is not done after 10 s: {:?}", self.fault.fault);
    }

    /// Lets a held request go on to the server, and the reply to the client if it is still there.
    pub fn deliver(&self) {
        self.fault.step(|progress| progress.verdict = Some(Verdict::Deliver));
    }

    /// Throws a held request away and cuts both connections.
    pub fn discard(&self) {
        self.fault.step(|progress| progress.verdict = Some(Verdict::Discard));
    }

    /// Cuts the connection of the client whose request was struck, and leaves the server's open.
    pub fn cut_client(&self) {
        let connection = lock(&self.fault.progress).connection.clone();
        if let Some(connection) = connection {
            connection.client.close();
        }
    }

    /// Takes a fault back that has not struck yet. `false` if it has.
    pub fn disarm(&self) -> bool {
        let Some(proxy) = self.proxy.upgrade() else { return false };
        let mut armed = lock(&proxy.armed);
        let before = armed.len();
        armed.retain(|other| !Arc::ptr_eq(other, &self.fault));
        armed.len() < before
    }
}

#[derive(Debug)]
struct ArmedFault {
    trigger: Trigger,
    fault: Fault,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    connection: Option<Arc<Connection>>,
    verdict: Option<Verdict>,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Deliver,
    Discard,
}

impl ArmedFault {
    fn step(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.changed.notify_all();
    }

    fn wait(&self, patience: Duration, what: impl Fn(&Progress) -> bool) -> bool {
        let progress = lock(&self.progress);
        let waited = self.changed.wait_timeout_while(progress, patience, |progress| !what(progress));
        what(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn verdict(&self) -> Verdict {
        let progress = lock(&self.progress);
        let progress = self.changed.wait_while(progress, |progress| progress.verdict.is_none());
        progress.unwrap_or_else(PoisonError::into_inner).verdict.unwrap_or(Verdict::Discard)
    }
}

impl Trigger {
    fn fits(&self, executed: &[String]) -> bool {
        let commits = |sql: &String| {
            sql.split(';').any(|statement| {
                let word: String = statement.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
                word.eq_ignore_ascii_case("commit") || word.eq_ignore_ascii_case("end")
            })
        };
        match self {
            Self::Query => !executed.is_empty(),
            Self::Commit => executed.iter().any(commits),
            Self::Containing(text) => {
                let text = text.to_lowercase();
                executed.iter().any(|sql| sql.to_lowercase().contains(&text))
            }
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    upstream: Mutex<PathBuf>,
    armed: Mutex<Vec<Arc<ArmedFault>>>,
    struck: Mutex<Vec<Weak<ArmedFault>>>,
    connections: Mutex<Vec<Weak<Connection>>>,
    counters: Counters,
    delay_nanos: AtomicU64,
    refusing: AtomicBool,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    messages: AtomicU64,
    requests: AtomicU64,
    round_trips: AtomicU64,
    turns: AtomicU64,
}

impl Shared {
    fn take(self: &Arc<Self>, client: Stream) {
        if self.refusing.load(Ordering::SeqCst) {
            client.close();
            return;
        }
        let upstream = lock(&self.upstream).clone();
        let Ok(server) = UnixStream::connect(upstream) else {
            client.close();
            return;
        };
        count(&self.counters.connections);
        let server = Stream::Unix(server);
        let connection =
            Arc::new(Connection { client, server, expected: Mutex::default(), server_spoke: AtomicBool::new(false) });
        {
            let mut all = lock(&self.connections);
            all.retain(|old| old.strong_count() > 0);
            all.push(Arc::downgrade(&connection));
        }
        for direction in [Self::pass_requests, Self::pass_replies] {
            let (shared, connection) = (Arc::clone(self), Arc::clone(&connection));
            thread::spawn(move || direction(&shared, &connection));
        }
    }

    fn cut_all(&self) {
        for connection in lock(&self.connections).iter().filter_map(Weak::upgrade) {
            connection.cut();
        }
    }

    fn pass_requests(&self, connection: &Arc<Connection>) {
        if self.read_client(connection).is_err() {
            connection.cut();
        }
        // The client is done; the server ends its side once it has seen that.
        connection.server.close_writing();
    }

    /// Errors mean a connection that is cut or garbled; which one does not matter to a proxy.
    fn read_client(&self, connection: &Arc<Connection>) -> io::Result<()> {
        let mut client = &connection.client;
        let mut server = &connection.server;
        // The start: untyped messages, of which those that ask for encryption are refused.
        loop {
            let mut head = [0; 8];
            if !read_or_end(&mut client, &mut head)? {
                return Ok(());
            }
            let code = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            if code == 80_877_103 || code == 80_877_104 {
                client.write_all(b"N")?;
                continue;
            }
            let mut rest = vec![0; length(&head[..4], 8)?];
            client.read_exact(&mut rest)?;
            server.write_all(&[&head[..], &rest].concat())?;
            break;
        }
        let mut texts = Texts::default();
        let mut request = Vec::new();
        let mut executed = Vec::new();
        loop {
            let mut head = [0; 5];
            if !read_or_end(&mut client, &mut head)? {
                return Ok(());
            }
            let from = request.len();
            request.extend_from_slice(&head);
            request.resize(from + 5 + length(&head[1..], 4)?, 0);
            client.read_exact(&mut request[from + 5..])?;
            let kind = head[0];
            if kind != b'X' && kind != b'p' {
                count(&self.counters.messages);
                if connection.server_spoke.swap(false, Ordering::SeqCst) {
                    count(&self.counters.turns);
                }
            }
            texts.see(kind, &request[from + 5..], &mut executed);
            match kind {
                b'Q' | b'S' | b'F' => {
                    if !executed.is_empty() {
                        count(&self.counters.requests);
                    }
                    let fault = self.strike(connection, &executed);
                    if !self.forward(connection, &request, fault)? {
                        return Ok(());
                    }
                    request.clear();
                    executed.clear();
                }
                // The parts of a request wait for its end, so that a fault strikes it whole.
                b'P' | b'B' | b'D' | b'E' | b'C' => {}
                // Copy data, passwords, `Flush` and the end.
                _ => {
                    server.write_all(&request)?;
                    request.clear();
                }
            }
        }
    }

    /// The first armed fault that fits.
    fn strike(&self, connection: &Arc<Connection>, executed: &[String]) -> Option<Arc<ArmedFault>> {
        let fault = {
            let mut armed = lock(&self.armed);
            let at = armed.iter().position(|fault| fault.trigger.fits(executed))?;
            armed.remove(at)
        };
        lock(&self.struck).push(Arc::downgrade(&fault));
        fault.step(|progress| progress.connection = Some(Arc::clone(connection)));
        Some(fault)
    }

    /// Passes a whole request on, or what a fault leaves of it. `false`: the connection is over.
    fn forward(&self, connection: &Connection, request: &[u8], fault: Option<Arc<ArmedFault>>) -> io::Result<bool> {
        let mut server = &connection.server;
        let delay = Duration::from_nanos(self.delay_nanos.load(Ordering::SeqCst));
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        let Some(fault) = fault else {
            lock(&connection.expected).replies.push(None);
            server.write_all(request)?;
            return Ok(true);
        };
        let mut end = |bytes: usize| {
            let written = server.write_all(&request[..bytes.min(request.len() - 1)]);
            connection.cut();
            fault.step(|progress| progress.done = true);
            written.map(|()| false)
        };
        match fault.fault {
            Fault::DropRequest => return end(0),
            Fault::CutRequest(bytes) => return end(bytes),
            Fault::Hold if fault.verdict() == Verdict::Discard => return end(0),
            Fault::Delay(delay) => thread::sleep(delay),
            Fault::Hold | Fault::DropReply | Fault::CutReply(_) | Fault::DelayReply(_) => {}
        }
        lock(&connection.expected).replies.push(Some(Arc::clone(&fault)));
        let written = server.write_all(request);
        if written.is_err() {
            fault.step(|progress| progress.done = true);
        } else if matches!(fault.fault, Fault::Hold | Fault::Delay(_)) {
            // The client may be gone. That must not end the server's connection before it has answered, lest the request be lost.
            fault.wait(Duration::from_secs(60), |progress| progress.done);
        }
        written.map(|()| true)
    }

    fn pass_replies(&self, connection: &Arc<Connection>) {
        let _ = self.read_server(connection);
        connection.cut();
        // A server that ended will not answer; whoever waits for that need not wait on.
        for fault in lock(&connection.expected).replies.drain(..).flatten() {
            fault.step(|progress| progress.done = true);
        }
    }

    fn read_server(&self, connection: &Connection) -> io::Result<()> {
        let mut server = &connection.server;
        let mut client = &connection.client;
        let mut message = Vec::new();
        let mut started = false;
        // The fault of the reply that is being read, and how many of its bytes have passed.
        let mut current: Option<Arc<ArmedFault>> = None;
        let mut passed = 0;
        loop {
            message.resize(5, 0);
            if !read_or_end(&mut server, &mut message)? {
                return Ok(());
            }
            let body = length(&message[1..5], 4)?;
            message.resize(5 + body, 0);
            server.read_exact(&mut message[5..])?;
            let kind = message[0];
            connection.server_spoke.store(true, Ordering::SeqCst);
            // Notices and notifications may come at any time and are part of no reply.
            let apart = matches!(kind, b'N' | b'A' | b'S');
            if started && !apart && current.is_none() {
                current = lock(&connection.expected).replies.first().cloned().flatten();
            }
            match current.as_deref().map(|fault| &fault.fault).filter(|_| !apart) {
                Some(Fault::DropReply) => {}
                Some(Fault::CutReply(bytes)) => {
                    let left = bytes.saturating_sub(passed).min(message.len());
                    let _ = client.write_all(&message[..left]);
                }
                fault => {
                    if let (Some(Fault::DelayReply(delay)), 0) = (fault, passed) {
                        thread::sleep(*delay);
                    }
                    // Counted before the client can know of it.
                    if kind == b'Z' && started {
                        count(&self.counters.round_trips);
                    }
                    // A client that is gone is no reason to leave the server alone.
                    let _ = client.write_all(&message);
                }
            }
            if !apart {
                passed += message.len();
            }
            if kind != b'Z' {
                continue;
            }
            if started {
                let mut expected = lock(&connection.expected);
                if !expected.replies.is_empty() {
                    expected.replies.remove(0);
                }
            }
            started = true;
            passed = 0;
            if let Some(fault) = current.take() {
                let cut = matches!(fault.fault, Fault::DropReply | Fault::CutReply(_));
                if cut {
                    count(&self.counters.round_trips);
                    connection.cut();
                }
                fault.step(|progress| progress.done = true);
                if cut {
                    return Ok(());
                }
            }
        }
    }
}

#[derive(Debug)]
struct Connection {
    client: Stream,
    server: Stream,
    expected: Mutex<Expected>,
    server_spoke: AtomicBool,
}

/// The replies that the server owes, in order, each with the fault that strikes it.
#[derive(Debug, Default)]
struct Expected {
    replies: Vec<Option<Arc<ArmedFault>>>,
}

impl Connection {
    fn cut(&self) {
        self.client.close();
        self.server.close();
    }
}

/// The texts behind the names of prepared statements and portals.
#[derive(Default)]
struct Texts {
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
}

impl Texts {
    fn see(&mut self, kind: u8, body: &[u8], executed: &mut Vec<String>) {
        let mut fields = body.split(|byte| *byte == 0);
        let mut field = || fields.next().unwrap_or_default();
        match kind {
            b'Q' => executed.push(String::from_utf8_lossy(field()).into_owned()),
            b'P' => {
                let name = field().to_vec();
                self.statements.insert(name, String::from_utf8_lossy(field()).into_owned());
            }
            b'B' => {
                let portal = field().to_vec();
                let text = self.statements.get(field()).cloned().unwrap_or_default();
                self.portals.insert(portal, text);
            }
            b'E' => executed.push(self.portals.get(field()).cloned().unwrap_or_default()),
            _ => {}
        }
    }
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn close(&self) {
        self.shutdown(Shutdown::Both);
    }

    fn close_writing(&self) {
        self.shutdown(Shutdown::Write);
    }

    fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `false`: the stream ended before the first byte.
fn read_or_end(stream: &mut &Stream, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        match stream.read(&mut buffer[..1]) {
            Ok(0) => return Ok(false),
            Ok(_) => return stream.read_exact(&mut buffer[1..]).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// What is left of a message whose length counts itself and whose first `read` bytes of that count are known.
fn length(bytes: &[u8], read: usize) -> io::Result<usize> {
    let length = bytes.try_into().map_or(0, u32::from_be_bytes) as usize;
    let sane = length.checked_sub(read).filter(|_| length < 1 << 30);
    sane.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not PostgreSQL's protocol"))
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
