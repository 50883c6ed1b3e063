//! Goal: whatever two sessions do to one partition at the same time, the one that waits for the other is answered, and
//! leaves the partition, as if it had come after it (A1, T4, C2, C6).
//!
//! Method: every operation waits for every other, which commits or rolls back, with and without the expiry in the wait.
//! A session does the first one and stays open; the second is seen to wait; the clock is stepped or not; the session
//! ends. What must come of it is not written down here: it is what the model in memory says of the two in sequence.

mod common;

use std::time::{Duration, Instant};

use common::{Place, Wanted, append_as, holder, partition, seconds};
use ledger_core::{
    AcquisitionId, Advance, Append, AppendId, Claim, Claimed, FencedLedger, Lease, LedgerError, ManualClock, Note,
    Observation, OwnEvent, PageSize, PartitionId, PartitionState, Position, Released, Timestamp,
};
use ledger_memory::MemoryLedger;
use ledger_postgres::PostgresLedger;
use sqlx::{Executor, PgConnection};
use uuid::Uuid;

/// What a session does. `Lock` changes nothing: it holds the partition and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Lock,
    Append,
    Renew,
    Release,
    Claim,
    End,
    Advance,
}

/// Each has its own id and name on each side of a pair, so that two appends or two claims are two.
#[derive(Clone, Copy)]
struct Side {
    append: u128,
    claimant: &'static str,
    acquisition: u128,
}

const FIRST: Side = Side { append: 11, claimant: "b", acquisition: 12 };
const SECOND: Side = Side { append: 21, claimant: "c", acquisition: 22 };
const TTL: i64 = 5;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x7000_8000_0000_0000_0000 + number)
}

fn acquisition(number: u128) -> AcquisitionId {
    AcquisitionId::from_uuid(id(number)).expect("no nil")
}

fn sent(side: Side) -> Append {
    append_as(AppendId::from_uuid(id(side.append)).expect("no nil"), side.claimant)
}

fn claim_of(side: Side, name: &PartitionId, observed: Observation) -> Claim {
    let claim = Claim::new(name.clone(), holder(side.claimant), seconds(TTL), observed);
    claim.with_acquisition(acquisition(side.acquisition))
}

fn advance_of(side: Side, name: &PartitionId) -> Advance {
    let reason = Note::new("by hand").expect("a note");
    Advance::new(name.clone(), holder(side.claimant), None, reason).with_acquisition(acquisition(side.acquisition))
}

async fn first_claim(ledger: &dyn FencedLedger, name: &PartitionId) -> Claimed {
    let claim = Claim::new(name.clone(), holder("a"), seconds(TTL), Observation::NeverClaimed);
    ledger.claim(&claim.with_acquisition(acquisition(1))).await.expect("claimed")
}

/// Does a step through the library and tells what came of it, without what two ledgers can not share: id and chain.
async fn through(ledger: &dyn FencedLedger, step: Step, side: Side, lease: &Lease) -> String {
    let observed = Observation::Tenure { generation: lease.generation, acquisition: lease.acquisition };
    let told = match step {
        Step::Lock => return "nothing".to_owned(),
        Step::Append => ledger.append(lease, &sent(side)).await.map(|done| {
            format!("{}..{} {:?} {:?}", done.entry.first, done.entry.last, done.entry.recorded_at, done.judged)
        }),
        Step::Renew => ledger
            .renew(lease, None)
            .await
            .map(|done| format!("{:?} {} {:?}", done.lease.expires_at, done.head, done.judged)),
        Step::Release => ledger.release(lease).await.map(|done| match done {
            Released::Now { position, judged } => format!("at {position} {judged:?}"),
            Released::AlreadyEnded { end, judged } => format!("{end:?} {judged:?}"),
        }),
        Step::Claim => ledger
            .claim(&claim_of(side, &lease.partition, observed))
            .await
            .map(|done| format!("{:?} {:?} {:?}", done.lease.generation, done.lease.expires_at, done.judged)),
        Step::End => {
            let reason = Note::new("by hand").expect("a note");
            ledger.end_tenure(&lease.partition, observed, &reason).await.map(|done| format!("{done:?}"))
        }
        Step::Advance => ledger
            .advance(&advance_of(side, &lease.partition))
            .await
            .map(|done| format!("{} {} {} {:?}", done.generation, done.position, done.replayed, done.judged)),
    };
    match told {
        Ok(told) => told,
        Err(LedgerError::Rejected(rejection)) => format!("{:?} at {:?}", rejection.reason, rejection.judged),
        Err(other) => panic!("{step:?}: {other}"),
    }
}

