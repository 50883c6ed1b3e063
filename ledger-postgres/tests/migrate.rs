//! Goal: installing is explicit, safe with ten processes at once and with writers running (S3), and those who run DDL
//! themselves get the same from the printed SQL.

mod common;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Place, Wanted, append, claim, seconds, server};
use ledger_core::{FailureKind, FencedLedger, FencedLedgerExt, LedgerError, Verification};
use ledger_postgres::{Options, SCHEMA_VERSION, Schema};
use sqlx::{Connection, Executor, PgConnection};

const URL: &str = "LEDGER_POSTGRES_TEST_URL";
const SCHEMA: &str = "LEDGER_POSTGRES_TEST_SCHEMA";

/// The body of one of the ten processes; does nothing where it is run as a test.
#[tokio::test]
async fn a_process_that_migrates() {
    let (Ok(url), Ok(schema)) = (std::env::var(URL), std::env::var(SCHEMA)) else { return };
    let schema = Schema::new(schema).expect("a name");
    schema.migrate_url(&url).await.expect("migrated");
    Options::new().schema(schema).connect(&url).await.expect("opened");
}

#[tokio::test]
async fn ten_processes_install_one_schema_at_once() {
    for wanted in Wanted::BOTH {
        let (url, name) = (server(wanted).url(), server(wanted).fresh_schema_name());
        let program = std::env::current_exe().expect("this program");
        let start = || {
            Command::new(&program)
                .args(["--exact", "a_process_that_migrates", "--nocapture"])
                .env(URL, &url)
                .env(SCHEMA, &name)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("started")
        };
        let processes: Vec<_> = (0..10).map(|_| start()).collect();
        for process in processes {
            let output = process.wait_with_output().expect("ended");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let place = Place::at(url, &name).await;
        let steps: i64 = place.value("select count(*) from fenced_ledger.migration").await;
        let ledgers: i64 = place.value("select count(*) from fenced_ledger.ledger").await;
        assert_eq!((steps, ledgers), (i64::from(SCHEMA_VERSION), 1));
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrating_again_beside_writers_changes_nothing_and_stops_nobody() {
    let place = Place::new(Wanted::NEWEST).await;
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (ledger, lease, stop) = (ledger.clone(), lease.clone(), stop.clone());
        async move {
            let mut written = 0;
            while !stop.load(Ordering::SeqCst) {
                ledger.append(&lease, &append("x")).await.expect("appended");
                written += 1;
            }
            written
        }
    });
    for _ in 0..10 {
        place.schema.migrate_url(&place.url).await.expect("migrated");
    }
    stop.store(true, Ordering::SeqCst);
    let written: i64 = writer.await.expect("no panic");
    assert_eq!(place.value::<i64>("select count(*) from fenced_ledger.log where kind = 'noted'").await, written);
    place.drop().await;
}

#[tokio::test]
async fn a_dropped_migration_leaves_the_whole_step_or_none() {
    let (url, name) = (server(Wanted::OLDEST).url(), server(Wanted::OLDEST).fresh_schema_name());
    let schema = Schema::new(name).expect("a name");
    for after in [1, 5, 20, 60] {
        let limit = std::time::Duration::from_millis(after);
        let _ = tokio::time::timeout(limit, schema.migrate_url(&url)).await;
    }
    let place = Place::at(url, schema.name()).await;
    place.open().await;
    let steps: i64 = place.value("select count(*) from fenced_ledger.migration").await;
    assert_eq!(steps, i64::from(SCHEMA_VERSION));
    place.drop().await;
}

/// All that makes a schema what it is, but for what differs from one install to the next.
async fn described(url: &str, name: &str) -> Vec<String> {
    let mut shell = PgConnection::connect(url).await.expect("connected");
    let sql = "select k || ': ' || replace(d, $1, 'S') from (
            select 'column' as k, c.table_name || '.' || c.column_name || ' ' || c.data_type || ' ' || c.is_nullable as d
                from information_schema.columns c where c.table_schema = $1
            union all select 'index', i.indexdef from pg_indexes i where i.schemaname = $1
            union all select 'routine', pg_get_functiondef(p.oid) || coalesce(p.proacl::text, 'public')
                from pg_proc p where p.pronamespace = $1::regnamespace
            union all select 'constraint', pg_get_constraintdef(o.oid) from pg_constraint o where o.connamespace = $1::regnamespace
            union all select 'version', m.version::text from pg_class t, lateral (select 1 as version) m
                where t.relnamespace = $1::regnamespace and t.relname = 'migration') x order by 1";
    sqlx::query_scalar(sql).bind(name).fetch_all(&mut shell).await.expect("described")
}

