//! What passes on the bytes of each connection, counts them, and lets armed faults strike.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use super::fault::{ArmedFault, Fault, Verdict};
use super::lock;
use super::stream::{Stream, length, read_or_end};

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) upstream: Mutex<PathBuf>,
    pub(super) armed: Mutex<Vec<Arc<ArmedFault>>>,
    pub(super) struck: Mutex<Vec<Weak<ArmedFault>>>,
    pub(super) connections: Mutex<Vec<Weak<Connection>>>,
    pub(super) counters: Counters,
    pub(super) delay_nanos: AtomicU64,
    pub(super) refusing: AtomicBool,
    pub(super) stopped: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) round_trips: AtomicU64,
    pub(super) turns: AtomicU64,
}

impl Shared {
    pub(super) fn take(self: &Arc<Self>, client: Stream) {
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

    pub(super) fn cut_all(&self) {
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
pub(super) struct Connection {
    pub(super) client: Stream,
    pub(super) server: Stream,
    pub(super) expected: Mutex<Expected>,
    pub(super) server_spoke: AtomicBool,
}

/// The replies that the server owes, in order, each with the fault that strikes it.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) replies: Vec<Option<Arc<ArmedFault>>>,
}

impl Connection {
    pub(super) fn cut(&self) {
        self.client.close();
        self.server.close();
    }
}

/// The texts behind the names of prepared statements and portals.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) statements: HashMap<Vec<u8>, String>,
    pub(super) portals: HashMap<Vec<u8>, String>,
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

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}
