//! Goal: the schema stays within what sharded servers that speak PostgreSQL need: the partition in every key, no triggers
//! and nothing else that acts from afar, no session state, and each statement on one partition. `docs/portability.md` says
//! what follows from that, and what was not tested.
//!
//! Method: the catalog of an installed schema on a real server, and the texts of its functions.

mod common;

use common::{Place, Wanted};
use sqlx::Row;

/// Tables of the ledger as a whole, of one row or a few: on a sharded server they are copied to every node.
const OF_THE_WHOLE: [&str; 2] = ["ledger", "migration"];

/// The column that holds the partition, for each table that has rows of many.
const PARTITION: [(&str, &[&str]); 4] = [
    // The partition's own row: by its key, and by its name, which is what a sharded server would distribute it by.
    ("partition", &["id", "name"]),
    ("log", &["partition"]),
    ("rejection", &["scope"]),
    ("evidence_budget", &["scope"]),
];

async fn rows(place: &Place, sql: &str) -> Vec<Vec<String>> {
    let rows = sqlx::query(place.sql(sql)).fetch_all(&mut place.shell().await).await.expect(sql);
    let texts = |row: &sqlx::postgres::PgRow| (0..row.len()).map(|nth| row.get::<String, _>(nth)).collect();
    rows.iter().map(texts).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partition_is_in_every_key() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let keys = rows(
            &place,
            "select c.relname::text, i.indexrelid::regclass::text,
                 (select string_agg(pg_get_indexdef(i.indexrelid, k, true), ',' order by k)
                     from generate_series(1, i.indnkeyatts) k)
             from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
             where n.nspname = 'fenced_ledger' and (i.indisunique or i.indisprimary) order by 1, 2",
        )
        .await;
        let mut seen = 0;
        for key in keys {
            let [table, index, columns] = key.as_slice() else { panic!("three columns: {key:?}") };
            if OF_THE_WHOLE.contains(&&**table) {
                continue;
            }
            let (_, partition) = PARTITION
                .iter()
                .find(|(name, _)| name == table)
                .unwrap_or_else(|| panic!("`{table}` is new: say which of its columns holds the partition"));
            // `(partition + 0)` is the partition too, for a planner that must not take another index: see tables.sql.
            let names = |part: &str| partition.contains(&part.trim_matches(['(', ')']).trim_end_matches(" + 0"));
            assert!(columns.split(',').any(names), "{index} on {table} has ({columns}), and not {partition:?}");
            seen += 1;
        }
        assert!(seen >= 6, "{seen} keys");
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acts_from_afar() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        for (what, sql) in [
            (
                "triggers",
                "select t.tgname::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
                 join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'fenced_ledger'",
            ),
            (
                "rules",
                "select r.rulename::text from pg_rewrite r join pg_class c on c.oid = r.ev_class
                 join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'fenced_ledger'",
            ),
            (
                "foreign keys and exclusions",
                "select o.conname::text from pg_constraint o
                 join pg_namespace n on n.oid = o.connamespace
                 where n.nspname = 'fenced_ledger' and o.contype in ('f', 'x', 't')",
            ),
            (
                "views, foreign tables and the like",
                "select c.relname::text from pg_class c
                 join pg_namespace n on n.oid = c.relnamespace
                 where n.nspname = 'fenced_ledger' and c.relkind not in ('r', 'i', 'S', 'c')",
            ),
            (
                "unlogged tables",
                "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
                 where n.nspname = 'fenced_ledger' and c.relpersistence <> 'p'",
            ),
            (
                "languages that are not everywhere",
                "select p.proname::text from pg_proc p
                 join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
                 where n.nspname = 'fenced_ledger' and l.lanname not in ('sql', 'plpgsql')",
            ),
            (
                "types of an extension",
                "select a.attname::text from pg_attribute a join pg_class c on c.oid = a.attrelid
                 join pg_namespace n on n.oid = c.relnamespace join pg_type t on t.oid = a.atttypid
                 where n.nspname = 'fenced_ledger' and a.attnum > 0 and t.typnamespace <> 'pg_catalog'::regnamespace",
            ),
        ] {
            assert_eq!(rows(&place, sql).await, Vec::<Vec<String>>::new(), "{what} on {wanted}");
        }
        place.drop().await;
    }
}

/// A text with neither comments nor what stands between quotes.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let joined = lines.collect::<Vec<_>>().join(" ").to_lowercase();
    let unquoted = joined.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
    unquoted.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_in_a_session() {
    const SESSION: [&str; 16] = [
        "pg_advisory_lock",
        "pg_try_advisory_lock",
        "listen ",
        "notify ",
        "pg_notify",
        "unlisten",
        "create temp",
        "temporary",
        "with hold",
        "currval",
        "lastval",
        "setval",
        "prepare ",
        "deallocate",
        "discard",
        "set session",
    ];
    let place = Place::new(Wanted::NEWEST).await;
    let functions = rows(
        &place,
        "select p.proname::text, p.prosrc from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname = 'fenced_ledger' order by 1",
    )
    .await;
    assert!(functions.len() > 20);
    for function in functions {
        let [name, source] = function.as_slice() else { panic!("two columns: {function:?}") };
        let text = code(source);
        for word in SESSION {
            assert!(!text.contains(word), "`{name}` keeps something in a session: `{word}`");
        }
        // A setting is set for the transaction alone, and read where it only says how to flush (lone.sql).
        for call in text.split("set_config(").skip(1) {
            let arguments = call.split(')').next().unwrap_or_default();
            assert!(arguments.trim_end().ends_with("true"), "`{name}` sets for a session: {arguments}");
        }
        let reads_ours = source.contains("current_setting('fenced.");
        assert!(!reads_ours || name == "lone", "`{name}` reads a setting of a session");
    }
    place.drop().await;
}

#[test]
fn a_comment_or_a_quoted_text_is_no_code() {
    assert_eq!(code("select 1 -- listen \n from t where a = 'notify x' and b"), "select 1 from t where a = and b");
}