#[tokio::test]
async fn the_printed_sql_installs_what_migrate_installs() {
    for wanted in Wanted::BOTH {
        let server = server(wanted);
        let (by_hand, by_library) = (server.fresh_schema_name(), server.fresh_schema_name());
        let schema = Schema::new(by_hand.clone()).expect("a name");
        let mut shell = PgConnection::connect(&server.url()).await.expect("connected");
        shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(schema.sql()))).await.expect("the printed SQL runs");
        let other = Place::at(server.url(), &by_library).await;
        assert_eq!(described(&server.url(), &by_hand).await, described(&server.url(), &by_library).await);
        // It counts as installed: migrating does nothing, and the ledger opens.
        let place = Place::at(server.url(), &by_hand).await;
        let ledger = place.open().await;
        claim(&ledger, "p", "a", seconds(5)).await;
        // A second run by hand fails and changes nothing.
        shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(schema.sql()))).await.expect_err("it is there already");
        shell.execute("rollback").await.expect("ended");
        place.drop().await;
        other.drop().await;
    }
}

/// What `Schema::sql` printed at each older version, with the functions that had grants and are gone.
const OLDER: &[(&str, &str)] = &[
    (include_str!("layouts/version_1.sql"), "read"),
    (include_str!("layouts/version_2.sql"), "look"),
    (include_str!("layouts/version_3.sql"), "look"),
];

/// Calls of the functions of every version, by hand: a claim, an append of two events, a release; a second claim and a refusal.
const WRITTEN: &str = "
    select * from fenced_ledger.claim('p', '01920000-0000-7000-8000-000000000001', 'a', 86400000000, 0, null, true, null);
    select * from fenced_ledger.append('p', 1, '01920000-0000-7000-8000-000000000001', 'a',
        '01920000-0000-7000-8000-000000000002', null,
        fenced_ledger.chain_content(array['k', 'l'], array['1', '\"é\"'], array['{}', '{}']),
        array['k', 'l'], array['1', '\"é\"'], array['{}', '{}'], null, true, null, null);
    select * from fenced_ledger.release('p', 1, '01920000-0000-7000-8000-000000000001', 'a', true, null);
    select * from fenced_ledger.claim('p', '01920000-0000-7000-8000-000000000003', 'b', 86400000000, 1,
        '01920000-0000-7000-8000-000000000001', true, null);
    select * from fenced_ledger.renew('p', 1, '01920000-0000-7000-8000-000000000001', 'a', null, true, null);";

/// A schema of an older version in which something is written.
async fn older(url: &str, layout: &str, name: &str) -> Schema {
    let schema = Schema::new(name).expect("a name");
    let mut shell = PgConnection::connect(url).await.expect("connected");
    for text in [layout, WRITTEN] {
        let text = text.replace("fenced_ledger", name);
        shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await.expect("installed as it was");
    }
    schema
}

