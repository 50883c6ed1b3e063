//! Writers over a simulated network on a SQLite file: nothing is wrong, and a run can be had again from its seed.

use std::sync::Arc;
use std::time::Duration;

use conformance_tests::network::{Figures, Simulation};
use ledger_core::{Durability, ManualClock};
use ledger_sqlite::SqliteLedger;

fn run(seed: u64) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::default();
    // What is durable is tested elsewhere; here it would only cost time.
    let options = SqliteLedger::options().clock(clock.clone()).durability(Durability::ProcessCrash);
    let ledger = Arc::new(options.open(folder.path().join("ledger.db")).expect("a new file"));
    let mut simulation = Simulation::new(seed);
    simulation.time = Duration::from_secs(120);
    simulation.run(ledger, &clock).unwrap_or_else(|stop| panic!("seed {seed}: {stop}"))
}

#[test]
fn nothing_is_wrong_over_a_bad_network() {
    let runs = if std::env::var_os("FENCED_LEDGER_FULL").is_some() { 8 } else { 1 };
    let mut total = Figures::default();
    (0..runs).for_each(|seed| total += run(seed));
    println!("{runs} runs: {total:#?}");
    assert!(total.takeovers > 0 && total.stale > 0 && total.lost > 0, "{total:#?}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    assert_eq!(run(7).trace, run(7).trace);
}
