//! Goal: a file that is restored from an older copy is noticed, by its holder and by who claims next, and goes on after an
//! operator's step (I3 to I5). Without a witness it is not noticed: that is shown too.
//!
//! Method: real files, SQLite's own backup, a holder in a process of its own, and edits by the engine's shell.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{Place, append, claim, event, given_file, holder, hour, not_written, partition, reason};
use ledger_core::{
    Advance, Append, Claim, FailureKind, FencedLedger, FencedLedgerExt, Generation, LedgerError, Note, Reason, Result,
    Rewind, RolledBack, Verification, Witnessed,
};
use ledger_sqlite::SqliteLedger;
use ledger_witness::FileWitness;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

fn copy_pages(from: &Connection, to: &mut Connection) {
    let backup = Backup::new(from, to).expect("a backup");
    while backup.step(-1).expect("copied") != StepResult::Done {
        std::thread::yield_now();
    }
}

fn marks(place: &Place) -> PathBuf {
    place.folder.path().join("marks")
}

fn witnessed(file: &Path, marks: &Path) -> Witnessed {
    let ledger = SqliteLedger::open(file).expect("opened");
    Witnessed::new(Arc::new(ledger), Arc::new(FileWitness::open(marks).expect("opened")))
}

async fn claim_over(ledger: &dyn FencedLedger, name: &str, by: &str) -> Result<ledger_core::Lease> {
    let observed = ledger.observe(&partition(name)).await?.observation();
    Ok(ledger.claim(&Claim::new(partition(name), holder(by), hour(), observed)).await?.lease)
}

#[track_caller]
fn rolled_back<T: std::fmt::Debug>(answer: Result<T>) -> RolledBack {
    match answer {
        Err(LedgerError::RolledBack(back)) => *back,
        other => panic!("not `RolledBack` but {other:?}"),
    }
}

fn advance(above: Generation) -> Advance {
    let why = Note::new("restored from the copy of an hour ago").expect("a note");
    Advance::new(partition("jobs"), holder("operator"), Some(above), why)
}

#[tokio::test]
async fn a_holder_in_another_process_notices_and_an_advance_goes_on() {
    let place = Place::new();
    let ledger = witnessed(&place.file, &marks(&place));
    let lease = claim_over(&ledger, "jobs", "first").await.expect("claimed");
    ledger.append(&lease, &append("an hour ago")).await.expect("appended");
    ledger.release(&lease).await.expect("released");
    let mut hour_ago = Connection::open(place.folder.path().join("copy.db")).expect("made");
    copy_pages(&place.shell(), &mut hour_ago);

    let marks = marks(&place);
    let setting = [("MARKS", marks.to_str().expect("a path of the test's"))];
    let mut child = common::process("holds_and_appends_until_it_is_told", &place.file, &setting);
    let mut output = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::<_, _>::ok);
    let acknowledged = output.by_ref().filter(|line| line.starts_with("at ")).nth(20).expect("it appends");
    copy_pages(&hour_ago, &mut place.shell());

    // Every line up to its end: it was acknowledged what is gone, and then told so.
    let told = output.find(|line| line.starts_with("told ")).expect("the holder is told");
    assert!(told.contains("went back in time on partition `jobs`"), "{told}, after {acknowledged}");
    assert!(child.wait().expect("it ends").success());

    let before = ledger.observe(&partition("jobs")).await.expect("observed");
    let back = rolled_back(claim_over(&ledger, "jobs", "next").await);
    assert_eq!((back.mark.generation.get(), back.rewind, back.written), (2, Rewind::Behind, false));
    assert_eq!(ledger.observe(&partition("jobs")).await.expect("observed").tenure, before.tenure, "nothing is claimed");
    let advanced = ledger.advance(&advance(back.mark.generation)).await.expect("advanced");
    assert_eq!(advanced.generation.get(), 3);
    let lease = claim_over(&ledger, "jobs", "next").await.expect("claimed");
    assert_eq!(lease.generation.get(), 4);
    ledger.append(&lease, &append("goes on")).await.expect("appended");
    assert!(matches!(ledger.verify(&partition("jobs"), Some(back.mark)).await, Ok(Verification::Clean { .. })));
}

