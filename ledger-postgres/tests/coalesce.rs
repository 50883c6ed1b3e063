//! Goal: appends that travel together are judged each on its own. A refused, a dropped or a held one keeps no other from
//! its place, and a group whose connection is lost says so to each of its members.
//!
//! Method: the tests run on one thread, so that what is spawned together waits together: the first goes alone, the others
//! form one group.

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use common::{Place, Wanted, append, append_as, claim, event, partition, scale, seconds};
use ledger_core::{
    Append, AppendId, Appended, FailureKind, Fate, FencedLedger, FencedLedgerExt, Lease, LedgerError, PageSize,
    Position, Reason, Result, Verification,
};
use ledger_postgres::{Options, PostgresLedger};
use sqlx::{Executor, PgConnection};
use test_postgres::{Fault, Proxy, Server, Trigger};
use tokio::task::JoinHandle;

type Answer = Result<Appended>;

fn options(place: &Place) -> Options {
    place.options().coalesce(true)
}

async fn together(place: &Place) -> PostgresLedger {
    options(place).connect(&place.url).await.expect("opened")
}

fn spawn(ledger: &PostgresLedger, lease: &Lease, append: Append) -> JoinHandle<Answer> {
    let (ledger, lease) = (ledger.clone(), lease.clone());
    tokio::spawn(async move { ledger.append(&lease, &append).await })
}

async fn all(calls: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic"));
    }
    answers
}

fn reason(answer: &Answer) -> Option<Reason> {
    Some(answer.as_ref().err()?.rejection()?.reason)
}

async fn hold(place: &Place, name: &str) -> PgConnection {
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    let lock = place.sql("select 1 from fenced_ledger.partition where name = $1 for no key update");
    sqlx::query(lock).bind(name).execute(&mut session).await.expect("locked");
    session
}

async fn through_a_proxy(wanted: Wanted) -> (Server, Place, Proxy) {
    let server = test_postgres::Options::new(wanted).start().expect("a server");
    let place = Place::at(server.url(), "together").await;
    let proxy = server.proxy().expect("a proxy");
    (server, place, proxy)
}

/// Two connections for groups and one for the first, so that no later count has the start of one in it.
async fn warm(ledger: &PostgresLedger, lease: &Lease) {
    let calls = (0..20).map(|_| spawn(ledger, lease, append("warm"))).collect();
    assert!(all(calls).await.iter().all(Result::is_ok));
    // A group that came back waits for others by giving way, 16 times at most: then nothing is on its way any more.
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sixty_four_appends_of_one_partition_are_a_few_round_trips_and_a_gapless_log() {
    for wanted in Wanted::BOTH {
        let (_server, place, proxy) = through_a_proxy(wanted).await;
        let ledger = options(&place).connect(&proxy.url()).await.expect("opened");
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        warm(&ledger, &lease).await;
        let before = proxy.counts();
        let sent: Vec<Append> = (0..64)
            .map(|nth: i32| {
                let events: Vec<_> = (0..=nth % 3).map(|part| event(&format!("{nth}/{part}"))).collect();
                Append::new(events).expect("a small append")
            })
            .collect();
        let answers = all(sent.iter().map(|sent| spawn(&ledger, &lease, sent.clone())).collect()).await;
        let used = proxy.counts() - before;
        assert!(used.requests <= 6 && used.round_trips == used.requests && used.connections == 0, "{used:?}");

        // Each answer is what is stored, and what a retry is told (A7).
        let events = ledger.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read").events;
        let mut positions = BTreeSet::new();
        for (answer, sent) in answers.into_iter().zip(&sent) {
            let appended = answer.expect("appended");
            let entry = &appended.entry;
            assert!(!appended.replayed && appended.judged.time == entry.recorded_at);
            let stored = events.iter().filter(|event| event.entry == *entry).collect::<Vec<_>>();
            let written = stored.iter().map(|event| &event.payload).collect::<Vec<_>>();
            assert_eq!(written, sent.events().iter().map(|event| &event.payload).collect::<Vec<_>>());
            positions.extend(entry.first.get()..=entry.last.get());
            let again = ledger.append(&lease, sent).await.expect("a replay");
            assert!(again.replayed && again.entry == *entry);
        }
        assert!(positions.len() == 127 && positions.iter().copied().eq(22..=148), "{positions:?}");
        let verified = ledger.verify(&lease.partition, None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { events: 148, .. }), "{verified:?}");
    }
}

