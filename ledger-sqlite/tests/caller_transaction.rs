//! Goal: business tables and ledger in one commit, under the same judgement; what can not be judged so is refused with
//! the reason, and a refusal loses no evidence (E2).

mod common;

use std::time::Duration;

use common::{Place, append, claim, event, hour, millis, not_written, partition, reason, records, soon, texts};
use ledger_core::{
    Append, FailureKind, FencedLedger, Invalid, Lease, LedgerError, ManualClock, NewEvent, Position, Reason,
    RecordState, Rejection, Result,
};
use ledger_sqlite::SqliteLedger;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// A ledger, a claimed partition, and a business connection to the same file.
async fn business(place: &Place) -> (SqliteLedger, Lease, Connection) {
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let shell = place.shell();
    shell.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)").expect("made");
    (ledger, lease, shell)
}

fn immediate(shell: &mut Connection) -> Transaction<'_> {
    shell.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun")
}

fn orders(shell: &Connection) -> i64 {
    shell.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).expect("read")
}

#[track_caller]
fn unusable<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(LedgerError::Invalid(Invalid::Unusable { problem, .. })) => problem,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn rejection<T: std::fmt::Debug>(answer: Result<T>) -> Rejection {
    match answer {
        Err(LedgerError::Rejected(rejection)) => *rejection,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn both_are_there_after_the_commit_and_neither_before() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    let transaction = immediate(&mut shell);
    transaction.execute("INSERT INTO orders VALUES (1, 'tea')", []).expect("inserted");
    let first = ledger.append_in(&transaction, &lease, &append("1")).expect("appended");
    // A second one stands on the first, which nobody else sees yet.
    let second = ledger.append_in(&transaction, &lease, &append("2").expecting(first.entry.last)).expect("appended");
    assert_eq!(second.entry.first, first.entry.last.next().expect("a position"));
    assert_eq!(texts(&ledger, "jobs").await, Vec::<String>::new());
    transaction.commit().expect("committed");
    assert_eq!((texts(&ledger, "jobs").await, orders(&shell)), (vec!["1".to_owned(), "2".to_owned()], 1));
    // The writer of the handle goes on from there, though it had the partition in memory.
    let third = ledger.append(&lease, &append("3")).await.expect("appended");
    assert_eq!(Some(third.entry.first), second.entry.last.next());
    let page = ledger.read(&partition("jobs"), second.entry.first, Default::default()).await.expect("read");
    assert_eq!(page.events[0].entry, second.entry, "the stored facts are those of the answer (A7)");
}

#[tokio::test]
async fn neither_is_there_after_a_rollback_and_the_id_is_free() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    let sent = append("1");
    let transaction = immediate(&mut shell);
    transaction.execute("INSERT INTO orders VALUES (1, 'tea')", []).expect("inserted");
    let lost = ledger.append_in(&transaction, &lease, &sent).expect("appended");
    transaction.rollback().expect("rolled back");
    assert_eq!((texts(&ledger, "jobs").await.len(), orders(&shell)), (0, 0));
    let again = ledger.append(&lease, &sent).await.expect("appended");
    assert_eq!((again.replayed, again.entry.first), (false, lost.entry.first), "the position was not used up");
    // A retry of what is in the log is a replay, in a transaction too.
    let transaction = immediate(&mut shell);
    assert!(ledger.append_in(&transaction, &lease, &sent).expect("a replay").replayed);
}

