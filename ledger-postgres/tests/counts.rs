//! Goal: whatever happens to the call that counts repeats, a refusal that says `Counted` is counted once, and every other one
//! at most once (E3); where it is not known, the refusal stands and says so (E2).
//!
//! Method: a proxy loses or holds that call, and another session reads what is stored. The tests run on one thread, so that
//! what is asked together is looked up and counted together; one alone would be counted by its own call.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::harness::Door;
use common::{Place, Wanted, append, claim, holder, seconds};
use ledger_core::{FailureKind, FencedLedger, Lease, LedgerError, Reason, RecordState};
use ledger_postgres::{Options, PostgresLedger};
use sqlx::PgPool;
use test_postgres::{Armed, Fault, Proxy, Server, Trigger};

const COUNTED: [RecordState; 2] = [RecordState::Counted, RecordState::Counted];
const PATIENCE: Duration = Duration::from_secs(10);

/// A handle that reaches its server through a proxy, and a lease of it that has ended, of which a refusal is stored.
struct Fenced {
    place: Place,
    proxy: Proxy,
    ledger: PostgresLedger,
    lease: Lease,
}

fn start(wanted: Wanted) -> Server {
    test_postgres::Options::new(wanted).start().expect("a server")
}

impl Fenced {
    async fn new(server: &Server, door: Door, options: fn(Options) -> Options) -> Self {
        let place = Place::at(server.url(), &server.fresh_schema_name()).await;
        let proxy = server.proxy().expect("a proxy");
        let (options, url) = (options(place.options()), proxy.url());
        let opened = match door {
            Door::Own => options.connect(&url).await,
            Door::Pool => options.open(PgPool::connect(&url).await.expect("a pool")).await,
            Door::Singly => options.coalesce(false).connect(&url).await,
            Door::Simple => options.transaction_pooler(true).connect(&url).await,
        };
        let ledger = opened.expect("opened");
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&lease).await.expect("released");
        let fenced = Self { place, proxy, ledger, lease };
        assert_eq!(fenced.refused().await, RecordState::Stored);
        fenced
    }

    async fn refused(&self) -> RecordState {
        refused(&self.ledger, &self.lease).await
    }

    /// Two at the same moment, of which both are counted by one call.
    async fn both(&self) -> [RecordState; 2] {
        futures_util::future::join(self.refused(), self.refused()).await.into()
    }

    async fn counted(&self) -> i64 {
        self.place.value("select coalesce(sum(count), 0)::bigint from fenced_ledger.rejection").await
    }

    fn arm(&self, function: &str, fault: Fault) -> Armed {
        self.proxy.arm(Trigger::Containing(format!(".{function}")), fault)
    }
}

async fn refused(ledger: &PostgresLedger, lease: &Lease) -> RecordState {
    match ledger.append(lease, &append("x")).await {
        Err(LedgerError::Rejected(rejection)) => {
            assert_eq!(rejection.reason, Reason::Released);
            rejection.record.clone()
        }
        other => panic!("{other:?}"),
    }
}

async fn struck(armed: &Arc<Armed>) {
    let armed = armed.clone();
    let waited = tokio::task::spawn_blocking(move || armed.wait_struck(PATIENCE)).await;
    assert!(waited.expect("no panic"), "the call came to the proxy");
}

fn is_missing(record: &RecordState) -> bool {
    matches!(record, RecordState::Missing { .. })
}

#[tokio::test]
async fn a_lost_count_is_told_and_is_there_once_or_not_at_all() {
    for wanted in Wanted::BOTH {
        let server = start(wanted);
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let fenced = Fenced::new(&server, door, |options| options).await;
            assert_eq!((fenced.both().await, fenced.counted().await), (COUNTED, 3));
            let lost = fenced.arm("count_rejections", Fault::DropReply);
            let told = fenced.both().await;
            lost.expect_done();
            assert!(told.iter().all(is_missing), "{wanted}, {door:?}: {told:?}");
            assert_eq!(fenced.counted().await, 5, "{wanted}, {door:?}: the server had counted them");
            let lost = fenced.arm("count_rejections", Fault::DropRequest);
            let told = fenced.both().await;
            lost.expect_done();
            assert!(told.iter().all(is_missing), "{wanted}, {door:?}: {told:?}");
            assert_eq!(fenced.counted().await, 5, "{wanted}, {door:?}: it never came");
            assert_eq!((fenced.both().await, fenced.counted().await), (COUNTED, 7));
        }
    }
}

