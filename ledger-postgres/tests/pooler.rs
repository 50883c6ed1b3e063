//! Goal: behind PgBouncer in transaction mode the ledger works with `transaction_pooler`, and without it is refused at
//! open or says what to do; it never answers with another client's rows.
//!
//! Method: a real PgBouncer with fewer server connections than clients, so that each call meets another one.

mod common;

use std::time::Duration;

use common::harness::{Door, Postgres};
use common::{Place, Wanted, append, claim, seconds, server};
use conformance_tests::{Hook, Outcome, Suite};
use ledger_core::{FencedLedger, FencedLedgerExt, LedgerError, Verification};
use ledger_postgres::Options;
use sqlx::postgres::PgConnectOptions;
use test_postgres::Pooler;

fn pooler(wanted: Wanted, ignore: &str) -> Pooler {
    let server = server(wanted);
    let sockets = server.socket_dir().expect("a server of ours");
    Pooler::start(sockets, "postgres", &format!("ignore_startup_parameters = {ignore}")).expect("a pooler")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_through_a_transaction_pooler() {
    let pooler = pooler(Wanted::OLDEST, "");
    let harness = Postgres { through: Some(pooler.url()), ..Postgres::shared(Wanted::OLDEST, Door::Simple) };
    // Three server connections: two cases at once leave room for what waits on purpose.
    let suite = Suite::new().only(|case| !case.needs.iter().any(|hook| [Hook::Crash, Hook::Line].contains(hook)));
    let report = suite.at_once(1).run(&harness).await;
    let failed: Vec<_> = report.cases.iter().filter(|case| !matches!(case.outcome, Outcome::Passed)).collect();
    assert!(failed.is_empty() && report.cases.len() > 100, "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_of_few_connections_get_their_own_answers() {
    let pooler = pooler(Wanted::NEWEST, "");
    let place = Place::new(Wanted::NEWEST).await;
    let options = || place.options().transaction_pooler(true).connections(4).budget(Duration::from_secs(30));
    let mut tasks = Vec::new();
    for nth in 0..12 {
        let ledger = options().connect(&pooler.url()).await.expect("opened");
        tasks.push(tokio::spawn(async move {
            let name = format!("p{nth}");
            let lease = claim(&ledger, &name, &name, seconds(600)).await.lease;
            for _ in 0..30 {
                let sent = append("x");
                let appended = ledger.append(&lease, &sent).await.expect("appended");
                assert_eq!((appended.entry.id, &appended.entry.holder), (Some(sent.id()), &lease.holder));
                assert_eq!(ledger.renew(&lease, None).await.expect("renewed").lease.holder, lease.holder);
                let state = ledger.observe(&lease.partition).await.expect("observed");
                assert_eq!(state.tenure.expect("claimed").lease.acquisition, lease.acquisition);
            }
            let verified = ledger.verify(&lease.partition, None).await.expect("read");
            assert!(matches!(verified, Verification::Clean { events: 31, .. }), "{verified:?}");
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_mode_a_pooler_is_refused_and_the_remedy_named() {
    let place = Place::new(Wanted::OLDEST).await;
    let options = || Options::new().schema(place.schema.clone()).budget(Duration::from_secs(5));
    // PgBouncer's defaults, and one that ignores what it does not know.
    for ignore in ["", "extra_float_digits", "extra_float_digits, options"] {
        let pooler = pooler(Wanted::OLDEST, ignore);
        let error = options().connect(&pooler.url()).await.expect_err("refused");
        assert!(error.to_string().contains("transaction_pooler"), "ignores {ignore:?}: {error}");
        options().transaction_pooler(true).connect(&pooler.url()).await.expect("opened");
    }
    // A pool that is given can not be told at open: its calls are not written, or they are right.
    let pooler = pooler(Wanted::OLDEST, "extra_float_digits");
    let connect: PgConnectOptions = pooler.url().parse().expect("a URL");
    let pool = || sqlx::postgres::PgPoolOptions::new().max_connections(4).connect_with(connect.clone());
    let ledger = options().tries(1).reserve(0).open(pool().await.expect("a pool")).await.expect("opened");
    let own = place.open().await;
    let lease = claim(&own, "p", "a", seconds(600)).await.lease;
    let (mut written, mut told) = (0, 0);
    let tasks: Vec<_> = (0..60)
        .map(|nth: i32| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            tokio::spawn(async move {
                let sent = append(&nth.to_string());
                (sent.clone(), ledger.append(&lease, &sent).await)
            })
        })
        .collect();
    for task in tasks {
        match task.await.expect("no panic") {
            (sent, Ok(appended)) => {
                assert_eq!(appended.entry.id, Some(sent.id()));
                written += 1;
            }
            (_, Err(LedgerError::NotWritten(failure))) => {
                assert!(failure.detail.contains("transaction_pooler"), "{failure}");
                told += 1;
            }
            (_, Err(other)) => panic!("{other:?}"),
        }
    }
    let there: i64 = place.value("select count(*) from fenced_ledger.log where kind = 'noted'").await;
    assert_eq!(there, written);
    println!("{written} written, {told} told to use `transaction_pooler`");
    place.drop().await;
}
