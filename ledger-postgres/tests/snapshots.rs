//! Goal: in a caller's transaction with an old snapshot the ledger never judges by what it can not see (A1): it answers
//! by the present state, or tells the caller to try the transaction again as a whole.

mod common;

use common::{Place, Wanted, append, append_as, claim, partition, seconds};
use ledger_core::{AppendId, Expected, FailureKind, FencedLedger, Lease, LedgerError, Position, Reason};
use sqlx::{Executor, PgConnection};

/// A transaction that has its snapshot.
async fn begun(place: &Place, isolation: &str) -> PgConnection {
    let mut session = place.shell().await;
    session.execute(sqlx::AssertSqlSafe(format!("begin isolation level {isolation}"))).await.expect("begun");
    session.execute("select count(*) from pg_class").await.expect("a snapshot");
    session
}

fn told_to_retry<T: std::fmt::Debug>(answer: Result<T, LedgerError>, what: &str) {
    let Err(LedgerError::NotWritten(failure)) = answer else { panic!("{what}: {answer:?}") };
    assert_eq!(failure.kind, FailureKind::Busy, "{what}");
    let source = failure.source.as_ref().expect("PostgreSQL's error").to_string();
    assert!(failure.detail.contains("40001"), "{what}: {failure}, {source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_snapshot_is_told_to_retry_and_a_fresh_one_works() {
    for wanted in Wanted::BOTH {
        for isolation in ["repeatable read", "serializable"] {
            let place = Place::new(wanted).await;
            let ledger = place.open().await;
            let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
            let same = append_as(AppendId::mint(), "same");

            let mut old = begun(&place, isolation).await;
            ledger.append(&lease, &same).await.expect("appended");
            told_to_retry(ledger.append_in(&mut old, &lease, &append("new")).await, "a new append");

            let mut old = begun(&place, isolation).await;
            let other = append("other");
            ledger.append(&lease, &other).await.expect("appended");
            // It was written after the snapshot: to the transaction it looks new.
            told_to_retry(ledger.append_in(&mut old, &lease, &other).await, "a replay");

            let mut old = begun(&place, isolation).await;
            let head = ledger.observe(&partition("p")).await.expect("observed").tenure.expect("claimed").head;
            ledger.append(&lease, &append("x")).await.expect("appended");
            told_to_retry(ledger.append_in(&mut old, &lease, &append("y").expecting(head)).await, "an expectation");

            let mut old = begun(&place, isolation).await;
            let newly = claim(&ledger, "new", "a", seconds(600)).await.lease;
            told_to_retry(ledger.append_in(&mut old, &newly, &append("x")).await, "a partition claimed since");

            let mut old = begun(&place, isolation).await;
            ledger.renew(&lease, None).await.expect("renewed");
            told_to_retry(ledger.append_in(&mut old, &lease, &append("x")).await, "a renewal since");

            // What was there at the snapshot is judged rightly, twice in one transaction.
            let mut fresh = begun(&place, isolation).await;
            let replayed = ledger.append_in(&mut fresh, &lease, &same).await.expect("appended");
            assert!(replayed.replayed);
            let one = ledger.append_in(&mut fresh, &lease, &append("1")).await.expect("appended").entry.last;
            let two = append("2").expecting(one);
            assert_eq!(two.expected(), Expected::Position(one));
            let two = ledger.append_in(&mut fresh, &lease, &two).await.expect("appended").entry.last;
            assert_eq!(Some(two), one.next());
            let refused = ledger.append_in(&mut fresh, &lease, &append("3").expecting(Position::FIRST)).await;
            assert_eq!(refused.expect_err("refused").rejection().map(|r| r.reason), Some(Reason::PositionConflict));
            fresh.execute("commit").await.expect("committed");
            place.drop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serialisable_transactions_in_a_loop_lose_nothing() {
    const TASKS: usize = 4;
    const EACH: usize = 15;
    let place = Place::new(Wanted::NEWEST).await;
    let ledger = place.open().await;
    let lease: Lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    place.run("create table fenced_ledger.business (id text primary key)").await;
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (ledger, lease) = (ledger.clone(), lease.clone());
        let (mut session, insert) =
            (place.shell().await, format!("insert into {}.business values ($1)", place.schema.name()));
        tasks.push(tokio::spawn(async move {
            for nth in 0..EACH {
                let sent = append("x");
                let mut tries = 0_u64;
                loop {
                    // Random, as a caller should: in a tight loop one waiter can lose for long.
                    tries += 1;
                    let spread = uuid::Uuid::now_v7().as_u128() as u64 % (1 + tries.min(40) * 2);
                    tokio::time::sleep(std::time::Duration::from_millis(spread)).await;
                    session.execute("begin isolation level serializable").await.expect("begun");
                    let business = sqlx::query(sqlx::AssertSqlSafe(insert.clone())).bind(format!("{task}/{nth}"));
                    business.execute(&mut session).await.expect("inserted");
                    match ledger.append_in(&mut session, &lease, &sent).await {
                        Ok(_) if session.execute("commit").await.is_ok() => break,
                        Ok(_) => {}
                        Err(LedgerError::NotWritten(_)) => drop(session.execute("rollback").await.expect("ended")),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let business: i64 = place.value("select count(*) from fenced_ledger.business").await;
    let events: i64 = place.value("select count(*) from fenced_ledger.log where kind = 'noted'").await;
    assert_eq!((business, events), ((TASKS * EACH) as i64, (TASKS * EACH) as i64), "both, or neither");
    place.drop().await;
}
