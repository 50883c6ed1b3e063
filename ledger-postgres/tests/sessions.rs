//! Goal: no setting of a session changes an answer (T1): time zone, DateStyle, encodings of output, search path, plans.
//! And a role that may append and read can do no more (S5).

mod common;

use common::{Place, Wanted, append_as, claim, holder, partition, seconds};
use ledger_core::{
    AcquisitionId, AppendId, Claim, Event, FailureKind, FencedLedger, FencedLedgerExt, LedgerError, PageSize, Position,
    Reason, RejectionRecord, Remark, Verification,
};
use ledger_postgres::PostgresLedger;
use sqlx::Executor;
use uuid::Uuid;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x7000_8000_0000_0000_0000 + number)
}

/// A small history, on a clock that stands still and with fixed ids; all that can be read of it afterwards.
async fn history(place: &Place, ledger: &PostgresLedger) -> (String, Vec<Event>, Vec<RejectionRecord>) {
    let name = partition("jobs/á \\ ' $$");
    let acquisition = |number| AcquisitionId::from_uuid(id(number)).expect("an id");
    let first = Claim::new(name.clone(), holder("w'\\é"), seconds(5), ledger_core::Observation::NeverClaimed);
    let first = ledger.claim(&first.with_acquisition(acquisition(1))).await.expect("claimed").lease;
    let sent = append_as(AppendId::from_uuid(id(2)).expect("an id"), "\\x41 ' \u{e9} \u{1f692}");
    ledger.append(&first, &sent).await.expect("appended");
    assert!(ledger.append(&first, &sent).await.expect("appended").replayed);
    place.advance(std::time::Duration::from_secs(5)).await;
    let remark = Remark::new("{\"said\": \"it's $$ \\\\x41 é\"}").expect("a remark");
    let late = append_as(AppendId::from_uuid(id(3)).expect("an id"), "late").remarking(remark);
    let refused = ledger.append(&first, &late).await.expect_err("expired");
    assert_eq!(refused.rejection().map(|r| r.reason), Some(Reason::Expired));
    let observed = ledger.observe(&name).await.expect("observed").observation();
    let next = Claim::new(name.clone(), holder("b"), seconds(5), observed).with_acquisition(acquisition(4));
    let next = ledger.claim(&next).await.expect("claimed").lease;
    assert!(ledger.append(&first, &late).await.is_err());
    ledger.renew(&next, None).await.expect("renewed");
    ledger.release(&next).await.expect("released");
    assert!(matches!(ledger.verify(&name, None).await, Ok(Verification::Clean { .. })));
    let state = ledger.observe(&name).await.expect("observed");
    let events = ledger.read(&name, Position::FIRST, PageSize::MAX).await.expect("read").events;
    let records = ledger.rejections(Some(&name), None, PageSize::MAX).await.expect("read").records;
    (format!("{:?}", state.judged), events, records)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_of_a_session_changes_an_answer() {
    let settings = [
        "-c timezone=UTC",
        "-c timezone=Pacific/Kiritimati",
        "-c timezone=America/St_Johns -c datestyle=German -c intervalstyle=sql_standard",
        "-c bytea_output=escape -c standard_conforming_strings=off -c escape_string_warning=off",
        "-c search_path=public,pg_temp -c transform_null_equals=on -c extra_float_digits=-15",
        "-c plpgsql.variable_conflict=use_variable -c plan_cache_mode=force_custom_plan",
        "-c jit_above_cost=0 -c jit_inline_above_cost=0 -c plan_cache_mode=force_generic_plan -c enable_indexscan=off",
        "-c lc_messages=C -c lock_timeout=1h -c client_min_messages=error -c row_security=off",
    ];
    for wanted in Wanted::BOTH {
        // One ledger id and one start of the clock, so that the answers can be equal to the last bit.
        let mut seen: Option<(String, Vec<Event>, Vec<RejectionRecord>)> = None;
        for simple in [false, true] {
            for setting in settings {
                let place = Place::new(wanted).await.with_clock().await;
                place
                    .run(
                        "update fenced_ledger.test_clock set at = 1577836800000000;
                         update fenced_ledger.ledger set id = '01920000-0000-7000-8000-00000000000a';
                         create table if not exists public.log (trap int)",
                    )
                    .await;
                let url = format!("{}&options={}", place.url, setting.replace(' ', "%20").replace('=', "%3D"));
                let ledger = place.options().transaction_pooler(simple).connect(&url).await.expect(setting);
                let answers = history(&place, &ledger).await;
                match &seen {
                    None => seen = Some(answers),
                    Some(seen) => assert_eq!(*seen, answers, "{wanted}: {setting}, simple: {simple}"),
                }
                place.drop().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writers_role_appends_by_the_judged_path_alone() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await.with_clock().await;
        let role = format!("writer_{}", place.schema.name());
        // It may create objects elsewhere and call them as it likes: the owner's functions must not meet them.
        place.run(&format!("create role {role} login; create schema {role} authorization {role}")).await;
        place.run(&place.schema.grants(&role)).await;
        let url = place.url.replace("user=postgres", &format!("user={role}"));
        let mut shell = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await.expect("connected");
        let mut refusals = 0;
        for ways in [
            place.options().connect(&url).await.expect("opened"),
            place.options().transaction_pooler(true).connect(&url).await.expect("opened"),
            place.options().open(sqlx::PgPool::connect(&url).await.expect("a pool")).await.expect("opened"),
        ] {
            let lease = claim(&ways, "p", "a", seconds(5)).await.lease;
            let sent = append_as(AppendId::mint(), "x");
            ways.append(&lease, &sent).await.expect("appended");
            ways.renew(&lease, None).await.expect("renewed");
            ways.verify(&lease.partition, None).await.expect("read");
            ways.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            ways.release(&lease).await.expect("released");
            ways.append(&lease, &sent).await.expect_err("released");
            refusals += 1;
            let records = ways.rejections(Some(&lease.partition), None, PageSize::MAX).await.expect("read").records;
            assert_eq!(records.len(), refusals, "one a generation");
            assert_eq!(ways.partitions(None, PageSize::MAX).await.expect("read").partitions.len(), 1);
            // An operator's step is not a writer's.
            let observed = ways.observe(&lease.partition).await.expect("observed").observation();
            let note = ledger_core::Note::new("no").expect("a note");
            let refused = ways.end_tenure(&lease.partition, observed, &note).await.expect_err("42501");
            assert!(
                matches!(&refused, LedgerError::NotWritten(failure) if failure.kind == FailureKind::Other),
                "{refused}"
            );
            assert!(refused.to_string().contains("42501"), "{refused}");
            let step = ledger_core::Advance::new(lease.partition.clone(), lease.holder.clone(), None, note);
            let refused = ways.advance(&step).await.expect_err("42501");
            assert!(refused.to_string().contains("42501"), "{refused}");
        }
        for forbidden in [
            "insert into fenced_ledger.log (partition, position, kind, metadata, payload) values (1, 99, 'x', '0', '0')",
            "update fenced_ledger.partition set generation = 9",
            "delete from fenced_ledger.log",
            "truncate fenced_ledger.rejection",
            "select fenced_ledger.refuse(1, 'p', 1, 'Append', 'Expired', 'a', 1, null, null, null, null, null, null, 0, 0, false)",
            "select fenced_ledger.assert_fresh(1, 1, 'p')",
            "create or replace function fenced_ledger.clock() returns bigint language sql as 'select 0::bigint'",
            "create table fenced_ledger.mine (x int)",
            "select nextval(pg_get_serial_sequence('fenced_ledger.partition', 'id'))",
        ] {
            let refused = shell.execute(sqlx::raw_sql(place.sql(forbidden))).await.expect_err(forbidden);
            let code = refused.as_database_error().and_then(|found| found.code().map(|code| code.into_owned()));
            assert_eq!(code.as_deref(), Some("42501"), "{forbidden}: {refused}");
        }
        // Temporary tables and operators of the caller's do not reach the owner's functions.
        let traps = format!(
            "create temp table log (x int); create temp table partition (x int);
             create function {role}.eq(bigint, bigint) returns boolean language sql as 'select true';
             create operator {role}.= (leftarg = bigint, rightarg = bigint, function = {role}.eq);
             set search_path = {role}, pg_temp, pg_catalog;
             select * from fenced_ledger.append('p', 7, '00000000-0000-7000-8000-000000000001', 'a',
                 '00000000-0000-7000-8000-000000000002', null, sha256('x'), array['k'], array['1'], array['{{}}'], null, true, null, null)"
        );
        let answers = shell.fetch_all(sqlx::raw_sql(place.sql(&traps))).await.expect("answered");
        let verdict: &str = sqlx::Row::get(answers.last().expect("a row"), 0);
        assert_eq!(verdict, "UnknownGeneration");
        // Else they go when the server notices that the session has ended, and the role can not go before.
        shell.execute("drop table pg_temp.log, pg_temp.partition").await.expect("dropped");
        drop(shell);
        place.drop().await;
        place.run(&format!("drop schema {role} cascade; drop role {role}")).await;
    }
}

/// S2: over connections that others use, a session may have been loosened after the ledger was opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_somebody_has_loosened_is_flushed_all_the_same() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        // At the commit itself: what counts is what holds then.
        place
            .run(
                "create table fenced_ledger.seen (place bigint generated always as identity, what text, level text);
                 create function fenced_ledger.note() returns trigger language plpgsql security definer as $$ begin
                     insert into fenced_ledger.seen (what, level) values (tg_table_name, current_setting('synchronous_commit'));
                     return null;
                 end $$;
                 create constraint trigger noted after insert on fenced_ledger.log deferrable initially deferred
                     for each row execute function fenced_ledger.note();
                 create constraint trigger noted after insert or update on fenced_ledger.partition deferrable initially deferred
                     for each row execute function fenced_ledger.note();
                 create constraint trigger noted after insert or update on fenced_ledger.rejection deferrable initially deferred
                     for each row execute function fenced_ledger.note()",
            )
            .await;
        for (simple, name) in [(false, "procedures"), (true, "simple")] {
            let pool =
                sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&place.url).await.expect("a pool");
            let ledger =
                place.options().reserve(0).transaction_pooler(simple).open(pool.clone()).await.expect("opened");
            for (level, expected) in [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")] {
                let mut connection = pool.acquire().await.expect("a connection");
                let set = format!("set synchronous_commit = {level}; truncate fenced_ledger.seen");
                connection.execute(sqlx::raw_sql(place.sql(&set))).await.expect("set");
                drop(connection);
                let lease = claim(&ledger, &format!("{name} {level}"), "a", seconds(600)).await.lease;
                ledger.append(&lease, &append_as(AppendId::mint(), "x")).await.expect("appended");
                ledger.renew(&lease, None).await.expect("renewed");
                ledger.release(&lease).await.expect("released");
                // The first of its key is flushed (E2), and a repeat need not be (E3).
                for _ in 0..2 {
                    ledger.append(&lease, &append_as(AppendId::mint(), "x")).await.expect_err("released");
                }
                let seen: Vec<(String, String)> =
                    sqlx::query_as(place.sql("select what, level from fenced_ledger.seen order by place"))
                        .fetch_all(&mut place.shell().await)
                        .await
                        .expect("read");
                let (repeat, firsts) = seen.split_last().expect("something was written");
                assert_eq!(*repeat, ("rejection".to_owned(), "off".to_owned()), "{wanted}, {name}, {level}");
                assert_eq!(firsts.iter().filter(|(what, _)| what == "log").count(), 3);
                assert_eq!(firsts.iter().filter(|(what, _)| what == "rejection").count(), 1);
                for (what, seen) in firsts {
                    assert_eq!(seen, expected, "{wanted}, {name}, {level}: {what}");
                }
            }
        }
        place.drop().await;
    }
}
