//! Where each entry stands among the renewals, by what the answers tell.
//!
//! A state is named by the newest entry and the count of renewals. Each answer that tells both a head and a revision
//! names a state which the partition surely went through, and each call that wrote names the one before, too. Two such
//! states with renewals in between that nobody was told of, and entries as well, leave open in which order those stand.

use super::joined::Joined;
use super::told::{head_told, is_effect, kind_of};
use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::Call;

/// The counts of renewals along the log.
#[derive(Default)]
pub(super) struct Path<'a> {
    /// For each entry: the least and the greatest count at which it can have been written. Neither goes back.
    pub(super) written: Vec<(u64, u64)>,
    /// The count in the end.
    pub(super) total: u64,
    /// The renewals that were acknowledged, by their number from 0 on.
    pub(super) known: Vec<Option<&'a Invocation>>,
}

impl<'a> Path<'a> {
    pub(super) fn new(calls: &[&'a Invocation], joined: &Joined<'_>, total: u64, findings: &mut Findings) -> Self {
        let entries = joined.lasts.len();
        let size = usize::try_from(total).unwrap_or(0);
        let mut path = Self { written: Vec::with_capacity(entries), total, known: vec![None; size] };
        let mut seen = Seen { exact: vec![None; entries], under: vec![None; entries] };
        for call in calls {
            path.see(call, joined, &mut seen, findings);
        }
        // Nothing is renewed before it is claimed.
        if let Some(first) = seen.exact.first_mut() {
            first.get_or_insert(0);
        }
        path.bound(&seen, joined, findings);
        path
    }

    /// The least and the greatest count under an entry.
    pub(super) fn counts(&self, place: usize) -> (u64, u64) {
        let most = self.written.get(place + 1).map_or(self.total, |(_, most)| *most);
        (self.written.get(place).map_or(0, |(least, _)| *least), most)
    }

    /// The renewal of a number, where its call was told so.
    pub(super) fn renewal(&self, number: u64) -> Option<&'a Invocation> {
        usize::try_from(number).ok().and_then(|number| self.known.get(number).copied().flatten())
    }

    fn see(&mut self, call: &'a Invocation, joined: &Joined<'_>, seen: &mut Seen, findings: &mut Findings) {
        let Some((head, judged)) = head_told(call) else { return };
        let wrote = is_effect(call);
        let count = judged.revision.get().checked_sub(head.get().unsigned_abs()).filter(|count| *count <= self.total);
        let (Some(count), Some(place)) = (count, joined.place(head)) else {
            // A write that is not in the log was found lost already.
            if !wrote || matches!(call.call, Call::Renew { .. }) {
                let kind = if wrote { Kind::Lost } else { kind_of(call) };
                let expected = format!("revision {} at head {head} was a state of the partition", judged.revision);
                let end = joined.lasts.last().copied().unwrap_or(0);
                let seen = format!("it never was; the log ends at {end} with {} renewals", self.total);
                findings.add(kind, Some(call), expected, seen);
            }
            return;
        };
        seen.see(place, count);
        match (&call.call, wrote) {
            (Call::Renew { .. }, true) => {
                let Some(number) = count.checked_sub(1) else {
                    return findings.add(
                        Kind::WrongAnswer,
                        Some(call),
                        "a renewal moves the revision (J2)",
                        "it did not",
                    );
                };
                seen.see(place, number);
                let slot = usize::try_from(number).ok().and_then(|number| self.known.get_mut(number));
                if let Some(other) = slot.and_then(|slot| slot.replace(call)) {
                    let expected = format!("no other renewal has the revision {} (J2)", judged.revision);
                    findings.add(Kind::Order, Some(call), expected, other.to_string());
                }
            }
            (_, true) => seen.exact[place] = Some(count),
            (_, false) => {}
        }
    }

    /// Bounds for the count at which each entry was written, by what was seen before it and after it.
    fn bound(&mut self, seen: &Seen, joined: &Joined<'_>, findings: &mut Findings) {
        let entries = joined.lasts.len();
        let mut most = vec![0; entries];
        let mut later = self.total;
        for place in (0..entries).rev() {
            let first = seen.under[place].map_or(later, |(least, _)| least);
            most[place] = seen.exact[place].unwrap_or(first).min(later);
            later = most[place].min(first);
        }
        let mut earlier = 0;
        for place in 0..entries {
            let after = most.get(place + 1).copied().unwrap_or(self.total);
            let (first, last) = seen.under[place].unwrap_or((after.max(earlier), earlier));
            let written = seen.exact[place];
            if first < earlier || last.max(earlier) > after || written.is_some_and(|written| written > first) {
                let expected = format!("revisions rise along the log (J2), also at position {}", joined.lasts[place]);
                let seen = format!("{earlier} renewals before it, {first} to {last} seen there, {after} after it");
                findings.add(Kind::Order, None, expected, seen);
            }
            // A bound that was broken above must not make the walk go back.
            let before = self.written.last().copied().unwrap_or((0, 0));
            let greatest = written.unwrap_or(most[place]).max(before.1);
            let least = written.unwrap_or(earlier).max(before.0).min(greatest);
            self.written.push((least, greatest));
            earlier = earlier.max(last).max(written.unwrap_or(0));
        }
    }
}

/// What answers tell of each entry.
struct Seen {
    /// The count at which it was written.
    exact: Vec<Option<u64>>,
    /// The least and the greatest count under it.
    under: Vec<Option<(u64, u64)>>,
}

impl Seen {
    fn see(&mut self, place: usize, count: u64) {
        let (least, most) = self.under[place].unwrap_or((count, count));
        self.under[place] = Some((least.min(count), most.max(count)));
    }
}
