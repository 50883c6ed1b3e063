//! Goal: every error says what it proves (U1): each is provoked on a real server, and what it says is compared with what
//! is there.

mod common;

use std::time::{Duration, Instant};

use common::{Place, Wanted, append, claim, holder, partition, seconds};
use ledger_core::{
    Claim, Failure, FailureKind, Fate, FencedLedger, FencedLedgerExt, LedgerError, Observation, Position, Verification,
};
use ledger_postgres::{Options, PostgresLedger};
use sqlx::{Executor, PgConnection};
use test_postgres::{Fault, Server, Trigger};

fn not_written<T: std::fmt::Debug>(answer: Result<T, LedgerError>, what: &str) -> Failure {
    let Err(LedgerError::NotWritten(failure)) = answer else { panic!("{what}: {answer:?}") };
    failure
}

fn unknown<T: std::fmt::Debug>(answer: Result<T, LedgerError>, what: &str) -> Failure {
    let Err(LedgerError::Unknown(failure)) = answer else { panic!("{what}: {answer:?}") };
    failure
}

fn corrupt<T: std::fmt::Debug>(answer: Result<T, LedgerError>, what: &str) -> String {
    let Err(LedgerError::Corrupt { detail, .. }) = answer else { panic!("{what}: {answer:?}") };
    detail
}

async fn locked(place: &Place) -> PgConnection {
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    let lock = place.sql("select 1 from fenced_ledger.partition for no key update");
    sqlx::query(lock).execute(&mut session).await.expect("locked");
    session
}

async fn count(place: &Place) -> i64 {
    place.value("select count(*) from fenced_ledger.log where kind = 'noted'").await
}

