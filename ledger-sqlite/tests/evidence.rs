//! Goal: the evidence of a writer that was fenced off and goes on in a loop costs no write for each try (E3, E4), and is
//! durable all the same (E2); a remark is kept as it is (E1).

mod common;

use std::time::{Duration, Instant};

use common::{Place, append, claim, given_file, holder, hour, process, reason, records, soon};
use ledger_core::{
    FencedLedger, Lease, LedgerError, MAX_REMARK_BYTES, PageSize, Reason, RecordSlot, RecordState, Remark,
};
use ledger_sqlite::SqliteLedger;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

fn copy_pages(from: &Connection, to: &mut Connection) {
    let backup = Backup::new(from, to).expect("a backup");
    while backup.step(-1).expect("copied") != StepResult::Done {
        std::thread::yield_now();
    }
}

async fn fenced_off(ledger: &SqliteLedger) -> Lease {
    let old = claim(ledger, "jobs", "a", hour()).await.expect("claimed");
    ledger.release(&old).await.expect("released");
    claim(ledger, "jobs", "b", hour()).await.expect("claimed");
    old
}

async fn record_of(ledger: &SqliteLedger, lease: &Lease) -> RecordState {
    match ledger.append(lease, &append("late")).await {
        Err(LedgerError::Rejected(rejection)) => rejection.record,
        other => panic!("{other:?}"),
    }
}

/// What the file has, as another process sees it.
fn stored(shell: &Connection) -> Vec<i64> {
    let mut rows =
        shell.prepare("SELECT count FROM fenced_rejection ORDER BY scope, generation, slot").expect("prepared");
    rows.query_map([], |row| row.get(0)).expect("read").collect::<Result<_, _>>().expect("read")
}

#[tokio::test]
async fn a_loop_of_refusals_commits_at_most_twice_a_second() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    assert_eq!(record_of(&ledger, &old).await, RecordState::Stored);
    let shell = place.shell();
    // It moves with each commit of another connection that wrote something.
    let version = || shell.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).expect("read");
    let (start, mut commits, mut refusals, mut last) = (Instant::now(), 0, 0_u64, version());
    // On a slow disk one of them may take longer than that.
    while start.elapsed() < Duration::from_millis(1_600) || commits == 0 {
        assert_eq!(record_of(&ledger, &old).await, RecordState::Counted);
        refusals += 1;
        let now = version();
        commits += u128::from(now != last);
        last = now;
    }
    assert!(refusals > 100, "only {refusals}");
    let most = start.elapsed().as_millis() / 500 + 2;
    assert!(commits <= most, "{commits} commits for {refusals} refusals, at most {most}");
    assert_eq!(records(&ledger, "jobs").await[0].count, refusals + 1, "what is counted shows at once");
    let all = i64::try_from(refusals).expect("few") + 1;
    soon("the counts are in the file", async || stored(&shell) == [all]).await;
}

#[tokio::test]
async fn repeats_of_a_record_that_a_restored_copy_has_not_are_recorded_anew() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    let mut another = old.clone();
    another.holder = holder("another");
    let mut copy = Connection::open_in_memory().expect("a database");
    copy_pages(&place.shell(), &mut copy);
    assert_eq!(record_of(&ledger, &old).await, RecordState::Stored);
    copy_pages(&copy, &mut place.shell());
    // The place of the lost record is taken by another handle's.
    let second = SqliteLedger::open(&place.file).expect("opened");
    assert_eq!(record_of(&second, &another).await, RecordState::Stored);
    for _ in 0..3 {
        assert_eq!(record_of(&ledger, &old).await, RecordState::Counted);
    }
    soon("the repeats have a record of their own", async || stored(&place.shell()) == [1, 3]).await;
    let names: Vec<_> = records(&second, "jobs").await.into_iter().filter_map(|record| record.refused).collect();
    assert_eq!(names.iter().map(|refused| refused.holder.as_str()).collect::<Vec<_>>(), ["another", "a"]);
}

#[tokio::test]
async fn counts_that_can_not_be_written_fail_nobodys_append() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    let lease = claim(&ledger, "healthy", "a", hour()).await.expect("claimed");
    assert_eq!(record_of(&ledger, &old).await, RecordState::Stored);
    let shell = place.shell();
    shell
        .execute_batch(
            "CREATE TRIGGER no_counts BEFORE UPDATE ON fenced_rejection BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .expect("made");
    let start = Instant::now();
    while start.elapsed() < 3 * Duration::from_millis(500) {
        assert_eq!(record_of(&ledger, &old).await, RecordState::Counted);
        ledger.append(&lease, &append("good")).await.expect("appended");
    }
    shell.execute_batch("DROP TRIGGER no_counts").expect("dropped");
    soon("the counts are in the file", async || stored(&shell)[0] > 1).await;
}

#[tokio::test]
async fn the_first_record_of_a_key_is_in_the_file_when_the_refusal_is_answered() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    let shell = place.shell();
    for number in 0..20_i64 {
        let mut other = old.clone();
        other.holder = holder(&format!("h{number}"));
        assert_eq!(record_of(&ledger, &other).await, RecordState::Stored);
        assert_eq!(i64::try_from(stored(&shell).len()).expect("few"), number + 1);
    }
}

