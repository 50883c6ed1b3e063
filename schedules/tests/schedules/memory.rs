//! The in-memory ledger under schedules of several threads. Each lock is a place where the scheduler may switch.

use std::sync::Arc;

use crate::common::{StepClock, append, check, claim, holder, names_of, place};
use schedules::{Append, Claim, Fate, FencedLedger, Lease, MemoryLedger, Observation, PageSize, Position, Reason, Ttl};
use shuttle::future::block_on;
use shuttle::thread;

/// A ledger with a partition that `a` holds for a second.
fn held() -> (MemoryLedger, StepClock, Lease) {
    let clock = StepClock::default();
    let ledger = MemoryLedger::with_clock(clock.clone());
    let lease = block_on(ledger.claim(&claim("a", Observation::NeverClaimed))).expect("the first claim").lease;
    (ledger, clock, lease)
}

#[test]
fn of_first_claims_that_race_one_is_granted() {
    check(|| {
        let ledger = MemoryLedger::with_clock(StepClock::default());
        let claims = ["a", "b", "c"].map(|name| {
            let ledger = ledger.clone();
            thread::spawn(move || block_on(ledger.claim(&claim(name, Observation::NeverClaimed))).is_ok())
        });
        let granted = claims.into_iter().filter_map(|claim| claim.join().ok()).filter(|granted| *granted).count();
        assert_eq!(granted, 1, "claims that were granted");
    });
}

#[test]
fn an_append_is_before_the_takeover_or_refused() {
    check(|| {
        let (ledger, clock, lease) = held();
        let (other, stepped) = (ledger.clone(), clock.clone());
        let observed = Observation::of(&lease);
        let takeover = thread::spawn(move || {
            stepped.step();
            block_on(other.claim(&claim("b", observed))).expect("the lease has expired")
        });
        let answer = block_on(ledger.append(&lease, &append(1)));
        takeover.join().expect("the thread ends well");
        let kinds = names_of(&ledger);
        match answer {
            Ok(_) => assert_eq!(kinds, ["$claimed a", "noted a", "$claimed b"]),
            Err(error) => {
                let reason = error.rejection().map(|rejection| rejection.reason);
                assert!(matches!(reason, Some(Reason::StaleGeneration | Reason::Expired)), "{reason:?}");
                assert_eq!(kinds, ["$claimed a", "$claimed b"]);
            }
        }
    });
}

#[test]
fn a_ledger_that_checks_first_and_writes_later_is_found() {
    let found = std::panic::catch_unwind(|| {
        check(|| {
            let (ledger, clock, lease) = held();
            let (other, observed) = (ledger.clone(), Observation::of(&lease));
            let takeover = thread::spawn(move || {
                clock.step();
                block_on(other.claim(&claim("b", observed))).expect("the lease has expired")
            });
            // Two steps with nothing that holds them together: whoever is current by then is whom it is written for.
            let current = |ledger: &MemoryLedger| block_on(ledger.observe(&place())).expect("a look");
            let is_valid = !current(&ledger).is_free();
            if is_valid {
                let now = current(&ledger).tenure.expect("it was claimed").lease;
                assert!(now.generation == lease.generation, "a stale write was accepted");
                drop(block_on(ledger.append(&now, &append(1))));
            }
            takeover.join().expect("the thread ends well");
        });
    });
    assert!(found.is_err(), "no schedule was found in which the stale write lands");
}

#[test]
fn one_id_is_written_once() {
    check(|| {
        let (ledger, _, lease) = held();
        let append = append(1);
        let tries = [(); 3].map(|()| {
            let (ledger, lease, append) = (ledger.clone(), lease.clone(), append.clone());
            thread::spawn(move || block_on(ledger.append(&lease, &append)).expect("the lease is valid"))
        });
        let answers = tries.map(|attempt| attempt.join().expect("the thread ends well"));
        assert!(answers.iter().all(|answer| answer.entry == answers[0].entry), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1, "{answers:?}");
    });
}

#[test]
fn positions_have_no_gap_and_expectations_exclude_each_other() {
    check(|| {
        let (ledger, _, lease) = held();
        let writers = [1, 2, 3].map(|nth| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            let append: Append = append(nth).expecting(Position::FIRST);
            thread::spawn(move || block_on(ledger.append(&lease, &append)).is_ok())
        });
        let written = writers.into_iter().filter_map(|writer| writer.join().ok()).filter(|written| *written).count();
        assert_eq!(written, 1, "appends that expected position 1");
        let events = block_on(ledger.read(&place(), Position::FIRST, PageSize::MAX)).expect("a read").events;
        assert!(events.iter().zip(1..).all(|(event, position)| event.position.get() == position), "{events:?}");
    });
}

#[test]
fn never_is_final_whatever_is_in_flight() {
    check(|| {
        let (ledger, clock, lease) = held();
        let append = append(1);
        let (other, sent, old) = (ledger.clone(), append.clone(), lease.clone());
        let writer = thread::spawn(move || drop(block_on(other.append(&old, &sent))));
        let (other, stepped) = (ledger.clone(), clock);
        let late = thread::spawn(move || {
            stepped.step();
            let observed = Observation::of(&lease);
            let claim = Claim::new(place(), holder("b"), Ttl::default(), observed);
            drop(block_on(other.claim(&claim)));
            lease
        });
        let generation = schedules::Generation::FIRST;
        let told = block_on(ledger.fate(&place(), append.id(), generation)).expect("an answer");
        writer.join().expect("the thread ends well");
        late.join().expect("the thread ends well");
        let after = block_on(ledger.fate(&place(), append.id(), generation)).expect("an answer");
        assert!(told == Fate::Undecided || told == after, "told {told:?}, and then {after:?}");
    });
}

/// `Arc` and `dyn` work on it as on any ledger.
#[test]
fn readers_see_a_prefix() {
    check(|| {
        let (ledger, _, lease) = held();
        let reader: Arc<dyn FencedLedger> = Arc::new(ledger.clone());
        let writer = thread::spawn(move || {
            for nth in 1..=2 {
                block_on(ledger.append(&lease, &append(nth))).expect("the lease is valid");
            }
        });
        let page = block_on(reader.read(&place(), Position::FIRST, PageSize::MAX)).expect("a read");
        let head = page.head.map(|(position, _)| position.get());
        assert_eq!(i64::try_from(page.events.len()).ok(), head, "events and head of one page");
        writer.join().expect("the thread ends well");
    });
}