/// The place's URL with a setting of the session.
fn with(place: &Place, setting: &str) -> String {
    format!("{}&options={}", place.url, setting.replace(' ', "%20").replace('=', "%3D"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_answers_to_a_lone_call_proves_that_nothing_was_written() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;

        // 57014, a statement_timeout while it waits for the lock.
        let hasty = place.options().connect(&with(&place, "-c statement_timeout=150")).await.expect("opened");
        let session = locked(&place).await;
        let failure = not_written(hasty.append(&lease, &append("1")).await, "57014");
        assert_eq!(failure.kind, FailureKind::Busy);
        // 55P03, its own bound.
        let patient = place.options().lock_wait(Duration::from_millis(100)).connect(&place.url).await.expect("opened");
        assert_eq!(not_written(patient.append(&lease, &append("2")).await, "55P03").kind, FailureKind::Busy);
        drop(session);

        // 25006.
        let reader =
            place.options().connect(&with(&place, "-c default_transaction_read_only=on")).await.expect("opened");
        assert_eq!(not_written(reader.append(&lease, &append("3")).await, "25006").kind, FailureKind::ReadOnly);
        reader.observe(&partition("p")).await.expect("reading goes on");

        assert_eq!(count(&place).await, 0);
        // 42883: a function that is gone.
        place.run("alter function fenced_ledger.append rename to gone").await;
        not_written(ledger.append(&lease, &append("4")).await, "42883");
        place.drop().await;
        // 3F000 or 42P01, for a read and at open.
        not_written(ledger.observe(&partition("p")).await, "no schema");
        let refused = place.options().connect(&place.url).await.expect_err("there is no schema");
        assert!(matches!(refused, LedgerError::Invalid(_)), "{refused:?}");
        assert!(refused.to_string().contains("migrate"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_of_the_schemas_own_is_corruption_and_one_at_the_commit_is_not_lost() {
    let place = Place::new(Wanted::OLDEST).await;
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    ledger.append(&lease, &append("1")).await.expect("appended");

    // 23514 and 23505, by the names of the schema's own.
    let impossible = |name: &str| {
        format!(
            "alter table fenced_ledger.partition drop constraint if exists {name};
             alter table fenced_ledger.partition add constraint {name} check (renewals < 0) not valid"
        )
    };
    place.run(&impossible("partition_sizes")).await;
    let detail = corrupt(ledger.renew(&lease, None).await, "23514");
    assert!(detail.contains("partition_sizes"), "{detail}");
    place.run("alter table fenced_ledger.partition drop constraint partition_sizes").await;
    // What is not its own may pass, as a step of a newer version does (S3): tried again, and not written.
    place.run(&impossible("theirs")).await;
    let failure = not_written(ledger.renew(&lease, None).await, "23514 of another's constraint");
    assert!(failure.detail.contains("theirs") && failure.tries == 8, "{failure:?}");
    place.run("alter table fenced_ledger.partition drop constraint theirs").await;

    // 23505 at the COMMIT: the server has sent the row that says granted before it finds out.
    place.run("alter index fenced_ledger.log_entry rename to log_entries").await;
    place
        .run("alter table fenced_ledger.log add constraint log_entry unique (kind) deferrable initially deferred")
        .await;
    let answer = ledger.append(&lease, &append("3")).await;
    assert!(corrupt(answer, "23505").contains("log_entry"));
    let answer = place.options().open(sqlx::PgPool::connect(&place.url).await.expect("a pool")).await.expect("opened");
    assert!(corrupt(answer.append(&lease, &append("4")).await, "23505 of the procedure").contains("log_entry"));
    let simple = place.options().transaction_pooler(true).connect(&place.url).await.expect("opened");
    assert!(corrupt(simple.append(&lease, &append("5")).await, "23505 of a simple query").contains("log_entry"));
    place.run("alter table fenced_ledger.log drop constraint log_entry").await;
    assert_eq!(count(&place).await, 1);

    // 23502, of a column that a newer version brings, to a function that does not know of it.
    place.run("alter table fenced_ledger.partition add column newer integer; update fenced_ledger.partition set newer = 1").await;
    place.run("alter table fenced_ledger.partition alter column newer set not null").await;
    let first = Claim::new(partition("first"), holder("a"), seconds(5), Observation::NeverClaimed);
    let failure = not_written(ledger.claim(&first).await, "23502");
    assert!(failure.detail.contains("23502") && failure.tries == 8, "{failure:?}");
    place.run("alter table fenced_ledger.partition drop column newer").await;
    ledger.claim(&first).await.expect("claimed");

    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_or_a_time_out_after_sending_proves_nothing() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let session = locked(&place).await;

        // 57P01 while it waits.
        let call = tokio::spawn({
            let (ledger, lease) = (ledger.clone(), lease.clone());
            async move { ledger.append(&lease, &append("1")).await }
        });
        let waiting = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where wait_event_type = 'Lock' and query like '%append%'";
        let start = Instant::now();
        while place.value::<i64>(waiting).await == 0 {
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        unknown(call.await.expect("no panic"), "57P01");

        // The budget is used up while it waits. It goes on at the server, and lands when the lock is free.
        let hasty = place.options().budget(Duration::from_millis(300)).lock_wait(Duration::from_secs(20));
        let hasty = hasty.connect(&place.url).await.expect("opened");
        let sent = append("2");
        unknown(hasty.append(&lease, &sent).await, "a time-out");
        let asked = ledger.fate(&partition("p"), sent.id(), lease.generation).await.expect("asked");
        assert_eq!(asked, Fate::Undecided);
        drop(session);
        let start = Instant::now();
        while !matches!(ledger.fate(&partition("p"), sent.id(), lease.generation).await, Ok(Fate::Recorded(_))) {
            assert!(start.elapsed() < Duration::from_secs(10), "the call at the server has not ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(ledger.append(&lease, &sent).await.expect("appended").replayed);
        assert_eq!(count(&place).await, 1);
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_in_callers_transactions_are_not_written() {
    let place = Place::new(Wanted::OLDEST).await;
    let ledger = place.open().await;
    let one = claim(&ledger, "one", "a", seconds(600)).await.lease;
    let two = claim(&ledger, "two", "a", seconds(600)).await.lease;
    let (mut first, mut second) = (place.shell().await, place.shell().await);
    first.execute("begin").await.expect("begun");
    second.execute("begin").await.expect("begun");
    ledger.append_in(&mut first, &one, &append("1")).await.expect("appended");
    ledger.append_in(&mut second, &two, &append("2")).await.expect("appended");
    let (left, right) = (append("3"), append("4"));
    let (left, right) = tokio::join!(
        async {
            let answer = ledger.append_in(&mut first, &two, &left).await;
            first.execute(if answer.is_ok() { "commit" } else { "rollback" }).await.expect("ended");
            answer
        },
        async {
            let answer = ledger.append_in(&mut second, &one, &right).await;
            second.execute(if answer.is_ok() { "commit" } else { "rollback" }).await.expect("ended");
            answer
        }
    );
    let lost = if left.is_err() { left } else { right };
    assert!(not_written(lost, "40P01").detail.contains("40P01"));
    assert_eq!(count(&place).await, 2, "one of the two transactions, whole");
    place.drop().await;
}

fn own_server(wanted: Wanted) -> Server {
    test_postgres::Options::new(wanted).start().expect("a server")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_unknown_and_its_fate_is_told_by_another_process() {
    let server = own_server(Wanted::OLDEST);
    let place = Place::at(server.url(), "wire").await;
    let proxy = server.proxy().expect("a proxy");
    let ledger = place.options().connect(&proxy.url()).await.expect("opened");
    let elsewhere = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let of_append = || Trigger::Containing("append".to_owned());
    ledger.append(&lease, &append("warm")).await.expect("appended");

    for fault in [Fault::DropReply, Fault::CutReply(20), Fault::CutReply(100)] {
        let sent = append("lost reply");
        let armed = proxy.arm(of_append(), fault.clone());
        unknown(ledger.append(&lease, &sent).await, "a lost reply");
        armed.expect_done();
        let fate = elsewhere.fate(&partition("p"), sent.id(), lease.generation).await.expect("asked");
        assert!(matches!(fate, Fate::Recorded(_)), "{fault:?}: {fate:?}");
        let again = ledger.append(&lease, &sent).await.expect("appended");
        assert!(again.replayed);
        assert_eq!(Fate::Recorded(again.entry), fate);
    }
    for fault in [Fault::DropRequest, Fault::CutRequest(30)] {
        let sent = append("lost request");
        let armed = proxy.arm(of_append(), fault.clone());
        unknown(ledger.append(&lease, &sent).await, "a lost request");
        armed.expect_done();
        let fate = elsewhere.fate(&partition("p"), sent.id(), lease.generation).await.expect("asked");
        assert_eq!(fate, Fate::Undecided, "{fault:?}");
        assert!(!ledger.append(&lease, &sent).await.expect("appended").replayed);
    }
    // A claim whose reply was lost is asked for again (C4), and a read is simply tried again.
    let claim = Claim::new(partition("q"), holder("a"), seconds(600), Observation::NeverClaimed);
    let armed = proxy.arm(Trigger::Containing("claim".to_owned()), Fault::DropReply);
    unknown(ledger.claim(&claim).await, "a claim");
    armed.expect_done();
    let fate = elsewhere.fate(&claim.partition, claim.acquisition.into(), ledger_core::Generation::FIRST).await;
    assert!(matches!(fate, Ok(Fate::Recorded(_))));
    assert!(ledger.claim(&claim).await.expect("granted").replayed);
    let armed = proxy.arm(Trigger::Containing("observe".to_owned()), Fault::DropReply);
    ledger.observe(&partition("q")).await.expect("tried again");
    armed.expect_done();
    let verified = elsewhere.verify(&partition("p"), None).await.expect("read");
    assert!(matches!(verified, Verification::Clean { events: 7, .. }), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_one_round_trip() {
    let server = own_server(Wanted::OLDEST);
    let place = Place::at(server.url(), "wire").await;
    let proxy = server.proxy().expect("a proxy");
    let ledger = place.options().connect(&proxy.url()).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    ledger.append(&lease, &append("warm")).await.expect("appended");
    let before = proxy.counts();
    for _ in 0..10 {
        ledger.append(&lease, &append("x")).await.expect("appended");
    }
    let used = proxy.counts() - before;
    assert_eq!((used.requests, used.round_trips, used.turns, used.connections), (10, 10, 10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_not_written_within_the_budget() {
    let server = own_server(Wanted::NEWEST);
    let place = Place::at(server.url(), "away").await;
    let ledger = place.options().budget(Duration::from_millis(700)).connect(&place.url).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    server.stop().expect("stopped");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let start = Instant::now();
    let failure = not_written(ledger.append(&lease, &append("1")).await, "no server");
    assert!(failure.tries > 1 && failure.kind == FailureKind::Unavailable, "{failure:?}");
    assert!(start.elapsed() < Duration::from_secs(2));
    let refused = Options::new().budget(Duration::from_millis(300)).connect(&place.url).await;
    not_written(refused, "no server at open");
    server.start().expect("started");
    // A connection that the restart left dead is found out before it is used.
    ledger.append(&lease, &append("2")).await.expect("appended");
    assert_eq!(ledger.read(&partition("p"), Position::FIRST, Default::default()).await.expect("read").events.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_connections_is_not_written() {
    let place = Place::new(Wanted::OLDEST).await;
    let role = format!("few_{}", place.schema.name());
    place.run(&format!("create role {role} login connection limit 1; {}", place.schema.grants(&role))).await;
    let url = place.url.replace("user=postgres", &format!("user={role}"));
    let options = || place.options().budget(Duration::from_millis(300));
    let first: PostgresLedger = options().connect(&url).await.expect("opened");
    let failure = not_written(options().connect(&url).await, "53300");
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.detail.contains("53300"), "{failure}");
    drop(first);
    place.drop().await;
    place.run(&format!("drop role {role}")).await;
}