/// As long as a remark may be, of characters that an engine, a protocol or a literal could take for its own.
fn longest_remark() -> Remark {
    let mut text = String::new();
    for character in "'\"\\ \\x41 \\' $$ $1 %s -- ; é \u{a0} \u{1f692} ".chars().cycle() {
        if text.len() + character.len_utf8() > MAX_REMARK_BYTES {
            break;
        }
        text.push(character);
    }
    text.extend(std::iter::repeat_n('\'', MAX_REMARK_BYTES - text.len()));
    Remark::new(text).expect("just at the limit")
}

#[tokio::test]
async fn a_remark_comes_back_byte_for_byte_by_every_way_in() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    let late = || append("late").remarking(longest_remark());
    let record = |answer: ledger_core::Result<_>| match answer {
        Err(LedgerError::Rejected(rejection)) => rejection.record,
        other => panic!("{other:?}"),
    };
    assert_eq!(record(ledger.append(&old, &late()).await.map(drop)), RecordState::Stored);
    assert_eq!(record_of(&ledger, &old).await, RecordState::Stored, "without one it is another key");
    // A handle that has yet to learn what is stored.
    let other = SqliteLedger::open(&place.file).expect("opened");
    assert_eq!(record(other.append(&old, &late()).await.map(drop)), RecordState::Counted);
    // Out of a caller's transaction it is the same key; with another holder it is one of its own.
    let mut forged = old.clone();
    forged.holder = holder("z");
    let mut shell = place.shell();
    for (by, state) in [(&old, RecordState::Counted), (&forged, RecordState::Stored)] {
        let transaction = shell.transaction().expect("begun");
        let refused = other.append_in(&transaction, by, &late()).expect_err("fenced off");
        transaction.rollback().expect("rolled back");
        let carried = refused.rejection().expect("a refusal");
        assert_eq!(other.record_rejection(carried).await.expect("kept"), state);
    }
    ledger.close().await;
    other.close().await;
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    // From a slot that no record has, as a page of one generation begins.
    let start = Some(RecordSlot::new(old.generation.next(), 0));
    let found = ledger.rejections(Some(&old.partition), start, PageSize::MAX).await.expect("read").records;
    let seen: Vec<_> = found
        .iter()
        .map(|record| (record.count, record.refused.as_ref().and_then(|refused| refused.remark.clone())))
        .collect();
    assert_eq!(seen, [(3, Some(longest_remark())), (1, None), (1, Some(longest_remark()))]);
}

/// Two handles, as two processes are: both count into one record.
#[tokio::test]
async fn counts_of_two_handles_add_up() {
    let place = Place::new();
    let (one, two) =
        (SqliteLedger::open(&place.file).expect("opened"), SqliteLedger::open(&place.file).expect("opened"));
    let old = fenced_off(&one).await;
    assert_eq!(record_of(&one, &old).await, RecordState::Stored);
    for _ in 0..50 {
        assert_eq!(record_of(&one, &old).await, RecordState::Counted);
        assert_eq!(record_of(&two, &old).await, RecordState::Counted);
    }
    one.close().await;
    two.close().await;
    assert_eq!(stored(&place.shell()), [101]);
}

/// No reader counts twice what is just moving from memory to the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_never_more_than_what_was_refused_and_never_falls() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    record_of(&ledger, &old).await;
    let (writer, lease) = (ledger.clone(), old.clone());
    let refused = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(1));
    let counter = refused.clone();
    let zombie = tokio::spawn(async move {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            record_of(&writer, &lease).await;
        }
    });
    let mut last = 0;
    while !zombie.is_finished() {
        let seen = records(&ledger, "jobs").await[0].count;
        assert!(seen >= last, "{seen} after {last}");
        assert!(seen <= refused.load(std::sync::atomic::Ordering::SeqCst));
        last = seen;
    }
    zombie.await.expect("no panic");
    assert_eq!(records(&ledger, "jobs").await[0].count, refused.load(std::sync::atomic::Ordering::SeqCst));
}

/// E2, E3: a kill takes at most the last second of counting, and never the record.
#[tokio::test]
async fn a_killed_process_leaves_the_record_of_its_refusal() {
    let place = Place::new();
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    let old = fenced_off(&ledger).await;
    let text = format!("{} {}", old.ledger, old.acquisition);
    let mut child = process("hammers", &place.file, &[("LEASE", &text)]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
    assert!(lines.any(|line| line.expect("text").contains("REFUSED")));
    child.kill().expect("killed");
    child.wait().expect("gone");
    let found = records(&ledger, "jobs").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].refused.as_ref().map(|refused| refused.reason), Some(Reason::StaleGeneration));
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn hammers() {
    let text = std::env::var("LEASE").expect("given");
    let (id, acquisition) = text.split_once(' ').expect("two ids");
    let uuid = |text: &str| uuid::Uuid::parse_str(text).expect("a UUID");
    let lease = Lease::new(
        ledger_core::LedgerId::from_uuid(uuid(id)).expect("an id"),
        common::partition("jobs"),
        holder("a"),
        ledger_core::Generation::FIRST,
        ledger_core::AcquisitionId::from_uuid(uuid(acquisition)).expect("an id"),
        hour(),
        ledger_core::Timestamp::from_micros(0),
    );
    let ledger = SqliteLedger::open(given_file()).expect("opened");
    loop {
        assert_eq!(reason(ledger.append(&lease, &append("late")).await), Reason::StaleGeneration);
        println!("REFUSED");
    }
}
