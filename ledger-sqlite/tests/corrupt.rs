//! Goal: a damaged file is `Corrupt` or refused at open; never a panic, never a log that `verify` calls clean, and never
//! an event that was not appended. Method: bytes of real pages are overwritten, and rows are edited in every column.

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{Place, append, claim, event, holder, hour, partition};
use ledger_core::{
    Advance, Append, Fault, FencedLedger, FencedLedgerExt, LedgerError, Note, PageSize, Position, Reason, Verification,
};
use ledger_sqlite::{OpenError, SqliteLedger};
use rusqlite::Connection;

const PAGE: u64 = 4_096;

fn many(text: &str, count: usize) -> Append {
    Append::new((0..count).map(|number| event(&format!("{text}-{number}"))).collect::<Vec<_>>()).expect("an append")
}

/// A log of some hundred pages, all of them in the database file and none in its `-wal`.
async fn filled(place: &Place) -> ledger_core::Lease {
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    for number in 0..60 {
        ledger.append(&lease, &many(&format!("{number}-{}", "x".repeat(300)), 10)).await.expect("appended");
    }
    ledger.close().await;
    assert!(!Path::new(&format!("{}-wal", place.file.display())).exists(), "the last connection took the log away");
    lease
}

/// What a look at the whole ledger says.
#[derive(Debug, PartialEq)]
enum Seen {
    Clean,
    Broken,
    Corrupt,
    RefusedAtOpen,
}