#[tokio::test]
async fn a_revision_in_a_group_is_the_heads_and_the_renewals() {
    let place = Place::new(Wanted::OLDEST).await;
    let ledger = together(&place).await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    ledger.renew(&lease, None).await.expect("renewed");
    ledger.renew(&lease, None).await.expect("renewed");
    let answers = all((0..10).map(|_| spawn(&ledger, &lease, append("x"))).collect()).await;
    for appended in answers {
        let appended = appended.expect("appended");
        let last = u64::try_from(appended.entry.last.get()).expect("positive");
        assert_eq!(appended.judged.revision.get(), last + 2);
        assert!(!appended.judged.clock_behind);
    }
    place.drop().await;
}

#[tokio::test]
async fn a_refused_append_holds_back_no_good_one() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await.with_clock().await;
        let ledger = together(&place).await;
        let expired = claim(&ledger, "expired", "a", seconds(5)).await.lease;
        let old = claim(&ledger, "taken", "a", seconds(5)).await.lease;
        let good = claim(&ledger, "good", "a", seconds(600)).await.lease;
        let cut = claim(&ledger, "cut", "a", seconds(600)).await.lease;
        let used = append("used");
        ledger.append(&good, &used).await.expect("appended");
        place.advance(Duration::from_secs(5)).await;
        let new = claim(&ledger, "taken", "b", seconds(600)).await.lease;
        place.run("update fenced_ledger.log set chain = sha256(chain) where position = 1 and partition = (select id from fenced_ledger.partition where name = 'cut')").await;
        let mut foreign = new.clone();
        foreign.holder = common::holder("c");

        let head = Position::new(2).expect("a position");
        let twice = append("twice");
        let calls = vec![
            spawn(&ledger, &good, append("first").expecting(head)),
            spawn(&ledger, &old, append("late")),
            spawn(&ledger, &expired, append("late")),
            spawn(&ledger, &good, append("conflict").expecting(head)),
            spawn(&ledger, &good, append("good")),
            spawn(&ledger, &good, used.clone()),
            spawn(&ledger, &good, append_as(used.id(), "other")),
            spawn(&ledger, &cut, append("cut")),
            spawn(&ledger, &foreign, append("foreign")),
            spawn(&ledger, &new, twice.clone()),
            spawn(&ledger, &new, twice.clone()),
            spawn(&ledger, &good, append("conflict").expecting(head)),
            spawn(&ledger, &good, append("good")),
        ];
        let answers = all(calls).await;
        let reasons: Vec<_> = answers.iter().map(reason).collect();
        let expected = [
            None,
            Some(Reason::StaleGeneration),
            Some(Reason::Expired),
            Some(Reason::PositionConflict),
            None,
            None,
            Some(Reason::AppendIdReused),
            Some(Reason::Diverged),
            Some(Reason::WrongHolder),
            None,
            None,
            Some(Reason::PositionConflict),
            None,
        ];
        assert_eq!(reasons, expected, "{wanted}");
        let replays: Vec<bool> = answers.iter().flatten().map(|appended| appended.replayed).collect();
        assert_eq!(replays.iter().filter(|replay| **replay).count(), 2, "{replays:?}");
        // Each refusal has its record (E1, E2), once.
        for (name, reasons) in [("taken", 2), ("expired", 1), ("good", 1), ("cut", 1)] {
            let records = ledger.rejections(Some(&partition(name)), None, PageSize::MAX).await.expect("read").records;
            assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), reasons, "{wanted}: {name}");
        }
        for lease in [&good, &new] {
            let verified = ledger.verify(&lease.partition, None).await.expect("read");
            assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
        }
        place.drop().await;
    }
}

/// T2, T4: a clock behind the recorded time goes back within no group, and each member is told.
#[tokio::test]
async fn a_clock_that_goes_back_stays_behind_the_recorded_time() {
    let place = Place::new(Wanted::NEWEST).await.with_clock().await;
    let ledger = together(&place).await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let recorded = ledger.append(&lease, &append("x")).await.expect("appended").entry.recorded_at;
    place.run("update fenced_ledger.test_clock set at = at - 1000000").await;
    for answer in all((0..8).map(|_| spawn(&ledger, &lease, append("x"))).collect()).await {
        let appended = answer.expect("appended");
        assert!(appended.judged.clock_behind && appended.entry.recorded_at == recorded);
    }
    place.drop().await;
}

