//! Another system: a small server that a request can not be recalled from. It is asked by lines of JSON over TCP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger_core::{Json, RequestKey};
use serde::{Deserialize, Serialize};

use crate::Result;

/// How long it keeps the answer to a payment back until it is told to give it.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
enum Question {
    /// Do this, once for each key.
    Pay { key: RequestKey, what: Json },
    /// What became of this?
    Find { key: RequestKey },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// It was done, under this number.
    Done { transaction: String },
    /// Never heard of it.
    NotHere,
}

/// The server, a thread of the parent. It ends with the process.
pub(crate) struct Bank {
    pub(crate) address: SocketAddr,
    /// Tells of each payment when it has been made and before it is answered.
    arrived: Receiver<RequestKey>,
    /// Lets one answer go.
    answer: Sender<()>,
    books: Arc<Mutex<Books>>,
}

#[derive(Default)]
struct Books {
    transactions: BTreeMap<RequestKey, String>,
    payments: usize,
    questions: usize,
}

impl Bank {
    pub(crate) fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (address, books) = (listener.local_addr()?, Arc::new(Mutex::new(Books::default())));
        let ((tell, arrived), (answer, may_answer)) = (channel(), channel());
        let may_answer = Arc::new(Mutex::new(may_answer));
        let server = books.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (books, tell, may_answer) = (server.clone(), tell.clone(), may_answer.clone());
                std::thread::spawn(move || {
                    // A client that is gone has no use for its answer, and nobody else waits for it.
                    let _ = serve(client, &books, &tell, &may_answer);
                });
            }
        });
        Ok(Self { address, arrived, answer, books })
    }

    /// Waits until a payment was made whose answer is still kept back.
    pub(crate) fn payment(&self) -> Result<RequestKey> {
        let waited = self.arrived.recv_timeout(PATIENCE);
        waited.map_err(|error| format!("waiting for a request to the bank: {error}").into())
    }

    /// Lets the answer to one payment go.
    pub(crate) fn answer(&self) {
        // Nobody waits for it only where the bank has given up, which it says by the missing answer.
        let _ = self.answer.send(());
    }

    /// How many requests to pay it got, and how often it was asked about one.
    pub(crate) fn counted(&self) -> (usize, usize) {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        (books.payments, books.questions)
    }
}

fn serve(
    client: TcpStream,
    books: &Mutex<Books>,
    tell: &Sender<RequestKey>,
    may_answer: &Mutex<Receiver<()>>,
) -> Result<()> {
    let (mut lines, mut client) = (BufReader::new(client.try_clone()?), client);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let answer = match serde_json::from_str(&line)? {
        Question::Pay { key, .. } => {
            let transaction = {
                let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
                books.payments += 1;
                let next = format!("tx-{}", books.payments);
                books.transactions.entry(key.clone()).or_insert(next).clone()
            };
            tell.send(key)?;
            may_answer.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE)?;
            Answer::Done { transaction }
        }
        Question::Find { key } => {
            let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
            books.questions += 1;
            let found = books.transactions.get(&key).cloned();
            found.map_or(Answer::NotHere, |transaction| Answer::Done { transaction })
        }
    };
    writeln!(client, "{}", serde_json::to_string(&answer)?)?;
    Ok(())
}

/// Sends a request, and gives the number of its transaction.
pub(crate) fn pay(bank: SocketAddr, key: &RequestKey, what: &Json) -> Result<String> {
    match ask(bank, &Question::Pay { key: key.clone(), what: what.clone() })? {
        Answer::Done { transaction } => Ok(transaction),
        Answer::NotHere => Err("the bank answered a payment as if it were a question".into()),
    }
}

/// Asks what became of a request.
pub(crate) fn find(bank: SocketAddr, key: &RequestKey) -> Result<Option<String>> {
    match ask(bank, &Question::Find { key: key.clone() })? {
        Answer::Done { transaction } => Ok(Some(transaction)),
        Answer::NotHere => Ok(None),
    }
}

fn ask(bank: SocketAddr, question: &Question) -> Result<Answer> {
    let mut stream = TcpStream::connect(bank)?;
    writeln!(stream, "{}", serde_json::to_string(question)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
