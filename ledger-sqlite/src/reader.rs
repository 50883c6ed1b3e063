//! The readers: a few threads, each with a connection of its own that can not write.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ledger_core::{LedgerError, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::classify::Trouble;
use crate::shared::Shared;
use crate::writer::closed;

enum Job {
    Read(Box<dyn FnOnce(&Connection) + Send>),
    /// For one thread: close the connection, answer, end.
    Close(oneshot::Sender<()>),
}

/// Hands reads to the reader threads. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Sender<Job>,
    count: usize,
    shared: Arc<Shared>,
}

impl Readers {
    /// Starts a thread for each connection.
    pub(crate) fn start(connections: Vec<Connection>, shared: Arc<Shared>) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let (jobs, count) = (Arc::new(Mutex::new(jobs)), connections.len());
        for connection in connections {
            let jobs = jobs.clone();
            std::thread::Builder::new().name("fenced-reader".to_owned()).spawn(move || serve(connection, &jobs))?;
        }
        Ok(Self { queue, count, shared })
    }

    /// Ends the threads, and waits until their connections are closed.
    pub(crate) async fn close(&self) {
        for _ in 0..self.count {
            let (reply, answer) = oneshot::channel();
            if self.queue.send(Job::Close(reply)).is_ok() {
                let _ = answer.await;
            }
        }
    }

    /// Runs a read in one short transaction, which has ended when the answer comes: no transaction is open between
    /// two pages (D1).
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        self.run(move |connection| snapshot(connection, read)).await
    }

    /// Runs a read that opens its own transactions.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let shared = self.shared.clone();
        let job = move |connection: &Connection| {
            if !reply.is_closed() {
                let answer = shared.watch.check().map_err(Trouble::Answer).and_then(|()| read(connection));
                // A caller that is gone needs no answer.
                let _ = reply.send(answer.map_err(Trouble::before_commit));
            }
        };
        self.queue.send(Job::Read(Box::new(job))).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// Runs reads that show one state of the database.
pub(crate) fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    // Deferred, so it takes no lock that a writer waits for; rolled back when it is dropped.
    let transaction = connection.unchecked_transaction()?;
    read(&transaction)
}

fn serve(connection: Connection, jobs: &Mutex<Receiver<Job>>) {
    while let Some(job) = next(jobs) {
        match job {
            Job::Read(read) => read(&connection),
            Job::Close(reply) => {
                drop(connection);
                let _ = reply.send(());
                return;
            }
        }
    }
}

fn next(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Names the partition in an error that only the engine has described.
pub(crate) fn about(partition: &ledger_core::PartitionId) -> impl Fn(LedgerError) -> LedgerError + '_ {
    move |error| match error {
        LedgerError::Corrupt { partition: None, position, detail, source } => {
            LedgerError::Corrupt { partition: Some(partition.clone()), position, detail, source }
        }
        other => other,
    }
}
