//! Goal: an append that waited for the partition's lock is judged by what is true after the wait, whatever the other
//! transaction did, and whether or not the lease ran out meanwhile (T4, A1).
//!
//! Method: a session does something to the partition and stays open; the append is seen to wait; the clock is stepped
//! over the expiry or not; the session commits or rolls back. A plain `WHERE expires_at > clock` accepts some of these.

mod common;

use std::time::{Duration, Instant};

use common::{Place, Wanted, append, claim, holder, partition, seconds};
use ledger_core::{Append, Appended, FencedLedger, Lease, LedgerError, Reason, Rejection};
use ledger_postgres::PostgresLedger;
use sqlx::{Executor, PgConnection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocker {
    OnlyLocks,
    Appends,
    Renews,
    TakesOver,
    AppendsTheSame,
}

/// What an append came to, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Granted,
    Replayed,
    Refused(Reason),
    /// Refused, and told that it had landed before (J3).
    RefusedButThere(Reason),
}

fn came(answer: Result<Appended, LedgerError>) -> Came {
    match answer {
        Ok(appended) if appended.replayed => Came::Replayed,
        Ok(_) => Came::Granted,
        Err(LedgerError::Rejected(rejection)) => match *rejection {
            Rejection { reason, earlier: Some(_), .. } => Came::RefusedButThere(reason),
            Rejection { reason, .. } => Came::Refused(reason),
        },
        Err(other) => panic!("{other}"),
    }
}

/// What must come of the append.
fn expected(blocker: Blocker, commits: bool, expires: bool) -> Came {
    match (blocker, commits, expires) {
        (Blocker::Renews, true, _) => Came::Granted,
        (Blocker::TakesOver, true, _) => Came::Refused(Reason::StaleGeneration),
        (Blocker::AppendsTheSame, true, false) => Came::Replayed,
        (Blocker::AppendsTheSame, true, true) => Came::RefusedButThere(Reason::Expired),
        (_, _, true) => Came::Refused(Reason::Expired),
        (_, _, false) => Came::Granted,
    }
}

async fn block(place: &Place, blocker: Blocker, ledger: &PostgresLedger, lease: &Lease, same: &Append) -> PgConnection {
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    match blocker {
        Blocker::OnlyLocks => {
            let lock = place.sql("select 1 from fenced_ledger.partition for no key update");
            sqlx::query(lock).execute(&mut session).await.expect("locked");
        }
        Blocker::Appends => drop(ledger.append_in(&mut session, lease, &append("other")).await.expect("appended")),
        Blocker::AppendsTheSame => drop(ledger.append_in(&mut session, lease, same).await.expect("appended")),
        Blocker::Renews => {
            let renew = format!(
                "select * from fenced_ledger.renew('p', 1, '{}', 'a', 60000000, false, null)",
                lease.acquisition
            );
            sqlx::query(place.sql(&renew)).execute(&mut session).await.expect("renewed");
        }
        Blocker::TakesOver => {
            let claim = format!(
                "select * from fenced_ledger.claim('p', '00000000-0000-7000-8000-000000000001', 'b', 5000000, 1, '{}', false, null)",
                lease.acquisition
            );
            sqlx::query(place.sql(&claim)).execute(&mut session).await.expect("claimed");
        }
    }
    session
}

