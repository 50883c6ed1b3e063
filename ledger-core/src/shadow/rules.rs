//! What a shadow decides, apart from how it comes about: W2, W3 and W5 as functions of what it knows.
//!
//! Its tests put a module of the same functions in this one's place, each with a bug in it.

use std::time::Duration;

use super::limits::Limits;
use super::mark::is_shadow;
use crate::PartitionState;
use crate::keeper::Moment;

/// Whether one more append may wait beside so many of so many bytes (W2). One that is larger than all of the room
/// together never may.
pub(super) fn has_room(limits: &Limits, appends: usize, bytes: usize, more: usize) -> bool {
    appends < limits.appends && bytes.saturating_add(more) <= limits.bytes
}

/// Until when a caller waits for room (W2).
pub(super) fn wait_until(limits: &Limits, from: Moment) -> Moment {
    from.after(limits.wait)
}

/// Whether an append of this age is still judged (W3).
pub(super) fn is_judged_at(limits: &Limits, age: Duration) -> bool {
    age <= limits.oldest
}

/// Whether a shadow claims a partition in this state: only where it is free, and where nobody has enforced (W5).
pub(super) fn may_claim(state: &PartitionState) -> bool {
    state.is_free() && state.tenure.as_ref().is_none_or(|tenure| is_shadow(&tenure.lease.holder))
}
