//! The handle: each call handed to the writer or to a reader.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Instant;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Capability, Claim, Claimed, Description, Ended, EventKind, Failure,
    FailureKind, Fate, FencedLedger, Generation, LazyPage, Lease, LedgerError, Note, Observation, Page, PageSize,
    PartitionId, PartitionPage, PartitionState, Position, RecordPage, RecordSlot, RecordState, Refused, Rejection,
    Released, Renewal, Result, Ttl, judge,
};
use tokio::sync::oneshot;
use tracing::{Instrument as _, debug_span};

use crate::group::look;
use crate::open_error::OpenError;
use crate::options::SqliteOptions;
use crate::reader::{Readers, about};
use crate::shared::Shared;
use crate::task::{Judged, Record, Task};
use crate::work::{EndTenure, Release, Renew, Work, Write};
use crate::writer::{Job, closed};
use crate::{page, records, store};

/// A ledger in one SQLite file. `Clone` is a second handle on the same connections.
///
/// Several of these, in one process or in many, may have the same file open. It needs no runtime: the work is done by
/// threads of its own, which end when the last clone is dropped. They first serve what is queued and write the last
/// counts of evidence, which may be just after the drop; [`SqliteLedger::close`] waits for it.
#[derive(Clone, Debug)]
pub struct SqliteLedger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    writer: Sender<Job>,
    readers: Readers,
}

