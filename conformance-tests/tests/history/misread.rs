//! Sabotages of reads: pages that a wrong ledger would have given.

use std::sync::Arc;

use conformance_tests::history::{Answer, Call, Invocation, Kind, Seen};
use fastrand::Rng;
use ledger_core::{Generation, Position};

use crate::generate::Generated;
use crate::sabotage::{Sabotage, pick, sabotage};

/// Of pages, forward and backward. Each is wrong wherever it lands, and so is found each time.
pub(crate) const READS: &[Sabotage] = &[
    sabotage("page with a hole", Kind::WrongAnswer, "has no gap (D2)", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| page.lose(1))
    }),
    sabotage(
        "page that starts behind its start",
        Kind::WrongAnswer,
        "starts where it was asked for",
        100,
        |it, rng| edit(it, rng, &is_forward, |page| page.lose(0)),
    ),
    sabotage(
        "empty page, and nothing more",
        Kind::WrongAnswer,
        "not empty where something follows (D5)",
        100,
        |it, rng| edit(it, rng, &is_forward, |page| page.empty(false)),
    ),
    sabotage("empty page, and more", Kind::WrongAnswer, "not empty where something follows (D5)", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| page.empty(true))
    }),
    sabotage("empty page at the end, and more", Kind::WrongAnswer, "0 are left", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| {
            *page.more = true;
            page.entries.is_empty()
        })
    }),
    sabotage("last page that says more", Kind::WrongAnswer, "0 are left", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| !page.entries.is_empty() && !std::mem::replace(page.more, true))
    }),
    sabotage("page that says it is the last", Kind::WrongAnswer, "whether more follows (D2)", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| std::mem::replace(page.more, false))
    }),
    sabotage("start in the log told to be ahead", Kind::WrongAnswer, "is ahead of it (D4)", 100, |it, rng| {
        ahead(it, rng, &is_forward)
    }),
    sabotage(
        "start ahead of the log told by an empty page",
        Kind::WrongAnswer,
        "told to be ahead of it (D4)",
        100,
        |it, rng| not_ahead(it, rng, &is_forward),
    ),
    sabotage("event under another entry", Kind::WrongAnswer, "shows entries of the log (D2)", 100, |it, rng| {
        edit(it, rng, &is_forward, |page| {
            let is_long = page.entries.len() > 1;
            if is_long {
                let first = page.entries.remove(0);
                page.entries[0].positions.splice(0..0, first.positions);
            }
            is_long
        })
    }),
    sabotage("generation of the head", Kind::WrongAnswer, "the generation of a page's head", 100, |it, rng| {
        edit(it, rng, &|_| true, |page| {
            *page.generation = Generation::MAX;
            true
        })
    }),
    sabotage("events, and no head", Kind::WrongAnswer, "a page with events has a head", 100, |it, rng| {
        let Some(call) = pick(it, rng, |call| shown(call).is_some_and(|entries| !entries.is_empty())) else {
            return false;
        };
        if let Some((_, Answer::Page { head, .. })) = &mut call.answer {
            *head = None;
        }
        true
    }),
    sabotage("backward page that stops", Kind::WrongAnswer, "whether more follows (D2)", 100, |it, rng| {
        edit(it, rng, &is_backward, |page| {
            let is_long = page.entries.len() > 1;
            page.entries.truncate(1);
            *page.more = false;
            is_long
        })
    }),
    sabotage("backward page at the first that says more", Kind::WrongAnswer, "0 are left", 100, |it, rng| {
        edit(it, rng, &is_backward, |page| !page.entries.is_empty() && !std::mem::replace(page.more, true))
    }),
    sabotage("empty backward page", Kind::WrongAnswer, "not empty where something follows (D5)", 100, |it, rng| {
        let more = rng.bool();
        edit(it, rng, &is_backward, |page| page.empty(more))
    }),
    sabotage("backward start in the log told to be ahead", Kind::WrongAnswer, "is ahead of it (D4)", 100, |it, rng| {
        ahead(it, rng, &is_backward)
    }),
    sabotage(
        "backward start ahead told by an empty page",
        Kind::WrongAnswer,
        "told to be ahead of it (D4)",
        100,
        |it, rng| not_ahead(it, rng, &is_backward),
    ),
];

/// A page of a claimed partition, to be edited.
struct Page<'a> {
    entries: &'a mut Vec<Seen>,
    generation: &'a mut Generation,
    more: &'a mut bool,
}

impl Page<'_> {
    /// Without an entry that another follows. Says whether there was one.
    fn lose(&mut self, nth: usize) -> bool {
        let is_followed = self.entries.len() > nth + 1;
        if is_followed {
            self.entries.remove(nth);
        }
        is_followed
    }

    /// Says whether there was anything.
    fn empty(&mut self, more: bool) -> bool {
        *self.more = more;
        !std::mem::take(self.entries).is_empty()
    }
}

fn is_forward(call: &Call) -> bool {
    matches!(call, Call::Read { .. })
}

fn is_backward(call: &Call) -> bool {
    matches!(call, Call::ReadBack { .. })
}

fn shown(call: &Invocation) -> Option<&[Seen]> {
    match &call.answer {
        Some((_, Answer::Page { entries, head: Some(_), .. })) => Some(entries),
        _ => None,
    }
}

/// Edits one of the pages for which the edit says that it was one.
fn edit(
    it: &mut Generated,
    rng: &mut Rng,
    is_of: &dyn Fn(&Call) -> bool,
    edit: impl Fn(&mut Page<'_>) -> bool,
) -> bool {
    let edited = |call: &Invocation| {
        let mut answer = call.answer.clone();
        let Some((_, Answer::Page { entries, head: Some((_, generation)), more })) = &mut answer else { return None };
        (is_of(&call.call) && edit(&mut Page { entries, generation, more })).then_some(answer)
    };
    let Some(call) = pick(it, rng, |call| edited(call).is_some()) else { return false };
    call.answer = edited(call).flatten();
    true
}

/// A page is told to be ahead of the log.
fn ahead(it: &mut Generated, rng: &mut Rng, is_of: &dyn Fn(&Call) -> bool) -> bool {
    let Some(call) = pick(it, rng, |call| is_of(&call.call) && shown(call).is_some()) else { return false };
    if let Some((_, answer)) = &mut call.answer
        && let Answer::Page { head, .. } = answer
    {
        *answer = Answer::AheadOfLog { head: head.map(|(head, _)| head) };
    }
    true
}

/// A start ahead of the log is answered by an empty page.
fn not_ahead(it: &mut Generated, rng: &mut Rng, is_of: &dyn Fn(&Call) -> bool) -> bool {
    let log: Vec<_> = it.content.partitions[0].log.iter().map(|logged| Arc::clone(&logged.entry)).collect();
    let generation = |head: Position| log.iter().find(|entry| entry.last == head).map(|entry| (head, entry.generation));
    let is_ahead =
        |call: &&mut Invocation| is_of(&call.call) && matches!(call.answer, Some((_, Answer::AheadOfLog { .. })));
    let Some(call) = pick(it, rng, is_ahead) else { return false };
    if let Some((_, answer)) = &mut call.answer
        && let Answer::AheadOfLog { head } = answer
    {
        *answer = Answer::Page { entries: Vec::new(), head: head.and_then(generation), more: rng.bool() };
    }
    true
}
