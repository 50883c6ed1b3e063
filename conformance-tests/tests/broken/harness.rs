//! The reference under the suite, with every hook.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use conformance_tests::{
    ClockControl, Edit, Gate, Harness, HarnessError, HeldCommit, HookError, Hooked, InProcessLine, Line, LockGuard,
    Storage, StoreCopy,
};
use ledger_core::decide::Decision;
use ledger_core::{
    Append, Appended, Entry, EventKind, FencedLedger, Json, Lease, NewEvent, PartitionId, Position, RequestBook,
    Witness,
};

use crate::book::BrokenBook;
use crate::bugs::Bug;
use crate::disk::{Disk, Lost, Part, State};
use crate::reference::Reference;
use crate::shadow::BrokenShadow;
use crate::witness::{self, BrokenWitness};

/// Provides references that all have the same bug, or none.
pub(crate) struct ReferenceHarness {
    pub(crate) bug: Option<Bug>,
}

struct OnDisk(Arc<Disk>);

#[async_trait]
impl Harness for ReferenceHarness {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        Ok(Box::new(OnDisk(Arc::new(Disk::new(self.bug)))))
    }
}

#[async_trait]
impl Storage for OnDisk {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(Reference::open(self.0.clone())))
    }

    fn book(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn RequestBook> {
        Arc::new(BrokenBook { ledger, bug: self.0.bug })
    }

    fn witness(&self, marks: Arc<dyn FencedLedger>) -> Arc<dyn Witness> {
        witness::in_ledger(self.0.bug, marks)
    }

    fn witnessed(&self, ledger: Arc<dyn FencedLedger>, witness: Arc<dyn Witness>) -> Arc<dyn FencedLedger> {
        BrokenWitness::compare(self.0.bug, ledger, witness)
    }

    fn shadowed(&self, ledger: Arc<dyn FencedLedger>) -> Arc<dyn FencedLedger> {
        match self.0.bug {
            Some(bug) => Arc::new(BrokenShadow { ledger, bug }),
            None => ledger,
        }
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(&self.0.clock)
    }

    async fn restart(&self) -> Hooked<()> {
        if Arc::strong_count(&self.0) > 1 {
            return Err(HookError::Failed("a handle is still open".into()));
        }
        self.0.restart();
        Ok(())
    }

    async fn hold_lock(&self, _partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        Ok(Box::new(Held(self.0.writer.clone().lock_owned().await)))
    }

    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        match self.0.state().parts.get_mut(partition) {
            Some(part) => apply(part, edit),
            None => Err(HookError::Failed("nobody claimed the partition".into())),
        }
    }

    async fn crash(&self) -> Hooked<()> {
        self.0.crash();
        Ok(())
    }

    async fn line(&self) -> Hooked<Box<dyn Line>> {
        let reference = Arc::new(Reference::open(self.0.clone()));
        if self.0.has(Bug::LostLineToldAsRefusal) {
            return Ok(Box::new(Liar(self.0.clone(), reference)));
        }
        Ok(Box::new(InProcessLine::new(reference)))
    }

    async fn hold_commit(&self, lease: &Lease, append: &Append) -> Hooked<Box<dyn HeldCommit>> {
        let lock = self.0.writer.clone().lock_owned().await;
        let reference = Reference::open(self.0.clone());
        let (partition, decision) = (lease.partition.clone(), reference.decide_append(lease, append));
        let lock = Some(lock).filter(|_| !self.0.has(Bug::CommitOutsideTheLock));
        Ok(Box::new(Uncommitted { reference, partition, decision, lock }))
    }

    async fn fail_write(&self, nth: u32) -> Hooked<Box<dyn LockGuard>> {
        self.0.fail_write(nth);
        Ok(Box::new(Failing(self.0.clone())))
    }

    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        let state = self.0.state().clone();
        Ok(Box::new(Copied(self.0.clone(), state)))
    }
}

/// An append that is decided, and applied when it commits. Until then the writers' lock is held, but for a bug.
struct Uncommitted {
    reference: Reference,
    partition: PartitionId,
    decision: Decision<Appended>,
    lock: Option<tokio::sync::OwnedMutexGuard<()>>,
}

#[async_trait]
impl HeldCommit for Uncommitted {
    async fn commit(self: Box<Self>) -> ledger_core::Result<Appended> {
        let answer = self.reference.commit(&self.partition, self.decision);
        drop(self.lock);
        answer
    }
}

