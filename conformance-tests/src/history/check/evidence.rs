//! E1 to E3: each refusal about the right to write has its record, and each record has its refusals.

use std::collections::{HashMap, HashSet};

use ledger_core::{
    Generation, Holder, MAX_RECORD_KEYS, Operation, Reason, RecordSlot, RejectionRecord, Remark, Timestamp,
};

use super::answers::is_evidence;
use super::{Findings, Kind};
use crate::history::content::{Content, PartitionContent};
use crate::history::facts::Kept;
use crate::history::invocation::Invocation;
use crate::history::load::History;
use crate::history::record::{Answer, Call};

/// What is counted in one record. Of a partition, and so without its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key<'a> {
    current: Option<Generation>,
    reason: Reason,
    presented: Presented<'a>,
}

/// What a caller presents, of that key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Presented<'a> {
    operation: Operation,
    holder: &'a Holder,
    generation: Option<Generation>,
    remark: Option<&'a Remark>,
}

/// The refusals of one key.
struct Tally<'a> {
    /// All that were answered.
    answered: u64,
    /// Those that no crash may have taken back.
    demanded: u64,
    first: Timestamp,
    last: Timestamp,
    example: &'a Invocation,
}

pub(super) fn check(
    part: &PartitionContent,
    calls: &[&Invocation],
    history: &History,
    content: &Content,
    findings: &mut Findings,
) {
    let closed: HashSet<&str> = history.closed.iter().map(|process| &**process).collect();
    let mut tallies: HashMap<Key<'_>, Tally<'_>> = HashMap::new();
    let mut open: HashMap<Presented<'_>, u64> = HashMap::new();
    for call in calls.iter().copied() {
        let Some(presented) = presented(&call.call) else { continue };
        match &call.answer {
            Some((_, Answer::Rejected { reason, current, judged, record, .. })) => {
                if !is_evidence(&call.call, *reason) {
                    continue;
                }
                if !matches!(record, Kept::Stored | Kept::Counted) {
                    // One that says that its record is missing may have got it after all.
                    *open.entry(presented).or_default() += 1;
                    continue;
                }
                let key =
                    Key { current: current.as_ref().map(|current| current.generation), reason: *reason, presented };
                let time = judged.time;
                let tally = tallies.entry(key).or_insert(Tally {
                    answered: 0,
                    demanded: 0,
                    first: time,
                    last: time,
                    example: call,
                });
                tally.answered += 1;
                // E3: the last second of repeats may be lost in a crash, of the process or of the store.
                let is_safe = closed.contains(&*call.process) && history.crashes.is_empty();
                tally.demanded += u64::from(is_safe || *record == Kept::Stored);
                tally.first = tally.first.min(time);
                tally.last = tally.last.max(time);
            }
            // It may have been refused, and its record kept.
            Some((_, Answer::Unknown(_) | Answer::NotWritten(_))) | None => *open.entry(presented).or_default() += 1,
            Some(_) => {}
        }
    }
    let shared = content.never_claimed.iter().filter(|record| record.partition.as_ref() == Some(&part.partition));
    let own = part.records.iter().filter(|record| record.slot.generation.is_some());
    let overflows = overflows(part, content);
    check_bound(part, findings);
    for record in own.chain(shared) {
        let Some(refused) = &record.refused else { continue };
        let presented = Presented {
            operation: refused.operation,
            holder: &refused.holder,
            generation: refused.generation,
            remark: refused.remark.as_ref(),
        };
        let unseen = open.get(&presented).copied().unwrap_or(0);
        let key = Key { current: record.slot.generation, reason: refused.reason, presented };
        match tallies.remove(&key) {
            Some(tally) => compare(record, &tally, unseen, findings),
            None if unseen == 0 || record.count > unseen => {
                let expected = "each record is of a refusal that somebody was told, or may have been (E1)";
                findings.add(
                    Kind::Evidence,
                    None,
                    expected,
                    format!("{record:?}, and {unseen} calls without an answer"),
                );
            }
            None => {}
        }
    }
    let mut missing: Vec<_> = tallies.into_iter().filter(|(key, _)| !overflows.contains(&key.current)).collect();
    missing.sort_by_key(|(_, tally)| (tally.example.called_at, tally.example.number));
    for (key, tally) in missing {
        findings.counts.without_evidence += tally.answered;
        let expected = format!("its record is kept (E1), of generation {:?} and {}", key.current, key.reason);
        findings.add(Kind::Evidence, Some(tally.example), expected, "there is none of that key");
    }
}

fn compare(record: &RejectionRecord, tally: &Tally<'_>, unseen: u64, findings: &mut Findings) {
    let least = tally.demanded.max(1);
    let most = tally.answered + unseen;
    if record.count < least {
        findings.counts.without_evidence += least - record.count;
    }
    if record.count < least || record.count > most {
        let expected = format!("the record counts {least} to {most} refusals (E3)");
        findings.add(Kind::Evidence, Some(tally.example), expected, format!("{record:?}"));
    }
    // With all of them counted, the times are known; the first need not be the least where a clock was set back.
    let all = tally.demanded == tally.answered && unseen == 0;
    let fits = record.last_at == tally.last && record.first_at >= tally.first;
    if record.first_at > record.last_at || (all && !fits) {
        let expected = format!("times from {} to {} (E3)", tally.first.as_micros(), tally.last.as_micros());
        findings.add(Kind::Evidence, Some(tally.example), expected, format!("{record:?}"));
    }
}

/// The budgets that have overflowed: what they do not name is counted in one record.
fn overflows(part: &PartitionContent, content: &Content) -> HashSet<Option<Generation>> {
    let all = part.records.iter().chain(&content.never_claimed);
    all.filter(|record| record.slot.number == RecordSlot::OVERFLOW).map(|record| record.slot.generation).collect()
}

/// E3: at most 256 keys of a generation, then one record more.
fn check_bound(part: &PartitionContent, findings: &mut Findings) {
    let beyond = part.records.iter().find(|record| record.slot.number > MAX_RECORD_KEYS && record.refused.is_some());
    if let Some(record) = beyond {
        let expected = format!("at most {MAX_RECORD_KEYS} keys a generation have a record (E3)");
        findings.add(Kind::Evidence, None, expected, format!("{record:?}"));
    }
}

fn presented(call: &Call) -> Option<Presented<'_>> {
    let (operation, holder, generation, remark) = match call {
        Call::Append { lease, remark, .. } => {
            (Operation::Append, &lease.holder, Some(lease.generation), remark.as_ref())
        }
        Call::Renew { lease, .. } => (Operation::Renew, &lease.holder, Some(lease.generation), None),
        Call::Release(lease) => (Operation::Release, &lease.holder, Some(lease.generation), None),
        Call::Claim(claim) => (Operation::Claim, &claim.holder, claim.observed.generation(), None),
        _ => return None,
    };
    Some(Presented { operation, holder, generation, remark })
}
