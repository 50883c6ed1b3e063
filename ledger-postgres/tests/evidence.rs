//! Goal: evidence is bounded and its counts are exact whoever brings it at once (E3); its first record is durable before
//! the answer (E2); repeats are not flushed, and never loosen a caller's transaction; a remark is kept as it is (E1). Who
//! was told that its tenure has ended is refused without a lock and without a write (E4), and by what is stored.

mod common;

use std::time::Duration;

use common::harness::Door;
use common::{Place, Wanted, append, claim, holder, scale, seconds};
use ledger_core::{FencedLedger, Lease, LedgerError, MAX_REMARK_BYTES, PageSize, RecordSlot, RecordState, Remark};
use ledger_postgres::{Options, PostgresLedger};
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
    open_with(place.options(), place, door).await
}

async fn open_with(options: Options, place: &Place, door: Door) -> PostgresLedger {
    let opened = match door {
        Door::Own => options.connect(&place.url).await,
        Door::Pool => options.open(PgPool::connect(&place.url).await.expect("a pool")).await,
        Door::Singly => options.coalesce(false).connect(&place.url).await,
        Door::Simple => options.transaction_pooler(true).connect(&place.url).await,
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

/// How many refusals the records count, as another session sees it, once they are as many.
async fn counted(place: &Place, expected: i64) {
    let start = std::time::Instant::now();
    loop {
        let count: i64 = place.value("select coalesce(sum(count), 0)::bigint from fenced_ledger.rejection").await;
        assert!(count <= expected, "{count} refusals are counted and {expected} came");
        if count == expected {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{count} refusals of {expected} are counted");
        tokio::time::sleep(Duration::from_millis(20)).await; // Until the counts have come, whenever that is.
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_waits_for_nobody_and_its_count_comes_later() {
    for wanted in Wanted::BOTH {
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let place = Place::new(wanted).await;
            let ledger = open_with(place.options().count_in_memory(true), &place, door).await;
            let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
            ledger.release(&lease).await.expect("released");
            assert_eq!(record(ledger.append(&lease, &append("x")).await), RecordState::Stored);
            // Who would write the record, or take the partition's lock, waits here.
            let mut session = place.shell().await;
            let hold = "begin; select 1 from fenced_ledger.rejection for update; select 1 from fenced_ledger.partition for update";
            session.execute(sqlx::raw_sql(place.sql(hold))).await.expect("held");
            for _ in 0..20 {
                assert_eq!(record(ledger.append(&lease, &append("x")).await), RecordState::Counted);
            }
            let before: i64 = place.value("select sum(count)::bigint from fenced_ledger.rejection").await;
            assert_eq!(before, 1, "{wanted}, {door:?}: nothing of a repeat was written");
            session.execute("rollback").await.expect("let go");
            // Many at the same moment, two keys among them: the new one is recorded by the server before the answer.
            let both = (0..40).map(|nth| {
                let (ledger, mut by) = (ledger.clone(), lease.clone());
                by.holder = if nth % 2 == 0 { holder("a") } else { holder("z") };
                async move { record(ledger.append(&by, &append("x")).await) }
            });
            let states = futures_util::future::join_all(both).await;
            let stored = states.iter().filter(|state| **state == RecordState::Stored).count();
            assert_eq!((stored, states.len()), (1, 40), "{wanted}, {door:?}");
            // The last handle is gone: what it counted is written.
            drop(ledger);
            counted(&place, 61).await;
            let latest: bool = place
                .value("select bool_and(last_at >= first_at and append_id is not null) from fenced_ledger.rejection")
                .await;
            assert!(latest);
            place.drop().await;
        }
    }
}

#[tokio::test]
async fn a_repeat_tells_what_is_stored_now() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = open_with(place.options().count_in_memory(true), &place, Door::Own).await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let landed = append("landed");
        let entry = ledger.append(&lease, &landed).await.expect("appended").entry;
        place.run("create table fenced_ledger.saved as select * from fenced_ledger.partition").await;
        ledger.release(&lease).await.expect("released");
        record(ledger.append(&lease, &append("x")).await);
        // J3: the entry of an earlier try; and who holds the partition by now.
        let successor = claim(&ledger, "p", "b", seconds(600)).await.lease;
        record(ledger.append(&lease, &append("x")).await);
        let again = ledger.append(&lease, &landed).await.expect_err("stale");
        let told = again.rejection().expect("a refusal");
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