/// Waits until a session waits for a lock in a call of this schema.
async fn seen_to_wait(place: &Place) {
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%fenced_ledger%'";
    let start = Instant::now();
    while place.value::<i64>(waiting).await == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "nobody waits");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_judged_after_its_wait() {
    for wanted in Wanted::BOTH {
        for blocker in
            [Blocker::OnlyLocks, Blocker::Appends, Blocker::Renews, Blocker::TakesOver, Blocker::AppendsTheSame]
        {
            for (commits, expires) in [(true, false), (true, true), (false, false), (false, true)] {
                let place = Place::new(wanted).await.with_clock().await;
                let ledger = place.open().await;
                let lease = claim(&ledger, "p", "a", seconds(5)).await.lease;
                let sent = append("sent");
                // A takeover needs the expiry; one microsecond of it is all it gets.
                if blocker == Blocker::TakesOver {
                    place.advance(Duration::from_secs(5)).await;
                }
                let mut session = block(&place, blocker, &ledger, &lease, &sent).await;
                let call = tokio::spawn({
                    let (ledger, lease, sent) = (ledger.clone(), lease.clone(), sent.clone());
                    async move { ledger.append(&lease, &sent).await }
                });
                seen_to_wait(&place).await;
                let expires = expires || blocker == Blocker::TakesOver;
                if expires {
                    place.advance(Duration::from_secs(5)).await;
                }
                session.execute(if commits { "commit" } else { "rollback" }).await.expect("ended");
                let came = came(call.await.expect("no panic"));
                assert_eq!(
                    came,
                    expected(blocker, commits, expires),
                    "{wanted}: the blocker {blocker:?}, commits: {commits}, expires: {expires}"
                );
                place.drop().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_claim_that_waited_for_a_rival_counts_from_after_the_wait() {
    let place = Place::new(Wanted::OLDEST).await.with_clock().await;
    let ledger = place.open().await;
    let mut rival = place.shell().await;
    rival.execute("begin").await.expect("begun");
    let claim = "select * from fenced_ledger.claim('p', '00000000-0000-7000-8000-000000000001', 'b', 5000000, 0, null, false, null)";
    sqlx::query(place.sql(claim)).execute(&mut rival).await.expect("claimed");
    let ours = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            let first = ledger_core::Observation::NeverClaimed;
            ledger.claim(&ledger_core::Claim::new(partition("p"), holder("a"), seconds(5), first)).await
        }
    });
    seen_to_wait(&place).await;
    place.advance(Duration::from_secs(60)).await;
    rival.execute("rollback").await.expect("ended");
    let claimed = ours.await.expect("no panic").expect("granted");
    let now: i64 = place.value("select fenced_ledger.clock()").await;
    assert_eq!(claimed.judged.time.as_micros(), now);
    assert_eq!(claimed.lease.expires_at.as_micros(), now + 5_000_000);
    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_is_bounded_and_a_fenced_off_writer_does_not_wait() {
    let place = Place::new(Wanted::OLDEST).await.with_clock().await;
    let ledger = place.options().lock_wait(Duration::from_millis(200)).connect(&place.url).await.expect("opened");
    let old = claim(&ledger, "p", "a", seconds(5)).await.lease;
    place.advance(Duration::from_secs(5)).await;
    let lease = claim(&ledger, "p", "b", seconds(5)).await.lease;
    let observed = ledger.observe(&partition("p")).await.expect("observed").observation();
    let mut session = block(&place, Blocker::OnlyLocks, &ledger, &lease, &append("-")).await;
    let start = Instant::now();
    let answers = [
        ledger.append(&lease, &append("1")).await.map(drop),
        ledger.renew(&lease, None).await.map(drop),
        ledger.release(&lease).await.map(drop),
        ledger.claim(&ledger_core::Claim::new(partition("p"), holder("c"), seconds(5), observed)).await.map(drop),
    ];
    for answer in answers {
        let Err(LedgerError::NotWritten(failure)) = answer else { panic!("{answer:?}") };
        assert_eq!((failure.kind, failure.tries), (ledger_core::FailureKind::Busy, 1), "{failure}");
    }
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(800) && waited < Duration::from_secs(3), "{waited:?}");
    // E4: the old holder is refused at once, and so is its late claim.
    let start = Instant::now();
    assert_eq!(came(ledger.append(&old, &append("late")).await), Came::Refused(Reason::StaleGeneration));
    assert!(ledger.renew(&old, None).await.is_err() && ledger.release(&old).await.is_ok());
    assert!(start.elapsed() < Duration::from_millis(150), "{:?}", start.elapsed());
    session.execute("rollback").await.expect("ended");
    assert_eq!(came(ledger.append(&lease, &append("1")).await), Came::Granted);
    place.drop().await;
}
