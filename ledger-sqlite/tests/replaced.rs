//! Goal: a database file that is replaced or removed under an open handle is noticed before a write is acknowledged.
//! SQLite itself goes on writing to the file that it opened, and answers that all is well.

#![cfg(unix)]

mod common;

use std::path::Path;

use common::{Place, append, claim, hour, not_written, partition, texts};
use ledger_core::{FailureKind, FencedLedger, LedgerError, PageSize, Position};
use ledger_sqlite::SqliteLedger;

fn beside(file: &Path, end: &str) -> std::path::PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// What a deployment or a restore does: another database gets the name.
async fn replaced_by(place: &Place, how: impl FnOnce(&Path)) {
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.append(&lease, &append("1")).await.expect("appended");
    how(&place.file);
    for _ in 0..2 {
        assert_eq!(not_written(ledger.append(&lease, &append("2")).await), FailureKind::Replaced);
        assert_eq!(not_written(ledger.renew(&lease, None).await), FailureKind::Replaced);
        assert_eq!(not_written(claim(&ledger, "other", "a", hour()).await), FailureKind::Replaced);
        let read = ledger.read(&partition("jobs"), Position::FIRST, PageSize::default()).await;
        assert_eq!(not_written(read), FailureKind::Replaced, "a reader of the lost file would stand still for ever");
    }
}

#[tokio::test]
async fn a_file_renamed_over_it() {
    let (place, other) = (Place::new(), Place::new());
    let second = SqliteLedger::open(&other.file).expect("opened");
    claim(&second, "jobs", "b", hour()).await.expect("claimed");
    second.close().await;
    replaced_by(&place, |file| std::fs::rename(&other.file, file).expect("renamed")).await;
}

#[tokio::test]
async fn a_file_that_was_removed() {
    let place = Place::new();
    replaced_by(&place, |file| std::fs::remove_file(file).expect("removed")).await;
}

#[tokio::test]
async fn a_file_that_was_moved_away() {
    let place = Place::new();
    replaced_by(&place, |file| std::fs::rename(file, beside(file, ".old")).expect("renamed")).await;
}

#[tokio::test]
async fn a_log_that_was_removed() {
    let place = Place::new();
    replaced_by(&place, |file| std::fs::remove_file(beside(file, "-wal")).expect("removed")).await;
}

#[tokio::test]
async fn a_log_that_was_removed_beside_the_file_that_a_link_leads_to() {
    for is_there in [false, true] {
        let (place, there) = (Place::new(), Place::new());
        if is_there {
            SqliteLedger::open(&there.file).expect("opened").close().await;
        }
        std::os::unix::fs::symlink(&there.file, &place.file).expect("linked");
        replaced_by(&place, |_| std::fs::remove_file(beside(&there.file, "-wal")).expect("removed")).await;
    }
}

/// Once noticed, always: what was written in between is lost, so the file that comes back is another history.
#[tokio::test]
async fn a_handle_stays_refused_when_the_file_comes_back_and_a_new_one_works() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.append(&lease, &append("1")).await.expect("appended");
    let away = beside(&place.file, ".away");
    std::fs::rename(&place.file, &away).expect("renamed");
    assert_eq!(not_written(ledger.append(&lease, &append("2")).await), FailureKind::Replaced);
    std::fs::rename(&away, &place.file).expect("renamed");
    assert_eq!(not_written(ledger.append(&lease, &append("2")).await), FailureKind::Replaced);
    drop(ledger);
    let ledger = SqliteLedger::open(&place.file).expect("opened anew");
    ledger.append(&lease, &append("2")).await.expect("appended");
    assert_eq!(texts(&ledger, "jobs").await, ["1", "2"]);
}

/// Replaced in the middle of many writes: whatever was acknowledged before stands in the old file, and what was under way
/// is not acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_acknowledged_after_the_file_was_replaced() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let text = format!("{writer}-{number}");
                    match ledger.append(&lease, &append(&text)).await {
                        Ok(_) => acknowledged.push(text),
                        Err(LedgerError::NotWritten(failure) | LedgerError::Unknown(failure)) => {
                            assert_eq!(failure.kind, FailureKind::Replaced);
                            break;
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let old = beside(&place.file, ".old");
    // As one step for who looks by name: the database goes last.
    for end in ["-wal", "-shm"] {
        std::fs::hard_link(beside(&place.file, end), beside(&old, end)).expect("linked");
    }
    std::fs::rename(&place.file, &old).expect("renamed");
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.expect("no panic"));
    }
    drop(ledger);
    let ledger = SqliteLedger::open(&old).expect("the old file");
    let stored = texts(&ledger, "jobs").await;
    let lost: Vec<_> = acknowledged.iter().filter(|text| !stored.contains(text)).collect();
    assert!(lost.is_empty(), "acknowledged, but not in the file: {lost:?}");
    assert!(!acknowledged.is_empty());
}
