//! Goal: the file keeps what was answered, over every handle, process, crash and rewrite; and never takes a mark back.
//!
//! Method: real files and processes. A child is this test program again, told by its environment what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use futures_executor::block_on;
use ledger_core::{
    Digest, Failure, FailureKind, FencedLedger, FencedLedgerExt, Generation, Holder, LedgerError, LedgerId, Mark,
    PartitionId, Position, Ttl, Witness, Witnessed,
};
use ledger_memory::MemoryLedger;
use ledger_witness::{FileWitness, WitnessError};

const FILE: &str = "LEDGER_WITNESS_TEST_FILE";
const FIRST: &str = "LEDGER_WITNESS_TEST_FIRST";

fn mark(generation: i64, position: i64) -> Mark {
    let (generation, position) = (Generation::new(generation).expect("positive"), Position::new(position));
    Mark::new(generation, position.expect("positive"), Digest::new([7; 32]))
}

fn ledger() -> LedgerId {
    LedgerId::from_uuid(uuid::Uuid::from_u128(1)).expect("it is not nil")
}

fn jobs() -> PartitionId {
    PartitionId::new("jobs \"7\" é").expect("a name")
}

fn keep(witness: &FileWitness, new: Mark) -> Result<Mark, Failure> {
    block_on(witness.keep(ledger(), &jobs(), new))
}

fn kept(witness: &FileWitness) -> Result<Option<Mark>, Failure> {
    block_on(witness.mark(ledger(), &jobs()))
}

fn path() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marks");
    (folder, path)
}

#[test]
fn a_mark_never_goes_back_on_any_handle() {
    let (_folder, path) = path();
    let (one, other) = (FileWitness::open(&path).expect("made"), FileWitness::open(&path).expect("opened"));
    assert_eq!(kept(&one).expect("read"), None);
    for (new, then) in [
        (mark(1, 10), mark(1, 10)),
        (mark(1, 12), mark(1, 12)),
        (mark(1, 11), mark(1, 12)),
        (mark(4, 5), mark(4, 5)),
        (mark(3, 90), mark(4, 5)),
    ] {
        assert_eq!(keep(&one, new).expect("kept"), then);
        assert_eq!(kept(&other).expect("read"), Some(then));
    }
    let elsewhere = block_on(one.mark(LedgerId::mint(), &jobs())).expect("read");
    assert_eq!(elsewhere, None, "another ledger's partition of the same name");
    let again = FileWitness::open(&path).expect("opened again");
    assert_eq!(kept(&again).expect("read"), Some(mark(4, 5)));
    let all = block_on(again.marks()).expect("read");
    assert_eq!(all.iter().map(|kept| kept.mark).collect::<Vec<_>>(), [mark(4, 5)]);
}

#[test]
fn a_torn_tail_is_ignored_and_cut_off() {
    let (_folder, path) = path();
    let witness = FileWitness::open(&path).expect("made");
    keep(&witness, mark(1, 1)).expect("kept");
    let whole = std::fs::read(&path).expect("read");
    keep(&witness, mark(1, 2)).expect("kept");
    let longer = std::fs::read(&path).expect("read");
    drop(witness);
    // Every length that a crash can leave of the second line, with what a disk may have put behind it.
    for end in whole.len()..longer.len() {
        for behind in [&b""[..], &[0; 40]] {
            std::fs::write(&path, [&longer[..end], behind].concat()).expect("torn");
            let witness = FileWitness::open(&path).expect("opened");
            assert_eq!(kept(&witness).expect("read"), Some(mark(1, 1)), "cut at {end}");
            keep(&witness, mark(1, 3)).expect("kept");
            assert_eq!(kept(&FileWitness::open(&path).expect("opened")).expect("read"), Some(mark(1, 3)));
        }
    }
}

#[test]
fn what_can_not_be_read_is_an_error_and_no_absence() {
    let (_folder, path) = path();
    let witness = FileWitness::open(&path).expect("made");
    keep(&witness, mark(1, 1)).expect("kept");
    keep(&witness, mark(1, 2)).expect("kept");
    let good = std::fs::read(&path).expect("read");

    let mut edited = good.clone();
    let at = good.len() - 10;
    edited[at] ^= 1;
    std::fs::write(&path, &edited).expect("edited");
    match FileWitness::open(&path) {
        Err(WitnessError::Damaged { line: 3, .. }) => {}
        other => panic!("the damaged line is named: {other:?}"),
    }
    // The handle had read it before. It reads no more than what comes after.
    assert_eq!(kept(&witness).expect("read before"), Some(mark(1, 2)));

    std::fs::write(&path, &good[..good.len() - 20]).expect("cut");
    let failure = kept(&witness).expect_err("lines that were there are gone");
    assert!(failure.detail.contains("were read of it before"), "{failure}");
    for foreign in
        ["", "fenced-ledger-witness 2 \n", "a diary, long enough to have a line where the other begins to be told"]
    {
        std::fs::write(&path, foreign).expect("overwritten");
        assert!(matches!(FileWitness::open(&path), Err(WitnessError::Foreign { .. })), "{foreign:?}");
        assert!(kept(&witness).is_err() && keep(&witness, mark(1, 3)).is_err());
    }
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(kept(&witness).expect_err("it is gone").kind, FailureKind::Replaced);
    assert!(keep(&witness, mark(1, 3)).is_err(), "it is not made anew under an open handle");
    assert!(!path.exists());
}

