//! How the conformance suite gets a ledger in a SQLite file, and what it may do to the file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use conformance_tests::{
    ClockControl, Edit, Harness, HarnessError, HeldCommit, HookError, Hooked, InProcessLine, Line, LockGuard, Storage,
    StoreCopy,
};
use ledger_core::{Append, Appended, FencedLedger, Lease, ManualClock, PartitionId, Position};
use ledger_sqlite::SqliteLedger;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, DropBehavior, Transaction, TransactionBehavior, params};

/// A handle that is dropped has closed its file within this time. It writes its last counts, for a second at most; the
/// rest is for a slow disk.
const CLOSED_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
pub(crate) struct SqliteHarness;

#[async_trait]
impl Harness for SqliteHarness {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        let (folder, clock) = (tempfile::tempdir()?, ManualClock::default());
        Ok(Box::new(SqliteStorage { folder, clock, crashes: AtomicU32::new(0) }))
    }
}

struct SqliteStorage {
    folder: tempfile::TempDir,
    clock: ManualClock,
    /// How often it has crashed. Each crash leaves the file behind, and goes on with a copy.
    crashes: AtomicU32,
}

impl SqliteStorage {
    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("ledger-{}.db", self.crashes.load(Ordering::SeqCst)))
    }

    fn ledger(&self) -> Result<SqliteLedger, HarnessError> {
        Ok(SqliteLedger::options().clock(self.clock.clone()).open(self.file())?)
    }

    /// What anybody with the engine's shell has.
    fn shell(&self) -> rusqlite::Result<Connection> {
        Connection::open(self.file())
    }
}

#[async_trait]
impl Storage for SqliteStorage {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(self.ledger()?))
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(&self.clock)
    }

    /// The handles are gone; the file stays. Their threads end after them: as long as one writes its last counts, a call
    /// that comes after the restart may have to wait for it, and its refusal go without a record (E2).
    async fn restart(&self) -> Hooked<()> {
        let shell = self.shell()?;
        shell.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let started = Instant::now();
        loop {
            match shell.execute_batch("BEGIN EXCLUSIVE; COMMIT") {
                Ok(()) => return Ok(()),
                Err(error) if started.elapsed() > CLOSED_WITHIN => return Err(HookError::Failed(error.into())),
                // A look every so often: nothing tells when another connection has gone.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn hold_lock(&self, _partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        let connection = self.shell()?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(Box::new(Held(connection)))
    }

    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        let shell = self.shell()?;
        let key: i64 =
            shell.query_row("SELECT partition FROM fenced_partition WHERE name = ?1", [partition.as_str()], |row| {
                row.get(0)
            })?;
        let changed = match edit {
            Edit::Payload { position, text } => set(&shell, "payload", key, *position, text)?,
            Edit::Metadata { position, text } => set(&shell, "metadata", key, *position, text)?,
            Edit::Kind { position, text } => set(&shell, "kind", key, *position, text)?,
            Edit::RecordedAt { position, time } => shell.execute(
                "UPDATE fenced_log SET recorded_at = ?3 WHERE partition = ?1 AND first = ?2",
                params![key, position.get(), time.as_micros()],
            )?,
            Edit::Holder { position, holder } => shell.execute(
                "UPDATE fenced_log SET holder = ?3 WHERE partition = ?1 AND first = ?2",
                params![key, position.get(), holder.as_str()],
            )?,
            Edit::Remove { position } => shell.execute(
                "DELETE FROM fenced_log WHERE partition = ?1 AND position = ?2",
                params![key, position.get()],
            )?,
            Edit::Swap { one, other } => swap(&shell, key, *one, *other)?,
            Edit::CutTail { after } => shell
                .execute("DELETE FROM fenced_log WHERE partition = ?1 AND position > ?2", params![key, after.get()])?,
            Edit::LeaseHolder { holder } => shell.execute(
                "UPDATE fenced_partition SET holder = ?2 WHERE partition = ?1",
                params![key, holder.as_str()],
            )?,
            Edit::LeaseUnreleased => {
                shell.execute("UPDATE fenced_partition SET vacancy = NULL WHERE partition = ?1", [key])?
            }
            Edit::Generation { position, generation } => shell.execute(
                "UPDATE fenced_log SET generation = ?3 WHERE partition = ?1 AND first = ?2",
                params![key, position.get(), generation.get()],
            )?,
            Edit::LeaseGeneration { generation } => shell.execute(
                "UPDATE fenced_partition SET generation = ?2 WHERE partition = ?1",
                params![key, generation.get()],
            )?,
            other => return Err(HookError::unsupported(format!("this harness does not know {other:?}"))),
        };
        if changed == 0 { Err(HookError::Failed(format!("{edit:?} met no row").into())) } else { Ok(()) }
    }

    /// The file as a kill of the process leaves it: no handle is closed, nothing is checkpointed. The handles that are
    /// open stay with the file that nobody opens any more.
    async fn crash(&self) -> Hooked<()> {
        let from = self.file();
        let reader = self.shell()?;
        // As long as this reads, the write-ahead log is not begun anew: file and log fit together.
        reader.execute_batch("BEGIN; SELECT count(*) FROM fenced_ledger")?;
        self.crashes.fetch_add(1, Ordering::SeqCst);
        let to = self.file();
        std::fs::copy(&from, &to)?;
        std::fs::copy(wal(&from), wal(&to))?;
        Ok(())
    }

    async fn line(&self) -> Hooked<Box<dyn Line>> {
        Ok(Box::new(InProcessLine::new(self.open().await?)))
    }

    /// In a caller's transaction: judged and written by the ledger, committed by the caller.
    async fn hold_commit(&self, lease: &Lease, append: &Append) -> Hooked<Box<dyn HeldCommit>> {
        let (ledger, connection) = (self.ledger()?, self.shell()?);
        let mut transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
        transaction.set_drop_behavior(DropBehavior::Ignore);
        let answer = ledger.append_in(&transaction, lease, append);
        drop(transaction);
        Ok(Box::new(Uncommitted { connection, answer }))
    }

    async fn fail_write(&self, nth: u32) -> Hooked<Box<dyn LockGuard>> {
        let shell = self.shell()?;
        shell.execute_batch(&format!("CREATE TABLE fault (left INTEGER); INSERT INTO fault VALUES ({nth});"))?;
        for (table, write) in WRITES {
            shell.execute_batch(&format!(
                "CREATE TRIGGER fault_{table}_{write} BEFORE {write} ON {table} BEGIN
                     UPDATE fault SET left = left - 1;
                     SELECT RAISE(ABORT, 'the disk is full') FROM fault WHERE left = 0;
                 END;"
            ))?;
        }
        Ok(Box::new(Faults(shell)))
    }

    /// SQLite's own backup, and its restore into the file under the handles that have it open.
    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        let mut copy = Connection::open_in_memory()?;
        copy_pages(&self.shell()?, &mut copy)?;
        Ok(Box::new(Copied { file: self.file(), copy: Mutex::new(copy) }))
    }
}

