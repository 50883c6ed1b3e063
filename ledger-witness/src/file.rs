//! The handle: calls handed to a thread, which answers all that wait with one write.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use async_trait::async_trait;
use futures_channel::oneshot;
use ledger_core::{Failure, FailureKind, LedgerId, Mark, PartitionId, Witness};

use crate::journal::{Journal, Kept, WitnessError};

/// Marks in a file, shared by all handles and processes that open it.
///
/// It needs no runtime: one thread does the work, and ends with the last clone of the handle.
#[derive(Clone, Debug)]
pub struct FileWitness {
    queue: Sender<Job>,
}

type Answer<T> = oneshot::Sender<Result<T, Failure>>;

enum Job {
    Mark(LedgerId, PartitionId, Answer<Option<Mark>>),
    All(Answer<Vec<Kept>>),
    Keep(Kept, Answer<Mark>),
}

impl FileWitness {
    /// Opens the file, and makes it where there is none. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// [`WitnessError`]: a file that can not be read, or is none of a witness's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WitnessError> {
        let path = path.as_ref();
        let journal = Journal::open(path)?;
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new().name("ledger-witness".to_owned());
        let spawned = thread.spawn(move || serve(journal, &jobs));
        spawned.map_err(|source| WitnessError::Io { what: "served", path: path.to_owned(), source })?;
        Ok(Self { queue })
    }

    /// All marks, for an operator who looks for the highest generation that was ever seen. In no order. Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`mark`](Witness::mark).
    pub async fn marks(&self) -> Result<Vec<Kept>, Failure> {
        self.ask(Job::All).await
    }

    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, Failure> {
        let gone = || Failure::new(FailureKind::Other, "the thread of the witness has ended");
        let (answer, answered) = oneshot::channel();
        self.queue.send(job(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

#[async_trait]
impl Witness for FileWitness {
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        let partition = partition.clone();
        self.ask(|answer| Job::Mark(ledger, partition, answer)).await
    }

    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure> {
        let kept = Kept { ledger, partition: partition.clone(), mark };
        self.ask(|answer| Job::Keep(kept, answer)).await
    }
}

fn serve(mut journal: Journal, jobs: &Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        let (mut new, mut waiting) = (Vec::new(), Vec::new());
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            // Who is gone needs no answer.
            match job {
                Job::Mark(ledger, partition, answer) => {
                    let _ = answer.send(journal.mark(ledger, &partition).map_err(failure));
                }
                Job::All(answer) => drop(answer.send(journal.all().map_err(failure))),
                Job::Keep(kept, answer) => {
                    new.push(kept);
                    waiting.push(answer);
                }
            }
        }
        if new.is_empty() {
            continue;
        }
        match journal.keep(&new) {
            Ok(kept) => waiting.into_iter().zip(kept).for_each(|(answer, mark)| drop(answer.send(Ok(mark)))),
            Err(error) => {
                let failure = failure(error);
                waiting.into_iter().for_each(|answer| drop(answer.send(Err(failure.clone()))));
            }
        }
    }
}

fn failure(error: WitnessError) -> Failure {
    let kind = match &error {
        WitnessError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => FailureKind::StorageFull,
            std::io::ErrorKind::ReadOnlyFilesystem => FailureKind::ReadOnly,
            std::io::ErrorKind::NotFound => FailureKind::Replaced,
            _ => FailureKind::Other,
        },
        _ => FailureKind::Other,
    };
    let mut failure = Failure::new(kind, error.to_string());
    failure.source = Some(Arc::new(error));
    failure
}
