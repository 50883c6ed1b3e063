//! Goal: evidence is bounded and its counts are exact whoever brings it at once (E3); its first record is durable before
//! the answer (E2); repeats are not flushed, and never loosen a caller's transaction; a remark is kept as it is (E1). Who
//! was told that its tenure has ended is refused without the partition's lock (E4), by what is stored, and counted before it
//! is answered; what a lost answer does to that is in `counts.rs`.

mod common;

use std::time::Duration;

use common::harness::Door;
use common::{Place, Wanted, append, append_as, claim, holder, scale, seconds};
use ledger_core::{
    AcquisitionId, Append, FencedLedger, Lease, LedgerError, MAX_REMARK_BYTES, PageSize, RecordSlot, RecordState,
    Rejection, Remark,
};
use ledger_postgres::PostgresLedger;
use sqlx::{Executor, PgPool, Row};

fn record<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> RecordState {
    match answer {
        Err(LedgerError::Rejected(rejection)) => rejection.record.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_with_many_keys_fill_the_budget_once_and_count_exactly() {
    const SESSIONS: usize = 6;
    for ended in [false, true] {
        // Judged under the lock, and without it.
        let place = Place::new(Wanted::OLDEST).await.with_clock().await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        if ended {
            ledger.release(&lease).await.expect("released");
        }
        let keys = scale(280, 400);
        let tasks: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let (ledger, lease) = (ledger.clone(), lease.clone());
                tokio::spawn(async move {
                    for nth in 0..keys {
                        // Each session in an order of its own; 17 and the figures of keys have no common factor.
                        let nth = (nth * 17 + session * 53) % keys;
                        let mut forged: Lease = lease.clone();
                        forged.holder = holder(&format!("z{nth}"));
                        record(ledger.append(&forged, &append("x")).await);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let records = ledger.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
        assert_eq!(records.len(), 257);
        let slots: Vec<u16> = records.iter().map(|record| record.slot.number).collect();
        assert_eq!(slots, (1..=257).collect::<Vec<u16>>(), "no slot was burnt");
        assert!(records[..256].iter().all(|record| record.count == SESSIONS as u64));
        assert_eq!(records[256].count as usize, (keys - 256) * SESSIONS);
        assert!(records[256].refused.is_none());
        place.drop().await;
    }
}

async fn open(place: &Place, door: Door) -> PostgresLedger {
    let (options, url) = (place.options(), &place.url);
    let opened = match door {
        Door::Own => options.connect(url).await,
        Door::Pool => options.open(PgPool::connect(url).await.expect("a pool")).await,
        Door::Singly => options.coalesce(false).connect(url).await,
        Door::Simple => options.transaction_pooler(true).connect(url).await,
    };
    opened.expect("opened")
}

/// How often sessions have flushed the log of writes. A session's figures are there once it has ended.
async fn flushes(place: &Place, wanted: Wanted) -> i64 {
    tokio::time::sleep(Duration::from_millis(400)).await;
    place
        .value(match wanted {
            Wanted::OLDEST => "select wal_sync from pg_stat_wal",
            _ => "select sum(fsyncs)::bigint from pg_stat_io where object = 'wal'",
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_one_flush_and_so_is_a_first_record_and_its_repeats_are_none() {
    const CALLS: i64 = 300;
    for wanted in Wanted::BOTH {
        for door in [Door::Own, Door::Pool, Door::Simple] {
            // A server of its own, so that nobody else's flushes are counted.
            let server = test_postgres::Options::new(wanted).set("autovacuum", "off").start().expect("a server");
            let place = Place::at(server.url(), "l").await;
            let lease = claim(&open(&place, door).await, "p", "a", seconds(600)).await.lease;

            let before = flushes(&place, wanted).await;
            let ledger = open(&place, door).await;
            for _ in 0..CALLS {
                ledger.append(&lease, &append("x")).await.expect("appended");
            }
            drop(ledger);
            let appends = flushes(&place, wanted).await - before;

            open(&place, door).await.release(&lease).await.expect("released");
            let before = flushes(&place, wanted).await;
            let ledger = open(&place, door).await;
            assert_eq!(record(ledger.append(&lease, &append("x")).await), RecordState::Stored);
            for _ in 0..CALLS {
                assert_eq!(record(ledger.append(&lease, &append("x")).await), RecordState::Counted);
            }
            drop(ledger);
            let repeats = flushes(&place, wanted).await - before;
            println!("{wanted}, {door:?}: {appends} flushes for {CALLS} appends, {repeats} for {CALLS} repeats");
            assert!((CALLS..CALLS + 20).contains(&appends), "an append is one flush: {appends}");
            assert!((1..CALLS / 4).contains(&repeats), "the first record is flushed, its repeats are not: {repeats}");
        }
    }
}

#[tokio::test]
async fn a_refusal_never_loosens_a_callers_transaction() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&lease).await.expect("released");
        let mut session = place.shell().await;
        for end in ["commit", "rollback"] {
            session.execute("begin").await.expect("begun");
            // Whoever says `p_own` and it is not so.
            let call =
                "select * from fenced_ledger.append('p', 1, $1::text::uuid, 'a', gen_random_uuid(), null, sha256('x'),
                array['k'], array['1'], array['{}'], null, true, null, null)";
            for _ in 0..2 {
                let row = sqlx::query(place.sql(call)).bind(lease.acquisition.to_string());
                row.fetch_one(&mut session).await.expect("answered");
            }
            ledger.append_in(&mut session, &lease, &append("x")).await.expect_err("released");
            let shown = session.fetch_one("show synchronous_commit").await.expect("shown");
            assert_eq!(shown.get::<String, _>(0), "on");
            session.execute(end).await.expect("ended");
        }
        place.drop().await;
    }
}

/// As long as a remark may be, of characters that an engine, a protocol or a literal could take for its own.
fn longest_remark() -> Remark {
    let mut text = String::new();
    for character in "'\"\\ \\x41 \\' $$ $1 %s -- ; é \u{a0} \u{1f692} ".chars().cycle() {
        if text.len() + character.len_utf8() > MAX_REMARK_BYTES {
            break;
        }
        text.push(character);
    }
    text.extend(std::iter::repeat_n('\'', MAX_REMARK_BYTES - text.len()));
    Remark::new(text).expect("just at the limit")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remark_comes_back_byte_for_byte_by_every_way_in() {
    for wanted in Wanted::BOTH {
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let place = Place::new(wanted).await;
            let ledger = open(&place, door).await;
            let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
            ledger.release(&lease).await.expect("released");
            let late = || append("late").remarking(longest_remark());
            assert_eq!(record(ledger.append(&lease, &late()).await), RecordState::Stored);
            assert_eq!(record(ledger.append(&lease, &append("late")).await), RecordState::Stored);
            // Out of a caller's transaction it is the same key; with another holder it is one of its own.
            let mut forged = lease.clone();
            forged.holder = holder("z");
            let mut session = place.shell().await;
            for (by, state) in [(&lease, RecordState::Counted), (&forged, RecordState::Stored)] {
                session.execute("begin").await.expect("begun");
                let refused = ledger.append_in(&mut session, by, &late()).await.expect_err("released");
                session.execute("rollback").await.expect("ended");
                let carried = refused.rejection().expect("a refusal");
                assert_eq!(ledger.record_rejection(carried).await.expect("kept"), state, "{wanted}, {door:?}");
            }
            // From a slot that no record has, as a page of one generation begins.
            let start = Some(RecordSlot::new(Some(lease.generation), 0));
            let found = ledger.rejections(Some(&lease.partition), start, PageSize::MAX).await.expect("read").records;
            let seen: Vec<_> = found
                .iter()
                .map(|record| (record.count, record.refused.as_ref().and_then(|refused| refused.remark.clone())))
                .collect();
            let expected = [(2, Some(longest_remark())), (1, None), (1, Some(longest_remark()))];
            assert_eq!(seen, expected, "{wanted}, {door:?}");
            place.drop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_waits_for_no_holder_and_is_counted_when_it_is_answered() {
    for wanted in Wanted::BOTH {
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let place = Place::new(wanted).await;
            let (ledger, other) = (open(&place, door).await, place.open().await);
            let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
            ledger.release(&lease).await.expect("released");
            assert_eq!(record(ledger.append(&lease, &append("x")).await), RecordState::Stored);
            // Who would take the partition's lock waits here.
            let mut session = place.shell().await;
            let hold = "begin; select 1 from fenced_ledger.partition for update";
            session.execute(sqlx::raw_sql(place.sql(hold))).await.expect("held");
            for nth in 1..=10 {
                let repeat = append("x");
                assert_eq!(record(ledger.append(&lease, &repeat).await), RecordState::Counted);
                let repeat = append("x");
                for told in both(&ledger, &lease, &repeat).await {
                    assert_eq!(told.record, RecordState::Counted);
                }
                let read = other.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
                let last = read[0].refused.as_ref().and_then(|refused| refused.append);
                let expected = (1, 1 + 3 * nth, Some(repeat.id()));
                assert_eq!((read.len(), read[0].count, last), expected, "{wanted}, {door:?}");
            }
            session.execute("rollback").await.expect("let go");
            // Many at the same moment, two keys among them: the new one is recorded before it is counted.
            let both = (0..40).map(|nth| {
                let (ledger, mut by) = (ledger.clone(), lease.clone());
                by.holder = if nth % 2 == 0 { holder("a") } else { holder("z") };
                async move { record(ledger.append(&by, &append("x")).await) }
            });
            let states = futures_util::future::join_all(both).await;
            let stored = states.iter().filter(|state| **state == RecordState::Stored).count();
            assert_eq!((stored, states.len()), (1, 40), "{wanted}, {door:?}");
            let counts: Vec<i64> =
                place.value("select array_agg(count order by slot) from fenced_ledger.rejection").await;
            assert_eq!(counts, [51, 20], "{wanted}, {door:?}");
            let latest: bool = place
                .value("select bool_and(last_at >= first_at and append_id is not null) from fenced_ledger.rejection")
                .await;
            assert!(latest);
            place.drop().await;
        }
    }
}

/// Two refusals of the same moment, which are looked up together.
async fn both(ledger: &PostgresLedger, lease: &Lease, sent: &Append) -> [Rejection; 2] {
    let (one, other) = futures_util::future::join(ledger.append(lease, sent), ledger.append(lease, sent)).await;
    [one, other].map(|answer| answer.expect_err("refused").rejection().expect("a refusal").clone())
}

#[tokio::test]
async fn a_look_refuses_as_the_call_of_an_append_does() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await.with_clock().await;
        let ledger = place.open().await;
        let mut ended = Vec::new();
        for name in ["released", "expired", "taken", "vacated"] {
            let lease = claim(&ledger, name, "a", seconds(5)).await.lease;
            let landed = append("landed");
            ledger.append(&lease, &landed).await.expect("appended");
            ended.push((lease, landed));
        }
        ledger.release(&ended[0].0).await.expect("released");
        place.advance(Duration::from_secs(5)).await;
        let next = claim(&ledger, "taken", "b", seconds(600)).await.lease;
        ledger.append(&next, &append("good")).await.expect("appended");
        let next = claim(&ledger, "vacated", "b", seconds(600)).await.lease;
        ledger.release(&next).await.expect("released");
        for (lease, landed) in &ended {
            let (mut other_holder, mut other_acquisition) = (lease.clone(), lease.clone());
            other_holder.holder = holder("z");
            other_acquisition.acquisition = AcquisitionId::mint();
            for by in [lease, &other_holder, &other_acquisition] {
                // J3: an entry of an earlier try is told, of whatever content.
                for sent in [append("x"), landed.clone(), append_as(landed.id(), "other content")] {
                    record(ledger.append(by, &sent).await);
                    let judged = place.open().await.append(by, &sent).await.expect_err("refused");
                    let judged = judged.rejection().expect("a refusal");
                    assert_eq!(judged.record, RecordState::Counted);
                    assert_eq!(both(&ledger, by, &sent).await, [judged.clone(), judged.clone()], "{wanted}");
                }
            }
        }
        place.drop().await;
    }
}

#[tokio::test]
async fn a_repeat_tells_what_is_stored_now() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let landed = append("landed");
        let entry = ledger.append(&lease, &landed).await.expect("appended").entry;
        place.run("create table fenced_ledger.saved as select * from fenced_ledger.partition").await;
        ledger.release(&lease).await.expect("released");
        record(ledger.append(&lease, &append("x")).await);
        // J3: the entry of an earlier try; and who holds the partition by now.
        let successor = claim(&ledger, "p", "b", seconds(600)).await.lease;
        record(ledger.append(&lease, &append("x")).await);
        let [told, _] = both(&ledger, &lease, &landed).await;
        assert_eq!((told.reason, &told.record), (ledger_core::Reason::StaleGeneration, &RecordState::Counted));
        assert_eq!(told.earlier.as_deref(), Some(&*entry));
        let current = told.current.as_ref().expect("what is true");
        assert_eq!((&current.holder, current.acquisition), (&successor.holder, successor.acquisition));
        let state = ledger.observe(&lease.partition).await.expect("observed");
        assert_eq!(told.judged.revision, state.judged.revision);
        // The store went back in time: what this handle was told is no reason to refuse what is valid.
        place
            .run(
                "delete from fenced_ledger.partition; delete from fenced_ledger.log where position > 2;
                 insert into fenced_ledger.partition overriding system value select * from fenced_ledger.saved",
            )
            .await;
        ledger.append(&lease, &append("valid again")).await.expect("judged by what is stored");
        place.drop().await;
    }
}
