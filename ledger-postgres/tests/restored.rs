//! Goal: a database that is restored from an older copy is noticed, by its holder and by who claims next, and goes on after
//! an operator's step (I3 to I5). Without a witness it is not noticed: that is shown too.
//!
//! Method: `pg_dump` and `pg_restore` on the oldest major, whose packages have them; the data folder put back on the newest,
//! as a base backup is; and what the server's own shell can do to rows.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{Place, append, append_as, event, holder, partition, seconds};
use ledger_core::{
    Advance, Append, AppendId, Claim, Claimed, FencedLedger, FencedLedgerExt, Generation, Lease, LedgerError, Mark,
    Note, Reason, Result, Rewind, RolledBack, Verification, Witnessed,
};
use ledger_postgres::PostgresLedger;
use ledger_witness::FileWitness;
use sqlx::Executor;
use test_postgres::{Installation, Options, Wanted};

async fn claim(ledger: &dyn FencedLedger, name: &str, by: &str) -> Result<Claimed> {
    let observed = ledger.observe(&partition(name)).await?.observation();
    ledger.claim(&Claim::new(partition(name), holder(by), seconds(3600), observed)).await
}

async fn tenure(ledger: &dyn FencedLedger, name: &str, by: &str) {
    let lease = claim(ledger, name, by).await.expect("claimed").lease;
    ledger.append(&lease, &append("work")).await.expect("appended");
    ledger.release(&lease).await.expect("released");
}

#[track_caller]
fn rolled_back<T: std::fmt::Debug>(answer: Result<T>) -> RolledBack {
    match answer {
        Err(LedgerError::RolledBack(back)) => *back,
        other => panic!("not `RolledBack` but {other:?}"),
    }
}

/// A call until the handle has connected anew: the sessions from before a restore are gone, and told so once each.
async fn again<T>(mut call: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    for _ in 0..20 {
        match call().await {
            Err(LedgerError::Unknown(_) | LedgerError::NotWritten(_)) => {}
            answer => return answer,
        }
    }
    call().await
}

/// A store before and after a restore, with who knows of it.
struct Lost {
    witnessed: Witnessed,
    held: Lease,
    known: Mark,
}

/// What is in the copy: a released tenure in two partitions.
async fn write_what_is_copied(witnessed: &Witnessed) {
    tenure(witnessed, "watched", "first").await;
    tenure(witnessed, "unwatched", "first").await;
}

/// What is lost: a second tenure in both, and a third that lasts.
async fn write_what_is_lost(witnessed: Witnessed) -> Lost {
    tenure(&witnessed, "unwatched", "second").await;
    tenure(&witnessed, "watched", "second").await;
    let claimed = claim(&witnessed, "watched", "holder").await.expect("claimed");
    let appended = witnessed.append(&claimed.lease, &append("lost")).await.expect("appended");
    witnessed.renew(&claimed.lease, None).await.expect("renewed");
    Lost { witnessed, held: claimed.lease, known: Mark::of(&appended.entry) }
}

/// Looks at the restored store through the handles from before, and through one without a witness.
async fn look_and_go_on(lost: Lost, plain: PostgresLedger) {
    let Lost { witnessed, held, known } = lost;
    // The holder: its lease is one that this store has never granted.
    let back = rolled_back(again(async || witnessed.renew(&held, None).await).await);
    assert_eq!((back.mark, back.rewind, back.written), (known, Rewind::Behind, false));
    rolled_back(witnessed.append(&held, &append("late")).await);
    // Who claims next.
    let before = plain.observe(&partition("watched")).await.expect("observed").tenure;
    let back = rolled_back(claim(&witnessed, "watched", "next").await);
    assert_eq!((back.mark, back.rewind, back.written), (known, Rewind::Behind, false));
    assert_eq!(plain.observe(&partition("watched")).await.expect("observed").tenure, before, "nothing is claimed");
    // Without a witness nothing can be seen, and a generation is granted for the second time.
    let blind = claim(&plain, "unwatched", "third").await.expect("claimed").lease;
    assert_eq!(blind.generation.get(), 2);
    assert!(matches!(plain.verify(&partition("unwatched"), None).await, Ok(Verification::Clean { .. })));
    plain.append(&blind, &append("on top of nothing")).await.expect("appended");
    plain.release(&blind).await.expect("released");
    let back = rolled_back(claim(&witnessed, "unwatched", "fourth").await);
    assert_eq!(back.rewind, Rewind::OtherHistory, "by the mark of the lost tenure");

    let why = Note::new("restored from the dump").expect("a note");
    let step = Advance::new(partition("watched"), holder("operator"), Some(known.generation), why);
    let advanced = plain.advance(&step).await.expect("advanced");
    assert_eq!(Some(advanced.generation), known.generation.next());
    let refused = plain.append(&held, &append("late")).await.expect_err("refused");
    assert_eq!(refused.rejection().map(|refused| refused.reason), Some(Reason::StaleGeneration));
    let lease = claim(&witnessed, "watched", "next").await.expect("claimed").lease;
    witnessed.append(&lease, &append("goes on")).await.expect("appended");
    for mark in [None, Some(known)] {
        let found = witnessed.verify(&partition("watched"), mark).await.expect("read");
        assert!(matches!(found, Verification::Clean { .. }), "{found:?}");
    }
}

