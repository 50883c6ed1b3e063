//! Goal: a file of an earlier layout is brought to the newest when it is opened, and nothing of it is lost (S3).
//!
//! Method: the file is made by the SQL of that version, kept beside this test, with what a ledger of today has written.

mod common;

use common::{Place, append, claim, holder, hour, partition};
use ledger_core::{Advance, FencedLedger, FencedLedgerExt, Note, PageSize, Position, Reason, Verification};
use ledger_sqlite::SqliteLedger;
use rusqlite::Connection;

const VERSION_1: &str = include_str!("layouts/version_1.sql");

/// Its tables but `fenced_migration`, which says what it is.
const TABLES: [&str; 4] = ["fenced_ledger", "fenced_partition", "fenced_log", "fenced_rejection"];

/// Makes a file of version 1 that has the rows of another.
fn version_1(place: &Place, rows: &Place) {
    let shell = Connection::open(&place.file).expect("a file");
    shell.pragma_update(None, "journal_mode", "wal").expect("a pragma");
    shell.execute_batch(VERSION_1).expect("made");
    shell.pragma_update(None, "application_id", 0x464C_4544).expect("a pragma");
    shell.execute("ATTACH ?1 AS rows", [rows.file.to_str().expect("a plain path")]).expect("attached");
    for table in TABLES {
        shell.execute(&format!("INSERT INTO main.{table} SELECT * FROM rows.{table}"), []).expect(table);
    }
    shell.execute("INSERT INTO fenced_migration VALUES (1, 0, 'ledger-sqlite 0.1.0')", []).expect("said");
}

#[tokio::test]
async fn a_file_of_version_1_is_brought_on_with_all_that_it_has() {
    let (before, place) = (Place::new(), Place::new());
    let (lease, events) = {
        let ledger = SqliteLedger::open(&before.file).expect("made");
        let old = claim(&ledger, "p", "a", hour()).await.expect("claimed");
        ledger.append(&old, &append("one")).await.expect("appended");
        ledger.release(&old).await.expect("released");
        let lease = claim(&ledger, "p", "b", hour()).await.expect("claimed");
        ledger.append(&old, &append("late")).await.expect_err("stale");
        let events = ledger.read(&partition("p"), Position::FIRST, PageSize::MAX).await.expect("read").events;
        (lease, events)
    };
    version_1(&place, &before);

    let ledger = SqliteLedger::open(&place.file).expect("brought on");
    let versions: i64 =
        place.shell().query_row("SELECT max(version) FROM fenced_migration", [], |row| row.get(0)).expect("read");
    assert_eq!(versions, 2);
    let after = ledger.read(&partition("p"), Position::FIRST, PageSize::MAX).await.expect("read").events;
    assert_eq!(after, events);
    assert_eq!(ledger.rejections(Some(&partition("p")), None, PageSize::MAX).await.expect("read").records.len(), 1);
    ledger.append(&lease, &append("two")).await.expect("the lease goes on");
    // What the new layout is for.
    let advance = Advance::new(partition("p"), holder("operator"), None, Note::new("moved").expect("a note"));
    ledger.advance(&advance).await.expect("advanced");
    let again = ledger.advance(&advance).await.expect("answered as before");
    assert!(again.replayed);
    let refused = ledger.append(&lease, &append("three")).await.expect_err("over");
    assert_eq!(refused.rejection().map(|rejection| rejection.reason), Some(Reason::StaleGeneration));
    assert!(matches!(ledger.verify(&partition("p"), None).await, Ok(Verification::Clean { .. })));
}
