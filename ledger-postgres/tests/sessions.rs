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

const NAMES: &[&str] = &["null", "''", "E'a\\nb'", "E'\\u007f'", "U&'\\0085'", "repeat('x', 256)", "repeat('é', 128)"];
/// A name that may be left out.
const MAYBE_NAMES: &[&str] = &["''", "E'a\\nb'", "U&'\\009f'", "repeat('x', 256)"];
const NIL: &str = "'00000000-0000-0000-0000-000000000000'";
const IDS: &[&str] = &["null", NIL];
const NULL: &[&str] = &["null"];
const REMARKS: &[&str] = &["''", "E'a\\nb'", "U&'a\\0085b'", "repeat('x', 2049)", "repeat('é', 1025)"];
const NUMBERS: &[&str] = &["null", "-1"];
const TTLS: &[&str] = &["null", "0", "86400000001"];
const NOTES: &[&str] = &["null", "''", "' '", "U&' \\2003'", "E'a\\nb'", "repeat('x', 256)"];

/// A call that is answered, with what none of its arguments may be instead.
struct ByHand {
    function: &'static str,
    /// Whether it is an operator's.
    operator: bool,
    arguments: &'static [(&'static str, &'static [&'static str])],
}

const BY_HAND: &[ByHand] = &[
    ByHand {
        function: "append",
        operator: false,
        arguments: &[
            ("'p'", NAMES),
            ("4", NUMBERS),
            ("A", IDS),
            ("'a'", NAMES),
            ("B", IDS),
            ("null", &[]),
            ("sha256('x')", &["null", "''", "'\\x00'", "sha512('x')"]),
            (
                "array['k']",
                &[
                    "null",
                    "array[]::text[]",
                    "array[null]::text[]",
                    "array['']",
                    "array['$released']",
                    "array[E'k\\tx']",
                    "array[E'k\\nx']",
                    "array[U&'k\\0080']",
                    "array[repeat('x', 256)]",
                    "array[repeat('é', 128)]",
                    "array['k', 'l']",
                ],
            ),
            (
                "array['1']",
                &["null", "array[]::text[]", "array['1', '2']::text[] || array_fill('1'::text, array[9999])"],
            ),
            ("array['{}']", &["null", "array[]::text[]", "array['{}', '{}']"]),
            ("null", REMARKS),
            ("true", &[]),
            ("null", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "append",
        operator: false,
        arguments: &[
            ("'p'", &[]),
            ("4", &[]),
            ("A", &[]),
            ("'a'", &[]),
            ("B", &[]),
            ("null", &[]),
            ("sha256('x')", &[]),
            (
                "array['k', repeat('l', 255), repeat('m', 255)]",
                &[
                    "array['k', 'l']",
                    "array['$k', 'l', 'm']",
                    "array['k', 'l', '$claimed']",
                    "array['k', '', 'm']",
                    "array['k', null, 'm']",
                    "array['k', E'l\\nl', 'm']",
                    "array['k', 'l', repeat('m', 256)]",
                ],
            ),
            ("array['1', '2', '3']", &["array['1', '2']"]),
            ("array['{}']", &["array['{}', '{}']"]),
            ("null", &[]),
            ("true", &[]),
            ("null", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "append_many",
        operator: false,
        arguments: &[
            ("array['p']", &[]),
            ("array[4]::bigint[]", &[]),
            ("array[A]::uuid[]", &[]),
            ("array['a']", &[]),
            ("array[1, 1]", &["array[1]"]),
            ("array[A, B]::uuid[]", &["array[A, null]::uuid[]", "array[A, nil]::uuid[]", "array[A]::uuid[]"]),
            ("array[null, null]::bigint[]", &["array[null]::bigint[]"]),
            ("array[sha256('x'), sha256('y')]", &["array[sha256('x'), null]", "array[sha256('x'), '\\x00']"]),
            ("array[1, 2]", &["array[0, 3]", "array[1, 1]", "array[-1, 4]", "array[1, null]"]),
            (
                "array['k', repeat('l', 255), 'k']",
                &[
                    "array['$k', 'k', 'k']",
                    "array['k', 'k', '$claimed']",
                    "array['k', '', 'k']",
                    "array['k', E'l\\tl', 'k']",
                    "array['k', E'l\\nl', 'k']",
                    "array['k', 'k', repeat('m', 256)]",
                    "array['k', 'k']",
                ],
            ),
            ("array['1', '2', '3']", &["array['1', '2']"]),
            ("array['{}', '{}', '{}']", &["array['{}']"]),
            ("array[0]::bigint[]", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "claim",
        operator: false,
        arguments: &[
            ("'q'", NAMES),
            ("A", IDS),
            ("'a'", NAMES),
            ("86400000000", TTLS),
            ("0", NUMBERS),
            ("null", &[]),
            ("true", &[]),
            ("null", &[]),
        ],
    },
    // Of the lease that was just granted, so that nothing but the argument is in the way.
    ByHand {
        function: "renew",
        operator: false,
        arguments: &[
            ("'q'", NULL),
            ("1", NULL),
            ("A", NULL),
            ("'a'", NULL),
            ("null", &["0", "86400000001"]),
            ("true", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "end_tenure",
        operator: true,
        arguments: &[("'q'", NULL), ("1", NULL), ("B", &[]), ("'why'", NOTES), ("null", &[])],
    },
    ByHand {
        function: "release",
        operator: false,
        arguments: &[("'q'", NULL), ("1", NULL), ("A", NULL), ("'a'", NULL), ("true", &[]), ("null", &[])],
    },
    ByHand {
        function: "advance",
        operator: true,
        arguments: &[
            ("'r'", NAMES),
            ("A", IDS),
            ("'operator'", NAMES),
            ("null", &["0", "-1"]),
            ("'why'", NOTES),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "record_rejection",
        operator: false,
        arguments: &[
            ("'p'", &[]),
            ("3", &[]),
            ("'Append'", &["null", "'Foo'", "'EndTenure'"]),
            ("'WrongHolder'", &["null", "'Bar'", "'PositionConflict'", "'Held'"]),
            ("'z'", NAMES),
            ("3", NUMBERS),
            ("null", REMARKS),
            ("A", IDS),
            ("B", &[NIL]),
            ("'a'", MAYBE_NAMES),
            ("B", &[NIL]),
            ("0", &[]),
            ("7", NUMBERS),
            ("0", NULL),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "record_rejection",
        operator: false,
        arguments: &[
            ("'never'", NAMES),
            ("null", &[]),
            ("'Append'", NULL),
            ("'NeverClaimed'", NULL),
            ("'z'", NULL),
            ("3", NULL),
            ("null", &[]),
            ("A", NULL),
            ("null", &[]),
            ("null", &[]),
            ("null", &[]),
            ("null", &[]),
            ("0", NULL),
            ("0", NULL),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "count_rejections",
        operator: false,
        arguments: &[
            ("array['p']", &[]),
            ("array[3]::bigint[]", &[]),
            ("array['WrongHolder']", &["array[null]::text[]", "array['Bar']", "array['PositionConflict']"]),
            ("array['z']", &["array[null]::text[]", "array['']", "array[E'a\\nb']"]),
            ("array[3]::bigint[]", &["array[null]::bigint[]", "array[-1]::bigint[]"]),
            ("array['']", &["array[E'a\\nb']"]),
            ("array[A]::uuid[]", &["array[null]::uuid[]", "array[nil]::uuid[]"]),
            ("array[B]::uuid[]", &["array[nil]::uuid[]"]),
            ("array['a']", &["array['']", "array[E'a\\nb']"]),
            ("array[B]::uuid[]", &["array[nil]::uuid[]"]),
            ("array[0]::bigint[]", &[]),
            ("array[7]::bigint[]", &["array[null]::bigint[]", "array[-1]::bigint[]"]),
            ("array[0]::bigint[]", &["array[null]::bigint[]"]),
            ("array[1]::bigint[]", &[]),
            ("null", &[]),
        ],
    },
];

impl ByHand {
    /// The call, with another argument in one place.
    fn call(&self, other: Option<(usize, &str)>) -> String {
        let argument = |(nth, (legal, _)): (usize, &(&str, &[&str]))| match other {
            Some((place, other)) if place == nth => other.to_owned(),
            _ => (*legal).to_owned(),
        };
        let arguments: Vec<String> = self.arguments.iter().enumerate().map(argument).collect();
        let mut arguments = arguments.join(", ");
        for (name, id) in [
            ("A", "'00000000-0000-7000-8000-00000000000a'"),
            ("B", "'00000000-0000-7000-8000-00000000000b'"),
            ("nil", NIL),
        ] {
            for (before, after) in [(" ", ","), ("[", ","), ("[", "]"), (" ", "]")] {
                arguments = arguments.replace(&format!("{before}{name}{after}"), &format!("{before}{id}{after}"));
            }
        }
        format!("select * from fenced_ledger.{}({arguments})", self.function)
    }
}

/// Goal: what a writer's and an operator's role call by hand takes no less than what the library sends (S5, A6), so that
/// nobody can store what the library can not read. Each argument is spoiled alone, in a call that is answered otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_by_hand_takes_no_less_than_what_the_library_sends() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let role = format!("writer_{}", place.schema.name());
        place.run(&format!("create role {role} login")).await;
        place.run(&place.schema.grants(&role)).await;
        let url = place.url.replace("user=postgres", &format!("user={role}"));
        let mut writer = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await.expect("connected");
        let mut operator = place.shell().await;
        let ledger = place.open().await;
        let first = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&first).await.expect("released");
        let second = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&second).await.expect("released");
        claim(&ledger, "p", "a", seconds(600)).await;
        let mut otherwise = Vec::new();
        for by_hand in BY_HAND {
            let shell = if by_hand.operator { &mut operator } else { &mut writer };
            let legal = by_hand.call(None);
            shell.execute(sqlx::raw_sql(place.sql(&legal))).await.unwrap_or_else(|error| panic!("{legal}: {error}"));
            for (nth, (_, forbidden)) in by_hand.arguments.iter().enumerate() {
                for other in *forbidden {
                    let call = by_hand.call(Some((nth, other)));
                    let answer = shell.execute(sqlx::raw_sql(place.sql(&call))).await;
                    let code = answer
                        .map_err(|error| error.as_database_error().and_then(|found| found.code().map(String::from)));
                    if !matches!(&code, Err(Some(code)) if code == "22023") {
                        otherwise.push(format!("{call}: {code:?}"));
                    }
                }
            }
        }
        assert_eq!(otherwise, Vec::<String>::new(), "{wanted}: answered otherwise than by 22023");
        // No budget is opened for a generation that there never was (E3), whatever is said of it.
        let rows = "select count(*) from fenced_ledger.evidence_budget";
        let budgets: i64 = place.value(rows).await;
        for generation in ["0", "-1", "-9223372036854775808", "4"] {
            let record = format!(
                "select fenced_ledger.record_rejection('p', {generation}, 'Append', 'Released', 'a', 1, null, gen_random_uuid(),
                     null, null, null, null, 0, 0, null) is null"
            );
            let ignored: bool = sqlx::query_scalar(place.sql(&record)).fetch_one(&mut writer).await.expect("answered");
            assert!(ignored, "{wanted}: {generation}");
            let counts = format!(
                "select fenced_ledger.count_rejections(array['p'], array[{generation}]::bigint[], array['Released'], array['a'],
                     array[1]::bigint[], array[''], array[gen_random_uuid()], array[null]::uuid[], array[null]::text[],
                     array[null]::uuid[], array[null]::bigint[], array[0]::bigint[], array[0]::bigint[], array[1]::bigint[], null)"
            );
            let refused = writer.execute(sqlx::raw_sql(place.sql(&counts))).await.expect_err(generation);
            assert!(refused.to_string().contains("not refusals of this ledger"), "{wanted}: {generation}: {refused}");
        }
        assert_eq!(place.value::<i64>(rows).await, budgets);
        // Nor can a count that somebody has made up take another's refusal from him.
        let refused = ledger.append(&second, &append_as(AppendId::mint(), "stale")).await.expect_err("stale");
        assert_eq!(refused.rejection().map(|r| r.reason), Some(Reason::StaleGeneration));
        let counts = "select fenced_ledger.count_rejections(array['p', 'p'], array[3, 3]::bigint[],
            array['StaleGeneration', 'StaleGeneration'], array['a', 'a'], array[2, 2]::bigint[], array['', ''],
            array[gen_random_uuid(), gen_random_uuid()], array[null, null]::uuid[], array[null, null]::text[],
            array[null, null]::uuid[], array[null, null]::bigint[], array[0, 0]::bigint[], array[0, 0]::bigint[],
            array[9223372036854775806, 9223372036854775807]::bigint[], null)";
        writer.execute(sqlx::raw_sql(place.sql(counts))).await.expect("counted");
        let refused = ledger.append(&second, &append_as(AppendId::mint(), "stale")).await.expect_err("stale");
        assert_eq!(refused.rejection().map(|r| r.reason), Some(Reason::StaleGeneration), "{refused}");
        // All of it can be read, by every door.
        let partitions = ledger.partitions(None, PageSize::MAX).await.expect("read").partitions;
        assert_eq!(partitions.len(), 3);
        for name in partitions {
            ledger.observe(&name).await.expect("read");
            ledger.rejections(Some(&name), None, PageSize::MAX).await.expect("read");
            let verified = ledger.verify(&name, None).await.expect("read");
            assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
        }
        assert_eq!(ledger.rejections(None, None, PageSize::MAX).await.expect("read").records.len(), 1);
        drop(writer);
        place.drop().await;
        place.run(&format!("drop role {role}")).await;
    }
}
