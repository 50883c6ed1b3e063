//! Goal: business tables and ledger in one commit (A1), the same judgement, and no record that an open transaction holds
//! (E2).

mod common;

use std::time::{Duration, Instant};

use common::{Place, Wanted, append, claim, holder, partition, seconds};
use ledger_core::{
    Claim, Fate, FencedLedger, LedgerError, PageSize, Position, Reason, RecordState, Rejection, Released,
};
use sqlx::{Connection, Executor};

fn rejection<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> Rejection {
    match answer {
        Err(LedgerError::Rejected(rejection)) => *rejection,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn business_and_ledger_commit_together_or_not_at_all() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        place.run("create table fenced_ledger.business (id int primary key)").await;
        let insert = |id: i32| place.sql(&format!("insert into fenced_ledger.business values ({id})"));
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let mut session = place.shell().await;
        for (id, commits) in [(1, true), (2, false), (3, true)] {
            let sent = append("x");
            let mut transaction = session.begin().await.expect("begun");
            sqlx::query(insert(id)).execute(&mut *transaction).await.expect("inserted");
            let appended = ledger.append_in(&mut transaction, &lease, &sent).await.expect("appended");
            assert!(!appended.replayed);
            // Nobody else sees it before the commit.
            let fate = ledger.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            assert_eq!(fate, Fate::Undecided);
            if commits {
                transaction.commit().await.expect("committed");
            } else {
                transaction.rollback().await.expect("ended");
            }
            let fate = ledger.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            assert_eq!(fate, if commits { Fate::Recorded(appended.entry) } else { Fate::Undecided });
        }
        let business: i64 = place.value("select count(*) from fenced_ledger.business").await;
        let head = ledger.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read").head;
        assert_eq!((business, head.map(|(head, _)| head.get())), (2, Some(3)));
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_carried_out_of_the_transaction_and_stored_afterwards() {
    let place = Place::new(Wanted::OLDEST).await.with_clock().await;
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(5)).await.lease;
    let mut forged = lease.clone();
    forged.holder = holder("z");
    let mut nobody = lease.clone();
    nobody.partition = partition("never");
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    let carried: Vec<Rejection> = vec![
        rejection(ledger.append_in(&mut session, &forged, &append("x")).await),
        rejection(ledger.append_in(&mut session, &nobody, &append("x")).await),
    ];
    let reasons: Vec<Reason> = carried.iter().map(|rejection| rejection.reason).collect();
    assert_eq!(reasons, [Reason::WrongHolder, Reason::NeverClaimed]);
    assert!(carried.iter().all(|rejection| rejection.record == RecordState::Carried));
    let expected = append("x").expecting(Position::new(99).expect("a position"));
    let conflict = rejection(ledger.append_in(&mut session, &lease, &expected).await);
    assert_eq!((conflict.reason, conflict.record.clone()), (Reason::PositionConflict, RecordState::NotEvidence));
    // Refusals leave the transaction usable; and another's refusal of the same key is not held up by it.
    let start = Instant::now();
    drop(
        tokio::spawn({
            let (ledger, nobody) = (ledger.clone(), nobody.clone());
            async move { ledger.append(&nobody, &append("x")).await }
        })
        .await
        .expect("no panic"),
    );
    assert!(start.elapsed() < Duration::from_secs(1));
    ledger.append_in(&mut session, &lease, &append("good")).await.expect("appended");
    session.execute("commit").await.expect("committed");

    let before = ledger.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
    assert_eq!(before, []);
    assert_eq!(ledger.record_rejection(&carried[0]).await.expect("stored"), RecordState::Stored);
    assert_eq!(ledger.record_rejection(&carried[0]).await.expect("stored"), RecordState::Counted);
    assert_eq!(ledger.record_rejection(&carried[1]).await.expect("stored"), RecordState::Counted);
    assert_eq!(ledger.record_rejection(&conflict).await.expect("nothing"), RecordState::NotEvidence);
    let records = ledger.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].count, records[0].first_at), (2, carried[0].judged.time));
    assert_eq!(records[0].refused.as_ref().map(|refused| refused.reason), Some(Reason::WrongHolder));
    // The same key as a refusal outside of a transaction.
    assert_eq!(rejection(ledger.append(&forged, &append("x")).await).record, RecordState::Counted);
    place.drop().await;
}

