//! V2 and V3: who wrote what. Acknowledged writes are in the log as they were acknowledged, and everything in the log was
//! sent by somebody who was not told otherwise.

use std::collections::{HashMap, HashSet};

use ledger_core::{AcquisitionId, Advance, AppendId, Entry, Expected, Generation, Lease, Observation, Position};

use super::{Findings, Kind};
use crate::history::content::{Logged, Own, PartitionContent};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// Who wrote each entry.
pub(super) struct Joined<'a> {
    /// For each entry of the log: the call that was told so.
    pub(super) acknowledged: Vec<Option<&'a Invocation>>,
    /// For each entry of the log: the earliest call that may have written it and was told nothing.
    pub(super) open: Vec<Option<&'a Invocation>>,
    /// For each entry of the log: how many calls may have written it and were told nothing.
    candidates: Vec<u32>,
    /// Where in the log an id stands.
    pub(super) ids: HashMap<AppendId, usize>,
    /// The position of each entry's last event.
    pub(super) lasts: Vec<u64>,
    /// Where in the log an operator's advance stands, by its acquisition.
    advances: HashMap<AcquisitionId, usize>,
}

impl<'a> Joined<'a> {
    pub(super) fn new(part: &'a PartitionContent, calls: &[&'a Invocation], findings: &mut Findings) -> Self {
        let log = &part.log;
        let mut joined = Self {
            acknowledged: vec![None; log.len()],
            open: vec![None; log.len()],
            candidates: vec![0; log.len()],
            ids: HashMap::with_capacity(log.len()),
            lasts: log.iter().map(|logged| logged.entry.last.get().unsigned_abs()).collect(),
            advances: HashMap::new(),
        };
        let mut ends: HashMap<Generation, usize> = HashMap::new();
        for (at, logged) in log.iter().enumerate() {
            match logged.entry.id {
                Some(id) => {
                    if let Some(first) = joined.ids.insert(id, at) {
                        let seen = format!("positions {} and {}", log[first].entry.first, logged.entry.first);
                        findings.add(Kind::Log, None, format!("the id {id} stands once in the log (A4)"), seen);
                    }
                }
                None if matches!(logged.own, Some(Own::Advanced(_))) => {
                    let acquisition = logged.entry.acquisition;
                    if let Some(first) = joined.advances.insert(acquisition, at) {
                        let seen = format!("positions {} and {}", log[first].entry.first, logged.entry.first);
                        findings.add(Kind::Log, None, format!("the advance {acquisition} is made once (I4)"), seen);
                    }
                }
                None => {
                    ends.insert(logged.entry.generation, at);
                }
            }
        }
        for call in calls {
            match &call.answer {
                Some((_, answer)) if !answer.is_unknown() => joined.acknowledge(part, call, answer, findings),
                _ => joined.leave_open(part, call, &ends),
            }
        }
        joined.find_ghosts(part, findings);
        joined
    }

    /// The place of an entry, by the position of its last event.
    pub(super) fn place(&self, last: Position) -> Option<usize> {
        self.lasts.binary_search(&last.get().unsigned_abs()).ok()
    }

    /// The calls that surely wrote an entry, though they were told nothing: nobody else can have.
    pub(super) fn silent_writers(&self) -> HashSet<(&'a str, u64)> {
        let places = (0..self.open.len()).filter(|place| self.candidates[*place] == 1);
        let unclaimed = places.filter(|place| self.acknowledged[*place].is_none());
        unclaimed.filter_map(|place| self.open[place]).map(|call| (&*call.process, call.number)).collect()
    }

    /// Where in the log the advance of an acquisition stands.
    pub(super) fn advance(&self, acquisition: AcquisitionId) -> Option<usize> {
        self.advances.get(&acquisition).copied()
    }

    fn acknowledge(
        &mut self,
        part: &'a PartitionContent,
        call: &'a Invocation,
        answer: &Answer,
        findings: &mut Findings,
    ) {
        let log = &part.log;
        let place = match (&call.call, answer) {
            (Call::Append { id, lease, content, events, expected, .. }, Answer::Appended { entry, replayed, .. }) => {
                let Some(place) = self.ids.get(id).copied().filter(|place| log[*place].entry == *entry) else {
                    let found = self.ids.get(id).map(|place| &log[*place].entry);
                    return lost(
                        call,
                        &format!("the log has it as it was acknowledged: {}", told(entry)),
                        found,
                        findings,
                    );
                };
                let count = entry.last.get() - entry.first.get() + 1;
                if entry.content != *content || count != i64::from(*events) {
                    findings.add(Kind::WrongAnswer, Some(call), "the entry has the content that was sent", told(entry));
                }
                if *replayed {
                    return;
                }
                if !is_by(entry, lease) {
                    let expected = format!("the entry is of the lease that was presented: {}", whose(lease));
                    findings.add(Kind::WrongAnswer, Some(call), expected, told(entry));
                }
                if !is_expected(entry, *expected) {
                    let expected = format!("the head was {expected:?} when it was written (A5)");
                    findings.add(Kind::WrongAnswer, Some(call), expected, told(entry));
                }
                place
            }
            (Call::Claim(claim), Answer::Claimed { lease, head, chain, replayed: false, .. }) => {
                let place = self.place(*head).filter(|place| {
                    let entry = &log[*place].entry;
                    let granted = matches!(&log[*place].own, Some(Own::Claimed(succession))
                        if succession.ttl == lease.ttl && succession.expires_at == lease.expires_at);
                    granted
                        && entry.id == Some(claim.acquisition.into())
                        && is_by(entry, lease)
                        && entry.chain == *chain
                });
                let Some(place) = place else {
                    let found = self.ids.get(&claim.acquisition.into()).map(|place| &log[*place].entry);
                    let expected = format!("`$claimed` is in the log at {head}, of the lease that was granted");
                    return lost(call, &expected, found, findings);
                };
                if !follows(log.get(place), claim.observed) {
                    let expected =
                        format!("the claim was granted from what it had observed (C1): {:?}", claim.observed);
                    findings.add(Kind::WrongAnswer, Some(call), expected, format!("{:?}", log[place].own));
                }
                place
            }
            (Call::Release(lease), Answer::Released { position, .. }) => {
                let place = self
                    .place(*position)
                    .filter(|place| log[*place].own == Some(Own::Released) && is_by(&log[*place].entry, lease));
                let Some(place) = place else {
                    return lost(call, &format!("`$released` is in the log at {position}"), None, findings);
                };
                place
            }
            (Call::EndTenure { observed, reason, .. }, Answer::Ended { position, .. }) => {
                let place = self.place(*position).filter(|place| {
                    log[*place].own == Some(Own::Ended(reason.clone())) && is_observed(&log[*place].entry, *observed)
                });
                let Some(place) = place else {
                    return lost(call, &format!("`$ended` is in the log at {position}"), None, findings);
                };
                place
            }
            (Call::Advance(advance), Answer::Advanced { mark, replayed, .. }) => {
                let place = self.place(mark.position).filter(|place| {
                    let entry = &log[*place].entry;
                    is_advance(&log[*place], advance)
                        && (entry.generation, entry.chain) == (mark.generation, mark.chain)
                });
                let Some(place) = place else {
                    let expected = format!("`$advanced` is in the log at {}, of just this step (I4)", mark.position);
                    return lost(call, &expected, None, findings);
                };
                if *replayed {
                    return;
                }
                place
            }
            _ => return,
        };
        if let Some(other) = self.acknowledged[place].replace(call) {
            let expected = "one call is told that it has written an entry, and others that they repeat it (A4)";
            findings.add(Kind::WrongAnswer, Some(call), expected, format!("{other} was told so too"));
        }
    }

    /// A call without an answer may have written what fits it.
    fn leave_open(&mut self, part: &PartitionContent, call: &'a Invocation, ends: &HashMap<Generation, usize>) {
        let log = &part.log;
        let place = match &call.call {
            Call::Append { id, lease, content, expected, .. } => self.ids.get(id).copied().filter(|place| {
                let entry = &log[*place].entry;
                entry.content == *content && is_by(entry, lease) && is_expected(entry, *expected)
            }),
            Call::Claim(claim) => {
                let place = self.ids.get(&claim.acquisition.into()).copied();
                place.filter(|place| {
                    log[*place].entry.holder == claim.holder && follows(log.get(*place), claim.observed)
                })
            }
            Call::Release(lease) => ends
                .get(&lease.generation)
                .copied()
                .filter(|place| log[*place].own == Some(Own::Released) && is_by(&log[*place].entry, lease)),
            Call::EndTenure { observed, reason, .. } => {
                let place = observed.generation().and_then(|generation| ends.get(&generation)).copied();
                place.filter(|place| log[*place].own == Some(Own::Ended(reason.clone())))
            }
            Call::Advance(advance) => {
                let place = self.advances.get(&advance.acquisition).copied();
                place.filter(|place| is_advance(&log[*place], advance))
            }
            _ => None,
        };
        if let Some(place) = place {
            self.candidates[place] += 1;
            let open = &mut self.open[place];
            if open.is_none_or(|other| call.called_at < other.called_at) {
                *open = Some(call);
            }
        }
    }

    fn find_ghosts(&self, part: &PartitionContent, findings: &mut Findings) {
        for (place, logged) in part.log.iter().enumerate() {
            if self.acknowledged[place].is_none() && self.open[place].is_none() {
                let expected = "somebody sent each entry of the log, and was not told that it was not written";
                findings.add(Kind::Ghost, None, expected, told(&logged.entry));
            }
        }
    }
}

