//! Goal: a ledger that is opened with several hosts finds the one that is the primary now; a connection to a server that
//! has become read-only is noticed and dropped, and its call goes to the primary; a host of another cluster is refused, and
//! keeps nobody from the next one.
//!
//! Method: a real primary with a standby, which is promoted after a SIGKILL, or told to be read-only.

mod common;

use std::time::{Duration, Instant};

use common::{Place, append, claim, partition, seconds};
use ledger_core::{FailureKind, FencedLedger, FencedLedgerExt, LedgerError, Mark, Verification};
use ledger_postgres::{Options, PostgresLedger};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use test_postgres::{Server, Wanted};

/// A primary with its standby, and the URL that names both, the standby first.
fn pair() -> (Server, Server, String) {
    let primary = test_postgres::Options::new(Wanted::OLDEST).start().expect("a server");
    let standby = primary.standby("two").expect("a standby");
    let url = both(&standby, &primary);
    (primary, standby, url)
}

fn both(one: &Server, other: &Server) -> String {
    let folders = [one, other].map(|server| server.socket_dir().display().to_string()).join(",");
    format!("postgresql:///postgres?host={folders}&user=postgres&target_session_attrs=read-write")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_found_before_and_after_a_failover_and_leases_go_on() {
    let (primary, standby, url) = pair();
    let place = Place::at(primary.url(), "found").await;
    let ledger = place.options().connect(&url).await.expect("the standby is listed first, and passed over");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    let before = ledger.append(&lease, &append("before")).await.expect("appended");
    standby.catch_up_with(&primary).expect("replayed");

    primary.kill().expect("killed");
    // Nothing was sent to anybody while there is no primary: that is a proof, and it says how many were asked.
    let hasty = place.options().budget(Duration::from_millis(600)).connect(&url).await.expect_err("no primary");
    let LedgerError::NotWritten(failure) = &hasty else { panic!("{hasty:?}") };
    assert!(failure.detail.contains("none of 2 hosts is a primary"), "{failure}");
    // A call that begins before the promotion waits for it, within its budget.
    let (waits, its_lease) = (ledger.clone(), lease.clone());
    let waiting = tokio::spawn(async move { waits.observe(&its_lease.partition).await });
    standby.promote().expect("promoted");
    let state = waiting.await.expect("no panic").expect("answered by the new primary");
    assert_eq!(state.tenure.map(|tenure| tenure.head), Some(before.entry.last));

    let after = ledger.append(&lease, &append("after")).await.expect("the lease goes on by the store's clock");
    assert_eq!(after.entry.last.get(), before.entry.last.get() + 1);
    let verified = ledger.verify(&lease.partition, Some(Mark::of(&before.entry))).await.expect("read");
    assert!(matches!(verified, Verification::Clean { events: 3, .. }), "{verified:?}");
}

/// Opens connections enough that stale ones are left over: as many calls at once as there are connections.
async fn warm(ledger: &PostgresLedger, connections: usize) {
    let calls = (0..connections).map(|_| {
        let ledger = ledger.clone();
        tokio::spawn(async move { ledger.observe(&partition("p")).await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("no panic").expect("observed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_server_that_became_read_only_is_dropped_and_its_call_written_on_the_primary() {
    const CONNECTIONS: usize = 6;
    let (primary, standby, url) = pair();
    let place = Place::at(primary.url(), "switch").await;
    let options = || place.options().connections(CONNECTIONS);
    let own = options().connect(&url).await.expect("opened");
    let grouped = options().coalesce(true).connect(&url).await.expect("opened");
    let lease = claim(&own, "p", "a", seconds(600)).await.lease;
    let other = claim(&grouped, "q", "a", seconds(600)).await.lease;
    warm(&own, CONNECTIONS).await;
    own.append(&lease, &append("1")).await.expect("appended");
    grouped.append(&other, &append("1")).await.expect("appended");
    standby.catch_up_with(&primary).expect("replayed");

    // A switch-over as an operator makes one: the old primary lives, its connections too, and it takes no writes.
    primary.set("default_transaction_read_only", "on").expect("set");
    primary.reload().expect("loaded");
    standby.promote().expect("promoted");

    let start = Instant::now();
    let appended = own.append(&lease, &append("2")).await.expect("written on the new primary, within the budget");
    assert_eq!(appended.entry.last.get(), 3);
    let appended = grouped.append(&other, &append("2")).await.expect("a group's append too");
    assert_eq!(appended.entry.last.get(), 3);
    println!("found after {:?}", start.elapsed());
    // No stale connection is left that would answer a read with what is late.
    own.append(&lease, &append("3")).await.expect("appended");
    for _ in 0..2 * CONNECTIONS {
        let state = own.observe(&lease.partition).await.expect("observed");
        assert_eq!(state.tenure.map(|tenure| tenure.head.get()), Some(4));
    }
    warm(&own, CONNECTIONS).await;
    let old: Result<String, _> = primary.value("select max(position)::text from switch.log");
    assert_eq!(old.expect("read"), "2", "nothing was written on the old primary");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_answer_is_passed_over() {
    let (primary, standby, url) = pair();
    let place = Place::at(primary.url(), "silent").await;
    let warm_one = place.options().connections(4).connect(&url).await.expect("opened");
    warm(&warm_one, 4).await;
    standby.catch_up_with(&primary).expect("replayed");
    // Longer than a connection is trusted unasked: what is shown is that the asking ends.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    // As a machine that hangs: connections are accepted by its kernel, and nobody answers.
    primary.pause().expect("paused");
    standby.promote().expect("promoted");
    let ledger = place.options().connect(&both(&primary, &standby)).await.expect("the second host, within the budget");
    claim(&ledger, "p", "a", seconds(600)).await;
    let state = warm_one.observe(&partition("p")).await.expect("answered, though all its connections hang");
    assert!(state.tenure.is_some(), "by the new primary");
    let alone = format!("{},{}", primary.socket_dir().display(), primary.socket_dir().display());
    let url = format!("postgresql:///postgres?host={alone}&user=postgres");
    let error = place.options().budget(Duration::from_secs(3)).connect(&url).await.expect_err("nobody answers");
    assert!(error.to_string().contains("the last: it does not answer"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_given_drops_such_a_connection_too() {
    let (primary, standby, _) = pair();
    let place = Place::at(primary.url(), "pool").await;
    // What follows the primary is a name, here a proxy whose server is exchanged behind the connections.
    let options: PgConnectOptions = primary.url().parse().expect("a URL");
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool");
    let ledger = place.options().reserve(0).open(pool.clone()).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    standby.catch_up_with(&primary).expect("replayed");
    primary.set("default_transaction_read_only", "on").expect("set");
    primary.reload().expect("loaded");
    standby.promote().expect("promoted");

    let refused = ledger.append(&lease, &append("1")).await.expect_err("nobody moved the name yet");
    let LedgerError::NotWritten(failure) = &refused else { panic!("{refused:?}") };
    assert_eq!((failure.kind, failure.tries), (FailureKind::ReadOnly, 8), "{failure}");
    // The name moves.
    pool.set_connect_options(standby.url().parse().expect("a URL"));
    let appended = ledger.append(&lease, &append("1")).await.expect("written on the new primary");
    assert_eq!(appended.entry.last.get(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_another_cluster_is_refused() {
    let wanted = test_postgres::Options::new(Wanted::OLDEST);
    let (one, stranger) = (wanted.start().expect("a server"), wanted.start().expect("a server"));
    let place = Place::at(one.url(), "same_name").await;
    Place::at(stranger.url(), "same_name").await;
    let url = both(&one, &stranger);
    // So long each call waits for the one to come back.
    let budget = Duration::from_secs(1);
    let ledger = place.options().budget(budget).connect(&url).await.expect("opened");
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    one.kill().expect("killed");
    let error = ledger.append(&lease, &append("1")).await.expect_err("the other has another ledger");
    // The connection that was lost with the server proves nothing; the next one is refused for what it is.
    let error = match error {
        LedgerError::Unknown(_) => ledger.append(&lease, &append("1")).await.expect_err("refused"),
        other => other,
    };
    assert!(error.proves_not_written() && error.to_string().contains("of another cluster"), "{error}");
    assert_eq!(stranger.value("select count(*) from same_name.log").expect("read"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_another_cluster_or_without_the_ledger_keeps_nobody_from_the_next() {
    let wanted = test_postgres::Options::new(Wanted::OLDEST);
    let (primary, stranger) = (wanted.start().expect("a server"), wanted.start().expect("a server"));
    let standby = primary.standby("three").expect("a standby");
    let place = Place::at(primary.url(), "next").await;
    // As a host that was initialised anew.
    let anew = Place::at(stranger.url(), "next").await;
    let folders = [&primary, &stranger, &standby].map(|server| server.socket_dir().display().to_string()).join(",");
    let url = format!("postgresql:///postgres?host={folders}&user=postgres");
    let one = place.options().connect(&url).await.expect("opened");
    let other = place.options().connect(&url).await.expect("opened");
    let lease = claim(&one, "p", "a", seconds(600)).await.lease;
    standby.catch_up_with(&primary).expect("replayed");
    primary.kill().expect("killed");
    // It begins before the promotion: the stranger's answer ends no round.
    let waiting = tokio::spawn({
        let (one, partition) = (one.clone(), lease.partition.clone());
        async move { one.observe(&partition).await }
    });
    standby.promote().expect("promoted");
    waiting.await.expect("no panic").expect("answered by the third host, behind one with another ledger");
    one.append(&lease, &append("1")).await.expect("appended");
    anew.drop().await;
    other.observe(&lease.partition).await.expect("answered by the third host, behind one without a ledger");
    other.append(&lease, &append("2")).await.expect("appended");
}

#[tokio::test]
async fn a_list_of_hosts_that_can_not_be_meant_is_refused_before_any_is_asked() {
    for url in ["postgres://a,,b/d", "postgres://a,b/d?port=1,2,3", "postgres://a/d?target_session_attrs=standby"] {
        let error = Options::new().connect(url).await.expect_err(url);
        assert!(matches!(error, LedgerError::Invalid(_)), "{url}: {error}");
    }
    let error = Options::new().budget(Duration::from_millis(200)).connect_with_hosts([]).await.expect_err("no host");
    assert!(matches!(&error, LedgerError::NotWritten(failure) if failure.detail == "there is no host"), "{error:?}");
}
