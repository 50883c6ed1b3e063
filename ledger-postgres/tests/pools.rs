//! Goal: a dropped future leaves the whole effect or none and a usable handle (U3), also on a pool that somebody's
//! cancelled `begin()` has poisoned; a small pool answers many callers or says that it could not (U4); and appends that
//! wait for locks cost no other partition its lease.

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::{Place, Wanted, append, claim, scale, seconds};
use ledger_core::{FailureKind, Fate, FencedLedger, FencedLedgerExt, LedgerError, PageSize, Reason, Verification};
use ledger_postgres::PostgresLedger;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool, Row};

/// Polls a future so many times and drops it; whether it had ended.
async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn idle_in_transaction(place: &Place) -> i64 {
    let idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and query like '%fenced_ledger%'";
    place.value(idle).await
}

async fn dropped_after_each_poll(place: &Place, ledger: &PostgresLedger) {
    let lease = claim(ledger, "p", "a", seconds(600)).await.lease;
    let mut expected = 0_i64;
    for polls in 0..scale(40, 400) {
        let sent = append("x");
        let answer = polled(ledger.append(&lease, &sent), polls % 20).await;
        // The handle works at once, and the append is there once, whatever became of the first try.
        let again = ledger.append(&lease, &sent).await.expect("appended");
        expected += 1;
        if let Some(answer) = answer {
            assert_eq!(answer.expect("appended").entry, again.entry);
            assert!(again.replayed);
        }
        drop(polled(ledger.renew(&lease, None), polls % 20).await);
        drop(polled(ledger.observe(&lease.partition), polls % 20).await);
    }
    ledger.renew(&lease, None).await.expect("renewed");
    let there: i64 = place.value("select count(*) from fenced_ledger.log where kind = 'noted'").await;
    assert_eq!(there, expected);
    assert!(matches!(ledger.verify(&lease.partition, None).await, Ok(Verification::Clean { .. })));
    assert_eq!(idle_in_transaction(place).await, 0);
}

#[tokio::test]
async fn a_dropped_call_leaves_a_pool_of_one_usable() {
    let place = Place::new(Wanted::OLDEST).await;
    let options = || place.options().connections(1).reserve(0);
    let own = options().connect(&place.url).await.expect("opened");
    dropped_after_each_poll(&place, &own).await;
    place.drop().await;

    let place = Place::new(Wanted::NEWEST).await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&place.url).await.expect("a pool");
    let theirs = place.options().reserve(0).open(pool).await.expect("opened");
    dropped_after_each_poll(&place, &theirs).await;
    place.drop().await;
}