#[tokio::test]
async fn a_held_partition_keeps_none_but_its_own_waiting() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = options(&place).lock_wait(Duration::from_secs(8)).connect(&place.url).await.expect("opened");
        let stuck = claim(&ledger, "stuck", "a", seconds(600)).await.lease;
        let mut free = Vec::new();
        for nth in 0..8 {
            free.push(claim(&ledger, &format!("free/{nth}"), "a", seconds(600)).await.lease);
        }
        let mut session = hold(&place, "stuck").await;
        let waiting: Vec<_> = (0..scale(40, 200)).map(|_| spawn(&ledger, &stuck, append("x"))).collect();
        let start = Instant::now();
        for _ in 0..scale(5, 50) {
            let answers = all(free.iter().map(|lease| spawn(&ledger, lease, append("x"))).collect()).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
        assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        assert!(waiting.iter().all(|call| !call.is_finished()), "the partition is held");
        // One of them waits at the server.
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%fenced_ledger\".append%'";
        assert_eq!(place.value::<i64>(waits).await, 1);
        session.execute("rollback").await.expect("ended");
        assert!(all(waiting).await.iter().all(Result::is_ok));
        let verified = ledger.verify(&stuck.partition, None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
        place.drop().await;
    }
}

#[tokio::test]
async fn an_append_whose_time_ran_out_in_the_queue_was_not_written() {
    let place = Place::new(Wanted::OLDEST).await;
    let hasty = options(&place).budget(Duration::from_millis(300)).lock_wait(Duration::from_secs(8));
    let hasty = hasty.connect(&place.url).await.expect("opened");
    let lease = claim(&hasty, "p", "a", seconds(600)).await.lease;
    let mut session = hold(&place, "p").await;
    let sent: Vec<Append> = (0..10).map(|_| append("x")).collect();
    let answers = all(sent.iter().map(|sent| spawn(&hasty, &lease, sent.clone())).collect()).await;
    session.execute("rollback").await.expect("ended");
    // The one at the server may still land: its outcome is unknown. One that was never sent is not written, and says so.
    let unsent =
        |answer: &&Answer| matches!(answer, Err(LedgerError::NotWritten(failure)) if failure.kind == FailureKind::Busy);
    let unknown = |answer: &Answer| matches!(answer, Err(LedgerError::Unknown(_)));
    assert!(unknown(&answers[0]), "{answers:?}");
    assert!(answers.iter().all(|answer| unknown(answer) || unsent(&answer)), "{answers:?}");
    // And the lane goes on.
    assert!(together(&place).await.append(&lease, &append("x")).await.is_ok());
    let start = Instant::now();
    while hasty.append(&lease, &append("y")).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    for (answer, sent) in answers.iter().zip(&sent).filter(|(answer, _)| unsent(answer)) {
        let fate = hasty.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
        assert_eq!(fate, Fate::Undecided, "{answer:?}");
    }
}

#[tokio::test]
async fn a_cancelled_append_takes_no_neighbour_along() {
    let (_server, place, proxy) = through_a_proxy(Wanted::OLDEST).await;
    let ledger = options(&place).connect(&proxy.url()).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    warm(&ledger, &lease).await;
    for round in 0..scale(6, 60) {
        let held = proxy.arm(Trigger::Containing("append_group".to_owned()), Fault::Hold);
        let sent: Vec<Append> = (0..12).map(|_| append("x")).collect();
        let mut calls: Vec<_> = sent.iter().map(|sent| spawn(&ledger, &lease, sent.clone())).collect();
        if round % 2 == 0 {
            // On its way: all but the first are in the held group.
            while !held.wait_struck(Duration::ZERO) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } else {
            tokio::task::yield_now().await;
        }
        let dropped = [0, 3, 4, 11];
        dropped.iter().for_each(|nth| calls[*nth].abort());
        if round % 2 == 1 {
            while !held.wait_struck(Duration::ZERO) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        held.deliver();
        for (nth, call) in calls.drain(..).enumerate() {
            match call.await {
                Ok(answer) => assert!(answer.is_ok(), "{nth}: {answer:?}"),
                Err(error) => assert!(error.is_cancelled() && dropped.contains(&nth)),
            }
        }
        // The handle goes on, and each append is there once or not at all.
        for sent in &sent {
            ledger.append(&lease, sent).await.expect("appended");
        }
    }
    let verified = ledger.verify(&lease.partition, None).await.expect("read");
    let events = 21 + 12 * u64::try_from(scale(6, 60)).expect("small");
    assert!(matches!(verified, Verification::Clean { events: there, .. } if there == events), "{verified:?}");
}

#[tokio::test]
async fn a_group_whose_connection_is_lost_is_unknown_to_each_of_its_members() {
    let (_server, place, proxy) = through_a_proxy(Wanted::NEWEST).await;
    let ledger = options(&place).connect(&proxy.url()).await.expect("opened");
    let elsewhere = together(&place).await;
    let mut leases = Vec::new();
    for nth in 0..4 {
        leases.push(claim(&ledger, &format!("p/{nth}"), "a", seconds(600)).await.lease);
    }
    for (fault, lands) in [(Fault::DropReply, true), (Fault::CutReply(40), true), (Fault::DropRequest, false)] {
        warm(&ledger, &leases[0]).await;
        let armed = proxy.arm(Trigger::Containing("append_group".to_owned()), fault.clone());
        let sent: Vec<(&Lease, Append)> = (0..12).map(|nth| (&leases[nth % 4], append("x"))).collect();
        let answers = all(sent.iter().map(|(lease, sent)| spawn(&ledger, lease, sent.clone())).collect()).await;
        armed.expect_done();
        // The first went alone. Who else is in the group that is lost, and not in an earlier or a later one, is the
        // scheduler's choice.
        let unknown: Vec<_> = sent
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| matches!(answer, Err(LedgerError::Unknown(_))))
            .map(|(sent, _)| sent)
            .collect();
        assert!(answers[0].is_ok() && unknown.len() > 1, "{fault:?}: {answers:?}");
        assert_eq!(
            answers.iter().filter(|answer| answer.is_ok()).count(),
            12 - unknown.len(),
            "{fault:?}: {answers:?}"
        );
        for (lease, sent) in unknown {
            let fate = elsewhere.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            assert_eq!(matches!(fate, Fate::Recorded(_)), lands, "{fault:?}: {fate:?}");
            assert_eq!(ledger.append(lease, sent).await.expect("appended").replayed, lands);
        }
    }
}

