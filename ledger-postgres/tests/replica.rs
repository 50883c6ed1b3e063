//! Goal: a replica answers late and says how late, is never wrong of its past, and never judges.
//!
//! Method: real standbys whose replay is paused and resumed, and an address that leads to one or the other.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Place, append, claim, event, holder, noise, partition, seconds};
use futures_util::TryStreamExt as _;
use ledger_core::{
    Advance, Append, Claim, EventKind, FailureKind, Fate, FencedLedger, FencedLedgerExt, Invalid, LedgerError,
    NewEvent, Note, Operation, PageSize, Position, Reason, Verification,
};
use test_postgres::{Server, Wanted};
use tokio::net::{UnixListener, UnixStream};

/// The name of a server's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

struct Pair {
    primary: Server,
    standby: Server,
    place: Place,
}

async fn pair() -> Pair {
    let primary = test_postgres::Options::new(Wanted::NEWEST).start().expect("a server");
    let standby = primary.standby("replica").expect("a standby");
    let place = Place::at(primary.url(), "replica").await;
    standby.catch_up_with(&primary).expect("replayed");
    Pair { primary, standby, place }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_may_lag_and_say_their_position() {
    let Pair { primary, standby, place } = pair().await;
    let url = format!(
        "postgresql:///postgres?host={},{}&user=postgres&target_session_attrs=prefer-standby",
        primary.socket_dir().display(),
        standby.socket_dir().display()
    );
    let replica = place.options().connect_replica(&url).await.expect("the standby, though it is listed last");
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let first = ledger.append(&lease, &append("1")).await.expect("appended");
    standby.catch_up_with(&primary).expect("replayed");
    let then = replica.replayed().await.expect("asked");
    assert!(then.standby && then.committed_at.is_some(), "{then:?}");

    standby.value("select pg_wal_replay_pause()::text").expect("paused");
    let late = append("2");
    let second = ledger.append(&lease, &late).await.expect("appended");
    // What it shows is the past, whole and consistent, and it says where it ends.
    let page = replica.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read");
    assert_eq!(page.head.map(|(position, _)| position), Some(first.entry.last));
    assert_eq!(page.events.last().map(|event| event.entry.clone()), Some(first.entry.clone()));
    assert_eq!(replica.replayed().await.expect("asked").lsn, then.lsn);
    let state = replica.observe(&lease.partition).await.expect("observed");
    assert_eq!(state.tenure.map(|tenure| tenure.chain), Some(first.entry.chain));
    // Whoever comes from the primary with its position is told that this is not here, and not given silence.
    let next = second.entry.last.next().expect("small");
    let ahead = replica.read(&lease.partition, next, PageSize::MAX).await.expect_err("it has not come that far");
    assert!(matches!(ahead, LedgerError::AheadOfLog { head: Some(head), .. } if head == first.entry.last), "{ahead}");
    // Not there yet is not never.
    let fate = replica.fate(&lease.partition, late.id(), lease.generation).await.expect("asked");
    assert_eq!(fate, Fate::Undecided);
    let verified = replica.verify(&lease.partition, None).await.expect("read");
    assert!(matches!(verified, Verification::Clean { events: 2, .. }), "{verified:?}");

    standby.value("select pg_wal_replay_resume()::text").expect("resumed");
    standby.catch_up_with(&primary).expect("replayed");
    let events: Vec<_> = replica.events(&lease.partition, Position::FIRST).try_collect().await.expect("read");
    assert_eq!(events.last().map(|event| event.position), Some(second.entry.last));
    assert_ne!(replica.replayed().await.expect("asked").lsn, then.lsn);
    let listed = replica.partitions(None, PageSize::MAX).await.expect("listed").partitions;
    assert_eq!(listed, std::slice::from_ref(&lease.partition));
    let fate = replica.fate(&lease.partition, late.id(), lease.generation).await.expect("asked");
    assert_eq!(fate, Fate::Recorded(second.entry));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_by_kind_is_filtered_by_the_standby() {
    let Pair { primary, standby, place } = pair().await;
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    for _ in 0..20 {
        ledger.append(&lease, &append("common")).await.expect("appended");
    }
    let rare = EventKind::new("rare").expect("a kind");
    let sent = Append::new([NewEvent::of(&rare, &1).expect("an event")]).expect("an append");
    let appended = ledger.append(&lease, &sent).await.expect("appended");
    standby.catch_up_with(&primary).expect("replayed");
    let replica = place.options().connect_replica(&standby.url()).await.expect("opened");
    // A plain page of five would hold none of it, and go on (D7).
    let five = PageSize::new(5).expect("a size");
    let page = replica.read_kind(&lease.partition, &rare, Position::FIRST, five).await.expect("read");
    assert_eq!(page.events.iter().map(|event| event.position).collect::<Vec<_>>(), [appended.entry.last]);
    assert_eq!(page.next, None);
}

/// One address in front of several servers, as a reader endpoint: each new connection is led to the next of `turns`, and
/// all after them to the last.
fn endpoint(folder: &Path, turns: Vec<PathBuf>) -> String {
    let listener = UnixListener::bind(folder.join(SOCKET)).expect("a socket");
    tokio::spawn(async move {
        for nth in 0.. {
            let Ok((mut client, _)) = listener.accept().await else { return };
            let server = turns[nth.min(turns.len() - 1)].join(SOCKET);
            tokio::spawn(async move {
                let mut server = UnixStream::connect(server).await.expect("the server listens");
                // It ends when one of the two is gone.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    format!("postgresql:///postgres?host={}&user=postgres", folder.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_behind_another_is_not_told_as_corrupt() {
    let Pair { primary, standby: ahead, place } = pair().await;
    let behind = primary.standby("behind").expect("a standby");
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    behind.catch_up_with(&primary).expect("replayed");
    behind.value("select pg_wal_replay_pause()::text").expect("paused");
    // One entry, whose page ends inside it. The statement expects small events; so many large ones come that the connection
    // is given up, and the end of the entry is asked for over another.
    let events = (0..100).map(|_| event("small")).chain((0..10).map(|_| noise(50_000)));
    let sent = Append::new(events.collect::<Vec<_>>()).expect("an append");
    let appended = ledger.append(&lease, &sent).await.expect("appended");
    ahead.catch_up_with(&primary).expect("replayed");
    let size = PageSize::MAX.with_bytes(100_000).expect("a size");

    let (ahead, behind) = (ahead.socket_dir().to_owned(), behind.socket_dir().to_owned());
    // Over the first connection it is opened and the page is read.
    let turns = vec![ahead.clone(), behind.clone(), ahead.clone()];
    let folder = tempfile::tempdir().expect("a folder");
    let options = || place.options().connections(1).reserve(0);
    let replica = options().connect_replica(&endpoint(folder.path(), turns)).await.expect("opened");
    let page = replica.read(&lease.partition, Position::FIRST, size).await.expect("the next connection leads ahead");
    assert!(page.events.len() > 100 && page.next.is_some(), "{} events", page.events.len());
    assert_eq!(page.events.last().map(|event| event.entry.clone()), Some(appended.entry));

    let folder = tempfile::tempdir().expect("a folder");
    let replica = options().connect_replica(&endpoint(folder.path(), vec![ahead, behind])).await.expect("opened");
    let late = replica.read(&lease.partition, Position::FIRST, size).await.expect_err("all others are behind");
    let LedgerError::NotWritten(failure) = &late else { panic!("{late:?}") };
    assert_eq!((failure.kind, failure.tries), (FailureKind::Unavailable, 8), "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judgement_never_runs_on_a_replica_not_even_once_it_is_promoted() {
    let Pair { primary, standby, place } = pair().await;
    let replica = place.options().connect_replica(&standby.url()).await.expect("opened");
    let refused = place.options().connect(&standby.url()).await.expect_err("no writer's handle opens on a standby");
    assert!(refused.to_string().contains("connect_replica"), "{refused}");
    let ledger = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    standby.catch_up_with(&primary).expect("replayed");
    for promoted in [false, true] {
        if promoted {
            primary.kill().expect("killed");
            standby.promote().expect("promoted");
        }
        let observed = replica.observe(&lease.partition).await.expect("observed").observation();
        let claim = Claim::new(partition("p"), holder("b"), seconds(5), observed);
        let note = Note::new("why").expect("a note");
        let advance = Advance::new(partition("p"), holder("operator"), None, note.clone());
        let errors = [
            (Operation::Claim, replica.claim(&claim).await.expect_err("refused")),
            (Operation::Renew, replica.renew(&lease, None).await.expect_err("refused")),
            (Operation::Append, replica.append(&lease, &append("1")).await.expect_err("refused")),
            (Operation::Release, replica.release(&lease).await.expect_err("refused")),
            (Operation::Advance, replica.advance(&advance).await.expect_err("refused")),
            (Operation::EndTenure, replica.end_tenure(&lease.partition, observed, &note).await.expect_err("refused")),
        ];
        for (operation, error) in errors {
            let expected = Invalid::ReadOnly { operation };
            assert!(matches!(&error, LedgerError::Invalid(invalid) if *invalid == expected), "{error:?}");
        }
        // A wait for a free partition ends at once, since waiting does not mend it.
        let wait = replica.claim_when_free(&partition("new"), &holder("b"), seconds(5), Duration::from_secs(60)).await;
        assert!(matches!(wait, Err(LedgerError::Invalid(Invalid::ReadOnly { .. }))), "{wait:?}");
    }
    assert_eq!(standby.value("select count(*) from replica.rejection").expect("read"), "0", "no record is left");
    // What was observed on a replica is judged by the primary: an observation that is late is refused there.
    let now = place_on(&standby, &place).await;
    let late = Claim::new(partition("p"), holder("b"), seconds(5), ledger_core::Observation::NeverClaimed);
    let refused = now.claim(&late).await.expect_err("outdated");
    assert_eq!(refused.rejection().map(|rejection| rejection.reason), Some(Reason::ObservationOutdated));
}

async fn place_on(server: &Server, place: &Place) -> ledger_postgres::PostgresLedger {
    place.options().connect(&server.url()).await.expect("a writer's handle, on the server that was promoted")
}