impl SqliteLedger {
    /// Opens the ledger in a file, and makes it where there is none. Blocks for a moment: 0.1 ms for a file in use.
    ///
    /// # Errors
    ///
    /// [`OpenError`] has a variant for each cause.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::options().open(path)
    }

    /// Options to open a ledger with.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// Stores the record of a refusal that [`append_in`](Self::append_in) met in a caller's transaction, once that has
    /// ended (E2). While it is open it holds the write lock, and this waits for it.
    ///
    /// Of a refusal whose record is stored or counted already, it does nothing and says so. Not idempotent otherwise: each
    /// call counts once. Cancel safe: a dropped future has stored all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotWritten`] or [`LedgerError::Unknown`], as for any write.
    pub async fn record_rejection(&self, rejection: &Rejection) -> Result<RecordState> {
        match &rejection.record {
            RecordState::Carried | RecordState::Missing { .. } => {}
            known => return Ok(known.clone()),
        }
        let (reply, answer) = oneshot::channel();
        let task = Record { rejection: rejection.clone(), since: Instant::now(), reply, kept: None };
        self.send(Box::new(task), answer).await
    }

    /// Ends this ledger's threads and waits for it: what is queued is served, the last counts of evidence are written,
    /// and the file is closed. Later calls on any clone are refused as [`FailureKind::Closed`]. It has no error: counts that
    /// can not be written within a second are lost (E3). Cancel safe: a dropped future does not stop it.
    pub async fn close(self) {
        self.shared().is_closed.store(true, Ordering::Release);
        self.inner.readers.close().await;
        let (reply, answer) = oneshot::channel();
        if self.inner.writer.send(Job::Close(reply)).is_ok() {
            let _ = answer.await;
        }
    }

    pub(crate) fn new(shared: Arc<Shared>, writer: Sender<Job>, readers: Readers) -> Self {
        Self { inner: Arc::new(Inner { shared, writer, readers }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Hands a task over of which nobody waits for the answer.
    pub(crate) fn submit_unanswered(&self, task: Box<dyn Task>) {
        // The writer is gone only once the handle was closed.
        let _ = self.inner.writer.send(Job::Task(task));
    }

    async fn submit<W: Work>(&self, work: W) -> Result<W::Answer> {
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(Judged::new(work, reply)), answer).await
    }

    /// Submits a call that presents a lease; where this handle knows that its tenure has ended, a reader refuses it
    /// and the writer is left alone (E4).
    async fn submit_unless_ended<W: Work>(&self, work: W, presented: Generation) -> Result<W::Answer> {
        if !self.shared().ended.knows(work.partition(), presented) {
            return self.submit(work).await;
        }
        let shared = self.shared().clone();
        let looked = move |connection: &_| {
            // What the look can not read is left to the judgement under the lock.
            let refused = look(connection, &shared, &work).ok().flatten();
            Ok((work, refused))
        };
        let (work, refused) = self.open_readers()?.read(looked).await?;
        let Some(rejection) = refused else { return self.submit(work).await };
        if self.count(&rejection) {
            return Err(rejection.with_record(RecordState::Counted).into());
        }
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(Judged::refused(work, rejection, reply)), answer).await
    }

    /// Counts a refusal in memory, if its record is known to be stored.
    fn count(&self, rejection: &Rejection) -> bool {
        let evidence = &self.shared().evidence;
        let Some(refused) = Refused::of(rejection) else { return false };
        let Some(place) = evidence.place(rejection, &refused) else { return false };
        if evidence.count(place, rejection) {
            let _ = self.inner.writer.send(Job::Wake);
        }
        true
    }

    async fn send<T>(&self, task: Box<dyn Task>, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.check_open()?;
        self.inner.writer.send(Job::Task(task)).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| {
            let detail = "the writer ended without an answer";
            Err(LedgerError::Unknown(Failure::new(FailureKind::Other, detail)))
        })
    }

    fn open_readers(&self) -> Result<&Readers> {
        self.check_open()?;
        Ok(&self.inner.readers)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.shared().is_closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl FencedLedger for SqliteLedger {
    async fn describe(&self) -> Result<Description> {
        let capabilities = vec![Capability::ManyProcesses, Capability::CallerTransactions];
        let shared = self.shared();
        Ok(Description::new(shared.ledger, "SQLite", rusqlite::version(), shared.durability, capabilities))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let (shared, name) = (self.shared().clone(), partition.clone());
        let observe = move |connection: &_| {
            let found = store::find(connection, &name)?;
            let standing = found.as_ref().map(|found| &found.standing);
            let judged = judge::judged(standing, shared.clock.now());
            let tenure = standing.map(|standing| standing.tenure(shared.ledger, &name));
            Ok(PartitionState::new(shared.ledger, name, tenure, judged))
        };
        let span = debug_span!("fenced_ledger.observe", %partition);
        self.open_readers()?.read(observe).instrument(span).await.map_err(about(partition))
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let span = debug_span!("fenced_ledger.claim", partition = %claim.partition, holder = %claim.holder);
        self.submit(claim.clone()).instrument(span).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        lease.check_ledger(self.shared().ledger)?;
        let (partition, generation) = (&lease.partition, lease.generation);
        let span = debug_span!("fenced_ledger.renew", %partition, generation = generation.get());
        self.submit_unless_ended(Renew { lease: lease.clone(), ttl }, generation).instrument(span).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        lease.check_ledger(self.shared().ledger)?;
        let (partition, generation) = (&lease.partition, lease.generation);
        let span = debug_span!("fenced_ledger.release", %partition, generation = generation.get());
        self.submit(Release { lease: lease.clone() }).instrument(span).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let span = debug_span!("fenced_ledger.end_tenure", %partition);
        let work = EndTenure { partition: partition.clone(), observed, reason: reason.clone() };
        self.submit(work).instrument(span).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let span = debug_span!("fenced_ledger.advance", partition = %advance.partition, operator = %advance.operator);
        self.submit(advance.clone()).instrument(span).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.shared().ledger)?;
        let span = debug_span!(
            "fenced_ledger.append",
            partition = %lease.partition,
            generation = lease.generation.get(),
            id = %append.id(),
            events = append.events().len()
        );
        let write = Write { lease: lease.clone(), append: append.clone() };
        self.submit_unless_ended(write, lease.generation).instrument(span).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let name = partition.clone();
        let fate = move |connection: &_| {
            let Some(found) = store::find(connection, &name)? else { return Ok(Fate::Undecided) };
            Ok(match store::entry_by_id(connection, (&name, found.key), id)? {
                Some(entry) => Fate::Recorded(entry),
                None if found.standing.has_visibly_ended(generation) => Fate::Never,
                None => Fate::Undecided,
            })
        };
        let span = debug_span!("fenced_ledger.fate", %partition, %id);
        self.open_readers()?.read(fate).instrument(span).await.map_err(about(partition))
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.read_lazily(partition, from, limit).await.map(Page::from)
    }

    async fn read_lazily(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<LazyPage> {
        let name = partition.clone();
        let read = move |connection: &_| page::forward(connection, &name, from, limit);
        let span = debug_span!("fenced_ledger.read", %partition);
        self.open_readers()?.read(read).instrument(span).await.map_err(about(partition))
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        let (name, kind) = (partition.clone(), kind.clone());
        let read = move |connection: &_| page::of_kind(connection, &name, &kind, from, limit);
        let span = debug_span!("fenced_ledger.read", %partition);
        self.open_readers()?.read(read).instrument(span).await.map_err(about(partition))
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let name = partition.clone();
        let read = move |connection: &_| page::backward(connection, &name, from, limit);
        let span = debug_span!("fenced_ledger.read", %partition);
        self.open_readers()?.read(read).instrument(span).await.map_err(about(partition))
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let after = after.cloned();
        let read = move |connection: &_| page::partitions(connection, after.as_ref(), limit);
        self.open_readers()?.read(read).instrument(debug_span!("fenced_ledger.partitions")).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        let (shared, partition) = (self.shared().clone(), partition.cloned());
        let read = move |connection: &_| records::page(connection, &shared.evidence, partition.as_ref(), after, limit);
        self.open_readers()?.run(read).instrument(debug_span!("fenced_ledger.rejections")).await
    }
}
