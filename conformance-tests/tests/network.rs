//! Writers over a simulated network on the in-memory ledger: nothing is wrong in many runs, each run can be had again
//! from its seed, and ledgers and writers with a bug are found.

#[path = "network/broken.rs"]
mod broken;

use std::sync::Arc;
use std::time::Duration;

use broken::{Broken, Flaw};
use conformance_tests::Stop;
use conformance_tests::network::{Faults, Figures, Habit, Simulation};
use ledger_core::{FencedLedger, ManualClock};
use ledger_memory::MemoryLedger;

fn run(simulation: &Simulation, flaw: Option<Flaw>) -> Result<Figures, Stop> {
    let clock = ManualClock::default();
    let memory: Arc<dyn FencedLedger> = Arc::new(MemoryLedger::with_clock(clock.clone()));
    let ledger = match flaw {
        None => memory,
        Some(flaw) => Arc::new(Broken::new(memory, flaw)),
    };
    simulation.run(ledger, &clock)
}

#[test]
fn nothing_is_wrong_in_many_runs() {
    let seconds = std::env::var("FENCED_LEDGER_NETWORK_SECONDS").ok().and_then(|text| text.parse().ok());
    let runs = if is_full() { 60 } else { 6 };
    let (start, mut total, mut seed) = (std::time::Instant::now(), Figures::default(), 0);
    // So many runs, or as many as there is time for.
    while seconds.map_or(seed < runs, |seconds| start.elapsed() < Duration::from_secs(seconds)) {
        let figures = run(&Simulation::new(seed), None);
        total += figures.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        seed += 1;
    }
    println!("{seed} runs: {total:#?}");
    println!("{:.0} h of leases", total.leased.as_secs_f64() / 3600.0);
    assert!(total.takeovers > 0 && total.stale > 0 && total.unknown > 0 && total.settled_by_fate > 0, "{total:#?}");
    assert!(total.lost > 0 && total.doubled > 0 && total.requests > 0, "{total:#?}");
}

/// Seeds that have shown something once.
#[test]
fn nothing_is_wrong_where_something_was() {
    // One copy of a doubled append was written, the other one refused after a takeover, and its refusal came first.
    run(&Simulation::new(5_479), None).unwrap_or_else(|stop| panic!("{stop}"));
}

#[test]
fn a_seed_gives_the_same_run_again_and_another_gives_another() {
    let trace = |seed| run(&Simulation::new(seed), None).expect("nothing is wrong").trace;
    let (first, again, other) = (trace(7), trace(7), trace(8));
    assert_eq!(first, again, "seed 7 twice");
    assert_ne!(first, other, "seeds 7 and 8");
}

#[test]
fn without_faults_nothing_is_unknown() {
    let mut simulation = Simulation::new(1);
    simulation.faults = Faults::none();
    let figures = run(&simulation, None).expect("nothing is wrong");
    assert_eq!((figures.lost, figures.doubled, figures.unknown), (0, 0, 0), "{figures:#?}");
    assert!(figures.written > 0, "{figures:#?}");
}

/// The words of the violation with which a run must end, within a few seeds.
fn found(simulation: impl Fn(u64) -> Simulation, flaw: Option<Flaw>, words: &[&str]) {
    for seed in 0..40 {
        if let Err(stop) = run(&simulation(seed), flaw) {
            let text = stop.to_string();
            let is_told = words.iter().any(|words| text.contains(words));
            assert!(is_told, "{flaw:?} ended with other words than {words:?}: {text}");
            return;
        }
    }
    panic!("{flaw:?} was not found: expected {words:?}");
}

#[test]
fn broken_ledgers_are_found() {
    for (flaw, words) in [
        (Flaw::IgnoresGeneration, &["only the newest tenure may write"][..]),
        (Flaw::HoldsLongerThanTold, &["only the newest tenure may write"]),
        (Flaw::WritesRetriesAgain, &["what was acknowledged is there"]),
        // Seen at the end, or by a retry that is written although the first one had been acknowledged.
        (Flaw::AcknowledgesFirst, &["what was acknowledged is there", "one write for each id"]),
        (Flaw::SaysNeverTooSoon, &["what was told not to be written"]),
        (Flaw::Steals, &["a takeover of"]),
    ] {
        found(Simulation::new, Some(flaw), words);
    }
}

#[test]
fn writers_with_a_bug_are_found() {
    let with = |habit| {
        move |seed| {
            let mut simulation = Simulation::new(seed);
            simulation.habit = habit;
            simulation
        }
    };
    found(with(Habit::TakesUnknownForFailure), None, &["what was told not to be written"]);
    found(with(Habit::SendsWhatIsKnown), None, &["leave for a first sending is given once"]);
}

fn is_full() -> bool {
    std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}
