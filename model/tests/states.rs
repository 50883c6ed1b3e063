//! Every state up to the bounds: all properties hold, and there are as many states as the TLA+ text of the model has.

use model::{Bounds, Protocol};
use stateright::{Checker, Model};

/// How many states TLC finds in the TLA+ text with the same bounds: `docs/tla.sh` compares with the same lines.
const TLC: &str = include_str!("../../docs/FencedLedger.states");

#[test]
fn every_state_keeps_all_properties_and_there_are_as_many_as_in_the_tla_text() {
    let full = std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    let (name, bounds) = if full { ("full", Bounds::FULL) } else { ("small", Bounds::SMALL) };
    let checker = Protocol { bounds, bug: None }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let line = TLC.lines().find_map(|line| line.strip_prefix(name)).expect("a line for each of the bounds");
    let by_tlc: usize = line.trim().parse().expect("a number of states");
    println!("{} distinct states within the {name} bounds", checker.unique_state_count());
    assert_eq!(checker.unique_state_count(), by_tlc, "states here and in docs/FencedLedger.tla, {bounds:?}");
}
