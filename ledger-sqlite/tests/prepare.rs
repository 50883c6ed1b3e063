//! Every `.sql` file prepares on an installed ledger, and returns the columns that the code reads in their order.

mod common;

use std::collections::BTreeMap;

use common::Place;
use ledger_sqlite::SqliteLedger;

/// The columns of each statement; none where it returns no rows. Written down here by hand.
const COLUMNS: [(&str, &str); 27] = [
    ("advance_taken", "position entry_id first generation holder acquisition recorded_at content chain payload"),
    ("begin", ""),
    ("claims_from", "position generation holder acquisition payload"),
    ("commit", ""),
    ("count_record", "count"),
    ("entry_at", "position entry_id first generation holder acquisition recorded_at content chain"),
    ("entry_by_id", "position entry_id first generation holder acquisition recorded_at content chain"),
    ("insert_event", ""),
    ("insert_ledger", ""),
    ("insert_migration", ""),
    ("insert_partition", ""),
    ("insert_record", ""),
    ("ledger_id", "id"),
    ("lock", ""),
    (
        "page_backward",
        "position entry_id first generation holder acquisition recorded_at content chain kind metadata payload",
    ),
    (
        "page_forward",
        "position entry_id first generation holder acquisition recorded_at content chain kind metadata payload",
    ),
    (
        "page_of_kind",
        "position entry_id first generation holder acquisition recorded_at content chain kind metadata payload",
    ),
    ("partitions", "name"),
    (
        "records",
        "scope generation slot partition_name operation reason holder presented remark acquisition append_id current_holder \
         current_acquisition current_expires_at revision count first_at last_at",
    ),
    ("records_of_budget", "slot partition_name operation reason holder presented remark"),
    ("schema", ""),
    ("schema_objects", "type name sql"),
    ("schema_version", "version"),
    (
        "standing",
        "partition generation holder acquisition ttl expires_at vacancy vacancy_reason renewals recorded_at head chain \
         position entry_id first generation holder acquisition recorded_at content chain",
    ),
    (
        "tail",
        "last position entry_id first generation holder \
         acquisition recorded_at content chain",
    ),
    ("update_partition", ""),
    ("version_2", ""),
];

#[test]
fn every_statement_prepares_and_has_the_columns_that_are_read() {
    let place = Place::new();
    let _ledger = SqliteLedger::open(&place.file).expect("a new file");
    let shell = place.shell();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql");
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("the folder") {
        let path = file.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        files.insert(name, std::fs::read_to_string(&path).expect("text"));
    }
    let known: BTreeMap<_, _> = COLUMNS.into_iter().collect();
    assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), known.keys().copied().collect::<Vec<_>>());
    for (name, sql) in files {
        assert!(sql.starts_with("-- "), "{name}.sql does not say what it is for");
        // The layout is several statements: opening has run it.
        if name == "schema" || name == "version_2" {
            continue;
        }
        let statement = shell.prepare(&sql).unwrap_or_else(|error| panic!("{name}.sql: {error}"));
        let column = |nth| statement.column_name(nth).expect("a column").to_owned();
        let columns = (0..statement.column_count()).map(column).collect::<Vec<_>>().join(" ");
        assert_eq!(columns, known[name.as_str()], "the columns of {name}.sql");
        let header = sql.lines().take_while(|line| line.starts_with("--")).collect::<String>();
        let is_rule = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            word.len() >= 2 && word.starts_with(|c: char| "TGCRAJEUIDS".contains(c)) && word[1..].parse::<u8>().is_ok()
        };
        assert!(header.split_whitespace().any(is_rule), "{name}.sql names no rule");
    }
}

#[test]
fn no_statement_of_a_judgement_scans_a_table() {
    let place = Place::new();
    let _ledger = SqliteLedger::open(&place.file).expect("a new file");
    let shell = place.shell();
    for name in [
        "standing",
        "entry_by_id",
        "entry_at",
        "claims_from",
        "page_forward",
        "page_backward",
        "page_of_kind",
        "partitions",
        "records",
        "records_of_budget",
        "update_partition",
        "count_record",
    ] {
        let sql = std::fs::read_to_string(format!("{}/src/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"))).expect("text");
        let mut plan = shell.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a plan");
        let count = plan.parameter_count();
        let steps: Vec<String> = plan
            .query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3))
            .expect("a plan")
            .collect::<Result<_, _>>()
            .expect("a plan");
        for step in steps {
            assert!(!step.starts_with("SCAN") || step.contains("CONSTANT"), "{name}.sql: {step}");
            assert!(!step.contains("TEMP B-TREE"), "{name}.sql sorts: {step}");
        }
    }
}
