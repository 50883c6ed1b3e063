//! Goal: a foreign writer that holds the lock makes callers wait for a bounded time and no longer; what then was not
//! written is said to be so; a fenced-off writer is refused meanwhile (E4); and all goes on when the lock is free.

mod common;

use std::time::{Duration, Instant};

use common::{Place, append, claim, given_file, hour, not_written, partition, process, reason, records, soon, texts};
use ledger_core::{FailureKind, FencedLedger, LedgerError, PageSize, Position, Reason, RecordState};
use ledger_sqlite::SqliteLedger;
use rusqlite::Connection;

fn hold(place: &Place) -> Connection {
    let shell = place.shell();
    shell.execute_batch("BEGIN IMMEDIATE").expect("locked");
    shell
}

async fn refused_with(ledger: &SqliteLedger, lease: &ledger_core::Lease) -> (Reason, RecordState) {
    match ledger.append(lease, &append("late")).await {
        Err(LedgerError::Rejected(rejection)) => (rejection.reason, rejection.record),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_waits_for_its_time_and_no_longer_and_works_afterwards() {
    let place = Place::new();
    let wait = Duration::from_millis(300);
    let ledger = SqliteLedger::options().busy_timeout(wait).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let held = hold(&place);
    let start = Instant::now();
    let sent = append("1");
    let (refused, ()) = tokio::join!(ledger.append(&lease, &sent), async {
        // Reads go on.
        ledger.read(&partition("jobs"), Position::FIRST, PageSize::default()).await.expect("read");
        ledger.observe(&partition("jobs")).await.expect("observed");
        assert!(start.elapsed() < wait);
    });
    let Err(LedgerError::NotWritten(failure)) = refused else { panic!("{refused:?}") };
    assert_eq!(failure.kind, FailureKind::Busy);
    assert!(failure.tries > 10, "{failure:?}");
    assert!(start.elapsed() >= wait && start.elapsed() < wait * 5, "{:?}", start.elapsed());
    held.execute_batch("ROLLBACK").expect("let go");
    ledger.append(&lease, &append("2")).await.expect("appended");
    assert_eq!(texts(&ledger, "jobs").await, ["2"]);
}

#[tokio::test]
async fn each_of_many_queued_calls_is_answered_in_its_time() {
    let place = Place::new();
    let wait = Duration::from_millis(200);
    let ledger = SqliteLedger::options().busy_timeout(wait).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let held = hold(&place);
    let start = Instant::now();
    let calls: Vec<_> = (0..200)
        .map(|number: i32| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number.unsigned_abs().into())).await;
                ledger.append(&lease, &append("never")).await
            })
        })
        .collect();
    for call in calls {
        assert_eq!(not_written(call.await.expect("no panic")), FailureKind::Busy);
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    held.execute_batch("ROLLBACK").expect("let go");
    assert_eq!(texts(&ledger, "jobs").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_waited_is_written_once_the_lock_is_free() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let held = hold(&place);
    let release = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        held.execute_batch("ROLLBACK").expect("let go");
    };
    let sent = append("1");
    let (answer, ()) = tokio::join!(ledger.append(&lease, &sent), release);
    answer.expect("appended");
}

/// E4, E2: the refusal needs no lock, but the first record of its key does. It waits a quarter of a second and then says
/// that the record is missing; it is written later all the same.
#[tokio::test]
async fn a_writer_that_was_fenced_off_is_refused_while_another_holds_the_lock() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.release(&old).await.expect("released");
    let new = claim(&ledger, "jobs", "b", hour()).await.expect("claimed");
    let held = hold(&place);
    // A handle that has heard nothing yet: its writer looks the tenure up while it waits.
    let start = Instant::now();
    let (reason_given, record) = refused_with(&ledger, &old).await;
    assert_eq!(reason_given, Reason::StaleGeneration);
    assert!(matches!(&record, RecordState::Missing { cause } if cause.contains("locked")), "{record:?}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // The holder waits, as it must.
    let sent = append("of the holder");
    let waiting = ledger.append(&new, &sent);
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        held.execute_batch("ROLLBACK").expect("let go");
    };
    let (answer, ()) = tokio::join!(waiting, release);
    answer.expect("appended");
    soon("the owed record is written", async || records(&ledger, "jobs").await.len() == 1).await;

    // Once its record is stored, a repeat waits for nothing.
    let (_, record) = refused_with(&ledger, &old).await;
    assert_eq!(record, RecordState::Counted);
    assert_eq!(reason(ledger.renew(&old, None).await), Reason::StaleGeneration);
    let held = hold(&place);
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(refused_with(&ledger, &old).await, (Reason::StaleGeneration, RecordState::Counted));
        assert_eq!(reason(ledger.renew(&old, None).await), Reason::StaleGeneration);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let counts: Vec<_> = records(&ledger, "jobs").await.iter().map(|record| record.count).collect();
    assert_eq!(counts, [102, 101], "what this handle has counted shows at once");
    held.execute_batch("ROLLBACK").expect("let go");
    ledger.close().await;
    let counts: Vec<i64> = place
        .shell()
        .prepare("SELECT count FROM fenced_rejection ORDER BY slot")
        .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
        .expect("read");
    assert_eq!(counts, [102, 101], "and is stored when the handle is closed");
}

/// A process that stands still in its transaction stalls the others for their time-out, and a kill sets them free.
#[tokio::test]
async fn a_killed_process_leaves_no_lock_behind() {
    let place = Place::new();
    let ledger = SqliteLedger::options().busy_timeout(Duration::from_millis(200)).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let mut child = process("holds_the_lock", &place.file, &[]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
    assert!(lines.any(|line| line.expect("text").contains("HELD")));
    assert_eq!(not_written(ledger.append(&lease, &append("1")).await), FailureKind::Busy);
    child.kill().expect("killed");
    child.wait().expect("gone");
    ledger.append(&lease, &append("2")).await.expect("appended");
    assert_eq!(texts(&ledger, "jobs").await, ["2"]);
}

#[test]
#[ignore = "a process that another test starts"]
fn holds_the_lock() {
    let shell = Connection::open(given_file()).expect("opened");
    shell.execute_batch("BEGIN IMMEDIATE; UPDATE fenced_partition SET renewals = renewals + 1").expect("locked");
    println!("HELD");
    std::thread::sleep(Duration::from_secs(60));
}
