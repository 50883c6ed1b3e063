//! A SQLite file edited at random: every call gives an error or the right answer, in its time, and an edited log is
//! never called clean.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use ledger_core::{
    Append, Claim, Durability, Event, FencedLedger, FencedLedgerExt, Holder, Mark, NewEvent, Observation, PageSize,
    PartitionId, Position, Ttl, Verification,
};
use ledger_sqlite::SqliteLedger;

pub(crate) const SEEDS: &[&[u8]] = &[b"", &[0, 20, 0, 3, 255], &[0, 1, 0, 100, 0, 0, 2, 0, 7, 9], &[255, 255, 0, 0, 1]];

/// A call that takes longer hangs. The busy timeout of the edited file's handle is far below.
const IN_TIME: Duration = Duration::from_secs(20);

/// A file of some pages, and what is in it.
struct Template {
    bytes: Vec<u8>,
    partition: PartitionId,
    mark: Mark,
    events: Vec<Event>,
}

/// Edits of five bytes: a place in the file (three bytes, the first of which is a part of the whole, in 256ths), how
/// long, and what is written there. An edit of length 0 cuts the file.
pub(crate) fn run(data: &[u8]) {
    judge(data);
}

/// How far an edited file got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the three ways there are")]
pub enum Judged {
    /// It could not be opened.
    Refused,
    /// `verify` failed, or named a position.
    Broken,
    /// `verify` said clean, and the log was as it had been.
    Clean,
}

/// Edits a file and uses it.
///
/// # Panics
///
/// Where an edited log is called clean, what was acknowledged can not be read, or a call takes too long.
pub fn judge(data: &[u8]) -> Judged {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    let template = TEMPLATE.get_or_init(make);
    let mut bytes = template.bytes.clone();
    for edit in data.chunks_exact(5).take(16) {
        let start = bytes.len() * usize::from(edit[0]) / 256;
        let at = start + usize::from(edit[1]) * 256 + usize::from(edit[2]);
        if edit[3] == 0 {
            bytes.truncate(at.max(1));
        } else {
            bytes.iter_mut().skip(at).take(usize::from(edit[3])).for_each(|byte| *byte = edit[4]);
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ledger.db");
    std::fs::write(&file, &bytes).expect("a file can be written");
    let start = Instant::now();
    let judged = use_all(&file, template);
    assert!(start.elapsed() < IN_TIME, "took {:?}", start.elapsed());
    judged
}

fn use_all(file: &Path, template: &Template) -> Judged {
    let options = SqliteLedger::options().durability(Durability::ProcessCrash);
    let Ok(ledger) = options.busy_timeout(Duration::from_millis(500)).open(file) else { return Judged::Refused };
    let partition = &template.partition;
    let mut judged = Judged::Broken;
    if matches!(block_on(ledger.verify(partition, Some(template.mark))), Ok(Verification::Clean { .. })) {
        let events = read(&ledger, partition);
        assert_eq!(events.as_deref(), Some(&template.events[..]), "verify says clean of a log that was edited");
        judged = Judged::Clean;
    }
    // Looks of every kind, then calls that write: an error or an answer.
    drop(block_on(ledger.describe()));
    drop(block_on(ledger.partitions(None, PageSize::MAX)));
    drop(block_on(ledger.rejections(None, None, PageSize::MAX)));
    drop(block_on(ledger.rejections(Some(partition), None, PageSize::MAX)));
    drop(block_on(ledger.read_back(partition, None, PageSize::MAX)));
    write(&ledger, partition);
    judged
}

fn write(ledger: &SqliteLedger, partition: &PartitionId) {
    let Ok(state) = block_on(ledger.observe(partition)) else { return };
    let holder = Holder::new("b").expect("a name");
    let claim = Claim::new(partition.clone(), holder, Ttl::default(), state.observation());
    let Ok(claimed) = block_on(ledger.claim(&claim)) else { return };
    if let Ok(appended) = block_on(ledger.append(&claimed.lease, &append(99))) {
        let page = block_on(ledger.read(partition, appended.entry.first, PageSize::MAX));
        assert!(page.is_ok_and(|page| page.events.len() == 1), "what was acknowledged can be read");
    }
    drop(block_on(ledger.release(&claimed.lease)));
}

fn read(ledger: &SqliteLedger, partition: &PartitionId) -> Option<Vec<Event>> {
    block_on(ledger.read(partition, Position::FIRST, PageSize::MAX)).ok().map(|page| page.events)
}

fn make() -> Template {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ledger.db");
    let partition = PartitionId::new("jobs").expect("a name");
    let ledger = SqliteLedger::options().open(&file).expect("a new file");
    let holder = Holder::new("a").expect("a name");
    let ttl = Ttl::from_millis(1).expect("a TTL");
    let mut observed = Observation::NeverClaimed;
    for tenure in 0..3 {
        let claim = Claim::new(partition.clone(), holder.clone(), Ttl::default(), observed);
        let lease = block_on(ledger.claim(&claim)).expect("nobody else is there").lease;
        for nth in 0..8 {
            block_on(ledger.append(&lease, &append(10 * tenure + nth))).expect("the lease is valid");
        }
        block_on(ledger.release(&lease)).expect("the lease is valid");
        drop(block_on(ledger.append(&lease, &append(9))).expect_err("it was released"));
        observed = Observation::of(&lease);
    }
    // Other partitions share pages with it.
    let other = PartitionId::new("other").expect("a name");
    block_on(ledger.claim(&Claim::new(other, holder, ttl, Observation::NeverClaimed))).expect("nobody is there");
    let events = read(&ledger, &partition).expect("the log can be read");
    let mark = Mark::of(&events.last().expect("it is not empty").entry);
    drop(ledger);
    // The last handle to be opened and closed brings everything from the WAL into the file.
    let bytes = once_closed(&file);
    Template { bytes, partition, mark, events }
}

/// The bytes of the file once nobody has it open: its threads end some time after the handle.
fn once_closed(file: &Path) -> Vec<u8> {
    let wal = file.with_extension("db-wal");
    let start = Instant::now();
    // A poll, since nobody outside is told of the end of the threads.
    while wal.exists() && start.elapsed() < IN_TIME {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!wal.exists(), "the last handle takes the WAL into the file when it closes");
    std::fs::read(file).expect("the file is there")
}

fn append(note: u32) -> Append {
    Append::new([NewEvent::of("noted", &note).expect("a number is JSON")]).expect("one small event")
}
