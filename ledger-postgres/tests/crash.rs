//! Goal: what was acknowledged survives a crash of the server (S2), and nothing else is there afterwards but what was on
//! its way.
//!
//! Method: the suite's restart cases on a server of their own, which each restart crashes; then writers under load while
//! the server is crashed and started again, 20 times in full mode.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::harness::Postgres;
use common::{Place, append, claim, partition, scale, seconds};
use conformance_tests::{Hook, Outcome, Suite};
use ledger_core::{Append, Fate, FencedLedger, FencedLedgerExt, Lease, LedgerError, Mark, Verification};
use ledger_postgres::PostgresLedger;
use test_postgres::{Options, Server, Wanted};

fn server(wanted: Wanted) -> Arc<Server> {
    Arc::new(Options::new(wanted).start().expect("a server"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_restart_cases_hold_over_a_crash() {
    for wanted in Wanted::BOTH {
        let suite = Suite::new().only(|case| case.needs.contains(&Hook::Restart)).at_once(1);
        let report = suite.run(&Postgres::of(server(wanted))).await;
        assert!(!report.cases.is_empty());
        for case in &report.cases {
            assert!(matches!(case.outcome, Outcome::Passed), "{wanted}: {}: {:?}", case.id, case.outcome);
        }
    }
}

/// One writer's view: what was acknowledged, and what is not known.
#[derive(Default)]
struct Seen {
    acknowledged: Vec<(Append, Mark)>,
    unknown: Vec<Append>,
    not_written: Vec<Append>,
}

async fn write(ledger: PostgresLedger, lease: Lease, stop: Arc<AtomicBool>, written: Arc<AtomicUsize>) -> Seen {
    let mut seen = Seen::default();
    while !stop.load(Ordering::SeqCst) {
        let next = append("x");
        match ledger.append(&lease, &next).await {
            Ok(appended) => {
                written.fetch_add(1, Ordering::SeqCst);
                seen.acknowledged.push((next, Mark::of(&appended.entry)));
            }
            Err(LedgerError::Unknown(_)) => seen.unknown.push(next),
            Err(LedgerError::NotWritten(_)) => seen.not_written.push(next),
            Err(other) => panic!("{other}"),
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_append_is_lost_when_the_server_crashes_under_load() {
    const WRITERS: usize = 6;
    let server = server(Wanted::OLDEST);
    let place = Place::at(server.url(), "load").await;
    // The real clock: 20 crashes must not outlive the leases.
    let ledger =
        place.options().connections(WRITERS).budget(Duration::from_secs(5)).connect(&place.url).await.expect("opened");
    let mut leases = Vec::new();
    for nth in 0..WRITERS {
        leases.push(claim(&ledger, &format!("p{nth}"), "a", seconds(3600)).await.lease);
    }
    let (mut acknowledged, mut unknown, mut landed) = (0, 0, 0);
    for _ in 0..scale(2, 20) {
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = leases
            .iter()
            .map(|lease| tokio::spawn(write(ledger.clone(), lease.clone(), stop.clone(), written.clone())))
            .collect();
        // Crash in the midst of it, not before it has begun.
        while written.load(Ordering::SeqCst) < 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.crash().expect("crashed");
        stop.store(true, Ordering::SeqCst);
        server.start().expect("started");
        for (task, lease) in tasks.into_iter().zip(&leases) {
            let seen = task.await.expect("no panic");
            acknowledged += seen.acknowledged.len();
            unknown += seen.unknown.len();
            let last = seen.acknowledged.last().map(|(_, mark)| *mark);
            let verified = ledger.verify(&lease.partition, last).await.expect("read");
            assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
            for (append, mark) in &seen.acknowledged {
                let fate = ledger.fate(&lease.partition, append.id(), lease.generation).await.expect("asked");
                let Fate::Recorded(entry) = fate else { panic!("an acknowledged append is gone: {fate:?}") };
                assert_eq!(Mark::of(&entry), *mark);
            }
            for append in &seen.not_written {
                let fate = ledger.fate(&lease.partition, append.id(), lease.generation).await.expect("asked");
                assert!(!matches!(fate, Fate::Recorded(_)), "what was said to be not written is there");
            }
            for append in &seen.unknown {
                // Sending it again settles it, and it is there once.
                if ledger.append(lease, append).await.expect("appended").replayed {
                    landed += 1;
                }
            }
        }
    }
    println!("{acknowledged} acknowledged, all there; {unknown} unknown, of which {landed} had landed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_append_is_lost_when_sessions_are_terminated_under_load() {
    const WRITERS: usize = 6;
    let server = server(Wanted::NEWEST);
    let place = Place::at(server.url(), "load").await;
    let ledger = place.options().connections(WRITERS).connect(&place.url).await.expect("opened");
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for nth in 0..WRITERS {
        let lease = claim(&ledger, &format!("p{nth}"), "a", seconds(3600)).await.lease;
        tasks.push((tokio::spawn(write(ledger.clone(), lease.clone(), stop.clone(), written.clone())), lease));
    }
    for _ in 0..scale(40, 1000) {
        let mut shell = place.shell().await;
        let kill = "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity
             where query like '%append%' and pid <> pg_backend_pid() order by random() limit 2) victims";
        sqlx::query(kill).execute(&mut shell).await.expect("terminated");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.store(true, Ordering::SeqCst);
    let (mut acknowledged, mut unknown, mut landed) = (0, 0, 0);
    for (task, lease) in tasks {
        let seen = task.await.expect("no panic");
        acknowledged += seen.acknowledged.len();
        unknown += seen.unknown.len();
        for append in &seen.unknown {
            landed += usize::from(ledger.append(&lease, append).await.expect("appended").replayed);
        }
        let count: i64 = place
            .value(&format!(
                "select count(*) from fenced_ledger.log l join fenced_ledger.partition p on p.id = l.partition
                 where p.name = '{}' and l.kind = 'noted'",
                lease.partition
            ))
            .await;
        let expected = seen.acknowledged.len() + seen.unknown.len();
        assert_eq!(usize::try_from(count), Ok(expected), "each exactly once, and nothing that was not written");
        let verified = ledger.verify(&partition(lease.partition.as_str()), None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
    }
    assert!(unknown > 0, "no session was hit in the midst of an append");
    println!("{acknowledged} acknowledged; {unknown} unknown, of which {landed} had landed");
}