/// What a store of an older version holds is the same after its migration, grants included, and goes on.
#[tokio::test]
async fn a_store_of_an_older_version_is_brought_to_the_newest() {
    assert_eq!(OLDER.len(), usize::try_from(SCHEMA_VERSION).expect("small") - 1);
    for (wanted, (layout, gone)) in Wanted::BOTH.into_iter().flat_map(|wanted| OLDER.iter().map(move |of| (wanted, of)))
    {
        let server = server(wanted);
        let (old, new) = (server.fresh_schema_name(), server.fresh_schema_name());
        let old = older(&server.url(), layout, &old).await;
        let mut shell = PgConnection::connect(&server.url()).await.expect("connected");
        let refused = Options::new().schema(old.clone()).connect(&server.url()).await.expect_err("older");
        assert!(matches!(refused, LedgerError::Invalid(_)) && refused.to_string().contains("migrate"), "{refused}");
        let granted = format!(
            "create role {0}_writer; grant usage on schema {0} to {0}_writer; grant select on all tables in schema {0} to {0}_writer;
             grant execute on function {0}.append, {0}.append_many, {0}.{gone}, {0}.claim to {0}_writer",
            old.name(),
        );
        shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(granted))).await.expect("granted");
        let stored =
            "select jsonb_agg(to_jsonb(l) order by l.position)::text || (select jsonb_agg(to_jsonb(x) - '{ledger,chain_partition,chain_tenure}'::text[])::text
            from fenced_ledger.partition x) || (select jsonb_agg(to_jsonb(r))::text from fenced_ledger.rejection r)
            from fenced_ledger.log l";
        let stored = |schema: &Schema| sqlx::AssertSqlSafe(stored.replace("fenced_ledger", schema.name()));
        let before: String = sqlx::query_scalar(stored(&old)).fetch_one(&mut shell).await.expect("read");

        old.migrate_url(&server.url()).await.expect("migrated");
        let after: String = sqlx::query_scalar(stored(&old)).fetch_one(&mut shell).await.expect("read");
        assert_eq!(before, after, "{wanted}");
        let fresh = Place::at(server.url(), &new).await;
        let writer = |line: &String| line.replace(&format!("{}_writer", old.name()), "writer");
        let granted = |line: &String| line.contains("writer");
        let upgraded: Vec<String> = described(&server.url(), old.name()).await.iter().map(writer).collect();
        assert!(upgraded.iter().any(granted), "the grants are kept");
        let without = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().map(|line| line.split("{").next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(without(upgraded), without(described(&server.url(), &new).await), "{wanted}: as a fresh one");

        // What is new, or has other arguments, is granted anew.
        shell
            .execute(sqlx::raw_sql(sqlx::AssertSqlSafe(old.grants(&format!("{}_writer", old.name())))))
            .await
            .expect("granted");
        let ledger = Options::new().schema(old.clone()).connect(&server.url()).await.expect("opened");
        let tenure = ledger.observe(&common::partition("p")).await.expect("observed").tenure.expect("claimed");
        ledger.append(&tenure.lease, &append("goes on")).await.expect("appended");
        let verified = ledger.verify(&common::partition("p"), None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { events: 6, .. }), "{verified:?}");
        fresh.drop().await;
        let gone = format!("drop schema {0} cascade; drop role {0}_writer", old.name());
        shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(gone))).await.expect("dropped");
    }
}