/// Does a step in a session of its own, which stays open.
async fn open_session(place: &Place, ledger: &PostgresLedger, step: Step, lease: &Lease) -> PgConnection {
    let mut session = place.shell().await;
    session.execute("begin").await.expect("begun");
    let (name, token, micros) = (&lease.partition, lease.acquisition, TTL * 1_000_000);
    let call = match step {
        Step::Lock => format!("select 1 from fenced_ledger.partition where name = '{name}' for no key update"),
        Step::Append => {
            drop(ledger.append_in(&mut session, lease, &sent(FIRST)).await);
            return session;
        }
        Step::Renew => format!("select * from fenced_ledger.renew('{name}', 1, '{token}', 'a', {micros}, false, null)"),
        Step::Release => format!("select * from fenced_ledger.release('{name}', 1, '{token}', 'a', false, null)"),
        Step::Claim => format!(
            "select * from fenced_ledger.claim('{name}', '{}', '{}', {micros}, 1, '{token}', false, null)",
            id(FIRST.acquisition),
            FIRST.claimant
        ),
        Step::End => format!("select * from fenced_ledger.end_tenure('{name}', 1, '{token}', 'by hand', null)"),
        Step::Advance => format!(
            "select * from fenced_ledger.advance('{name}', '{}', '{}', null, 'by hand', null)",
            id(FIRST.acquisition),
            FIRST.claimant
        ),
    };
    sqlx::query(place.sql(&call)).execute(&mut session).await.expect("done");
    session
}

/// What is left: the state and the log, without ids of the ledger.
async fn left(ledger: &dyn FencedLedger, name: &PartitionId) -> String {
    let PartitionState { tenure, .. } = ledger.observe(name).await.expect("observed");
    let tenure = tenure.expect("claimed");
    let mut lines = format!(
        "{} {:?} {:?} {:?} {:?} {}\n",
        tenure.lease.holder,
        tenure.lease.generation,
        tenure.lease.expires_at,
        tenure.vacancy,
        tenure.recorded_at,
        tenure.head
    );
    for event in ledger.read(name, Position::FIRST, PageSize::MAX).await.expect("read").events {
        // What an advance found has chain values, which differ from ledger to ledger.
        let found = match OwnEvent::read(&event.kind, &event.payload).expect("readable") {
            Some(OwnEvent::Advanced(found)) => format!(
                "{:?} {:?} {:?}",
                found.lease.map(|lease| (lease.holder, lease.generation, lease.acquisition, lease.head)),
                found.log.map(|log| (log.generation, log.position)),
                (found.above, found.reason)
            ),
            _ => format!("{:?}", event.payload),
        };
        lines.push_str(&format!(
            "{} {} {:?} {:?} {:?}\n",
            event.position, event.kind, found, event.entry.generation, event.entry.recorded_at
        ));
    }
    lines
}

/// Waits until a session waits for a lock in a call of this schema: a pair of which nobody waits proves nothing.
async fn seen_to_wait(place: &Place) {
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%fenced_ledger%'";
    let start = Instant::now();
    while place.value::<i64>(waiting).await == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "nobody waits");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What one pair of steps must do: the answer of the second, and what is left.
async fn by_the_model(pair: &Pair, name: &PartitionId, start: Timestamp) -> (String, String) {
    let clock = ManualClock::new(start);
    let model = MemoryLedger::with_clock(clock.clone());
    let lease = first_claim(&model, name).await.lease;
    clock.advance(pair.before());
    if pair.commits {
        through(&model, pair.first, FIRST, &lease).await;
    }
    clock.advance(pair.between());
    let answer = through(&model, pair.second, SECOND, &lease).await;
    (answer, left(&model, name).await)
}

/// The second step waits for the first, which commits or not; the lease runs out in the wait or not.
#[derive(Debug)]
struct Pair {
    first: Step,
    second: Step,
    commits: bool,
    expires: bool,
}

impl Pair {
    fn all() -> Vec<Self> {
        let mut pairs = Vec::new();
        for first in [Step::Lock, Step::Append, Step::Renew, Step::Release, Step::Claim, Step::End, Step::Advance] {
            for second in [Step::Append, Step::Renew, Step::Release, Step::Claim, Step::End, Step::Advance] {
                for (commits, expires) in [(true, false), (true, true), (false, false), (false, true)] {
                    pairs.push(Self { first, second, commits, expires });
                }
            }
        }
        pairs
    }

    /// A takeover is granted after the expiry alone, so then the clock is there before the first step.
    fn before(&self) -> Duration {
        if self.first == Step::Claim { Duration::from_secs(TTL.unsigned_abs()) } else { Duration::ZERO }
    }

    fn between(&self) -> Duration {
        if self.expires { Duration::from_secs(TTL.unsigned_abs()) } else { Duration::ZERO }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_comes_after() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await.with_clock().await;
        let ledger = place.open().await;
        for (number, pair) in Pair::all().iter().enumerate() {
            let name = partition(&format!("pair {number}"));
            let start = Timestamp::from_micros(place.value("select fenced_ledger.clock()").await);
            let lease = first_claim(&ledger, &name).await.lease;
            place.advance(pair.before()).await;
            let mut session = open_session(&place, &ledger, pair.first, &lease).await;
            let call = tokio::spawn({
                let (ledger, lease, second) = (ledger.clone(), lease.clone(), pair.second);
                async move { through(&ledger, second, SECOND, &lease).await }
            });
            seen_to_wait(&place).await;
            place.advance(pair.between()).await;
            session.execute(if pair.commits { "commit" } else { "rollback" }).await.expect("ended");
            let answer = call.await.expect("no panic");
            let (must, must_be_left) = by_the_model(pair, &name, start).await;
            assert_eq!(answer, must, "{wanted}: {pair:?}");
            assert_eq!(left(&ledger, &name).await, must_be_left, "{wanted}: {pair:?}");
        }
        place.drop().await;
    }
}
