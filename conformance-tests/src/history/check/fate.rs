//! Answers of `fate` (U2): each is compared with what came true.

use super::answers::Slot;
use super::joined::told;
use super::timeline::Timeline;
use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

pub(super) fn check(timeline: &Timeline<'_>, call: &Invocation, answer: &Answer, findings: &mut Findings) -> Slot {
    let Call::Fate { id, generation, .. } = &call.call else { return Slot::ANY };
    findings.counts.fates += 1;
    let log = &timeline.part.log;
    let place = timeline.joined.ids.get(id).copied();
    let ended = timeline.ended_by(*generation);
    match answer {
        Answer::Recorded(entry) => match place.filter(|place| log[*place].entry == *entry) {
            Some(place) => Slot { low: timeline.revisions(place).0, high: u64::MAX },
            None => {
                let seen = place.map_or_else(|| "it is not".to_owned(), |place| told(&log[place].entry));
                findings.add(Kind::Fate, Some(call), format!("it is in the log: {}", told(entry)), seen);
                Slot::ANY
            }
        },
        Answer::Never => {
            // It may well come under a later generation, which is another sending of it.
            if let Some(place) = place.filter(|place| log[*place].entry.generation <= *generation) {
                let expected = format!("it never comes into the log under generation {generation} (U2)");
                findings.add(Kind::Fate, Some(call), expected, told(&log[place].entry));
            }
            let high = place.map_or(u64::MAX, |place| timeline.before(place));
            // Where an expiry may have been recorded, the end came earlier than any entry.
            match ended {
                _ if timeline.may_have_expired(*generation, call) => Slot { low: 0, high },
                Some(place) => Slot { low: timeline.revisions(place).0, high },
                None => {
                    let expected = format!("generation {generation} had visibly ended (U2)");
                    let seen = "it had not: nothing ended it, and no answer before that rested on its expiry";
                    findings.add(Kind::Fate, Some(call), expected, seen);
                    Slot::ANY
                }
            }
        }
        _ => {
            if timeline.had_expired(*generation, call) {
                let expected = format!("`Never`, since the expiry of generation {generation} was recorded before (U2)");
                findings.add(Kind::Fate, Some(call), expected, "`Undecided`");
            }
            let recorded = place.map_or(u64::MAX, |place| timeline.before(place));
            // From the entry on that ended the generation, it can not have been undecided.
            let open = ended.map_or(u64::MAX, |place| timeline.before(place));
            Slot { low: 0, high: recorded.min(open) }
        }
    }
}