fn lost(call: &Invocation, expected: &str, found: Option<&std::sync::Arc<Entry>>, findings: &mut Findings) {
    let seen = found.map_or_else(|| "nothing of it is in the log".to_owned(), |entry| told(entry));
    findings.add(Kind::Lost, Some(call), expected, seen);
}

pub(super) fn is_by(entry: &Entry, lease: &Lease) -> bool {
    entry.generation == lease.generation && entry.acquisition == lease.acquisition && entry.holder == lease.holder
}

fn is_expected(entry: &Entry, expected: Expected) -> bool {
    match expected {
        Expected::Any => true,
        Expected::Position(head) => head.next() == Some(entry.first),
    }
}

/// Whether a claim follows the tenure that was observed.
fn follows(claimed: Option<&Logged>, observed: Observation) -> bool {
    let Some(Own::Claimed(succession)) = claimed.and_then(|logged| logged.own.as_ref()) else { return false };
    match (&succession.previous, observed) {
        (None, Observation::NeverClaimed) => true,
        (Some(previous), Observation::Tenure { generation, acquisition }) => {
            (previous.generation, previous.acquisition) == (generation, acquisition)
        }
        _ => false,
    }
}

fn is_advance(logged: &Logged, advance: &Advance) -> bool {
    let is_of = matches!(&logged.own, Some(Own::Advanced(record)) if record.is_of(advance));
    is_of && logged.entry.holder == advance.operator && logged.entry.acquisition == advance.acquisition
}

fn is_observed(entry: &Entry, observed: Observation) -> bool {
    observed == Observation::Tenure { generation: entry.generation, acquisition: entry.acquisition }
}

pub(super) fn told(entry: &Entry) -> String {
    let id = entry.id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    format!(
        "positions {} to {}, id {id}, by `{}` of generation {}, at {}, chain {:.8}",
        entry.first,
        entry.last,
        entry.holder,
        entry.generation,
        entry.recorded_at.as_micros(),
        entry.chain.to_string(),
    )
}

pub(super) fn whose(lease: &Lease) -> String {
    format!("`{}`, generation {}, acquisition {}", lease.holder, lease.generation, lease.acquisition)
}
