//! How the conformance suite gets a ledger in a redb file, and what it may do to it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use conformance_tests::{
    ClockControl, Edit, Harness, HarnessError, HeldCommit, HookError, Hooked, InProcessLine, Line, LockGuard, Storage,
};
use custom_backend::RedbLedger;
use ledger_core::{Append, Appended, FencedLedger, Lease, ManualClock, PartitionId, Position};
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::{Value, json};

const LEASES: TableDefinition<'_, &str, &str> = TableDefinition::new("leases");
const ENTRIES: TableDefinition<'_, (&str, i64), &str> = TableDefinition::new("entries");
const EVENTS: TableDefinition<'_, (&str, i64), (i64, &str, &str, &str)> = TableDefinition::new("events");

pub struct RedbHarness;

#[async_trait]
impl Harness for RedbHarness {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        let (folder, clock) = (tempfile::tempdir()?, ManualClock::default());
        Ok(Box::new(RedbStorage { folder, clock, open: Mutex::default() }))
    }
}

struct RedbStorage {
    folder: tempfile::TempDir,
    clock: ManualClock,
    open: Mutex<Open>,
}

/// redb lets a process open a file once, so the handles are clones. This one is kept as long as the ledger is open.
#[derive(Default)]
struct Open {
    ledger: Option<RedbLedger>,
    /// How often the store has crashed. Each crash leaves the file behind, and goes on with a copy.
    crashes: u32,
}

impl RedbStorage {
    fn state(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, crashes: u32) -> PathBuf {
        self.folder.path().join(format!("ledger-{crashes}.redb"))
    }

    fn ledger(&self) -> Result<RedbLedger, HarnessError> {
        let mut state = self.state();
        let ledger = match state.ledger.take() {
            Some(ledger) => ledger,
            None => RedbLedger::open_with_clock(self.file(state.crashes), self.clock.clone())?,
        };
        state.ledger = Some(ledger.clone());
        Ok(ledger)
    }
}

#[async_trait]
impl Storage for RedbStorage {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(self.ledger()?))
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(&self.clock)
    }

    async fn restart(&self) -> Hooked<()> {
        let (last, crashes) = {
            let mut state = self.state();
            (state.ledger.take(), state.crashes)
        };
        drop(last);
        // A call that was given up may still hold the file for a moment.
        let started = std::time::Instant::now();
        while Database::open(self.file(crashes)).is_err() {
            if started.elapsed().as_secs() > 10 {
                return Err(HookError::Failed("the file is still open".into()));
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn hold_lock(&self, _partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        let ledger = self.ledger()?;
        let writer = tokio::task::spawn_blocking(move || ledger.database().begin_write()).await??;
        Ok(Box::new(Held(writer)))
    }

    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        let writer = self.ledger()?.database().begin_write()?;
        apply(&writer, partition.as_str(), edit)?;
        Ok(writer.commit()?)
    }

    /// The file as a kill leaves it: copied while nobody commits. The old handles stay with the old file.
    async fn crash(&self) -> Hooked<()> {
        let ledger = self.ledger()?;
        let mut state = self.state();
        let writer = ledger.database().begin_write()?;
        std::fs::copy(self.file(state.crashes), self.file(state.crashes + 1))?;
        writer.abort()?;
        state.crashes += 1;
        state.ledger = None;
        Ok(())
    }

    async fn line(&self) -> Hooked<Box<dyn Line>> {
        Ok(Box::new(InProcessLine::new(self.open().await?)))
    }

    async fn hold_commit(&self, lease: &Lease, append: &Append) -> Hooked<Box<dyn HeldCommit>> {
        let ledger = self.ledger()?;
        let writer = ledger.database().begin_write()?;
        let answer = ledger.append_in(&writer, lease, append);
        Ok(Box::new(Uncommitted { writer, answer }))
    }
}

struct Held(WriteTransaction);

#[async_trait]
impl LockGuard for Held {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        Ok(self.0.abort()?)
    }
}

struct Uncommitted {
    writer: WriteTransaction,
    answer: ledger_core::Result<Appended>,
}