/// A line over which whatever is lost is told as a refusal.
struct Liar(Arc<Disk>, Arc<Reference>);

impl Liar {
    fn lose(&self, what: Lost) {
        *self.0.losing.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }
}

#[async_trait]
impl Line for Liar {
    fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.1.clone()
    }

    async fn lose_reply(&self) -> Result<(), HarnessError> {
        self.lose(Lost::Reply);
        Ok(())
    }

    async fn lose_request(&self) -> Result<(), HarnessError> {
        self.lose(Lost::Request);
        Ok(())
    }

    async fn hold_request(&self) -> Result<Box<dyn Gate>, HarnessError> {
        Err("it lies about what is lost alone".into())
    }
}

/// Dropping the guard lets writes succeed again.
struct Failing(Arc<Disk>);

impl Drop for Failing {
    fn drop(&mut self) {
        self.0.fail_write(0);
    }
}

#[async_trait]
impl LockGuard for Failing {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        Ok(())
    }
}

struct Copied(Arc<Disk>, State);

#[async_trait]
impl StoreCopy for Copied {
    async fn restore(&self) -> Result<(), HarnessError> {
        *self.0.state() = self.1.clone();
        Ok(())
    }
}

/// Dropping the guard lets the lock go.
struct Held(tokio::sync::OwnedMutexGuard<()>);

#[async_trait]
impl LockGuard for Held {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        drop(self.0);
        Ok(())
    }
}

fn apply(part: &mut Part, edit: &Edit) -> Hooked<()> {
    match edit {
        Edit::Payload { position, text } => {
            edit_event(part, *position, |event| event.payload = Json::stored(text.as_str()))
        }
        Edit::Metadata { position, text } => {
            edit_event(part, *position, |event| event.metadata = Json::stored(text.as_str()));
        }
        Edit::Kind { position, text } => {
            let kind = EventKind::stored(text)?;
            edit_event(part, *position, |event| event.kind = kind.clone());
        }
        Edit::RecordedAt { position, time } => edit_entry(part, *position, |entry| entry.recorded_at = *time),
        Edit::Holder { position, holder } => edit_entry(part, *position, |entry| entry.holder = holder.clone()),
        Edit::Remove { position } => {
            part.log.retain(|(entry, _)| entry.first != *position);
            part.standing.tip = part.log.last().map(|(entry, _)| entry.clone());
        }
        Edit::Swap { one, other } => {
            let event = |position: Position| part.log.iter().find(|(entry, _)| entry.first == position);
            let (Some((_, first)), Some((_, second))) = (event(*one), event(*other)) else {
                return Err(HookError::Failed("no such entries".into()));
            };
            let (first, second) = (first[0].clone(), second[0].clone());
            edit_event(part, *one, |event| *event = second.clone());
            edit_event(part, *other, |event| *event = first.clone());
        }
        Edit::CutTail { after } => {
            part.log.retain(|(entry, _)| entry.first <= *after);
            part.standing.tip = part.log.last().map(|(entry, _)| entry.clone());
        }
        Edit::LeaseHolder { holder } => part.standing.lease.holder = holder.clone(),
        Edit::LeaseUnreleased => part.standing.lease.vacancy = None,
        Edit::Generation { position, generation } => {
            edit_entry(part, *position, |entry| entry.generation = *generation);
            part.standing.tip = part.log.last().map(|(entry, _)| entry.clone());
        }
        Edit::LeaseGeneration { generation } => part.standing.lease.generation = *generation,
        other => return Err(HookError::unsupported(format!("the reference does not know the edit {other:?}"))),
    }
    Ok(())
}

fn edit_event(part: &mut Part, position: Position, edit: impl Fn(&mut NewEvent)) {
    for (entry, events) in &mut part.log {
        if (entry.first..=entry.last).contains(&position) {
            let mut edited = events.to_vec();
            let nth = usize::try_from(position.get() - entry.first.get()).expect("the position is in the entry");
            edit(&mut edited[nth]);
            *events = edited.into();
        }
    }
}

fn edit_entry(part: &mut Part, first: Position, edit: impl Fn(&mut Entry)) {
    for (entry, _) in part.log.iter_mut().filter(|(entry, _)| entry.first == first) {
        edit(Arc::make_mut(entry));
    }
}
