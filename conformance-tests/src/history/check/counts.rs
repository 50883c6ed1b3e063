//! Where each entry stands among the renewals, by what the answers tell.

use super::joined::Joined;
use super::timeline::{Step, Timeline};
use super::told::{head_told, is_effect, kind_of};
use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::Call;

impl<'a> Timeline<'a> {
    /// Where each entry stands among the renewals, by what the answers tell; and the renewals that were acknowledged, by
    /// their number.
    pub(super) fn count_renewals(
        &mut self,
        calls: &[&'a Invocation],
        total: u64,
        findings: &mut Findings,
    ) -> Vec<Option<&'a Invocation>> {
        let log = &self.part.log;
        let mut known: Vec<Option<&Invocation>> = vec![None; usize::try_from(total).unwrap_or(0)];
        // For each entry: the count at which it was written, and the least and the greatest seen under it.
        let mut exact: Vec<Option<u64>> = vec![None; log.len()];
        let mut seen: Vec<Option<(u64, u64)>> = vec![None; log.len()];
        let mut see = |place: usize, count: u64| {
            let (least, most) = seen[place].unwrap_or((count, count));
            seen[place] = Some((least.min(count), most.max(count)));
        };
        for call in calls {
            let Some((head, judged)) = head_told(call) else { continue };
            let count = judged.revision.get().checked_sub(head.get().unsigned_abs()).filter(|count| *count <= total);
            let (Some(count), Some(place)) = (count, Joined::place(self.part, head)) else {
                // A write that is not in the log was found lost already.
                if !is_effect(call) || matches!(call.call, Call::Renew { .. }) {
                    let kind = if is_effect(call) { Kind::Lost } else { kind_of(call) };
                    let expected = format!("revision {} at head {head} was a state of the partition", judged.revision);
                    let end = log.last().map_or(0, |logged| logged.entry.last.get());
                    let seen = format!("it never was; the log ends at {end} with {total} renewals");
                    findings.add(kind, Some(call), expected, seen);
                }
                continue;
            };
            see(place, count);
            match (&call.call, is_effect(call)) {
                (Call::Renew { .. }, true) => {
                    let Some(number) = count.checked_sub(1) else {
                        findings.add(Kind::WrongAnswer, Some(call), "a renewal moves the revision (J2)", "it did not");
                        continue;
                    };
                    see(place, number);
                    let slot = usize::try_from(number).ok().and_then(|number| known.get_mut(number));
                    if let Some(other) = slot.and_then(|slot| slot.replace(call)) {
                        let expected = format!("no other renewal has the revision {} (J2)", judged.revision);
                        findings.add(Kind::Order, Some(call), expected, other.to_string());
                    }
                }
                (_, true) => exact[place] = Some(count),
                (_, false) => {}
            }
        }
        // Nothing is renewed before it is claimed.
        if let Some(first) = exact.first_mut() {
            first.get_or_insert(0);
        }
        self.bound(&exact, &seen, total, findings);
        known
    }

    /// Bounds for the counts under each entry, by those of its neighbours.
    pub(super) fn bound(
        &mut self,
        exact: &[Option<u64>],
        seen: &[Option<(u64, u64)>],
        total: u64,
        findings: &mut Findings,
    ) {
        let log = &self.part.log;
        let mut later = total;
        let mut most = vec![0; log.len()];
        let mut start = vec![0; log.len()];
        for place in (0..log.len()).rev() {
            most[place] = later;
            let least = seen[place].map_or(later, |(least, _)| least);
            start[place] = exact[place].unwrap_or(least).min(later);
            later = start[place].min(least).min(later);
        }
        let mut earlier = 0;
        for place in 0..log.len() {
            let (first, last) = seen[place].unwrap_or((most[place], earlier));
            if first < earlier || last.max(earlier) > most[place] || exact[place].is_some_and(|exact| exact > first) {
                let expected = format!("revisions rise along the log (J2), also at position {}", log[place].entry.last);
                let seen =
                    format!("{earlier} renewals before it, {first} to {last} seen there, {} after it", most[place]);
                findings.add(Kind::Order, None, expected, seen);
            }
            let least = exact[place].unwrap_or(earlier);
            let begun = start[place].max(earlier).min(most[place]);
            self.steps.push(Step {
                tenure: 0,
                vacancy: None,
                least: least.min(begun),
                start: begun,
                most: most[place],
            });
            earlier = earlier.max(last).max(exact[place].unwrap_or(0));
        }
        // A bound that was broken above must not make the walk go back.
        let mut least = 0;
        for step in &mut self.steps {
            step.start = step.start.max(least);
            step.most = step.most.max(step.start);
            least = step.start;
        }
    }
}