#[tokio::test]
async fn what_surely_was_not_counted_is_judged_by_its_own_call() {
    for wanted in Wanted::BOTH {
        let server = start(wanted);
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let fenced = Fenced::new(&server, door, |options| options).await;
            fenced.place.run("alter function fenced_ledger.count_rejections rename to gone").await;
            let all = futures_util::future::join_all((0..20).map(|_| fenced.refused())).await;
            assert!(all.iter().all(|told| *told == RecordState::Counted), "{wanted}, {door:?}: {all:?}");
            assert_eq!(fenced.counted().await, 21, "{wanted}, {door:?}");
            fenced.place.run("alter function fenced_ledger.gone rename to count_rejections").await;

            // The store went back in time while the count was on its way: nothing is counted of what it never had.
            let held = Arc::new(fenced.arm("count_rejections", Fault::Hold));
            let late = || {
                let (ledger, lease) = (fenced.ledger.clone(), fenced.lease.clone());
                tokio::spawn(async move { ledger.append(&lease, &append("x")).await })
            };
            let both = [late(), late()];
            struck(&held).await;
            fenced.place.run("delete from fenced_ledger.log; delete from fenced_ledger.partition").await;
            held.deliver();
            for late in both {
                let told = late.await.expect("no panic").expect_err("never claimed");
                let told = told.rejection().expect("a refusal");
                assert_eq!(told.reason, Reason::NeverClaimed, "{wanted}, {door:?}");
                assert!(matches!(told.record, RecordState::Stored | RecordState::Counted), "{wanted}, {door:?}");
            }
            let counts: Vec<i64> =
                fenced.place.value("select array_agg(count order by scope) from fenced_ledger.rejection").await;
            assert_eq!(counts, [2, 21], "{wanted}, {door:?}");
        }
    }
}

#[tokio::test]
async fn nobody_is_counted_twice_whose_time_runs_out_or_who_goes() {
    for wanted in Wanted::BOTH {
        let server = start(wanted);
        let fenced = Fenced::new(&server, Door::Own, |options| options.budget(Duration::from_secs(3))).await;
        let spawn = || {
            let (ledger, lease) = (fenced.ledger.clone(), fenced.lease.clone());
            tokio::spawn(async move { ledger.append(&lease, &append("x")).await })
        };
        // Who goes before the count is not counted; who waits beside it is.
        let held = Arc::new(fenced.arm("look", Fault::Hold));
        let (gone, stays) = (spawn(), spawn());
        struck(&held).await;
        gone.abort();
        assert!(gone.await.expect_err("dropped").is_cancelled());
        held.deliver();
        let told = stays.await.expect("no panic").expect_err("released");
        assert_eq!(told.rejection().expect("a refusal").record, RecordState::Counted);
        assert_eq!(fenced.counted().await, 2, "{wanted}");

        // Whose time runs out while it is counted is not judged again by a call of its own.
        let held = Arc::new(fenced.arm("count_rejections", Fault::Hold));
        let both = [spawn(), spawn()];
        struck(&held).await;
        for late in both {
            match late.await.expect("no panic") {
                Err(LedgerError::NotWritten(failure)) => {
                    assert!(failure.kind == FailureKind::Busy && failure.to_string().contains("refusal"), "{failure}");
                }
                // The budget of the count ran out in the same moment, and its answer came first.
                Err(LedgerError::Rejected(rejection)) => assert!(is_missing(&rejection.record), "{rejection:?}"),
                other => panic!("{other:?}"),
            }
        }
        held.deliver();
        held.expect_done();
        assert_eq!(fenced.counted().await, 4, "{wanted}: each once");
    }
}