async fn witnessed(ledger: PostgresLedger, folder: &Path) -> Witnessed {
    Witnessed::new(Arc::new(ledger), Arc::new(FileWitness::open(folder.join("marks")).expect("opened")))
}

/// Runs one of the programs that come with the server.
fn run(program: &str, arguments: &[&str]) {
    let installation = Installation::find(Wanted::OLDEST).expect("a server");
    let path = installation.bin().join(program);
    assert!(
        path.exists(),
        "{} is not there: this test needs the client programs of the server's package; `apt-get install -y \
         postgresql-{}` brings them",
        path.display(),
        installation.major()
    );
    let output = Command::new(&path).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_restored_from_a_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = common::server(Wanted::OLDEST);
    let admin = Place { url: server.url(), schema: Default::default() };
    let database = server.fresh_schema_name();
    admin.run(&format!("create database {database}")).await;
    let place = Place::at(server.url_of(&database), "fenced_ledger").await;
    let ledger = witnessed(place.open().await, folder.path()).await;
    write_what_is_copied(&ledger).await;
    let dump = folder.path().join("dump");
    let dump = dump.to_str().expect("a path of the test's");
    run("pg_dump", &["--format=custom", "--file", dump, &place.url]);

    let lost = write_what_is_lost(ledger).await;
    // As it is done: the sessions are thrown out, and the database is made anew from the dump.
    let mut shell = admin.shell().await;
    shell.execute(sqlx::raw_sql(admin.sql(&format!("drop database {database} with (force)")))).await.expect("dropped");
    shell.execute(sqlx::raw_sql(admin.sql(&format!("create database {database}")))).await.expect("created");
    run("pg_restore", &["--exit-on-error", "--dbname", &place.url, dump]);
    look_and_go_on(lost, place.open().await).await;
    shell.execute(sqlx::raw_sql(admin.sql(&format!("drop database {database} with (force)")))).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Options::new(Wanted::NEWEST).start().expect("a server");
    let place = Place::at(server.url(), &server.fresh_schema_name()).await;
    let ledger = witnessed(place.open().await, folder.path()).await;
    write_what_is_copied(&ledger).await;
    let (data, copy) = (server.data(), server.folder().join("copy"));
    let copied = |from: &Path, to: &Path| {
        let done = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
        assert!(done.success(), "copied");
    };
    server.stop().expect("stopped");
    copied(&data, &copy);
    server.start().expect("started");

    let opened = place.open().await;
    let lost = write_what_is_lost(witnessed(opened, folder.path()).await).await;
    server.stop().expect("stopped");
    std::fs::remove_dir_all(&data).expect("removed");
    copied(&copy, &data);
    server.start().expect("started");
    look_and_go_on(lost, place.open().await).await;
}

/// Rows as the server's shell can leave them, beside those of the suite: the log does not end with an entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_advance_goes_on_behind_half_an_entry() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "jobs", "a").await.expect("claimed").lease;
        ledger.append(&lease, &append_as(AppendId::mint(), "whole")).await.expect("appended");
        let batch = Append::new(["0", "1", "2"].map(event)).expect("three events");
        ledger.append(&lease, &batch).await.expect("appended");
        // 1 `$claimed`, 2 an append, 3 to 5 the batch: its end is deleted, and with it the entry's facts.
        place.run("delete from fenced_ledger.log where position = 5").await;
        let refused = ledger.append(&lease, &append("x")).await.expect_err("refused");
        assert_eq!(refused.rejection().map(|refused| refused.reason), Some(Reason::Diverged));
        let why = Note::new("half an entry").expect("a note");
        let step = Advance::new(partition("jobs"), holder("operator"), Some(Generation::FIRST), why);
        let advanced = ledger.advance(&step).await.expect("advanced");
        assert_eq!((advanced.generation.get(), advanced.position.get()), (2, 5));
        assert!(ledger.advance(&step).await.expect("answered as before").replayed);
        let lease = claim(&ledger, "jobs", "b").await.expect("claimed").lease;
        ledger.append(&lease, &append("goes on")).await.expect("appended");
        match ledger.verify(&partition("jobs"), None).await.expect("read") {
            // A page of this backend names the last event of the half.
            Verification::Broken { position, .. } => assert!((3..=4).contains(&position.get()), "{position}"),
            clean @ Verification::Clean { .. } => panic!("{clean:?}"),
        }
        place.drop().await;
    }
}
