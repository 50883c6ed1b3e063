//! V6: who went on writing when its lease was over by its own clock.
//!
//! No violation: safety rests on the store alone. The number says how hard a history tried the fence.

use std::collections::HashMap;

use ledger_core::AcquisitionId;

use super::findings::Counts;
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// Counts the calls that presented a granted lease once it was over by the caller's own clock: for so long as the store had
/// given it, from before the request of its claim or newest renewal (K1, without a margin).
pub(super) fn check(calls: &[&Invocation], counts: &mut Counts) {
    let mut trusted: HashMap<AcquisitionId, u64> = HashMap::new();
    for call in calls {
        let Some((_, Answer::Claimed { lease, judged, .. } | Answer::Renewed { lease, judged, .. })) = &call.answer
        else {
            continue;
        };
        let micros = lease.expires_at.as_micros().saturating_sub(judged.time.as_micros());
        let given = u64::try_from(micros).unwrap_or(0).saturating_mul(1_000);
        let until = trusted.entry(lease.acquisition).or_default();
        *until = (*until).max(call.called_at.saturating_add(given));
    }
    let is_beyond = |call: &&&Invocation| match &call.call {
        Call::Append { lease, .. } | Call::Renew { lease, .. } => {
            trusted.get(&lease.acquisition).is_some_and(|until| call.called_at >= *until)
        }
        _ => false,
    };
    counts.beyond_trust += calls.iter().filter(is_beyond).count() as u64;
}
