//! A client of PostgreSQL's protocol, just large enough for the tests' own purposes.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Error;

/// One row of an answer: each column as text, or NULL.
pub type Row = Vec<Option<String>>;

/// An error as the server reported it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{severity} {sqlstate}: {message}")]
pub struct ServerMessage {
    /// `ERROR`, `FATAL`, …
    pub severity: String,
    /// The five-character code, such as `57P03`.
    pub sqlstate: String,
    /// The text.
    pub message: String,
}

/// A connection through a Unix socket that can do `simple query` and nothing else: the crate needs no other client, and tests that look
/// at a server's state from outside need no asynchronous runtime.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    backend: i32,
}

impl Client {
    /// Connects to a server (or a [`Proxy`](crate::Proxy)) that asks for no password.
    pub fn connect(socket: &Path, user: &str, database: &str) -> Result<Self, Error> {
        Self::connect_with(socket, &[("user", user), ("database", database), ("application_name", "test-postgres")])
    }

    pub(crate) fn connect_with(socket: &Path, parameters: &[(&str, &str)]) -> Result<Self, Error> {
        let connect = Error::io(format!("connecting to {}", socket.display()));
        let writer = UnixStream::connect(socket).map_err(connect)?;
        let timeout = |stream: &UnixStream| {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            stream.set_write_timeout(Some(Duration::from_secs(60)))?;
            stream.try_clone()
        };
        let reader = BufReader::new(timeout(&writer).map_err(Error::io("preparing a connection"))?);
        let mut client = Self { reader, writer, backend: 0 };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for (name, value) in parameters {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        let mut message = (body.len() as i32 + 4).to_be_bytes().to_vec();
        message.extend_from_slice(&body);
        client.writer.write_all(&message).map_err(Error::io("sending the start-up message"))?;
        client.answer()?;
        Ok(client)
    }

    /// How long a read may take before it fails (60 s at first).
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.writer.set_read_timeout(Some(timeout)).map_err(Error::io("setting a time-out"))
    }

    /// The process id of the server process of this connection.
    pub fn backend(&self) -> i32 {
        self.backend
    }

    /// Sends one simple query (several statements are allowed) and waits for its end; gives the rows of all statements.
    ///
    /// An [`Error::Refused`] is the server's word; [`Error::Io`] means that the outcome is not known.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.send(sql)?;
        self.answer()
    }

    /// Like [`query`](Self::query), for the one value of an answer with one row.
    pub fn value(&mut self, sql: &str) -> Result<String, Error> {
        let rows = self.query(sql)?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        value.ok_or_else(|| Error::Failed { what: format!("`{sql}` (no value)"), log: String::new() })
    }

    /// Sends a query without waiting for its answer.
    pub fn send(&mut self, sql: &str) -> Result<(), Error> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(sql.len() as i32 + 5).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        self.writer.write_all(&message).map_err(Error::io("sending a query"))
    }

    /// Waits for the end of the answer to what was [sent](Self::send).
    pub fn answer(&mut self) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut refused = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'D' => rows.push(row(&body).ok_or_else(|| garbled("a row"))?),
                b'E' => {
                    let message = server_message(&body);
                    if message.severity == "FATAL" || message.severity == "PANIC" {
                        return Err(message.into());
                    }
                    refused = Some(message);
                }
                b'R' if body.get(..4) != Some(&[0; 4]) => return Err(garbled("a request for a password")),
                b'K' => self.backend = body.get(..4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_be_bytes),
                b'Z' => return refused.map_or(Ok(rows), |message| Err(message.into())),
                _ => {}
            }
        }
    }

    /// One message of the server: its type and its body.
    pub(crate) fn message(&mut self) -> Result<(u8, Vec<u8>), Error> {
        let mut head = [0; 5];
        self.reader.read_exact(&mut head).map_err(Error::io("reading an answer"))?;
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length - 4).map_err(|_| garbled("a length"))?;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).map_err(Error::io("reading an answer"))?;
        Ok((head[0], body))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.writer.write_all(&[b'X', 0, 0, 0, 4]);
    }
}

fn garbled(what: &str) -> Error {
    Error::io("reading an answer")(io::Error::new(io::ErrorKind::InvalidData, format!("{what} was not expected")))
}

fn row(body: &[u8]) -> Option<Row> {
    let count = u16::from_be_bytes(body.get(..2)?.try_into().ok()?);
    let mut rest = &body[2..];
    let mut row = Vec::with_capacity(count.into());
    for _ in 0..count {
        let length = i32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
        rest = &rest[4..];
        let Ok(length) = usize::try_from(length) else {
            row.push(None);
            continue;
        };
        row.push(Some(String::from_utf8_lossy(rest.get(..length)?).into_owned()));
        rest = &rest[length..];
    }
    Some(row)
}

pub(crate) fn server_message(body: &[u8]) -> ServerMessage {
    let field = |wanted: u8| {
        let mut fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        fields
            .find(|field| field[0] == wanted)
            .map_or_else(String::new, |field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    ServerMessage { severity: field(b'V'), sqlstate: field(b'C'), message: field(b'M') }
}
