//! Goal: a call that is dropped, after any number of polls, has its whole effect or none, and the handle is usable (U3).
//! The same for a handle that is dropped or closed with calls under way.

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use common::{Place, append, claim, event, hour, not_written, partition, soon, texts};
use ledger_core::{Append, FailureKind, Fate, FencedLedger, FencedLedgerExt, Verification};
use ledger_sqlite::SqliteLedger;

#[tokio::test]
async fn an_append_dropped_after_any_number_of_polls_is_whole_or_not_there() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let (mut landed, mut not) = (0, 0);
    for polls in 0..200_u32 {
        let sent = Append::new([event("one"), event("two"), event("three")]).expect("an append");
        {
            let mut call = pin!(ledger.append(&lease, &sent));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls % 4 {
                if call.as_mut().poll(&mut context).is_ready() {
                    break;
                }
                std::thread::sleep(Duration::from_micros(u64::from(polls) % 7 * 50));
            }
        }
        // What comes later is queued behind it, so its fate is settled then.
        ledger.append(&lease, &append("after")).await.expect("the handle is usable");
        match ledger.fate(&partition("jobs"), sent.id(), lease.generation).await.expect("read") {
            Fate::Recorded(entry) => {
                assert_eq!(entry.last.get() - entry.first.get(), 2);
                landed += 1;
            }
            Fate::Undecided | Fate::Never => not += 1,
        }
    }
    assert!(landed > 0 && not > 0, "{landed} landed, {not} did not");
    assert_eq!(texts(&ledger, "jobs").await.len(), 200 + 3 * landed);
    let verified = ledger.verify(&partition("jobs"), None).await.expect("verified");
    assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_for_the_lock_is_not_written() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let shell = place.shell();
    shell.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let sent = append("dropped");
    tokio::time::timeout(Duration::from_millis(50), ledger.append(&lease, &sent)).await.expect_err("it waits");
    shell.execute_batch("ROLLBACK").expect("let go");
    ledger.append(&lease, &append("after")).await.expect("appended");
    assert_eq!(texts(&ledger, "jobs").await, ["after"]);
}

#[tokio::test]
async fn a_reader_whose_caller_is_gone_serves_the_next() {
    let place = Place::new();
    let ledger = SqliteLedger::options().readers(1).open(&place.file).expect("opened");
    claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    for _ in 0..100 {
        let name = partition("jobs");
        let mut call = pin!(ledger.observe(&name));
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    ledger.observe(&partition("jobs")).await.expect("observed");
}

#[tokio::test]
async fn what_is_queued_when_the_last_handle_is_dropped_is_served() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            tokio::spawn(async move { ledger.append(&lease, &append("queued")).await })
        })
        .collect();
    drop(ledger);
    for call in calls {
        call.await.expect("no panic").expect("served");
    }
    // The threads are gone, and with them their connections: only a file that nobody has open leaves WAL mode. (Not: the
    // log is gone. Of two connections that close at one moment, neither is the last.)
    let shell = rusqlite::Connection::open(&place.file).expect("opened");
    let is_alone = || shell.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0));
    soon("the last connection is closed", async || is_alone().is_ok_and(|mode| mode == "delete")).await;
}

#[tokio::test]
async fn a_closed_handle_refuses_and_its_file_is_free() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let clone = ledger.clone();
    ledger.close().await;
    assert!(!place.folder.path().join("ledger.db-wal").exists(), "the last connection takes the log away");
    assert_eq!(not_written(clone.append(&lease, &append("1")).await), FailureKind::Closed);
    assert_eq!(not_written(clone.observe(&partition("jobs")).await), FailureKind::Closed);
    clone.clone().close().await;
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    ledger.append(&lease, &append("2")).await.expect("appended");
}

/// No runtime is needed: any executor will do.
#[test]
fn a_ledger_works_without_a_runtime() {
    fn block_on<F: Future>(future: F) -> F::Output {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                std::task::Poll::Ready(output) => return output,
                std::task::Poll::Pending => std::thread::park(),
            }
        }
    }
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    block_on(async {
        let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
        ledger.append(&lease, &append("1")).await.expect("appended");
        assert_eq!(texts(&ledger, "jobs").await, ["1"]);
        ledger.close().await;
    });
}
