//! The check of a history against what the ledger holds.

mod answers;
mod belief;
mod crossing;
mod evidence;
mod fate;
mod findings;
mod grant;
mod joined;
mod log;
mod order;
mod path;
mod progress;
mod timeline;
mod told;
mod unseen;
mod walk;

use std::collections::HashMap;

use ledger_core::{PartitionId, Revision};

use super::content::{Content, PartitionContent};
use super::invocation::Invocation;
use super::load::History;
use super::record::{Answer, Call};
use joined::Joined;
use timeline::Timeline;

pub use findings::{Counts, Finding, Findings, Kind};

/// Checks what processes were told against what the ledger holds after the [barrier](super::barrier).
///
/// It reads nothing but its arguments and always gives the same findings for them. O(n log n) in the number of calls and
/// entries: 1,000,000 calls take less than 2 seconds of a processor (`cargo run --release -p benchmarks -- history`). Where
/// entries and renewals with lost answers cross, the number of the ones times that of the others comes on top.
pub fn check(history: &History, content: &Content) -> Findings {
    let mut findings = Findings::default();
    let mut calls: HashMap<&PartitionId, Vec<&Invocation>> = HashMap::new();
    for invocation in &history.invocations {
        calls.entry(invocation.call.partition()).or_default().push(invocation);
    }
    for part in &content.partitions {
        let of_partition = calls.remove(&part.partition).unwrap_or_default();
        check_partition(part, &of_partition, history, content, &mut findings);
    }
    let mut rest: Vec<_> = calls.into_iter().collect();
    rest.sort_by_key(|(partition, _)| *partition);
    for (partition, of_partition) in rest {
        check_partition(&never_claimed(partition), &of_partition, history, content, &mut findings);
    }
    findings.counts.tally();
    findings
}

/// One partition, whose calls have nothing to do with those of others.
fn check_partition(
    part: &PartitionContent,
    calls: &[&Invocation],
    history: &History,
    content: &Content,
    findings: &mut Findings,
) {
    findings.begin(&part.partition);
    count(calls, part, &mut findings.counts);
    if let Some(fault) = &part.fault {
        findings.add(Kind::Log, None, "`verify` finds the log clean", fault.clone());
    }
    let joined = Joined::new(part, calls, findings);
    let returned = order::by_return(calls);
    let timeline = Timeline::new(part, calls, &returned, &joined, findings);
    let slots: Vec<_> = calls.iter().map(|call| answers::check(&timeline, call, findings)).collect();
    order::check(&timeline, &joined, (calls, &returned), &slots, findings);
    evidence::check(part, calls, history, content, findings);
    progress::check(calls, history.healed, findings);
    belief::check(calls, &mut findings.counts);
}

fn count(calls: &[&Invocation], part: &PartitionContent, counts: &mut Counts) {
    counts.operations += calls.len() as u64;
    counts.entries += part.log.len() as u64;
    counts.takeovers += part.tenure.as_ref().map_or(0, |tenure| tenure.lease.generation.get().unsigned_abs());
    for call in calls {
        let writes = call.call.may_write();
        match &call.answer {
            Some((_, Answer::Rejected { reason, .. })) => {
                counts.refusals += 1;
                let for_the_tenure = *reason <= ledger_core::Reason::Expired;
                counts.stale_attempted += u64::from(for_the_tenure && matches!(call.call, Call::Append { .. }));
            }
            Some((_, Answer::NotWritten(_))) => counts.not_written += 1,
            Some((_, Answer::Invalid(_) | Answer::Corrupt(_) | Answer::AheadOfLog { .. })) => {}
            Some((_, Answer::Unknown(_))) | None => {
                counts.unknown += u64::from(writes);
                counts.settled += u64::from(writes && is_settled(call, part));
            }
            Some(_) => counts.acknowledged += u64::from(writes),
        }
    }
}

/// Whether nothing of a call can come any more: its tenure is over or never was, or what it observed is over.
fn is_settled(call: &Invocation, part: &PartitionContent) -> bool {
    let newest = part.tenure.as_ref().map(|tenure| &tenure.lease);
    let observed = match &call.call {
        // No later tenure has its acquisition (C4), whatever generation was forged to it.
        Call::Append { lease, .. } | Call::Renew { lease, .. } | Call::Release(lease) => {
            return newest.is_some_and(|newest| newest.acquisition != lease.acquisition);
        }
        Call::Claim(claim) => claim.observed.generation(),
        Call::EndTenure { observed, .. } => observed.generation(),
        // It does not hang on what it meets; but sent again it writes nothing.
        Call::Advance(_) => return false,
        _ => return true,
    };
    observed < newest.map(|newest| newest.generation)
}

fn never_claimed(partition: &PartitionId) -> PartitionContent {
    PartitionContent {
        partition: partition.clone(),
        log: Vec::new(),
        tenure: None,
        revision: Revision::default(),
        records: Vec::new(),
        fault: None,
    }
}