#[tokio::test]
async fn a_fenced_off_writer_is_refused_and_its_record_is_stored_afterwards() {
    let place = Place::new();
    let (ledger, old, mut shell) = business(&place).await;
    ledger.release(&old).await.expect("released");
    claim(&ledger, "jobs", "b", hour()).await.expect("claimed");
    let transaction = immediate(&mut shell);
    transaction.execute("INSERT INTO orders VALUES (1, 'tea')", []).expect("inserted");
    let refused = rejection(ledger.append_in(&transaction, &old, &append("late")));
    assert_eq!((refused.reason, &refused.record), (Reason::StaleGeneration, &RecordState::Carried));
    // The transaction is usable; what to do is the caller's choice.
    transaction.execute("INSERT INTO orders VALUES (2, 'milk')", []).expect("inserted");
    transaction.rollback().expect("rolled back");
    assert_eq!(records(&ledger, "jobs").await, []);
    assert_eq!(ledger.record_rejection(&refused).await.expect("stored"), RecordState::Stored);
    let found = records(&ledger, "jobs").await;
    assert_eq!((found.len(), found[0].count), (1, 1));
    assert_eq!(found[0].refused.as_ref().map(|refused| refused.append), Some(refused.presented.append));
    // The next one is a repeat; and what is stored already is not stored again.
    let transaction = immediate(&mut shell);
    let again = rejection(ledger.append_in(&transaction, &old, &append("late")));
    drop(transaction);
    assert_eq!(ledger.record_rejection(&again).await.expect("counted"), RecordState::Counted);
    let stored = rejection(ledger.append(&old, &append("late")).await);
    assert_eq!(ledger.record_rejection(&stored).await.expect("known"), RecordState::Counted);
    assert_eq!(records(&ledger, "jobs").await[0].count, 3);
}

#[tokio::test]
async fn mere_answers_leave_nothing_to_record() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    let transaction = immediate(&mut shell);
    let wrong = append("1").expecting(Position::new(9).expect("a position"));
    let refused = rejection(ledger.append_in(&transaction, &lease, &wrong));
    assert_eq!((refused.reason, &refused.record), (Reason::PositionConflict, &RecordState::NotEvidence));
    drop(transaction);
    assert_eq!(ledger.record_rejection(&refused).await.expect("nothing"), RecordState::NotEvidence);
    assert_eq!(records(&ledger, "jobs").await, []);
}

/// T2: the time of the expiry is stored though the transaction is rolled back, so no clock that steps back revives it.
#[tokio::test]
async fn an_expiry_that_a_rolled_back_transaction_has_seen_stays() {
    let place = Place::new();
    let clock = ManualClock::default();
    let ledger = SqliteLedger::options().clock(clock.clone()).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", millis(5_000)).await.expect("claimed");
    let mut shell = place.shell();
    clock.advance(Duration::from_secs(5));
    let transaction = immediate(&mut shell);
    assert_eq!(reason(ledger.append_in(&transaction, &lease, &append("late"))), Reason::Expired);
    transaction.rollback().expect("rolled back");
    let seen = async || {
        let state = ledger.observe(&partition("jobs")).await.expect("observed");
        state.tenure.is_some_and(|tenure| tenure.recorded_at >= tenure.lease.expires_at)
    };
    soon("the expiry is stored", seen).await;
    clock.step_back(Duration::from_secs(60));
    assert_eq!(reason(ledger.append(&lease, &append("revived")).await), Reason::Expired);
}

/// T4: the clock is read when the lock is held, however long the transaction has been open.
#[tokio::test]
async fn the_clock_is_read_at_the_append_and_not_at_the_begin() {
    let place = Place::new();
    let clock = ManualClock::default();
    let ledger = SqliteLedger::options().clock(clock.clone()).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", millis(5_000)).await.expect("claimed");
    let mut shell = place.shell();
    let transaction = immediate(&mut shell);
    ledger.append_in(&transaction, &lease, &append("in time")).expect("appended");
    clock.advance(Duration::from_secs(5));
    assert_eq!(reason(ledger.append_in(&transaction, &lease, &append("late"))), Reason::Expired);
    transaction.commit().expect("the first one stands");
    assert_eq!(texts(&ledger, "jobs").await, ["in time"]);
}

#[tokio::test]
async fn a_deferred_transaction_that_has_read_too_early_is_told_to_begin_anew() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    let transaction = shell.transaction().expect("deferred");
    assert_eq!(orders(&transaction), 0);
    ledger.append(&lease, &append("of another")).await.expect("appended");
    let answer = ledger.append_in(&transaction, &lease, &append("1"));
    let Err(LedgerError::NotWritten(failure)) = answer else { panic!("{answer:?}") };
    assert_eq!(failure.kind, FailureKind::Busy);
    assert!(failure.detail.contains("BEGIN IMMEDIATE"), "{failure}");
    drop(transaction);
    // Deferred and nothing read yet: it works.
    let transaction = shell.transaction().expect("deferred");
    ledger.append_in(&transaction, &lease, &append("1")).expect("appended");
    transaction.commit().expect("committed");
    assert_eq!(texts(&ledger, "jobs").await, ["of another", "1"]);
}

