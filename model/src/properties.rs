//! What must hold: in every state, over every step, and at least once.

use stateright::Property;

use crate::{Action, Bug, Entry, Kind, Protocol, State};

/// A property of a state.
type Always = fn(&Protocol, &State) -> bool;

/// A property of a step.
type Over = fn(&Protocol, &State, Action, &State) -> bool;

const STATES: [(&str, Always); 7] = [
    ("Fenced", |_, state| state.store.log.iter().all(is_fenced)),
    ("OwnRelease", |_, state| state.store.log.iter().all(|entry| entry.kind != Kind::Released || is_own(entry))),
    ("GenMonotone", |_, state| state.store.log.is_sorted_by_key(|entry| entry.token.generation)),
    ("OneHolder", |_, state| {
        let entries = || state.store.log.iter().filter(|entry| entry.kind != Kind::Advanced);
        entries().all(|one| {
            entries().all(|other| one.token.generation != other.token.generation || one.token == other.token)
        })
    }),
    ("Once", |_, state| {
        let log = &state.store.log;
        let same = |one: &Entry, other: &Entry| match (one.kind, other.kind) {
            (Kind::Appended(one), Kind::Appended(other)) => one == other,
            (Kind::Claimed, Kind::Claimed) => one.token.acquisition == other.token.acquisition,
            _ => false,
        };
        (0..log.len()).all(|nth| log[..nth].iter().all(|other| !same(&log[nth], other)))
    }),
    ("TimeMonotone", |_, state| state.store.log.is_sorted_by_key(|entry| entry.at)),
    ("GrantedOnce", |_, state| {
        let granted = &state.granted;
        let advanced = state.store.log.iter().filter(|entry| entry.kind == Kind::Advanced);
        granted.is_sorted_by(|one, other| one.0 < other.0)
            && advanced
                .into_iter()
                .all(|entry| granted.iter().all(|(generation, _)| *generation != entry.token.generation))
    }),
];

const STEPS: [(&str, Always, Over); 10] = [
    (
        "GenUp",
        |_, state| state.broken & 1 == 0,
        |_, before, action, after| {
            let (old, new) = (before.store.token(), after.store.token());
            is_restore(action)
                || (new.generation >= old.generation
                    && (new.acquisition == old.acquisition || new.generation > old.generation))
        },
    ),
    (
        "NoSteal",
        |_, state| state.broken & 2 == 0,
        |_, before, action, after| {
            is_restore(action)
                || after.store.token().acquisition == before.store.token().acquisition
                || before
                    .store
                    .lease
                    .is_none_or(|lease| lease.vacant || before.store.judged(before.clock) >= lease.expires)
        },
    ),
    (
        "NoRevive",
        |_, state| state.broken & 4 == 0,
        |_, before, action, after| {
            let (Some(old), Some(new)) = (before.store.lease, after.store.lease) else { return true };
            is_restore(action)
                || old.token != new.token
                || (new.expires <= old.expires && (new.vacant || !old.vacant))
                || (!old.vacant && before.store.judged(before.clock) < old.expires)
        },
    ),
    (
        "FreshAcq",
        |_, state| state.broken & 8 == 0,
        |_, before, _, after| !is_claimed(before, after) || !before.store.knows(after.store.token().acquisition),
    ),
    (
        "Observed",
        |_, state| state.broken & 16 == 0,
        |_, before, action, after| {
            !is_claimed(before, after) || !matches!(action, Action::Claim { outdated: true, .. })
        },
    ),
    (
        "FreshTime",
        |_, state| state.broken & 32 == 0,
        |_, before, _, after| {
            // The lock was won in this step by an append that goes on, or by what has written an entry.
            let begun = after.pending.filter(|pending| pending.locked && before.pending.is_none());
            let written = after.store.log.last().filter(|_| after.store.log.len() > before.store.log.len());
            let had_it = before.pending.is_some_and(|pending| pending.locked);
            begun.is_none_or(|pending| pending.at >= before.clock)
                && (had_it || written.is_none_or(|entry| entry.at >= before.clock))
        },
    ),
    (
        "ToldIsFinal",
        |_, state| state.broken & 64 == 0,
        |_, before, action, after| {
            let (old, new) = (before.store.lease, after.store.lease);
            let same = old.zip(new).is_some_and(|(old, new)| old.token == new.token);
            let wrote = after.store.log.len() > before.store.log.len();
            let renewed = old.zip(new).is_some_and(|(old, new)| new.expires > old.expires);
            let began = after.pending.is_some() && before.pending.is_none();
            is_restore(action) || !(before.told && same && (wrote || renewed || began))
        },
    ),
    (
        "FateFinal",
        |_, state| state.broken & 128 == 0,
        |protocol, before, action, after| {
            let bounds = protocol.bounds;
            is_restore(action)
                || (1..=bounds.ids).all(|id| {
                    (1..=bounds.generations()).all(|generation| {
                        let (old, new) =
                            (fate(protocol, before, id, generation), fate(protocol, after, id, generation));
                        match old {
                            Fate::Undecided => true,
                            Fate::Never => {
                                new == Fate::Never || matches!(new, Fate::Recorded(under) if under != generation)
                            }
                            Fate::Recorded(_) => new == old,
                        }
                    })
                })
        },
    ),
    (
        "MarkKept",
        |_, state| state.broken & 256 == 0,
        |_, before, _, after| !is_claimed(before, after) || !before.rolled_back(),
    ),
    (
        "LogGrows",
        |_, state| state.broken & 512 == 0,
        |_, before, action, after| is_restore(action) || after.store.log.starts_with(&before.store.log),
    ),
];

