//! V7: once the faults are over, what is asked is answered, and a partition that somebody wants is written to.

use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// Checks the calls since `healed`, where a history says when that was, and within how many nanoseconds a call is to be
/// answered from then on.
pub(super) fn check(calls: &[&Invocation], healed: Option<(u64, u64)>, findings: &mut Findings) {
    let Some((healed, within)) = healed else { return };
    let mut since: Vec<&Invocation> = calls.iter().copied().filter(|call| call.called_at >= healed).collect();
    since.sort_by_key(|call| call.called_at);
    for call in &since {
        let took = call.answer.as_ref().map(|(at, _)| at.saturating_sub(call.called_at));
        if took.is_none_or(|took| took > within) {
            let expected = format!("once the faults are over, a call is answered within {within} ns (V7)");
            let seen = took.map_or_else(|| "never".to_owned(), |took| format!("after {took} ns"));
            findings.add(Kind::Progress, Some(call), expected, seen);
        }
    }
    // The last lease of before may still run.
    let longest = calls.iter().filter_map(|call| ttl(call)).max().unwrap_or(0);
    let due = healed.saturating_add(longest).saturating_add(within);
    let written = since.iter().filter(|call| is_written(call)).filter_map(|call| Some(call.answer.as_ref()?.0)).min();
    let wanted = since.iter().find(|call| call.called_at >= due && call.call.may_write() && !is_behind(call));
    if let Some(call) = wanted.filter(|call| written.is_none_or(|written| written > call.called_at)) {
        let expected =
            format!("a partition is written to within {longest} + {within} ns once the faults are over (V7)");
        findings.add(Kind::Progress, Some(call), expected, "nothing was acknowledged by then");
    }
}

/// The TTL that a call asked for, in nanoseconds.
fn ttl(call: &Invocation) -> Option<u64> {
    let ttl = match &call.call {
        Call::Claim(claim) => claim.ttl,
        Call::Renew { ttl, lease } => ttl.unwrap_or(lease.ttl),
        _ => return None,
    };
    u64::try_from(ttl.as_micros()).ok().map(|micros| micros.saturating_mul(1_000))
}

fn is_written(call: &Invocation) -> bool {
    call.call.may_write()
        && call.answer.as_ref().is_some_and(|(_, answer)| answer.judged().is_some())
        && !matches!(call.answer, Some((_, Answer::Rejected { .. })))
}

/// Whether the store's clock stood behind the recorded time, so that no lease ends until an operator ends it (T2).
fn is_behind(call: &Invocation) -> bool {
    call.answer.as_ref().and_then(|(_, answer)| answer.judged()).is_some_and(|judged| judged.clock_behind)
}
