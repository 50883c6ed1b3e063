//! Each mistake of a store breaks the property that it is about, within few steps.

use model::{Action, Bounds, Bug, Protocol};
use stateright::{Checker, HasDiscoveries, Model};

/// The mistake, the property that it breaks, and the steps of the shortest way there.
const FOUND: [(Bug, &str, usize); 24] = [
    (Bug::IgnoresHolder, "Fenced", 3),
    (Bug::IgnoresGeneration, "Fenced", 3),
    (Bug::IgnoresAcquisition, "Fenced", 3),
    (Bug::IgnoresExpiry, "Fenced", 4),
    (Bug::ValidAtExpiry, "Fenced", 4),
    (Bug::IgnoresRelease, "Fenced", 4),
    (Bug::ReusesGeneration, "GrantedOnce", 3),
    (Bug::ReusesAcquisition, "FreshAcq", 3),
    (Bug::ResetsGeneration, "GenUp", 2),
    (Bug::RevivesByRenewal, "NoRevive", 3),
    (Bug::ReleasesForOthers, "OwnRelease", 2),
    (Bug::Steals, "NoSteal", 2),
    (Bug::WritesTwice, "Once", 5),
    (Bug::FollowsTheClockBack, "TimeMonotone", 4),
    (Bug::ChecksThenWrites, "Fenced", 4),
    (Bug::JudgesByStartTime, "FreshTime", 4),
    (Bug::IgnoresObservation, "Observed", 1),
    (Bug::ForgetsExpiry, "ToldIsFinal", 5),
    (Bug::FateByClock, "FateFinal", 3),
    (Bug::FateNeverWhenAbsent, "FateFinal", 3),
    (Bug::NoWitness, "GrantedOnce", 3),
    (Bug::WitnessComparesPosition, "MarkKept", 7),
    (Bug::WitnessComparesGeneration, "MarkKept", 6),
    (Bug::AdvancesTooLittle, "GrantedOnce", 5),
];

#[test]
fn each_mistake_is_found_by_the_property_that_it_is_about() {
    for bug in Bug::ALL {
        let lines: Vec<_> = FOUND.iter().filter(|(found, ..)| *found == bug).collect();
        let [(_, property, steps)] = lines[..] else { panic!("{bug:?} has {} lines", lines.len()) };
        let path = search(bug, property, *steps);
        let path = path.unwrap_or_else(|| panic!("{bug:?} does not break {property} within {steps} steps"));
        println!("{bug:?} breaks {property}: {path:?}");
        assert!(search(bug, property, steps - 1).is_none(), "{bug:?} breaks {property} in fewer than {steps} steps");
    }
}

/// A way to a state that breaks the property, if there is one within so many steps.
fn search(bug: Bug, property: &'static str, steps: usize) -> Option<Vec<Action>> {
    let protocol = Protocol { bounds: Bounds::SMALL, bug: Some(bug) };
    let wanted = HasDiscoveries::AnyOf([property].into());
    // Depth counts states, the first one too, and the last is not looked at.
    let checker = protocol.checker().target_max_depth(steps + 2).finish_when(wanted).spawn_bfs().join();
    Some(checker.discovery(property)?.into_actions())
}