/// What the states must reach somewhere, so that the rest says something.
const SOMETIMES: [(&str, Always); 6] = [
    ("a takeover with data on both sides", |_, state| {
        let mut data = state.store.log.iter().filter(|entry| matches!(entry.kind, Kind::Appended(_)));
        data.next().is_some_and(|first| data.any(|entry| entry.token.holder != first.token.holder))
    }),
    ("two generations of one holder", |_, state| {
        let mut claims = state.store.log.iter().filter(|entry| entry.kind == Kind::Claimed);
        claims.next().is_some_and(|first| claims.any(|entry| entry.token.holder == first.token.holder))
    }),
    ("an append that is committed when the clock has passed its expiry", |_, state| {
        let lease = state.store.lease.zip(state.pending);
        lease.is_some_and(|(lease, _)| state.clock >= lease.expires)
    }),
    ("a clock behind what is recorded", |_, state| state.clock < state.store.recorded),
    ("a restored copy with another chain at the mark", |_, state| {
        state.rolled_back() && state.store.log.len() >= state.mark.len()
    }),
    ("a claim after an advance", |_, state| {
        state.store.log.is_sorted_by_key(|entry| entry.token.generation)
            && state.store.log.windows(2).any(|pair| pair[0].kind == Kind::Advanced && pair[1].kind == Kind::Claimed)
    }),
];

/// The names of all that must hold.
pub fn names() -> impl Iterator<Item = &'static str> {
    STATES.iter().map(|(name, _)| *name).chain(STEPS.iter().map(|(name, ..)| *name))
}

pub(crate) fn properties() -> Vec<Property<Protocol>> {
    let states = STATES.iter().map(|(name, holds)| Property::always(name, *holds));
    let steps = STEPS.iter().map(|(name, holds, _)| Property::always(name, *holds));
    states.chain(steps).chain(SOMETIMES.iter().map(|(name, holds)| Property::sometimes(name, *holds))).collect()
}

/// The properties of steps that a step has broken, a bit each.
pub(crate) fn broken_by(protocol: &Protocol, before: &State, action: Action, after: &State) -> u16 {
    let broken = STEPS.iter().enumerate().filter(|(_, (.., holds))| !holds(protocol, before, action, after));
    broken.map(|(nth, _)| 1 << nth).sum()
}

/// The answer of `fate` (U2): from what is committed, and of anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "U2 knows these three answers")]
pub enum Fate {
    /// In the log, under that generation.
    Recorded(u8),
    /// Not there, and it never will be under the generation that was asked about.
    Never,
    /// Not there, and it may come.
    Undecided,
}

/// What `fate` answers in a state.
pub fn fate(protocol: &Protocol, state: &State, id: u8, generation: u8) -> Fate {
    if let Some(entry) = state.store.appended(id) {
        return Fate::Recorded(entry.token.generation);
    }
    let ended = state.store.has_visibly_ended(generation);
    let by_clock = || {
        let lease = state.store.lease.filter(|lease| lease.token.generation == generation);
        lease.is_some_and(|lease| state.clock >= lease.expires)
    };
    match protocol.bug {
        Some(Bug::FateNeverWhenAbsent) => Fate::Never,
        Some(Bug::FateByClock) if by_clock() => Fate::Never,
        _ if ended => Fate::Never,
        _ => Fate::Undecided,
    }
}

fn is_fenced(entry: &Entry) -> bool {
    !matches!(entry.kind, Kind::Appended(_))
        || entry.seen.is_some_and(|lease| !lease.vacant && lease.token == entry.token && entry.at < lease.expires)
}

fn is_own(entry: &Entry) -> bool {
    entry.seen.is_some_and(|lease| lease.token == entry.token)
}

fn is_restore(action: Action) -> bool {
    matches!(action, Action::Restore(_))
}

/// Whether a claim was granted in a step.
fn is_claimed(before: &State, after: &State) -> bool {
    let log = &after.store.log;
    log.len() > before.store.log.len() && log.last().is_some_and(|entry| entry.kind == Kind::Claimed)
}