/// An error of the whole group proves that nothing was written: each goes on by its own call.
#[tokio::test]
async fn an_error_of_the_group_is_no_members_error() {
    let place = Place::new(Wanted::OLDEST).await;
    let ledger = together(&place).await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    place.run("alter table fenced_ledger.log add constraint no_bad check (payload::text not like '%bad%')").await;
    let calls = (0..10).map(|nth| spawn(&ledger, &lease, append(if nth == 5 { "bad" } else { "good" }))).collect();
    let answers = all(calls).await;
    for (nth, answer) in answers.iter().enumerate() {
        if nth == 5 {
            assert!(matches!(answer, Err(LedgerError::NotWritten(_))), "{answer:?}");
        } else {
            assert!(answer.is_ok(), "{nth}: {answer:?}");
        }
    }
    // Without the function, as before it was installed, all go on their own.
    place.run("alter function fenced_ledger.append_group rename to gone").await;
    let answers = all((0..10).map(|_| spawn(&ledger, &lease, append("x"))).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_of_few_partitions_each_get_their_own_answer() {
    let place = Place::new(Wanted::OLDEST).await;
    // Two handles with one lease each beside: their groups meet at the server.
    let (one, other) = (together(&place).await, together(&place).await);
    let mut leases = Vec::new();
    for nth in 0..5 {
        leases.push(claim(&one, &format!("p/{nth}"), "a", seconds(600)).await.lease);
    }
    let per_writer = scale(20, 300);
    let writers: Vec<_> = (0..32)
        .map(|nth| {
            let ledger = if nth % 2 == 0 { one.clone() } else { other.clone() };
            let lease = leases[nth % 5].clone();
            tokio::spawn(async move {
                for round in 0..per_writer {
                    let sent = append_as(AppendId::mint(), &format!("{nth}/{round}"));
                    let appended = ledger.append(&lease, &sent).await.expect("appended");
                    assert_eq!(appended.entry.id, Some(sent.id()));
                    if round % 7 == 0 {
                        ledger.renew(&lease, None).await.expect("renewed");
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
    let mut events = 0;
    for lease in &leases {
        match one.verify(&lease.partition, None).await.expect("read") {
            Verification::Clean { events: there, .. } => events += there,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events, 5 + 32 * u64::try_from(per_writer).expect("small"));
    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_went_back_is_no_trouble_to_a_group() {
    let place = Place::new(Wanted::OLDEST).await;
    let ledger = place.open().await;
    let leases =
        [claim(&ledger, "p", "a", seconds(600)).await.lease, claim(&ledger, "q", "a", seconds(600)).await.lease];
    let all = async || {
        let each = (0..32).map(|nth| {
            let (ledger, lease) = (ledger.clone(), leases[nth % 2].clone());
            async move { ledger.append(&lease, &append("x")).await }
        });
        futures_util::future::join_all(each).await
    };
    assert!(all().await.iter().all(Result::is_ok));
    // Where the handle knows the log to have come is more than there is.
    place.run("delete from fenced_ledger.log where position > 3").await;
    assert!(all().await.iter().all(Result::is_ok), "each is judged by what is stored");
    let heads: Vec<i64> = place
        .value(
            "select array_agg(m order by m) from (select max(position) m from fenced_ledger.log group by partition) x",
        )
        .await;
    assert_eq!(heads, [19, 19]);
    place.drop().await;
}
