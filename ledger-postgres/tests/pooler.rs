//! Goal: behind PgBouncer in transaction mode the ledger works with `transaction_pooler`, and without it is refused at
//! open or says what to do; it never answers with another client's rows. With a pooler in front of each server of a pair, the
//! library finds the primary through them, before and after a failover.
//!
//! Method: real PgBouncers with fewer server connections than clients, so that each call meets another one.

mod common;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::harness::{Door, Postgres};
use common::{Place, Wanted, append, claim, seconds, server};
use conformance_tests::{Case, Hook, Outcome, Report, Suite};
use ledger_core::{Fate, FencedLedger, FencedLedgerExt, LedgerError, Verification};
use ledger_postgres::Options;
use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use test_postgres::{Pooler, Server};

fn pooler(wanted: Wanted, ignore: &str) -> Pooler {
    let server = server(wanted);
    let sockets = server.socket_dir().expect("a server of ours");
    Pooler::start(sockets, "postgres", &format!("ignore_startup_parameters = {ignore}")).expect("a pooler")
}

/// A primary and a synchronous standby, each with a PgBouncer of its own in front, as on the machine that it is on.
struct Pair {
    servers: [Arc<Server>; 2],
    poolers: [Pooler; 2],
}

impl Pair {
    fn start() -> Self {
        let primary = test_postgres::Options::new(Wanted::OLDEST).start().expect("a server");
        let standby = primary.standby("second").expect("a standby");
        primary.set_synchronous(&["second"]).expect("synchronous");
        // Fewer connections than the cases at once have calls, and enough for those that wait on purpose. `server_login_retry`:
        // a pooler whose server was away asks again at once.
        let settings = "default_pool_size = 12\nserver_login_retry = 0.1";
        let start = |server: &Server| Pooler::start(server.socket_dir(), "postgres", settings).expect("a pooler");
        let poolers = [start(&primary), start(&standby)];
        Self { servers: [primary, standby].map(Arc::new), poolers }
    }

    /// What a user gives: both poolers, and the library finds the primary behind them.
    fn url(&self) -> String {
        let [one, other] = self.poolers.each_ref().map(Pooler::socket_dir);
        format!("postgresql:///postgres?host={},{}&port=6432&user=postgres", other.display(), one.display())
    }

    /// The suite with its schemas on this server, and its handles through the poolers.
    fn harness(&self, nth: usize) -> Postgres {
        let server = self.servers[nth].clone();
        Postgres { through: Some(self.url()), door: Door::Simple, crashes: false, ..Postgres::of(server) }
    }
}

fn assert_all_hold(report: &Report, at_least: usize) {
    let failed: Vec<_> = report.cases.iter().filter(|case| !matches!(case.outcome, Outcome::Passed)).collect();
    assert!(failed.is_empty() && report.cases.len() >= at_least, "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_through_the_poolers_of_a_failover_pair_and_so_after_a_failover() {
    let pair = Pair::start();
    // Crashes are for the library's own connections, and a second thing in the way for those with none.
    let fits = |case: &Case| !case.needs.iter().any(|hook| [Hook::Crash, Hook::Line].contains(hook));
    assert_all_hold(&Suite::new().only(fits).at_once(4).run(&pair.harness(0)).await, 100);
    pair.servers[0].kill().expect("killed");
    pair.servers[1].promote().expect("promoted");
    // A case of each family: the poolers are the same, and so is the list of hosts.
    let families: Mutex<HashSet<&str>> = Mutex::default();
    let first = |case: &Case| fits(case) && families.lock().expect("nothing panics under it").insert(case.family);
    assert_all_hold(&Suite::new().only(first).at_once(4).run(&pair.harness(1)).await, 15);
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

/// The server's connection is kept for the client as long as the client is inside a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_through_a_poisoned_pool_and_a_pooler_is_there() {
    let pooler = pooler(Wanted::OLDEST, "extra_float_digits");
    let place = Place::new(Wanted::OLDEST).await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&pooler.url()).await.expect("a pool");
    let ledger =
        place.options().transaction_pooler(true).reserve(0).open(pool.clone()).await.expect("opened, as recommended");
    let elsewhere = place.open().await;
    let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
    for _ in 0..5 {
        let mut connection = pool.acquire().await.expect("a connection");
        connection.execute("begin").await.expect("begun");
        drop(connection);
        let sent = append("x");
        let appended = ledger.append(&lease, &sent).await.expect("appended");
        let fate = elsewhere.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
        assert_eq!(fate, Fate::Recorded(appended.entry), "acknowledged and not there");
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
    let pool = || PgPoolOptions::new().max_connections(4).connect_with(connect.clone());
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
