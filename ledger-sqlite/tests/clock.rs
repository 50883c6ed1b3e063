//! Goal: a host clock that steps back can not lengthen a lease or revive an expired one, across handles and processes
//! (T2). Each process has a clock of its own here, as a container or a virtual machine may.

mod common;

use std::time::Duration;

use common::{Place, append, claim, given_file, millis, partition, process, reason};
use ledger_core::{Clock, FencedLedger, Lease, LedgerError, ManualClock, Reason, SystemClock, Timestamp};
use ledger_sqlite::SqliteLedger;

const TTL: Duration = Duration::from_secs(5);

fn open(place: &Place, clock: &ManualClock) -> SqliteLedger {
    SqliteLedger::options().clock(clock.clone()).open(&place.file).expect("opened")
}

#[tokio::test]
async fn an_expiry_that_one_handle_has_seen_holds_for_another_whose_clock_is_behind() {
    let place = Place::new();
    let (ahead, behind) = (ManualClock::default(), ManualClock::default());
    let (one, other) = (open(&place, &ahead), open(&place, &behind));
    let lease = claim(&one, "jobs", "a", millis(5_000)).await.expect("claimed");
    other.append(&lease, &append("1")).await.expect("it is valid by both clocks");
    ahead.advance(TTL);
    assert_eq!(reason(one.append(&lease, &append("2")).await), Reason::Expired);
    // By the other's own clock it would have five seconds left.
    for _ in 0..2 {
        let Err(LedgerError::Rejected(rejection)) = other.append(&lease, &append("3")).await else { panic!("revived") };
        assert_eq!(rejection.reason, Reason::Expired);
        assert!(rejection.judged.clock_behind, "and it is said that the clock is behind");
        assert_eq!(reason(other.renew(&lease, None).await), Reason::Expired);
    }
    let next = claim(&other, "jobs", "b", millis(5_000)).await.expect("whoever comes next may claim");
    assert_eq!(
        next.expires_at,
        Timestamp::from_micros(ahead.now().as_micros() + 5_000_000),
        "counted from the judged time"
    );
}

#[tokio::test]
async fn a_clock_that_steps_back_does_not_lengthen_a_lease() {
    let place = Place::new();
    let clock = ManualClock::default();
    let ledger = open(&place, &clock);
    let lease = claim(&ledger, "jobs", "a", millis(5_000)).await.expect("claimed");
    clock.advance(Duration::from_secs(4));
    ledger.append(&lease, &append("1")).await.expect("valid");
    clock.step_back(Duration::from_secs(3_600));
    // Judged by the recorded time, 4 s after the grant: renewed to 9 s after it, and not later.
    let renewal = ledger.renew(&lease, None).await.expect("valid");
    assert!(renewal.judged.clock_behind);
    assert_eq!(renewal.lease.expires_at.since(lease.expires_at), Duration::from_secs(4));
    assert_eq!(renewal.remaining, TTL);
    // Another process, another restart: the same.
    ledger.close().await;
    let ledger = open(&place, &clock);
    let state = ledger.observe(&partition("jobs")).await.expect("observed");
    assert!(state.judged.clock_behind);
    assert_eq!(state.tenure.expect("claimed").lease.expires_at, renewal.lease.expires_at);
}

/// The same in a process of its own, on the host's clock, while this one's is an hour ahead.
#[test]
fn an_expiry_seen_by_one_process_holds_for_another_whose_clock_is_an_hour_behind() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ahead = ManualClock::new(SystemClock.now());
    let ledger = open(&place, &ahead);
    let lease = runtime.block_on(async {
        let lease = claim(&ledger, "jobs", "a", millis(600_000)).await.expect("claimed");
        ahead.advance(Duration::from_secs(3_600));
        assert_eq!(reason(ledger.append(&lease, &append("late")).await), Reason::Expired);
        lease
    });
    let text = format!("{} {} {}", lease.ledger, lease.acquisition, lease.expires_at.as_micros());
    let child = process("appends_with_the_lease", &place.file, &[("LEASE", &text)]);
    let said = String::from_utf8_lossy(&child.wait_with_output().expect("ended").stdout).into_owned();
    assert!(said.contains("REFUSED Expired, clock behind: true"), "{said}");
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn appends_with_the_lease() {
    let ledger = SqliteLedger::open(given_file()).expect("opened");
    let text = std::env::var("LEASE").expect("given");
    let mut parts = text.split(' ').map(|part| part.to_owned());
    let mut part = || parts.next().expect("three parts");
    let (id, acquisition, expires_at) = (part(), part(), part());
    let uuid = |text: &str| uuid::Uuid::parse_str(text).expect("a UUID");
    let lease = Lease::new(
        ledger_core::LedgerId::from_uuid(uuid(&id)).expect("an id"),
        partition("jobs"),
        common::holder("a"),
        ledger_core::Generation::FIRST,
        ledger_core::AcquisitionId::from_uuid(uuid(&acquisition)).expect("an id"),
        millis(600_000),
        Timestamp::from_micros(expires_at.parse().expect("a number")),
    );
    assert!(SystemClock.now() < lease.expires_at, "by this host's clock it is valid");
    match ledger.append(&lease, &append("revived")).await {
        Err(LedgerError::Rejected(rejection)) => {
            println!("REFUSED {}, clock behind: {}", rejection.reason, rejection.judged.clock_behind);
        }
        other => println!("{other:?}"),
    }
}
