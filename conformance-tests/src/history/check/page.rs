//! D2, D4 and D5: a page shows the log from where it was asked for, up to its own head.
//!
//! A store reads a page in one snapshot, so the page is held to the head that it tells. Whether that head was the newest
//! at some moment between call and answer, the order of all calls tells: the [`Slot`].

use ledger_core::Position;

use super::answers::Slot;
use super::joined::told;
use super::timeline::Timeline;
use super::{Findings, Kind};
use crate::history::facts::Seen;
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// Checks what a read was answered, and gives its place.
pub(super) fn check(timeline: &Timeline<'_>, call: &Invocation, answer: &Answer, findings: &mut Findings) -> Slot {
    let part = timeline.part;
    let (head, generation) = match answer {
        Answer::Page { head, .. } => (head.map(|(head, _)| head), head.map(|(_, generation)| generation)),
        Answer::AheadOfLog { head } => (*head, None),
        _ => return Slot::ANY,
    };
    let Some(asked) = Asked::of(&call.call, head) else { return Slot::ANY };
    let mut wrong = |expected: String, seen: String| findings.add(Kind::WrongAnswer, Some(call), expected, seen);
    match answer {
        Answer::Page { entries, head: None, .. } if !entries.is_empty() => {
            wrong("a page with events has a head (D2)".to_owned(), format!("{answer:?}"));
            return Slot::ANY;
        }
        Answer::Page { entries, more, .. } => {
            for seen in entries.iter().filter(|seen| !is_logged(timeline, seen)) {
                wrong("a page shows entries of the log (D2)".to_owned(), told(&seen.entry));
            }
            let positions = entries.iter().flat_map(|seen| &seen.positions).map(|position| position.get());
            asked.check(&positions.collect::<Vec<_>>(), *more, wrong);
        }
        _ if !asked.is_ahead() => {
            wrong(format!("only a start behind the log, {asked}, is ahead of it (D4)"), format!("{answer:?}"));
        }
        _ => {}
    }
    let Some(head) = head else { return Slot { low: 0, high: 0 } };
    let mut wrong = |expected: &str, seen: String| findings.add(Kind::WrongAnswer, Some(call), expected, seen);
    let Some(place) = timeline.joined.place(head) else {
        wrong("the head of a page is the end of an entry (D2)", head.to_string());
        return Slot::ANY;
    };
    if let Some(generation) = generation.filter(|generation| *generation != part.log[place].entry.generation) {
        let expected = "the generation of a page's head is that of the entry there (D2)";
        wrong(expected, format!("generation {generation}; {}", told(&part.log[place].entry)));
    }
    let (low, high) = timeline.revisions(place);
    Slot { low, high }
}

fn is_logged(timeline: &Timeline<'_>, seen: &Seen) -> bool {
    let place = timeline.joined.place(seen.entry.last);
    let span = seen.entry.first..=seen.entry.last;
    place.is_some_and(|place| timeline.part.log[place].entry == seen.entry)
        && seen.positions.iter().all(|position| span.contains(position))
}

/// What a read asks for, of a log that ends at a head.
struct Asked {
    /// The first position that it asks for; 0 where a backward read begins at the head and there is none.
    from: i64,
    /// The head, or 0 where the partition was never claimed.
    head: i64,
    is_backward: bool,
}

impl Asked {
    fn of(call: &Call, head: Option<Position>) -> Option<Self> {
        let head = head.map_or(0, Position::get);
        match call {
            Call::Read { from, .. } => Some(Self { from: from.get(), head, is_backward: false }),
            Call::ReadBack { from, .. } => {
                Some(Self { from: from.map_or(head, Position::get), head, is_backward: true })
            }
            _ => None,
        }
    }

    /// Whether it begins behind the log; for a forward read the position after the head is still the log's end.
    fn is_ahead(&self) -> bool {
        // Not `head + 1`: a head may be the greatest position.
        if self.is_backward { self.from > self.head } else { self.from - 1 > self.head }
    }

    /// How many events there are from a position on, in the direction of the read.
    fn left(&self, from: i64) -> i64 {
        if self.is_backward { from } else { self.head - (from - 1) }
    }

    /// Checks the positions of a page, and whether it says that more follows.
    fn check(&self, positions: &[i64], more: bool, mut wrong: impl FnMut(String, String)) {
        if self.is_ahead() {
            let expected = format!("a start behind the log, {self}, is told to be ahead of it (D4)");
            return wrong(expected, format!("a page of {positions:?}"));
        }
        let step = if self.is_backward { -1 } else { 1 };
        let in_order = positions.windows(2).all(|pair| pair[1] - pair[0] == step);
        if !in_order || positions.first().is_some_and(|first| *first != self.from) {
            let expected = format!("a page starts where it was asked for, {}, and has no gap (D2)", self.from);
            return wrong(expected, format!("{positions:?}"));
        }
        let left = self.left(self.from);
        if positions.is_empty() && left > 0 {
            return wrong(format!("a page is not empty where something follows (D5): {self}"), "it is".to_owned());
        }
        let left = positions.last().map_or(left, |last| self.left(*last) - 1);
        if left < 0 {
            return wrong(format!("a page ends with the log (D2): {self}"), format!("{positions:?}"));
        }
        if more != (left > 0) {
            let expected = format!("a page says whether more follows (D2): {self}, {left} are left");
            let seen = if more { "it says that more follows" } else { "it says that it is the last" };
            wrong(expected, format!("{seen}, after {:?}", positions.last()));
        }
    }
}

/// For people.
impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, head, is_backward } = self;
        let way = if *is_backward { "backwards from" } else { "from" };
        write!(f, "{way} {from} with the head at {head}")
    }
}