/// Every write of a row.
const WRITES: [(&str, &str); 5] = [
    ("fenced_partition", "INSERT"),
    ("fenced_partition", "UPDATE"),
    ("fenced_log", "INSERT"),
    ("fenced_rejection", "INSERT"),
    ("fenced_rejection", "UPDATE"),
];

fn wal(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

struct Uncommitted {
    connection: Connection,
    answer: ledger_core::Result<Appended>,
}

#[async_trait]
impl HeldCommit for Uncommitted {
    async fn commit(self: Box<Self>) -> ledger_core::Result<Appended> {
        self.connection.execute_batch("COMMIT").expect("an open transaction of a harness commits");
        self.answer
    }
}

struct Faults(Connection);

#[async_trait]
impl LockGuard for Faults {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        for (table, write) in WRITES {
            self.0.execute_batch(&format!("DROP TRIGGER fault_{table}_{write}"))?;
        }
        Ok(self.0.execute_batch("DROP TABLE fault")?)
    }
}

struct Copied {
    file: PathBuf,
    copy: Mutex<Connection>,
}

#[async_trait]
impl StoreCopy for Copied {
    async fn restore(&self) -> Result<(), HarnessError> {
        let copy = self.copy.lock().map_err(|_| "a restore panicked")?;
        Ok(copy_pages(&copy, &mut Connection::open(&self.file)?)?)
    }
}

fn copy_pages(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    let backup = Backup::new(from, to)?;
    // All pages in one step, which waits for whoever holds the file's lock.
    while backup.step(-1)? != StepResult::Done {
        std::thread::yield_now();
    }
    Ok(())
}

fn set(shell: &Connection, column: &str, key: i64, position: Position, text: &str) -> rusqlite::Result<usize> {
    let update = format!("UPDATE fenced_log SET {column} = ?3 WHERE partition = ?1 AND position = ?2");
    shell.execute(&update, params![key, position.get(), text])
}

fn swap(shell: &Connection, key: i64, one: Position, other: Position) -> rusqlite::Result<usize> {
    let texts = |position: Position| {
        shell.query_row(
            "SELECT kind, metadata, payload FROM fenced_log WHERE partition = ?1 AND position = ?2",
            params![key, position.get()],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)),
        )
    };
    let pair = [(one, texts(other)?), (other, texts(one)?)];
    let mut changed = 0;
    for (position, (kind, metadata, payload)) in pair {
        changed += shell.execute(
            "UPDATE fenced_log SET kind = ?3, metadata = ?4, payload = ?5 WHERE partition = ?1 AND position = ?2",
            params![key, position.get(), kind, metadata, payload],
        )?;
    }
    Ok(changed)
}

struct Held(Connection);

#[async_trait]
impl LockGuard for Held {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        Ok(self.0.execute_batch("ROLLBACK")?)
    }
}