/// What a ledger over it answers then: nothing is claimed.
#[test]
fn a_claim_is_not_written_where_the_file_is_gone() {
    let (_folder, path) = path();
    let witness = std::sync::Arc::new(FileWitness::open(&path).expect("made"));
    let store = MemoryLedger::new();
    let ledger = Witnessed::new(std::sync::Arc::new(store.clone()), witness);
    let (partition, holder) = (jobs(), Holder::new("a").expect("a name"));
    let claim = || block_on(ledger.claim_when_free(&partition, &holder, Ttl::default(), std::time::Duration::ZERO));
    let lease = claim().expect("claimed").lease;
    block_on(ledger.release(&lease)).expect("released");
    std::fs::remove_file(&path).expect("removed");
    let error = claim().expect_err("no witness");
    assert!(matches!(&error, LedgerError::NotWritten(failure) if failure.kind == FailureKind::Replaced), "{error}");
    let state = block_on(store.observe(&partition)).expect("observed");
    assert_eq!(state.tenure.map(|tenure| tenure.lease.generation), Some(Generation::FIRST));
}

#[test]
fn the_file_stays_short() {
    let (_folder, path) = path();
    let (one, other) = (FileWitness::open(&path).expect("made"), FileWitness::open(&path).expect("opened"));
    let line = {
        keep(&one, mark(1, 1)).expect("kept");
        std::fs::metadata(&path).expect("there").len()
    };
    let mut longest = 0;
    for position in 2..2_000 {
        keep(if position % 3 == 0 { &one } else { &other }, mark(1, position)).expect("kept");
        longest = longest.max(std::fs::metadata(&path).expect("there").len());
    }
    assert!(longest < 300 * line, "{longest} bytes, where a line has {line}");
    for witness in [one, other, FileWitness::open(&path).expect("opened")] {
        assert_eq!(kept(&witness).expect("read"), Some(mark(1, 1_999)));
    }
}

/// What is in the way stands for a folder that can not be written to, or a quota.
#[test]
fn marks_are_kept_where_the_file_can_not_be_shortened() {
    let (_folder, path) = path();
    let witness = FileWitness::open(&path).expect("made");
    let new = path.with_file_name("marks.new");
    std::fs::create_dir(&new).expect("in its way");
    let length = || std::fs::metadata(&path).expect("there").len();
    for position in 1..1_000 {
        assert_eq!(keep(&witness, mark(1, position)).expect("kept"), mark(1, position));
    }
    assert_eq!(kept(&FileWitness::open(&path).expect("opened")).expect("read"), Some(mark(1, 999)));
    std::fs::remove_dir(&new).expect("out of its way");
    let long = length();
    for position in 1_000..1_300 {
        keep(&witness, mark(1, position)).expect("kept");
    }
    assert!(length() < long / 2, "{} bytes, and {long} before", length());
    assert_eq!(kept(&FileWitness::open(&path).expect("opened")).expect("read"), Some(mark(1, 1_299)));
}

#[cfg(unix)]
#[test]
fn who_could_open_the_file_can_still_once_it_is_shortened() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for mode in [0o660, 0o606, 0o600] {
        let (_folder, path) = path();
        let witness = FileWitness::open(&path).expect("made");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
        let of = || std::fs::metadata(&path).expect("there");
        let before = of();
        for position in 1..300 {
            keep(&witness, mark(1, position)).expect("kept");
        }
        let after = of();
        assert_ne!(after.ino(), before.ino(), "it was written anew");
        assert_eq!(after.mode() & 0o777, mode);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }
}

/// No test by itself: what a child does. Keeps one mark after another, and says which was answered.
#[test]
fn child() {
    let (Ok(file), Ok(first)) = (std::env::var(FILE), std::env::var(FIRST)) else { return };
    let witness = FileWitness::open(file).expect("opened");
    let first: i64 = first.parse().expect("a number");
    for position in (first..).step_by(4) {
        let kept = keep(&witness, mark(1, position)).expect("kept");
        assert!(!mark(1, position).is_later_than(&kept));
        println!("kept {position}");
        std::io::stdout().flush().expect("the parent reads");
    }
}

fn spawn(path: &Path, first: i64) -> Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command.args(["child", "--exact", "--nocapture"]).env(FILE, path).env(FIRST, first.to_string());
    command.stdout(Stdio::piped()).spawn().expect("a child")
}

#[test]
fn four_processes_killed_lose_nothing_that_was_answered() {
    let (_folder, path) = path();
    let mut latest = 0;
    let mut children: Vec<Child> = (1..=4).map(|first| spawn(&path, first)).collect();
    let (far_enough, who) = std::sync::mpsc::channel();
    let mut readers = Vec::new();
    for (nth, child) in children.iter_mut().enumerate() {
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let far_enough = far_enough.clone();
        // Each is killed somewhere else in its work, and read to the end all the same.
        let mark = 4 * (60 + 20 * i64::try_from(nth).expect("small"));
        readers.push(std::thread::spawn(move || {
            let mut last = 0;
            for line in output.lines().map_while(Result::ok) {
                if let Some(position) = line.strip_prefix("kept ").and_then(|text| text.parse::<i64>().ok()) {
                    if last <= mark && position > mark {
                        far_enough.send(nth).expect("somebody waits");
                    }
                    last = position;
                }
            }
            last
        }));
    }
    drop(far_enough);
    for nth in who {
        children[nth].kill().expect("killed");
        children[nth].wait().expect("gone");
    }
    for reader in readers {
        let last = reader.join().expect("read");
        assert!(last > 0, "the child has kept something");
        latest = latest.max(last);
    }
    let witness = FileWitness::open(&path).expect("opened after the kills");
    let found = kept(&witness).expect("read").expect("a mark");
    assert!(found.position.get() >= latest, "{} was answered, {} is kept", latest, found.position);
}