#[tokio::test]
async fn a_runtime_that_ends_in_the_middle_leaves_a_refusal_that_says_so() {
    for wanted in Wanted::BOTH {
        let server = start(wanted);
        let fenced = Fenced::new(&server, Door::Own, |options| options).await;
        // The look is driven in the runtime of whoever came first.
        let first = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build();
        let first = first.expect("a runtime");
        let spawn = || {
            let (ledger, lease) = (fenced.ledger.clone(), fenced.lease.clone());
            tokio::spawn(async move { refused(&ledger, &lease).await })
        };

        // Two in the other runtime, so that there is a look; who waits for it here comes to the next.
        let look = Arc::new(fenced.arm("look", Fault::Hold));
        let (ledger, lease) = (fenced.ledger.clone(), fenced.lease.clone());
        let gone = first.spawn(async move {
            futures_util::future::join(refused(&ledger, &lease), refused(&ledger, &lease)).await;
        });
        struck(&look).await;
        let both = [spawn(), spawn()];
        tokio::task::yield_now().await; // They enter.
        gone.abort();
        assert!(gone.await.expect_err("dropped").is_cancelled());
        let count = Arc::new(fenced.arm("count_rejections", Fault::Hold));
        look.deliver();
        struck(&count).await;
        // One that comes while the others are counted waits for the next look, and is counted by its own call.
        let next = spawn();
        tokio::task::yield_now().await; // It enters.
        first.shutdown_background();
        assert_eq!(next.await.expect("no panic"), RecordState::Counted, "{wanted}");
        for late in both {
            let told = late.await.expect("no panic");
            assert!(is_missing(&told), "{wanted}: {told:?}");
        }
        assert_eq!(fenced.counted().await, 2, "{wanted}");
        count.deliver();
        count.expect_done();
        // Who sent it is gone, so that it may have come or not.
        let then = fenced.counted().await;
        assert!(then == 2 || then == 4, "{wanted}: {then}");
        assert_eq!((fenced.refused().await, fenced.counted().await), (RecordState::Counted, then + 1));
    }
}

#[tokio::test]
async fn a_count_of_repeats_is_not_flushed_and_a_record_that_was_gone_is() {
    for wanted in Wanted::BOTH {
        let server = start(wanted);
        for door in [Door::Own, Door::Pool, Door::Simple] {
            let fenced = Fenced::new(&server, door, |options| options).await;
            let mut forged = fenced.lease.clone();
            forged.holder = holder("z");
            let both = || async {
                let (one, other) = (append("x"), append("x"));
                let (one, other) = futures_util::future::join(
                    fenced.ledger.append(&fenced.lease, &one),
                    fenced.ledger.append(&forged, &other),
                )
                .await;
                assert!(matches!((one, other), (Err(LedgerError::Rejected(_)), Err(LedgerError::Rejected(_)))));
            };
            both().await;
            // What is set when the transaction of each count commits.
            fenced
                .place
                .run(
                    "create table fenced_ledger.seen (at_commit text not null);
                     create function fenced_ledger.see() returns trigger language plpgsql as $$
                     begin
                         insert into fenced_ledger.seen values (current_setting('synchronous_commit'));
                         return null;
                     end $$;
                     create constraint trigger see after insert or update on fenced_ledger.rejection
                         deferrable initially deferred for each row execute function fenced_ledger.see()",
                )
                .await;
            let seen = || async {
                let seen: Vec<String> = fenced.place.value("select array_agg(at_commit) from fenced_ledger.seen").await;
                fenced.place.run("delete from fenced_ledger.seen").await;
                seen
            };
            both().await;
            assert_eq!(seen().await, ["off", "off"], "{wanted}, {door:?}");
            for gone in ["holder = 'z'", "holder = 'a'"] {
                fenced.place.run(&format!("delete from fenced_ledger.rejection where {gone}")).await;
                both().await;
                assert_eq!(seen().await, ["on", "on"], "{wanted}, {door:?}: one call, with the first of a key");
            }
            // All go to the overflow record: the first of it is flushed, its repeats are not.
            fenced
                .place
                .run("delete from fenced_ledger.rejection; update fenced_ledger.evidence_budget set used = 256")
                .await;
            both().await;
            assert_eq!(seen().await, ["on", "on"], "{wanted}, {door:?}: the first of the overflow");
            both().await;
            assert_eq!(seen().await, ["off", "off"], "{wanted}, {door:?}");
            assert_eq!(fenced.counted().await, 4, "{wanted}, {door:?}");
        }
    }
}
