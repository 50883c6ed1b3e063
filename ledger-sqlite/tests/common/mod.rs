//! What the tests of this crate share.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic with its line is the report")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ledger_core::{
    Append, Claim, FailureKind, FencedLedger, Holder, Lease, LedgerError, NewEvent, PageSize, PartitionId, Position,
    Reason, RejectionRecord, Result, Ttl,
};
use ledger_sqlite::SqliteLedger;
use rusqlite::Connection;

/// A folder that is gone with this, and a database's name in it.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        Self { folder, file }
    }

    /// Another connection, as the engine's shell has one.
    pub(crate) fn shell(&self) -> Connection {
        Connection::open(&self.file).unwrap()
    }
}

pub(crate) fn partition(name: &str) -> PartitionId {
    PartitionId::new(name).unwrap()
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder::new(name).unwrap()
}

pub(crate) fn hour() -> Ttl {
    Ttl::from_millis(3_600_000).unwrap()
}

pub(crate) fn millis(number: i64) -> Ttl {
    Ttl::from_millis(number).unwrap()
}

pub(crate) fn append(text: &str) -> Append {
    Append::new([event(text)]).unwrap()
}

pub(crate) fn event(text: &str) -> NewEvent {
    NewEvent::of("noted", text).unwrap()
}

/// Claims from the state as it stands.
pub(crate) async fn claim(ledger: &SqliteLedger, name: &str, by: &str, ttl: Ttl) -> Result<Lease> {
    let state = ledger.observe(&partition(name)).await?;
    let claim = Claim::new(partition(name), holder(by), ttl, state.observation());
    Ok(ledger.claim(&claim).await?.lease)
}

/// The payloads of the application's events, as they stand in the log.
pub(crate) async fn texts(ledger: &SqliteLedger, name: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut from = Some(Position::FIRST);
    while let Some(position) = from {
        let page = ledger.read(&partition(name), position, PageSize::MAX).await.unwrap();
        texts.extend(
            page.events.iter().filter(|event| !event.kind.is_own()).map(|event| event.payload.decode().unwrap()),
        );
        from = page.next;
    }
    texts
}

pub(crate) async fn records(ledger: &SqliteLedger, name: &str) -> Vec<RejectionRecord> {
    ledger.rejections(Some(&partition(name)), None, PageSize::MAX).await.unwrap().records
}

#[track_caller]
pub(crate) fn reason<T: std::fmt::Debug>(answer: Result<T>) -> Reason {
    match answer {
        Err(LedgerError::Rejected(rejection)) => rejection.reason,
        other => panic!("not refused but {other:?}"),
    }
}

#[track_caller]
pub(crate) fn not_written<T: std::fmt::Debug>(answer: Result<T>) -> FailureKind {
    match answer {
        Err(LedgerError::NotWritten(failure)) => failure.kind,
        other => panic!("not `NotWritten` but {other:?}"),
    }
}

#[track_caller]
pub(crate) fn unknown<T: std::fmt::Debug>(answer: Result<T>) -> FailureKind {
    match answer {
        Err(LedgerError::Unknown(failure)) => failure.kind,
        other => panic!("not `Unknown` but {other:?}"),
    }
}

/// Waits for a condition that is to come true soon.
pub(crate) async fn soon(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if is_true().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("after 6 s still not: {what}");
}

/// Runs an ignored test of the same test binary as a process of its own, with its standard input and output piped.
pub(crate) fn process(test: &str, file: &Path, setting: &[(&str, &str)]) -> Child {
    wrapped(&[], test, file, setting)
}

/// The same, started by another program that ends in `exec "$@"`.
pub(crate) fn wrapped(by: &[&str], test: &str, file: &Path, setting: &[(&str, &str)]) -> Child {
    let itself = std::env::current_exe().unwrap();
    let arguments = ["--exact", test, "--ignored", "--nocapture", "--test-threads=1"];
    let mut command = match by {
        [] => Command::new(&itself),
        [program, before @ ..] => {
            let mut command = Command::new(program);
            command.args(before).arg(&itself);
            command
        }
    };
    command
        .args(arguments)
        .env("LEDGER_FILE", file)
        .envs(setting.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// In such a process: the file that it was given.
pub(crate) fn given_file() -> PathBuf {
    std::env::var_os("LEDGER_FILE").expect("started by another test, which names the file").into()
}