/// The holder. It prints each position that it was acknowledged, and what it was told in the end.
#[tokio::test]
#[ignore = "the process that the test before it starts"]
async fn holds_and_appends_until_it_is_told() {
    let marks = std::env::var("MARKS").expect("set by the test that starts this process");
    let ledger = witnessed(&given_file(), Path::new(&marks));
    let lease = claim_over(&ledger, "jobs", "holder").await.expect("claimed");
    loop {
        match ledger.append(&lease, &append("work")).await {
            Ok(appended) => println!("at {}", appended.entry.last),
            Err(error @ LedgerError::RolledBack(_)) => return println!("told {error}"),
            // The copy has the write lock for a moment.
            Err(LedgerError::NotWritten(failure)) if failure.kind == FailureKind::Busy => {}
            Err(other) => panic!("{other:?}"),
        }
        // As fast as work comes in; the test counts what was acknowledged, and not the time.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_copy_renamed_over_it_is_noticed_with_a_witness_and_not_without() {
    let place = Place::new();
    let copy = place.folder.path().join("copy.db");
    let ledger = witnessed(&place.file, &marks(&place));
    let lease = claim_over(&ledger, "jobs", "first").await.expect("claimed");
    ledger.release(&lease).await.expect("released");
    copy_pages(&place.shell(), &mut Connection::open(&copy).expect("made"));
    let held = claim_over(&ledger, "jobs", "second").await.expect("claimed");
    ledger.append(&held, &append("lost")).await.expect("appended");
    // The log beside the file is the lost history's: left there, SQLite would write it into the copy.
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(place.folder.path().join(format!("ledger.db{end}"))).expect("removed");
    }
    std::fs::rename(&copy, &place.file).expect("restored");

    // The open handle is told by the file system, and opens it anew.
    assert_eq!(not_written(ledger.renew(&held, None).await), FailureKind::Replaced);
    let again = witnessed(&place.file, &marks(&place));
    let back = rolled_back(claim_over(&again, "jobs", "third").await);
    assert_eq!((back.mark.generation, back.rewind), (held.generation, Rewind::Behind));
    // What a ledger without a witness sees is a partition that was released.
    let plain = SqliteLedger::open(&place.file).expect("opened");
    let second = claim(&plain, "jobs", "third", hour()).await.expect("claimed");
    assert_eq!(second.generation, held.generation, "granted for the second time");
    let found = plain.verify(&partition("jobs"), None).await;
    assert!(matches!(found, Ok(Verification::Clean { .. })), "{found:?}");
    // The two holders of one generation are still told apart.
    assert_eq!(reason(plain.append(&held, &append("late")).await), Reason::WrongAcquisition);
    let back = rolled_back(claim_over(&again, "jobs", "fourth").await);
    assert_eq!(back.rewind, Rewind::OtherHistory, "at the mark stands another `$claimed`");
}

/// The log as the engine's shell can leave it: row and log contradict each other, and the log does not end with an entry.
#[tokio::test]
async fn an_advance_goes_on_behind_half_an_entry() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.append(&lease, &append("whole")).await.expect("appended");
    let batch = Append::new(["0", "1", "2"].map(event)).expect("three events");
    ledger.append(&lease, &batch).await.expect("appended");
    // 1 `$claimed`, 2 an append, 3 to 5 the batch: its end is deleted, and with it the entry's facts.
    place.shell().execute("DELETE FROM fenced_log WHERE position = 5", []).expect("deleted");
    assert_eq!(reason(ledger.append(&lease, &append("x")).await), Reason::Diverged);
    assert_eq!(reason(claim(&ledger, "jobs", "b", hour()).await), Reason::Diverged);
    let advanced = ledger.advance(&advance(lease.generation)).await.expect("advanced");
    assert_eq!((advanced.generation.get(), advanced.position.get()), (2, 5));
    let lease = claim(&ledger, "jobs", "b", hour()).await.expect("claimed");
    ledger.append(&lease, &append("goes on")).await.expect("appended");
    match ledger.verify(&partition("jobs"), None).await.expect("read") {
        Verification::Broken { position, .. } => assert_eq!(position.get(), 3, "the half that is left stays named"),
        clean => panic!("{clean:?}"),
    }
}
