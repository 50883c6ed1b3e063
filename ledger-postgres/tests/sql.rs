//! Goal: every .sql file names the rules that it upholds, is what the server of each major has, and answers with the
//! columns that the library reads.
//!
//! Method: the folder itself is the list, so that a new file can not be forgotten.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Place, Wanted, claim, seconds};
use sqlx::{Column, Executor, Row, Statement, TypeInfo};

/// What one file makes.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
    let files = std::fs::read_dir(folder).expect("the folder is there").map(|file| {
        let path = file.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).expect("text"))
    });
    files.collect()
}

fn header(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("--")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_file_names_its_rules_in_its_header() {
    for (name, text) in files() {
        let header = header(&text);
        let rule = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            word.len() == 2
                && word.starts_with(|c| "TGCRAJEUIDS".contains(c))
                && word.ends_with(|c: char| c.is_ascii_digit())
        };
        // The type that answers is not a rule's but every call's.
        assert!(name == "answer" || header.split_whitespace().any(rule), "{name}.sql names no rule:\n{header}");
    }
}

/// The columns of `answer`, from its file.
fn answer() -> Vec<(String, String)> {
    let text = &files()["answer"];
    let columns = text.lines().filter(|line| line.starts_with("    ") && !line.trim_start().starts_with("--"));
    let column = |line: &str| {
        let (name, kind) = line.trim().trim_end_matches(',').split_once(' ').expect("a name and a type");
        (name.to_owned(), kind.to_owned())
    };
    columns.map(column).collect()
}

fn server_type(name: &str) -> String {
    match name {
        "bigint" => "INT8",
        "integer" => "INT4",
        "boolean" => "BOOL",
        other => return other.to_uppercase(),
    }
    .to_owned()
}

#[tokio::test]
async fn each_function_is_on_each_major_and_answers_the_columns_that_are_read() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let mut shell = place.shell().await;
        let list = "select p.proname::text, pg_get_function_identity_arguments(p.oid), p.prosecdef, p.prokind::text,
                coalesce(p.proconfig::text, '') from pg_proc p where p.pronamespace = 'fenced_ledger'::regnamespace";
        let rows = sqlx::query(place.sql(list)).fetch_all(&mut shell).await.expect("listed");
        let made: BTreeMap<String, (String, bool, String, String)> =
            rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3), row.get(4)))).collect();
        assert_eq!(made.len(), rows.len(), "no function is there twice");
        let mut of_files = 0;
        for (name, text) in files() {
            let makes = text.contains("create function") || text.contains("create or replace function");
            if !makes && !text.contains("create procedure") {
                continue;
            }
            of_files += 1;
            let (arguments, definer, kind, settings) =
                made.get(&name).unwrap_or_else(|| panic!("{name}.sql makes {name}"));
            assert_eq!(kind == "p", name.ends_with("_and_commit"), "{name}");
            // What runs with its owner's rights has a fixed search path, and what commits has neither.
            assert_eq!(
                *definer,
                settings.contains("search_path") && !text.contains(" stable set "),
                "{name}: {settings}"
            );
            assert!(!(kind == "p" && *definer), "{name}");
            let inputs: Vec<&str> = arguments
                .split(", ")
                .filter(|argument| !argument.is_empty() && !argument.starts_with("OUT "))
                .collect();
            let called: Vec<String> =
                inputs.iter().map(|input| format!("null::{}", input.rsplit(' ').next().expect("a type"))).collect();
            if kind == "p" || matches!(name.as_str(), "state" | "assert_fresh" | "bound_idle" | "refuse") {
                continue;
            }
            let statement = format!("select * from fenced_ledger.{name}({})", called.join(", "));
            let prepared = (&mut shell).prepare(sqlx::SqlSafeStr::into_sql_str(place.sql(&statement))).await;
            let prepared = prepared.unwrap_or_else(|error| panic!("{wanted}: {statement}: {error}"));
            let columns: Vec<(String, String)> = prepared
                .columns()
                .iter()
                .map(|column| (column.name().to_owned(), column.type_info().name().to_owned()))
                .collect();
            if text.contains("returns fenced_ledger.answer") {
                let expected: Vec<(String, String)> =
                    answer().into_iter().map(|(name, kind)| (name, server_type(&kind))).collect();
                assert_eq!(columns, expected, "{wanted}: {name}");
            }
        }
        assert_eq!(of_files, made.len(), "every function has its file");
        place.drop().await;
    }
}

#[tokio::test]
async fn a_procedure_has_the_arguments_of_its_function_and_the_columns_of_its_answer() {
    let place = Place::new(Wanted::OLDEST).await;
    for name in ["append", "claim", "renew", "release", "end_tenure", "advance", "record_rejection", "count_rejections"]
    {
        let arguments = |name: String| {
            let place = &place;
            async move {
                let sql = format!(
                    "select pg_get_function_identity_arguments(p.oid) from pg_proc p
                     where p.pronamespace = 'fenced_ledger'::regnamespace and p.proname = '{name}'"
                );
                place.value::<String>(&sql).await.replace("IN ", "")
            }
        };
        let function = arguments(name.to_owned()).await;
        let procedure = arguments(format!("{name}_and_commit")).await;
        let outs: Vec<String> = if name == "record_rejection" {
            vec!["OUT record text".to_owned()]
        } else if name == "count_rejections" {
            vec!["OUT counted bigint".to_owned()]
        } else {
            answer().iter().map(|(name, kind)| format!("OUT {name} {kind}")).collect()
        };
        assert_eq!(procedure, format!("{function}, {}", outs.join(", ")), "{name}");
    }
    place.drop().await;
}

#[tokio::test]
async fn the_other_statements_run_on_each_major() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        // `check` and the migration's statements ran when it was installed and opened; the grants by a role of its own.
        let ledger = place.open().await;
        claim(&ledger, "p", "a", seconds(5)).await;
        let role = format!("role_{}", place.schema.name());
        place.run(&format!("create role {role}")).await;
        place.run(&place.schema.grants(&role)).await;
        place.run(&place.schema.operator_grants(&role)).await;
        place.drop().await;
        place.run(&format!("drop role {role}")).await;
    }
}

/// The clock's arithmetic, over moments that are spread over all of its years: a double is not exact beyond them.
#[tokio::test]
async fn the_clock_tells_each_microsecond_from_the_next() {
    let text = files()["clock"].clone();
    let body = text.split("$$").nth(1).expect("a body").replace("pg_catalog.clock_timestamp()", "t.at");
    assert!(body.contains("t.at"), "{body}");
    let sql = format!(
        "select count(*), count(*) filter (where ({body}) <> (extract(epoch from t.at) * 1000000)::bigint) from (
            select timestamptz 'epoch' + random() * (timestamptz '2100-01-01' - timestamptz 'epoch') as at
            from generate_series(1, 200000)) t"
    );
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let mut shell = place.shell().await;
        let (compared, differ): (i64, i64) =
            sqlx::query_as(place.sql(&sql)).fetch_one(&mut shell).await.expect("compared");
        assert_eq!((compared, differ), (200_000, 0), "{wanted}");
        place.drop().await;
    }
}
