//! The shadow's rules, with one bug in them where a test has switched it on.

#[path = "../rules.rs"]
mod sound;

use std::time::Duration;

use super::limits::Limits;
use super::tests::{Bug, bug};
use crate::PartitionState;
use crate::keeper::Moment;

/// Where the rules look for what they use, as if they stood in their own place.
use super::{limits, mark};

pub(super) fn has_room(limits: &Limits, appends: usize, bytes: usize, more: usize) -> bool {
    match bug() {
        Some(Bug::AnyNumberWaits) => sound::has_room(limits, 0, bytes, more),
        Some(Bug::AnySizeWaits) => sound::has_room(limits, appends, 0, 0),
        _ => sound::has_room(limits, appends, bytes, more),
    }
}

pub(super) fn wait_until(limits: &Limits, from: Moment) -> Moment {
    let waits = bug() == Some(Bug::WaitsForRoom);
    if waits { from.after(Duration::MAX) } else { sound::wait_until(limits, from) }
}

pub(super) fn is_judged_at(limits: &Limits, age: Duration) -> bool {
    bug() == Some(Bug::JudgesWhatIsOld) || sound::is_judged_at(limits, age)
}

pub(super) fn may_claim(state: &PartitionState) -> bool {
    match bug() {
        Some(Bug::ClaimsWhereOthersEnforce) => state.is_free(),
        _ => sound::may_claim(state),
    }
}