/// Whoever reads the tables in an open transaction, as a backup does, keeps the migration waiting, and that nobody else for long:
/// what waits behind it for 2 seconds is answered 55P03 by then, as the library's own calls are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_waits_for_a_reader_keeps_no_writer_from_his_partition() {
    for (version, (layout, _)) in (1..).zip(OLDER) {
        let server = server(Wanted::OLDEST);
        let schema = older(&server.url(), layout, &server.fresh_schema_name()).await;
        let sql = |text: &str| sqlx::AssertSqlSafe(text.replace("fenced_ledger", schema.name()));
        let mut reader = PgConnection::connect(&server.url()).await.expect("connected");
        let read = "begin; select count(*) from fenced_ledger.partition; select count(*) from fenced_ledger.rejection";
        reader.execute(sqlx::raw_sql(sql(read))).await.expect("read");
        let mut migration = PgConnection::connect(&server.url()).await.expect("connected");
        let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut migration).await.expect("asked");
        let migrated = tokio::spawn({
            let schema = schema.clone();
            async move { schema.migrate(&mut migration).await }
        });
        // Appends, renewals and refusals meanwhile.
        let stop = Arc::new(AtomicBool::new(false));
        let mut writer = PgConnection::connect(&server.url()).await.expect("connected");
        let writing = tokio::spawn({
            let (stop, schema) = (stop.clone(), schema.clone());
            async move {
                let lease = "'p', 2, '01920000-0000-7000-8000-000000000003', 'b'";
                let append = format!(
                    "select (fenced_ledger.append({lease}, gen_random_uuid(), null,
                         fenced_ledger.chain_content(array['k'], array['1'], array['{{}}']),
                         array['k'], array['1'], array['{{}}'], null, true, null, 2000)).verdict"
                );
                let renew = format!("select (fenced_ledger.renew({lease}, null, true, 2000)).verdict");
                let stale =
                    "select (fenced_ledger.renew('p', 1, gen_random_uuid(), 'a', null, true, 2000)).verdict".to_owned();
                let mut written = 0;
                while !stop.load(Ordering::SeqCst) {
                    for (call, verdict) in [(&append, "Granted"), (&renew, "Granted"), (&stale, "StaleGeneration")] {
                        let sql = sqlx::AssertSqlSafe(call.replace("fenced_ledger", schema.name()));
                        let answer: sqlx::Result<String> =
                            sqlx::query_scalar(sql).persistent(false).fetch_one(&mut writer).await;
                        assert_eq!(answer.expect(call), verdict, "from version {version}");
                    }
                    written += 1;
                }
                written
            }
        });
        // Until the migration has been seen to wait in four transactions of its own: the writer would have run out of patience.
        let waits = format!(
            "select l.virtualtransaction from pg_locks l where l.pid = {pid} and not l.granted and l.locktype = 'relation'"
        );
        let mut watcher = PgConnection::connect(&server.url()).await.expect("connected");
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 4 && !writing.is_finished() {
            let waiting: Option<String> =
                sqlx::query_scalar(sql(&waits)).fetch_optional(&mut watcher).await.expect("asked");
            seen.extend(waiting);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(!migrated.is_finished());
        stop.store(true, Ordering::SeqCst);
        let written: u64 = writing.await.expect("no call has waited for longer than its bound");
        reader.execute("commit").await.expect("ended");
        migrated.await.expect("no panic").expect("migrated");
        let ledger = Options::new().schema(schema.clone()).connect(&server.url()).await.expect("opened");
        let verified = ledger.verify(&common::partition("p"), None).await.expect("read");
        // The five of the start, and the claim of generation 2 among them.
        assert!(matches!(verified, Verification::Clean { events, .. } if events == written + 5), "{verified:?}");
        let gone = format!("drop schema {} cascade", schema.name());
        watcher.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(gone))).await.expect("dropped");
    }
}

#[tokio::test]
async fn a_migration_that_can_not_lock_says_what_it_waited_for() {
    let server = server(Wanted::NEWEST);
    let schema = older(&server.url(), OLDER[1].0, &server.fresh_schema_name()).await;
    let sql = |text: &str| sqlx::AssertSqlSafe(text.replace("fenced_ledger", schema.name()));
    let mut other = PgConnection::connect(&server.url()).await.expect("connected");
    let mut shell = PgConnection::connect(&server.url()).await.expect("connected");
    other.execute(sqlx::raw_sql(sql("begin; select count(*) from fenced_ledger.rejection"))).await.expect("read");
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut other).await.expect("asked");
    let refused = schema.migrate_within(&mut shell, std::time::Duration::ZERO).await.expect_err("held");
    let says = |refused: &LedgerError, what: &str| matches!(refused, LedgerError::NotWritten(failure) if failure.kind == FailureKind::Busy && failure.detail.contains(what));
    assert!(says(&refused, &format!("rejection by session {pid}")), "{refused}");
    // The turn of another migration.
    let turn = "rollback; begin;
        select pg_advisory_xact_lock(hashtextextended('fenced-ledger/migrate/' || 'fenced_ledger', 0))";
    other.execute(sqlx::raw_sql(sql(turn))).await.expect("locked");
    let refused = schema.migrate_within(&mut shell, std::time::Duration::ZERO).await.expect_err("held");
    assert!(says(&refused, "another migration"), "{refused}");
    other.execute("rollback").await.expect("ended");
    // The connection serves on, and the whole step is still to be taken.
    schema.migrate_within(&mut shell, std::time::Duration::ZERO).await.expect("migrated");
    let gone = format!("drop schema {} cascade", schema.name());
    shell.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(gone))).await.expect("dropped");
}

#[tokio::test]
async fn another_version_is_refused_and_named() {
    let place = Place::new(Wanted::OLDEST).await;
    let newer =
        format!("update fenced_ledger.migration set version = {} where version = {SCHEMA_VERSION}", SCHEMA_VERSION + 1);
    place.run(&newer).await;
    let refused = place.options().connect(&place.url).await.expect_err("newer");
    assert!(matches!(refused, LedgerError::Invalid(_)) && refused.to_string().contains("newer"), "{refused}");
    place.drop().await;
}
