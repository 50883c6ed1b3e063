//! V4: what had returned before another was called stands before it, and its time is not later.

use std::cmp::Reverse;

use ledger_core::Timestamp;

use super::answers::{Slot, rests_on_expiry};
use super::joined::Joined;
use super::timeline::Timeline;
use super::told::{expiry_told, is_effect};
use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// A call in the order of real time.
struct Point<'a> {
    call: &'a Invocation,
    slot: Slot,
    /// The time at which it was judged.
    judged: Option<Timestamp>,
    /// The time that it has stored.
    stored: Option<Timestamp>,
}

/// The calls whose answers came and settled them, by their places, in the order in which they came.
pub(super) fn by_return(calls: &[&Invocation]) -> Vec<(u64, usize)> {
    let returned = calls.iter().enumerate().map(|(place, call)| (call.returned_at(), place));
    let mut returned: Vec<_> = returned.filter(|(at, _)| *at < u64::MAX).collect();
    returned.sort_unstable();
    returned
}

pub(super) fn check(
    timeline: &Timeline<'_>,
    joined: &Joined<'_>,
    (calls, returned): (&[&Invocation], &[(u64, usize)]),
    slots: &[Slot],
    findings: &mut Findings,
) {
    let mut points: Vec<Point<'_>> = Vec::with_capacity(calls.len());
    points.extend(calls.iter().copied().zip(slots).map(|(call, slot)| point(call, *slot)));
    // What nobody was told, and stands in the log all the same.
    for (place, logged) in timeline.part.log.iter().enumerate() {
        if let (None, Some(call)) = (joined.acknowledged[place], joined.open[place]) {
            let slot = Slot { low: timeline.revisions(place).0, high: timeline.before(place) };
            let time = Some(logged.entry.recorded_at);
            points.push(Point { call, slot, judged: time, stored: time });
        }
    }
    let key = |(place, point): (usize, &Point<'_>)| (point.call.called_at, Reverse(point.slot.high), place);
    let mut called: Vec<(u64, Reverse<u64>, usize)> = points.iter().enumerate().map(key).collect();
    called.sort_unstable();
    let mut past = returned.iter().peekable();
    let mut furthest: Option<&Point<'_>> = None;
    let mut latest: Option<&Point<'_>> = None;
    for (called_at, _, place) in called {
        let point = &points[place];
        while let Some((_, other)) = past.next_if(|(at, _)| *at < called_at) {
            let other = &points[*other];
            if furthest.is_none_or(|furthest| other.slot.low > furthest.slot.low) {
                furthest = Some(other);
            }
            if other.stored > latest.and_then(|latest| latest.stored) {
                latest = Some(other);
            }
        }
        if let Some(furthest) = furthest.filter(|furthest| furthest.slot.low > point.slot.high) {
            let expected = format!(
                "it stands after what had returned before it was called: revision {} of {}",
                furthest.slot.low, furthest.call
            );
            let seen = format!("it was judged at revision {} at the latest", point.slot.high);
            findings.add(kind(point), Some(point.call), expected, seen);
        }
        if let (Some(latest), Some(judged)) = (latest, point.judged)
            && let Some(stored) = latest.stored.filter(|stored| *stored > judged)
        {
            let expected = format!("its time is not before {}, stored by {}", stored.as_micros(), latest.call);
            findings.add(Kind::Time, Some(point.call), expected, judged.as_micros().to_string());
        }
    }
}

/// A call, by what it was told.
fn point(call: &Invocation, slot: Slot) -> Point<'_> {
    let Some((_, answer)) = &call.answer else { return Point { call, slot, judged: None, stored: None } };
    let judged = answer.judged().map(|judged| judged.time);
    if is_effect(call) {
        return Point { call, slot: Slot { high: before(call, slot.low), ..slot }, judged, stored: judged };
    }
    // The first answer that rests on an expiry stores its time; of the later ones the expiry itself is sure (T2).
    let stored = expiry_told(answer).filter(|_| rests_on_expiry(answer));
    Point { call, slot, judged, stored }
}

/// The revision from which a call has written that left behind `revision`.
fn before(call: &Invocation, revision: u64) -> u64 {
    let moved = match &call.answer {
        Some((_, Answer::Appended { entry, .. })) => (entry.last.get() - entry.first.get() + 1).unsigned_abs(),
        _ => 1,
    };
    revision.saturating_sub(moved)
}

/// An observer that saw the past was answered wrongly; a write there is a wrong order.
fn kind(point: &Point<'_>) -> Kind {
    match (&point.call.call, &point.call.answer) {
        (Call::Fate { .. }, _) => Kind::Fate,
        (_, Some((_, Answer::Rejected { .. }))) => Kind::WrongRefusal,
        _ => Kind::Order,
    }
}
