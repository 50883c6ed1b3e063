//! Goal: opening says clearly what is wrong with a file (S1), each cause met for real. Nothing is installed over what is
//! not a ledger.

mod common;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Place, append, claim, given_file, hour, process, texts};
use ledger_core::{Durability, FencedLedger};
use ledger_sqlite::{OpenError, SqliteLedger};

#[track_caller]
fn refused(file: &Path) -> OpenError {
    SqliteLedger::open(file).expect_err("opened")
}

#[tokio::test]
async fn a_new_file_becomes_a_ledger_and_says_what_it_is() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("a new file");
    let described = ledger.describe().await.expect("described");
    assert_eq!((described.engine.as_str(), described.durability), ("SQLite", Durability::MachineCrash));
    let again = SqliteLedger::open(&place.file).expect("the same file").describe().await.expect("described");
    assert_eq!(again.ledger, described.ledger);
    let shell = place.shell();
    let setting = |name: &str| shell.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("a pragma");
    assert_eq!((setting("application_id"), setting("user_version")), (0x464C_4544, 0));
}

#[tokio::test]
async fn weaker_durability_is_had_by_name_alone_and_is_told() {
    let place = Place::new();
    let options = || SqliteLedger::options();
    let ledger = options().durability(Durability::ProcessCrash).open(&place.file).expect("opened");
    assert_eq!(ledger.describe().await.expect("described").durability, Durability::ProcessCrash);
    let error = options().durability(Durability::Volatile).open(&place.file).expect_err("SQLite has none such");
    assert!(matches!(error, OpenError::Durability { .. }), "{error}");
}

#[test]
fn a_time_out_that_sqlite_can_not_count_is_refused() {
    let place = Place::new();
    for wanted in [Duration::MAX, Duration::from_millis(1 << 31)] {
        match SqliteLedger::options().busy_timeout(wanted).open(&place.file) {
            Err(OpenError::BusyTimeout { wanted: told, .. }) => assert_eq!(told, wanted),
            other => panic!("{other:?}"),
        }
    }
    assert!(!place.file.exists(), "nothing was made");
    let most = Duration::from_millis((1 << 31) - 1);
    SqliteLedger::options().busy_timeout(most).open(&place.file).expect("opened");
}

#[test]
fn what_names_no_file_is_refused() {
    for path in ["", ":memory:"] {
        assert!(matches!(refused(Path::new(path)), OpenError::NotAFile { .. }), "{path:?}");
    }
}

#[tokio::test]
async fn a_name_is_no_uri() {
    let place = Place::new();
    let odd = place.folder.path().join("file:odd?mode=memory&x=%41 'name'.db");
    drop(SqliteLedger::open(&odd).expect("a file with an odd name"));
    assert!(odd.exists());
}

#[test]
fn a_missing_directory_or_a_directory_can_not_be_opened() {
    let place = Place::new();
    for path in [place.folder.path().join("missing/ledger.db"), place.folder.path().to_owned()] {
        let error = refused(&path);
        assert!(matches!(error, OpenError::CannotOpen { .. }), "{error}");
        assert!(error.source().is_some(), "SQLite's own error is kept");
    }
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    for content in [&b"hello"[..], &[b'x'; 10_000][..]] {
        std::fs::write(&place.file, content).expect("written");
        assert!(matches!(refused(&place.file), OpenError::NotADatabase { .. }));
        assert_eq!(std::fs::read(&place.file).expect("read"), content);
    }
}

#[test]
fn a_database_of_another_application_is_refused_and_left_alone() {
    let place = Place::new();
    place.shell().execute_batch("PRAGMA application_id = 252006673; CREATE TABLE t (x)").expect("made");
    let before = std::fs::read(&place.file).expect("read");
    let error = refused(&place.file);
    assert!(matches!(&error, OpenError::ForeignFile { found, .. } if found.contains("0x0f055111")), "{error}");
    assert_eq!(std::fs::read(&place.file).expect("read"), before);
}

#[tokio::test]
async fn a_database_with_other_tables_takes_a_ledger_only_when_told_so() {
    let place = Place::new();
    place.shell().execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY); PRAGMA user_version = 7").expect("made");
    let error = refused(&place.file);
    assert!(matches!(&error, OpenError::ForeignFile { found, .. } if found.contains("1 tables")), "{error}");
    drop(SqliteLedger::options().install_beside_other_tables().open(&place.file).expect("told so"));
    // From now on it is a ledger's file, and the business tables' own version is untouched.
    let ledger = SqliteLedger::open(&place.file).expect("a ledger");
    claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let version: i64 = place.shell().pragma_query_value(None, "user_version", |row| row.get(0)).expect("a pragma");
    assert_eq!(version, 7);
}

#[test]
fn a_newer_layout_is_refused_with_both_versions() {
    let place = Place::new();
    drop(SqliteLedger::open(&place.file).expect("made"));
    place.shell().execute("INSERT INTO fenced_migration VALUES (9, 0, 'ledger-sqlite 9.0.0')", []).expect("edited");
    let error = refused(&place.file);
    assert!(matches!(error, OpenError::NewerSchema { found: 9, supported: 2, .. }), "{error}");
}

#[test]
fn an_altered_layout_is_refused_with_what_is_altered() {
    for (edit, object) in [
        ("DROP INDEX fenced_log_by_id", "index fenced_log_by_id"),
        ("CREATE TRIGGER t AFTER INSERT ON fenced_log BEGIN DELETE FROM fenced_rejection; END", "trigger t"),
        ("ALTER TABLE fenced_rejection ADD COLUMN extra TEXT", "table fenced_rejection"),
        ("DROP TABLE fenced_ledger", "table fenced_ledger"),
        ("DROP TABLE fenced_migration", "table fenced_migration"),
        ("CREATE UNIQUE INDEX i ON fenced_log (kind)", "index i"),
    ] {
        let place = Place::new();
        drop(SqliteLedger::open(&place.file).expect("made"));
        place.shell().execute_batch(edit).expect("edited");
        let error = refused(&place.file);
        assert!(matches!(&error, OpenError::AlteredSchema { object: found, .. } if found == object), "{edit}: {error}");
    }
}

