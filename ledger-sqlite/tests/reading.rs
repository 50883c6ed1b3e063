//! Goal: a stream keeps nothing open while its consumer does something else (D6), so the log of the file can be written
//! back and emptied meanwhile.

mod common;

use common::{Place, append, claim, event, hour, partition, soon};
use futures_util::TryStreamExt;
use ledger_core::{Append, Event, FencedLedger, FencedLedgerExt, Position};
use ledger_sqlite::SqliteLedger;

#[tokio::test]
async fn a_stream_that_waits_keeps_no_snapshot() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    for _ in 0..4 {
        let large = Append::new([event(&"x".repeat(900_000))]).expect("an append");
        ledger.append(&lease, &large).await.expect("appended");
    }
    let jobs = partition("jobs");
    let mut stream = ledger.events(&jobs, Position::FIRST);
    stream.try_next().await.expect("read");
    ledger.append(&lease, &append("meanwhile")).await.expect("appended");
    let shell = place.shell();
    // Busy while anybody reads an older state.
    let emptied = "PRAGMA wal_checkpoint(TRUNCATE)";
    soon("the log is emptied", async || {
        shell.query_row(emptied, [], |row| row.get::<_, i64>(0)).expect("a checkpoint") == 0
    })
    .await;
    let rest: Vec<Event> = stream.try_collect().await.expect("read");
    assert_eq!(rest.len(), 5);
}