#[async_trait]
impl HeldCommit for Uncommitted {
    async fn commit(self: Box<Self>) -> ledger_core::Result<Appended> {
        self.writer.commit().expect("a commit in a test");
        self.answer
    }
}

fn apply(writer: &WriteTransaction, name: &str, edit: &Edit) -> Hooked<()> {
    match edit {
        Edit::Payload { position, text } => event(writer, name, *position, |row| row.2.clone_from(text)),
        Edit::Metadata { position, text } => event(writer, name, *position, |row| row.3.clone_from(text)),
        Edit::Kind { position, text } => event(writer, name, *position, |row| row.1.clone_from(text)),
        Edit::RecordedAt { position, time } => {
            entry(writer, name, *position, |row| row["recorded_at"] = json!(time.as_micros()))
        }
        Edit::Holder { position, holder } => {
            entry(writer, name, *position, |row| row["holder"] = json!(holder.as_str()))
        }
        Edit::Generation { position, generation } => {
            entry(writer, name, *position, |row| row["generation"] = json!(generation.get()))
        }
        Edit::Remove { position } => {
            writer.open_table(EVENTS)?.remove((name, position.get()))?;
            writer.open_table(ENTRIES)?.remove((name, position.get()))?;
            Ok(())
        }
        Edit::Swap { one, other } => {
            let (mut first, mut second) = (None, None);
            event(writer, name, *one, |row| first = Some(row.clone()))?;
            event(writer, name, *other, |row| second = Some(row.clone()))?;
            let put = |row: &mut Row, from: Option<Row>| {
                if let Some(from) = from {
                    (row.1, row.2, row.3) = (from.1, from.2, from.3);
                }
            };
            event(writer, name, *one, |row| put(row, second))?;
            event(writer, name, *other, |row| put(row, first))
        }
        Edit::CutTail { after } => {
            let rest = (name, after.get() + 1)..=(name, i64::MAX);
            writer.open_table(EVENTS)?.retain_in(rest.clone(), |_, _| false)?;
            Ok(writer.open_table(ENTRIES)?.retain_in(rest, |_, _| false)?)
        }
        Edit::LeaseHolder { holder } => lease(writer, name, |row| row["holder"] = json!(holder.as_str())),
        Edit::LeaseUnreleased => lease(writer, name, |row| row["vacancy"] = Value::Null),
        Edit::LeaseGeneration { generation } => lease(writer, name, |row| row["generation"] = json!(generation.get())),
        other => Err(HookError::unsupported(format!("this harness does not know {other:?}"))),
    }
}

type Row = (i64, String, String, String);

fn event(writer: &WriteTransaction, name: &str, at: Position, edit: impl FnOnce(&mut Row)) -> Hooked<()> {
    let mut table = writer.open_table(EVENTS)?;
    let mut row: Row = {
        let row = table.get((name, at.get()))?.ok_or("no such event")?;
        let (first, kind, payload, metadata) = row.value();
        (first, kind.to_owned(), payload.to_owned(), metadata.to_owned())
    };
    edit(&mut row);
    table.insert((name, at.get()), (row.0, row.1.as_str(), row.2.as_str(), row.3.as_str()))?;
    Ok(())
}

fn entry(writer: &WriteTransaction, name: &str, first: Position, edit: impl FnOnce(&mut Value)) -> Hooked<()> {
    let mut table = writer.open_table(ENTRIES)?;
    let mut row: Value = serde_json::from_str(table.get((name, first.get()))?.ok_or("no such entry")?.value())?;
    edit(&mut row);
    table.insert((name, first.get()), row.to_string().as_str())?;
    Ok(())
}

fn lease(writer: &WriteTransaction, name: &str, edit: impl FnOnce(&mut Value)) -> Hooked<()> {
    let mut table = writer.open_table(LEASES)?;
    let mut row: Value = serde_json::from_str(table.get(name)?.ok_or("no such lease")?.value())?;
    edit(&mut row);
    table.insert(name, row.to_string().as_str())?;
    Ok(())
}
