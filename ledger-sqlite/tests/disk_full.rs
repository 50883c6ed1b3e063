//! Goal: a disk without room is a typed error, nothing that was acknowledged is lost, and the handle works again when
//! there is room. Three ways to run out: a database that may not grow (SQLite's own bound), a real file system that is
//! full, and a file size limit of the process, at which the file system itself fails in the middle of a COMMIT.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command};

use common::{Place, append, claim, event, given_file, hour, millis, not_written, partition, texts, wrapped};
use ledger_core::{Append, FailureKind, Fate, FencedLedger, FencedLedgerExt, LedgerError, RecordState, Verification};
use ledger_sqlite::SqliteLedger;

fn large(number: usize) -> Append {
    Append::new([event(&format!("{number}:{}", "x".repeat(40_000)))]).expect("an append")
}

async fn is_clean(ledger: &SqliteLedger) -> bool {
    matches!(ledger.verify(&partition("jobs"), None).await, Ok(Verification::Clean { .. }))
}

#[tokio::test]
async fn a_database_that_may_not_grow_refuses_what_does_not_fit_and_keeps_the_rest() {
    let place = Place::new();
    let ledger = SqliteLedger::options().max_pages(120).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let mut acknowledged = 0;
    let full = loop {
        match ledger.append(&lease, &large(acknowledged)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    let LedgerError::NotWritten(failure) = &full else { panic!("{full:?}") };
    assert_eq!(failure.kind, FailureKind::StorageFull);
    assert!(failure.source.is_some(), "SQLite's own error is kept");
    assert!(acknowledged > 3);
    // Reads go on, and the log is whole.
    assert_eq!(texts(&ledger, "jobs").await.len(), acknowledged);
    assert!(is_clean(&ledger).await);
    // Some members of a group fit and some do not: each has its own answer.
    let mut calls = Vec::new();
    for number in 0..20 {
        let (ledger, lease) = (ledger.clone(), lease.clone());
        let sent = if number % 2 == 0 { append("small") } else { large(number) };
        calls.push(tokio::spawn(async move { (number, ledger.append(&lease, &sent).await) }));
    }
    for call in calls {
        let (number, answer) = call.await.expect("no panic");
        if number % 2 == 1 {
            assert_eq!(not_written(answer), FailureKind::StorageFull);
        } else if answer.is_ok() {
            acknowledged += 1;
        }
    }
    assert_eq!(texts(&ledger, "jobs").await.len(), acknowledged);
    assert!(is_clean(&ledger).await);
    // With room, the same file takes more.
    ledger.close().await;
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    ledger.append(&lease, &large(0)).await.expect("there is room");
    assert_eq!(texts(&ledger, "jobs").await.len(), acknowledged + 1);
}

/// E2: a refusal whose record does not fit stands, and says so.
#[tokio::test]
async fn a_refusal_whose_record_does_not_fit_says_that_it_is_missing() {
    let place = Place::new();
    let ledger = SqliteLedger::options().max_pages(60).open(&place.file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    while ledger.append(&lease, &append("until it is full")).await.is_ok() {}
    let mut missing = 0;
    for number in 0..256 {
        let mut forged = lease.clone();
        forged.holder = common::holder(&format!("{number}-{}", "x".repeat(200)));
        let Err(LedgerError::Rejected(rejection)) = ledger.append(&forged, &append("x")).await else {
            panic!("a refusal stands, whatever becomes of its record")
        };
        match rejection.record {
            RecordState::Missing { cause } => {
                assert!(cause.contains("no room"), "{cause}");
                missing += 1;
            }
            RecordState::Stored => assert_eq!(missing, 0),
            other => panic!("{other:?}"),
        }
    }
    assert!(missing > 0, "the database never was full");
}

/// Starts the child under a mount of its own, which nobody else sees and which is gone with it.
fn on_small_file_system(folder: &Path) -> Child {
    let mount = format!("mount -t tmpfs -o size=1m tmpfs '{}' && exec \"$@\"", folder.display());
    let as_root = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
    let as_user = ["unshare", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"];
    let can =
        |by: &[&str]| Command::new(by[0]).args(&by[1..]).arg("true").status().is_ok_and(|status| status.success());
    let by = [as_root.as_slice(), as_user.as_slice()].into_iter().find(|by| can(by)).expect(
        "this test needs `unshare` (util-linux) and the right to mount a tmpfs: as root, or with user namespaces",
    );
    wrapped(by, "fills_the_disk", &folder.join("ledger.db"), &[])
}

#[test]
fn a_full_file_system_refuses_loses_nothing_and_is_used_again_when_there_is_room() {
    let place = Place::new();
    let output = on_small_file_system(place.folder.path()).wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("ALL HELD"), "{said}");
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn fills_the_disk() {
    let file = given_file();
    let ledger = SqliteLedger::open(&file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", hour()).await.expect("claimed");
    let ballast = file.with_extension("ballast");
    let mut expected = 0;
    for round in 0..3 {
        // Leave a little room, which the log then takes.
        let left = [100_000, 30_000, 0][round];
        std::fs::write(&ballast, vec![0; 1_048_576]).expect_err("more than there is");
        let taken = std::fs::metadata(&ballast).expect("it is there").len();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&ballast)
            .expect("open")
            .set_len(taken.saturating_sub(left))
            .expect("cut");
        let refused = loop {
            match ledger.append(&lease, &append(&"x".repeat(6_000))).await {
                Ok(_) => expected += 1,
                Err(error) => break error,
            }
        };
        let LedgerError::NotWritten(failure) = refused else { panic!("{refused:?}") };
        assert_eq!(failure.kind, FailureKind::StorageFull, "{failure:?}");
        assert_eq!(texts(&ledger, "jobs").await.len(), expected);
        let again = SqliteLedger::open(&file).map_err(|error| error.to_string());
        if let Ok(again) = again {
            assert_eq!(texts(&again, "jobs").await.len(), expected);
            again.close().await;
        }
        std::fs::remove_file(&ballast).expect("removed");
        ledger.append(&lease, &append("there is room again")).await.expect("the same handle");
        expected += 1;
    }
    assert!(is_clean(&ledger).await);
    ledger.close().await;
    let ledger = SqliteLedger::open(&file).expect("opened");
    assert_eq!(texts(&ledger, "jobs").await.len(), expected);
    println!("ALL HELD");
}

/// Lines between this test and the child, which raises its own limit by `prlimit` when it is told that it may.
#[test]
fn a_commit_that_the_file_system_fails_is_unknown_and_is_settled_by_sending_it_again() {
    let place = Place::new();
    // In blocks of 512 bytes. The signal that comes with the limit is ignored, so a write beyond it fails.
    let by = ["sh", "-c", "trap '' XFSZ; ulimit -S -f 400; exec \"$@\"", "sh"];
    let mut child = wrapped(&by, "meets_the_limit", &place.file, &[]);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = String::new();
    let mut said_so = |word: &str| {
        for line in lines.by_ref() {
            let line = line.expect("text");
            said.push_str(&line);
            said.push('\n');
            if line.contains(word) {
                return;
            }
        }
        panic!("the child ended: {said}");
    };
    said_so("AT THE LIMIT");
    let raised = Command::new("prlimit")
        .args(["--pid", &child.id().to_string(), "--fsize=unlimited:unlimited"])
        .status()
        .expect("this test needs `prlimit` (util-linux)");
    assert!(raised.success());
    child.stdin.take().expect("piped").write_all(b"go on\n").expect("it listens");
    said_so("ALL HELD");
    assert!(child.wait().expect("ended").success());
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn meets_the_limit() {
    let file = given_file();
    let ledger = SqliteLedger::open(&file).expect("opened");
    let lease = claim(&ledger, "jobs", "a", millis(86_400_000)).await.expect("claimed");
    let mut expected = 0;
    let (lost, error) = loop {
        let sent = append(&"x".repeat(6_000));
        match ledger.append(&lease, &sent).await {
            Ok(_) => expected += 1,
            Err(error) => break (sent, error),
        }
    };
    assert!(matches!(&error, LedgerError::Unknown(_)), "a COMMIT that could not write proves nothing: {error:?}");
    assert_eq!(texts(&ledger, "jobs").await.len(), expected, "what is not committed is not shown");
    let fate = ledger.fate(&partition("jobs"), lost.id(), lease.generation).await.expect("reads go on");
    assert_eq!(fate, Fate::Undecided);
    println!("AT THE LIMIT");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("told to go on");
    // The same append again: written once.
    let answer = ledger.append(&lease, &lost).await.expect("the handle works again");
    assert!(!answer.replayed);
    assert_eq!(texts(&ledger, "jobs").await.len(), expected + 1);
    assert!(is_clean(&ledger).await);
    println!("ALL HELD");
}