/// T2: the time of an expiry goes back with the transaction in which it was told, and is there for good once the refusal was
/// given to `record_rejection`, by the store's clock and by nobody's word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_that_was_rolled_back_is_stored_with_the_record_of_its_refusal() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await.with_clock().await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(5)).await.lease;
        let step_back = "update fenced_ledger.test_clock set at = at - 4000000";
        let mut session = place.shell().await;
        place.advance(Duration::from_secs(6)).await;
        session.execute("begin").await.expect("begun");
        let refused = rejection(ledger.append_in(&mut session, &lease, &append("x")).await);
        assert_eq!(refused.reason, Reason::Expired);
        session.execute("rollback").await.expect("ended");
        // The caller's word alone stores no time: by the clock the lease is good.
        place.run(step_back).await;
        ledger.record_rejection(&refused).await.expect("stored");
        ledger.append(&lease, &append("before its end")).await.expect("appended");
        // Told again when it has run out, it is, whatever the clock says afterwards.
        place.advance(Duration::from_secs(4)).await;
        session.execute("begin").await.expect("begun");
        let refused = rejection(ledger.append_in(&mut session, &lease, &append("x")).await);
        session.execute("rollback").await.expect("ended");
        let revision = ledger.observe(&lease.partition).await.expect("observed").judged.revision;
        assert_eq!(ledger.record_rejection(&refused).await.expect("stored"), RecordState::Counted);
        place.run(step_back).await;
        for _ in 0..2 {
            let later = rejection(ledger.append(&lease, &append("x")).await);
            assert_eq!((later.reason, later.judged.revision), (Reason::Expired, revision));
            assert!(later.judged.time >= refused.judged.time);
        }
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_an_open_transaction_and_the_server_ends_one_that_stalls() {
    let place = Place::new(Wanted::NEWEST).await.with_clock().await;
    let options = place.options().idle_in_transaction(Duration::from_millis(700)).lock_wait(Duration::from_millis(300));
    let ledger = options.connect(&place.url).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(5)).await.lease;
    let mut session = place.shell().await;
    session.execute("set idle_in_transaction_session_timeout = '1h'").await.expect("set");
    session.execute("begin").await.expect("begun");
    let sent = append("stalled");
    ledger.append_in(&mut session, &lease, &sent).await.expect("appended");
    place.advance(Duration::from_secs(10)).await;
    let observed = ledger.observe(&lease.partition).await.expect("observed").observation();
    let next = Claim::new(lease.partition.clone(), holder("b"), seconds(5), observed);
    // Bounded, and told apart: busy, not refused.
    assert!(matches!(ledger.claim(&next).await, Err(LedgerError::NotWritten(_))));
    let start = Instant::now();
    let granted = loop {
        match ledger.claim(&next).await {
            Ok(granted) => break granted,
            Err(LedgerError::NotWritten(_)) => assert!(start.elapsed() < Duration::from_secs(10)),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(granted.lease.generation.get(), 2);
    session.execute("commit").await.expect_err("the server has ended the session");
    assert_eq!(ledger.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked"), Fate::Never);
    assert!(matches!(ledger.release(&lease).await, Ok(Released::AlreadyEnded { .. })));

    // A shorter one that the caller has set is kept, and after the transaction the session's own is back.
    let mut session = place.shell().await;
    for (own, within) in [("'200ms'", "200ms"), ("0", "700ms"), ("'1h'", "700ms"), ("'1min'", "700ms")] {
        let set = sqlx::AssertSqlSafe(format!("set idle_in_transaction_session_timeout = {own}"));
        sqlx::query(set).execute(&mut session).await.expect("set");
        session.execute("begin").await.expect("begun");
        ledger.append_in(&mut session, &granted.lease, &append("x")).await.expect("appended");
        let shown: String = sqlx::query_scalar("show idle_in_transaction_session_timeout")
            .fetch_one(&mut session)
            .await
            .expect("shown");
        assert_eq!(shown, within, "{own}");
        session.execute("rollback").await.expect("ended");
        let shown: String = sqlx::query_scalar("show idle_in_transaction_session_timeout")
            .fetch_one(&mut session)
            .await
            .expect("shown");
        assert_eq!(shown, own.trim_matches('\''));
    }
    place.drop().await;
}