/// Leaves the pool's connection inside a transaction, as the user of sqlx 0.9.0 does who drops a `begin()`. Whether it did.
async fn poison(pool: &PgPool) -> bool {
    for polls in 1..30 {
        drop(polled(pool.begin(), polls).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let mut connection = pool.acquire().await.expect("a connection");
        // In the second statement of a transaction these differ.
        let row = connection.fetch_one("select now() <> statement_timestamp()").await.expect("asked");
        if row.get::<bool, _>(0) {
            return true;
        }
    }
    false
}

/// Leaves the pool's connection inside a transaction, by hand.
async fn begin(pool: &PgPool) {
    let mut connection = pool.acquire().await.expect("a connection");
    connection.execute("begin").await.expect("begun");
}

#[tokio::test]
async fn what_is_acknowledged_through_a_poisoned_pool_is_there() {
    for (wanted, simple) in [(Wanted::OLDEST, false), (Wanted::NEWEST, true)] {
        let place = Place::new(wanted).await;
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let pool = pool.connect(&place.url).await.expect("a pool");
        let options = place.options().reserve(0).transaction_pooler(simple);
        let ledger = options.open(pool.clone()).await.expect("opened");
        let elsewhere = place.open().await;
        begin(&pool).await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let mut poisoned = 0;
        for _ in 0..10 {
            if poison(&pool).await {
                poisoned += 1;
            } else {
                // Where sqlx does not leave one open any more, somebody's hand does.
                begin(&pool).await;
            }
            let sent = append("x");
            let appended = ledger.append(&lease, &sent).await.expect("appended");
            assert!(!appended.replayed);
            let fate = elsewhere.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            assert_eq!(fate, Fate::Recorded(appended.entry), "acknowledged and not there, simple: {simple}");
            begin(&pool).await;
            ledger.renew(&lease, None).await.expect("renewed");
        }
        let renewals: i64 = place.value("select renewals from fenced_ledger.partition").await;
        assert_eq!(renewals, 10, "a renewal that was acknowledged and rolled back");
        begin(&pool).await;
        ledger.release(&lease).await.expect("released");
        begin(&pool).await;
        let refused = ledger.append(&lease, &append("x")).await.expect_err("it was released");
        assert_eq!(refused.rejection().map(|rejection| rejection.reason), Some(Reason::Released));
        let records = elsewhere.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
        assert_eq!(records.len(), 1, "a record that was told as stored and rolled back");
        println!("sqlx left {poisoned} of 10 transactions open");
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_answer_two_hundred_callers() {
    let place = Place::new(Wanted::NEWEST).await;
    let ledger =
        place.options().connections(2).budget(Duration::from_secs(30)).connect(&place.url).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let tasks: Vec<_> = (0..200)
        .map(|nth: i32| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            tokio::spawn(async move { ledger.append(&lease, &append(&nth.to_string())).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("appended");
    }
    let there: i64 = place.value("select count(*) from fenced_ledger.log where kind = 'noted'").await;
    assert_eq!(there, 200);

    // With too little time, those that found no connection were surely not sent. Each goes on its own: of a group that is on its
    // way the outcome of all is unknown.
    let hasty = place
        .options()
        .coalesce(false)
        .connections(2)
        .budget(Duration::from_millis(250))
        .lock_wait(Duration::from_secs(5));
    let hasty = hasty.connect(&place.url).await.expect("opened");
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    let lock = place.sql("select 1 from fenced_ledger.partition for no key update");
    sqlx::query(lock).execute(&mut session).await.expect("locked");
    let tasks: Vec<_> = (0..20)
        .map(|nth: i32| {
            let (hasty, lease) = (hasty.clone(), lease.clone());
            tokio::spawn(async move { hasty.append(&lease, &append(&nth.to_string())).await })
        })
        .collect();
    let (mut unsent, mut unknown) = (0, 0);
    for task in tasks {
        match task.await.expect("no panic") {
            Err(LedgerError::NotWritten(failure)) if failure.kind == FailureKind::Busy => unsent += 1,
            Err(LedgerError::Unknown(_)) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((unsent, unknown), (18, 2));
    // The two go on at the server; the schema is left to end with it.
    session.execute("rollback").await.expect("ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_wait_cost_no_other_partition_its_lease() {
    for given in [false, true] {
        let place = Place::new(Wanted::OLDEST).await;
        // On their own: a group that could not get its lock is tried again member by member, and then the time is up.
        let options = place.options().coalesce(false).connections(2).lock_wait(Duration::from_secs(8));
        let ledger = if given {
            let pool = PgPoolOptions::new().max_connections(2).connect(&place.url).await.expect("a pool");
            options.open(pool).await.expect("opened")
        } else {
            options.connect(&place.url).await.expect("opened")
        };
        let stuck = claim(&ledger, "stuck", "a", seconds(600)).await.lease;
        let other = claim(&ledger, "other", "a", seconds(600)).await.lease;
        let mut session = place.shell().await;
        session.execute("begin").await.expect("begun");
        let lock = place.sql("select 1 from fenced_ledger.partition where name = 'stuck' for no key update");
        sqlx::query(lock).execute(&mut session).await.expect("locked");
        let tasks: Vec<_> = (0..6)
            .map(|nth: i32| {
                let (ledger, lease) = (ledger.clone(), stuck.clone());
                tokio::spawn(async move { ledger.append(&lease, &append(&nth.to_string())).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        for _ in 0..20 {
            ledger.renew(&other, None).await.expect("renewed");
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        // A renewal that waits itself lets the others by within its bound.
        let waits = tokio::spawn({
            let (ledger, stuck) = (ledger.clone(), stuck.clone());
            async move { ledger.renew(&stuck, None).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        ledger.renew(&other, None).await.expect("renewed");
        assert!(matches!(waits.await.expect("no panic"), Err(LedgerError::NotWritten(_))));
        session.execute("rollback").await.expect("ended");
        for task in tasks {
            task.await.expect("no panic").expect("appended");
        }
        place.drop().await;
    }
}