async fn look(file: &Path, lease: &ledger_core::Lease) -> Seen {
    let ledger = match SqliteLedger::open(file) {
        Ok(ledger) => ledger,
        Err(
            OpenError::Damaged { .. }
            | OpenError::NotADatabase { .. }
            | OpenError::AlteredSchema { .. }
            | OpenError::ForeignFile { .. }
            | OpenError::Pragma { .. }
            | OpenError::Other { .. },
        ) => return Seen::RefusedAtOpen,
        Err(other) => panic!("{other:?}"),
    };
    // A write may be granted where the damage lies elsewhere; where it is not, it says that nothing was written.
    match ledger.append(lease, &append("after the damage")).await {
        Ok(_) | Err(LedgerError::Corrupt { .. } | LedgerError::Rejected(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
    let seen = match ledger.verify(&partition("jobs"), None).await {
        Ok(Verification::Clean { .. }) => Seen::Clean,
        Ok(Verification::Broken { .. }) => Seen::Broken,
        Err(LedgerError::Corrupt { partition: named, .. }) => {
            assert_eq!(named, Some(partition("jobs")));
            Seen::Corrupt
        }
        Err(other) => panic!("{other:?}"),
    };
    ledger.close().await;
    seen
}

#[tokio::test]
async fn a_page_overwritten_anywhere_is_never_taken_for_a_clean_log() {
    let place = Place::new();
    let lease = filled(&place).await;
    let whole = std::fs::read(&place.file).expect("read");
    let pages = whole.len() as u64 / PAGE;
    assert!(pages > 50, "{pages}");
    let texts_at = |content: &[u8]| content.windows(4).filter(|bytes| bytes == b"xxxx").count() > 100;
    for (name, filling) in [("zeros", 0_u8), ("noise", 0xA7)] {
        let (mut broken, mut harmless) = (0, 0);
        for page in (0..pages).step_by(3) {
            std::fs::write(&place.file, &whole).expect("restored");
            let file = std::fs::OpenOptions::new().write(true).open(&place.file).expect("opened");
            file.write_all_at(&[filling; PAGE as usize], page * PAGE).expect("overwritten");
            let start = usize::try_from(page * PAGE).expect("small");
            let held_events = texts_at(&whole[start..start + PAGE as usize]);
            match look(&place.file, &lease).await {
                // A page of an index or of another table, which the walk does not touch.
                Seen::Clean => {
                    assert!(!held_events, "page {page} of {name} held events, and the log is called clean");
                    harmless += 1;
                }
                _ => broken += 1,
            }
        }
        assert!(broken > harmless, "{name}: {broken} seen, {harmless} harmless");
    }
}

#[tokio::test]
async fn one_bit_of_a_payload_is_found_and_its_position_named() {
    let place = Place::new();
    filled(&place).await;
    let mut content = std::fs::read(&place.file).expect("read");
    let needle = b"31-xxxxxxxx";
    let at = content.windows(needle.len()).position(|bytes| bytes == needle).expect("the text of append 31");
    content[at + 5] ^= 1;
    std::fs::write(&place.file, content).expect("written");
    let ledger = SqliteLedger::open(&place.file).expect("SQLite sees nothing");
    let found = ledger.verify(&partition("jobs"), None).await.expect("verified");
    // The claim stands at 1, and each append has 10 events.
    let first = Position::new(2 + 31 * 10).expect("a position");
    assert_eq!(found, Verification::Broken { position: first, fault: Fault::Content });
}

#[tokio::test]
async fn a_truncated_file_is_damaged() {
    let place = Place::new();
    let lease = filled(&place).await;
    let whole = std::fs::read(&place.file).expect("read");
    // Of 0 bytes, or 1, SQLite makes an empty database: such a loss shows as another ledger.
    for keep in [2, 100, 4_096, 4_097, whole.len() / 2, whole.len() - 4_096] {
        std::fs::write(&place.file, &whole[..keep]).expect("cut");
        let seen = look(&place.file, &lease).await;
        assert_ne!(seen, Seen::Clean, "{keep} of {} bytes", whole.len());
    }
}

/// Every column of the log, edited on the row of an entry's end and on one in its middle: named at the entry's first
/// position, or at the event's own.
#[tokio::test]
async fn every_edited_column_is_named_at_its_entry() {
    let ends: [(&str, &str); 17] = [
        ("entry_id", "x'01020304050607080910111213141516'"),
        ("entry_id", "NULL"),
        ("entry_id", "x'00'"),
        ("first", "first + 1"),
        ("first", "first - 1"),
        ("first", "NULL"),
        ("generation", "2"),
        ("generation", "-1"),
        ("holder", "'b'"),
        ("holder", "' '"),
        ("acquisition", "x'01020304050607080910111213141516'"),
        ("recorded_at", "recorded_at + 1"),
        ("content", "zeroblob(32)"),
        ("chain", "zeroblob(32)"),
        ("kind", "'other'"),
        ("metadata", "'{\"x\":1}'"),
        ("payload", "'2'"),
    ];
    // Entries: the claim at 1, then 2 to 4, 5 to 7, 8 to 10. Edited is 5 to 7, and then the newest.
    for (end, first) in [(7, 5), (10, 8)] {
        for (column, value) in ends {
            let found = edited(&format!("UPDATE fenced_log SET {column} = {value} WHERE position = {end}")).await;
            let Ok(Verification::Broken { position, .. }) = found else { panic!("{column} = {value}: {found:?}") };
            let near = (first - 1..=end).contains(&position.get());
            assert!(near, "{column} = {value} at {end}: named {position}");
        }
    }
    for edit in [
        "UPDATE fenced_log SET payload = 'x' WHERE position = 6",
        "UPDATE fenced_log SET kind = '' WHERE position = 6",
        "UPDATE fenced_log SET first = 5, generation = 1 WHERE position = 6",
        "DELETE FROM fenced_log WHERE position = 6",
        "DELETE FROM fenced_log WHERE position BETWEEN 5 AND 7",
        "UPDATE fenced_log SET position = 60 WHERE position = 6",
    ] {
        let found = edited(edit).await;
        let Ok(Verification::Broken { position, .. }) = found else { panic!("{edit}: {found:?}") };
        assert!((5..=6).contains(&position.get()), "{edit}: named {position}");
    }
    for edit in [
        "DELETE FROM fenced_log WHERE position > 7",
        "DELETE FROM fenced_log WHERE position > 8",
        "DELETE FROM fenced_log",
    ] {
        let found = edited(edit).await;
        assert!(!matches!(found, Ok(Verification::Clean { .. })), "{edit}: {found:?}");
    }
}

async fn edited(edit: &str) -> ledger_core::Result<Verification> {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    for number in 0..3 {
        ledger.append(&lease, &many(&number.to_string(), 3)).await.expect("appended");
    }
    // So that the lease knows of the end, and a cut tail is told from a short log.
    ledger.renew(&lease, None).await.expect("renewed");
    let changed = Connection::open(&place.file).and_then(|shell| shell.execute(edit, [])).expect("edited");
    assert!(changed > 0, "{edit} met no row");
    ledger.verify(&partition("jobs"), None).await
}

#[tokio::test]
async fn an_edited_lease_that_can_not_be_one_is_corrupt_for_reads_and_writes_and_the_others_go_on() {
    for edit in [
        "generation = 0",
        "holder = ''",
        "acquisition = x'00'",
        "ttl = -5",
        "vacancy = 'gone'",
        "head = 0",
        "chain = x'00'",
        "renewals = -1",
    ] {
        let place = Place::new();
        let ledger = SqliteLedger::open(&place.file).expect("opened");
        let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
        let other = claim(&ledger, "other", "a", hour()).await.expect("claimed");
        let shell = place.shell();
        shell.execute(&format!("UPDATE fenced_partition SET {edit} WHERE name = 'jobs'"), []).expect("edited");
        let (sent, fine) = (append("1"), append("2"));
        // In one group: the good member is not drawn into it.
        let (bad, good) = tokio::join!(ledger.append(&lease, &sent), ledger.append(&other, &fine));
        assert!(
            matches!(&bad, Err(LedgerError::Corrupt { partition: Some(p), .. }) if *p == partition("jobs")),
            "{edit}: {bad:?}"
        );
        good.unwrap_or_else(|error| panic!("{edit}: {error}"));
        let read = ledger.read(&partition("jobs"), Position::FIRST, PageSize::default()).await;
        assert!(matches!(read, Err(LedgerError::Corrupt { .. })), "{edit}: {read:?}");
    }
}

/// U1: a row that is in the way is corruption, never a rejection, and a dropped table neither.
#[tokio::test]
async fn a_constraint_that_is_met_is_corrupt_and_the_handle_goes_on() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let shell = place.shell();
    // The partition forgotten, its log not: a first claim meets a position that is taken.
    shell.execute("DELETE FROM fenced_partition", []).expect("edited");
    let again = claim(&ledger, "jobs", "a", hour()).await;
    assert!(matches!(again, Err(LedgerError::Corrupt { .. })), "{again:?}");
    shell.execute("DELETE FROM fenced_log", []).expect("edited");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("the handle goes on");
    shell.execute_batch("DROP TABLE fenced_log").expect("edited");
    let lost = ledger.append(&lease, &append("1")).await;
    assert!(matches!(lost, Err(LedgerError::Corrupt { .. })), "{lost:?}");
}

/// I4: what has diverged is ended by an advance, also where the newest entry is beyond reading.
#[tokio::test]
async fn an_advance_goes_on_from_the_last_entry_that_can_be_read() {
    for edit in ["acquisition = zeroblob(3)", "holder = ''", "first = position + 1", "chain = x'00'"] {
        let place = Place::new();
        let ledger = SqliteLedger::open(&place.file).expect("opened");
        let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
        let whole = ledger.append(&lease, &append("1")).await.expect("appended").entry;
        for number in 0..2 {
            ledger.append(&lease, &many(&number.to_string(), 2)).await.expect("appended");
        }
        let sql = format!("UPDATE fenced_log SET {edit} WHERE position > 2 AND first IS NOT NULL");
        assert_eq!(place.shell().execute(&sql, []).expect("edited"), 2);
        let refused = ledger.append(&lease, &append("2")).await;
        assert!(
            matches!(&refused, Err(LedgerError::Rejected(rejection)) if rejection.reason == Reason::Diverged),
            "{edit}: {refused:?}"
        );
        let why = Note::new("two entries were edited").expect("a note");
        let advance = Advance::new(partition("jobs"), holder("operator"), None, why);
        let advanced = ledger.advance(&advance).await.unwrap_or_else(|error| panic!("{edit}: {error}"));
        assert_eq!(advanced.position.get(), 7, "{edit}: after all that is there");
        let next = claim(&ledger, "jobs", "b", hour()).await.expect("claimed");
        ledger.append(&next, &append("3")).await.expect("appended");
        let Verification::Broken { position, .. } = ledger.verify(&partition("jobs"), None).await.expect("verified")
        else {
            panic!("{edit}: clean")
        };
        assert!(position > whole.last && position.get() <= 4, "{edit}: {position}");
    }
}