#[tokio::test]
async fn a_lock_that_another_holds_is_waited_for_as_the_connection_says() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    let other = place.shell();
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    shell.busy_timeout(Duration::from_millis(50)).expect("set");
    let transaction = shell.transaction().expect("deferred");
    assert_eq!(not_written(ledger.append_in(&transaction, &lease, &append("1"))), FailureKind::Busy);
    other.execute_batch("ROLLBACK").expect("let go");
    ledger.append_in(&transaction, &lease, &append("1")).expect("appended");
}

#[tokio::test]
async fn a_weaker_connection_is_refused() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    for weak in ["OFF", "NORMAL"] {
        shell.pragma_update(None, "synchronous", weak).expect("set");
        let transaction = immediate(&mut shell);
        let problem = unusable(ledger.append_in(&transaction, &lease, &append("1")));
        assert!(problem.contains("synchronous"), "{problem}");
    }
    shell.pragma_update(None, "synchronous", "EXTRA").expect("set");
    let transaction = immediate(&mut shell);
    ledger.append_in(&transaction, &lease, &append("1")).expect("stronger will do");
}

#[tokio::test]
async fn another_database_is_refused_a_copy_too() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (ledger, lease, _shell) = business(&place).await;
    let mut memory = Connection::open_in_memory().expect("opened");
    unusable(ledger.append_in(&immediate(&mut memory), &lease, &append("1")));
    let (_other, _, mut shell) = business(&elsewhere).await;
    let problem = unusable(ledger.append_in(&immediate(&mut shell), &lease, &append("1")));
    assert!(problem.contains("another file"), "{problem}");
    let copy = place.folder.path().join("copy.db");
    place.shell().execute("VACUUM INTO ?1", [copy.to_str()]).expect("copied");
    let mut shell = Connection::open(&copy).expect("opened");
    unusable(ledger.append_in(&immediate(&mut shell), &lease, &append("1")));
    // Under another name it is the same file.
    let link = place.folder.path().join("link.db");
    std::os::unix::fs::symlink(&place.file, &link).expect("linked");
    let mut shell = Connection::open(&link).expect("opened");
    ledger.append_in(&immediate(&mut shell), &lease, &append("1")).expect("appended");
}

/// A3: a caller who commits in spite of an error commits no part of the append.
#[tokio::test]
async fn an_append_that_fails_half_way_leaves_nothing_in_a_transaction_that_is_committed() {
    let place = Place::new();
    let (ledger, lease, mut shell) = business(&place).await;
    shell.pragma_update(None, "max_page_count", 40).expect("set");
    let transaction = immediate(&mut shell);
    transaction.execute("INSERT INTO orders VALUES (1, 'tea')", []).expect("inserted");
    let events: Vec<NewEvent> = (0..100).map(|_| event(&"x".repeat(3_000))).collect();
    let answer = ledger.append_in(&transaction, &lease, &Append::new(events).expect("an append"));
    assert_eq!(not_written(answer), FailureKind::StorageFull);
    // SQLite has rolled the whole transaction back, or the savepoint alone; the caller sees which.
    let _ = transaction.commit();
    let head = ledger.observe(&partition("jobs")).await.expect("observed").tenure.expect("claimed").head;
    assert_eq!(head, Position::FIRST);
    let rows: i64 = place.shell().query_row("SELECT count(*) FROM fenced_log", [], |row| row.get(0)).expect("read");
    assert_eq!(rows, 1);
    ledger.append(&lease, &append("after")).await.expect("appended");
}

#[tokio::test]
async fn a_lease_of_another_ledger_is_refused_before_the_store_is_asked() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (ledger, _, mut shell) = business(&place).await;
    let (_, foreign, _) = business(&elsewhere).await;
    let answer = ledger.append_in(&immediate(&mut shell), &foreign, &append("1"));
    assert!(matches!(answer, Err(LedgerError::Invalid(Invalid::WrongLedger { .. }))), "{answer:?}");
}