#[test]
fn a_ledger_without_its_id_is_damaged() {
    let place = Place::new();
    drop(SqliteLedger::open(&place.file).expect("made"));
    place.shell().execute("DELETE FROM fenced_ledger", []).expect("edited");
    assert!(matches!(refused(&place.file), OpenError::Damaged { .. }));
}

#[tokio::test]
async fn a_file_left_in_another_journal_mode_is_brought_back_to_the_log() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("made");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.close().await;
    let shell = place.shell();
    let mode: String = shell.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).expect("changed");
    assert_eq!(mode, "delete");
    drop(shell);
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    ledger.append(&lease, &append("1")).await.expect("appended");
    let mode: String = place.shell().query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("read");
    assert_eq!(mode, "wal");
    assert_eq!(texts(&ledger, "jobs").await, ["1"]);
}

#[test]
fn a_file_whose_journal_mode_another_keeps_is_busy_within_the_time_out() {
    let place = Place::new();
    let shell = place.shell();
    shell.execute_batch("PRAGMA journal_mode = DELETE; CREATE TABLE t (x); BEGIN; SELECT * FROM t").expect("reading");
    let mut statement = shell.prepare("SELECT count(*) FROM sqlite_schema").expect("prepared");
    let _reads: i64 = statement.query_row([], |row| row.get(0)).expect("reads");
    let options = SqliteLedger::options().install_beside_other_tables().busy_timeout(Duration::from_millis(200));
    let error = options.open(&place.file).expect_err("another reads in the old mode");
    assert!(matches!(error, OpenError::Busy { .. }), "{error:?}");
}

#[test]
fn an_encoding_other_than_utf_8_is_refused() {
    let place = Place::new();
    place.shell().execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (x)").expect("made");
    let error = SqliteLedger::options().install_beside_other_tables().open(&place.file).expect_err("UTF-16");
    assert!(matches!(&error, OpenError::Pragma { name: "encoding", actual, .. } if actual == "UTF-16le"), "{error}");
}

#[tokio::test]
async fn a_network_file_system_is_refused_unless_told_so() {
    let place = Place::new();
    type Probe = fn(&Path) -> Option<u32>;
    let probes: [(Probe, &str); 3] =
        [(|_| Some(0x6969), "NFS"), (|_| Some(0xFF53_4D42), "CIFS"), (|_| Some(0x6573_5546), "FUSE")];
    for (probe, name) in probes {
        let options = || SqliteLedger::options().file_system_probe(probe);
        let error = options().open(&place.file).expect_err("a network file system");
        assert!(matches!(&error, OpenError::NetworkFileSystem { kind, .. } if kind.starts_with(name)), "{error}");
        assert!(!place.file.exists(), "nothing is made there");
        drop(options().allow_network_file_system().open(&place.file).expect("told so"));
        std::fs::remove_file(&place.file).expect("removed");
    }
}

/// As root nothing is read-only by its mode, so the child gives its rights up.
#[test]
fn a_file_or_a_directory_that_may_only_be_read_is_told_apart() {
    let place = Place::new();
    drop(SqliteLedger::open(&place.file).expect("made"));
    let set = |path: &Path, mode: &str| {
        assert!(Command::new("chmod").arg(mode).arg(path).status().expect("chmod").success());
    };
    // (file, directory)
    for (file, folder, expected) in [("444", "755", "ReadOnly"), ("666", "555", "NoLog"), ("000", "755", "CannotOpen")]
    {
        // The log of the last use is gone with its last connection, so one has to be made.
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", place.file.display()));
        }
        set(&place.file, file);
        set(place.folder.path(), folder);
        let child = if is_root() {
            let by = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--"];
            common::wrapped(&by, "opens_and_says_why_not", &place.file, &[])
        } else {
            process("opens_and_says_why_not", &place.file, &[])
        };
        let output = child.wait_with_output().expect("ended");
        set(place.folder.path(), "755");
        set(&place.file, "644");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(&format!("REFUSED {expected}")), "file {file}, directory {folder}: {said}");
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn opens_and_says_why_not() {
    match SqliteLedger::options().busy_timeout(Duration::from_millis(100)).open(given_file()) {
        Ok(_) => println!("OPENED"),
        Err(error) => println!("REFUSED {error:?}"),
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id");
    output.stdout.starts_with(b"0\n")
}

/// S3: many processes at once install one ledger.
#[test]
fn many_processes_that_open_a_new_file_at_once_make_one_ledger() {
    let place = Place::new();
    let children: Vec<_> = (0..8).map(|_| process("opens_and_says_its_id", &place.file, &[])).collect();
    let mut ids = Vec::new();
    for child in children {
        let said = child.wait_with_output().expect("ended").stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let id = said.split("LEDGER ").nth(1).unwrap_or_else(|| panic!("{said}"));
        ids.push(id.split_whitespace().next().unwrap_or_default().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let steps: i64 =
        place.shell().query_row("SELECT count(*) FROM fenced_migration", [], |row| row.get(0)).expect("read");
    assert_eq!(steps, 2);
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn opens_and_says_its_id() {
    let ledger = SqliteLedger::open(given_file()).expect("opened");
    println!("LEDGER {}", ledger.describe().await.expect("described").ledger);
}
