//! The steps of the model.

use std::cell::RefCell;
use std::collections::HashMap;

use ledger_core::Reason;
use stateright::{Model, Property};

use crate::decision::{Call, Decided, Question, Tip, decide};
use crate::properties::{broken_by, properties};
use crate::{Answer, Append, Bounds, Bug, Entry, Kind, Lease, Log, Pending, State, Token};

/// What can happen. Every call may come at any moment, with anything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the steps of the model")]
pub enum Action {
    /// The store's clock goes on.
    Forward,
    /// The store's clock steps back.
    Back,
    /// A claim, from the state as it is or from another.
    Claim {
        /// By whom.
        holder: u8,
        /// With which acquisition: a new one, or one that was granted before.
        acquisition: u8,
        /// Whether what it observed is no longer so.
        outdated: bool,
    },
    /// A renewal.
    Renew(Token),
    /// A release.
    Release(Token),
    /// An append is judged under the lock, and holds it.
    Begin(Append),
    /// The append that was judged is committed.
    Commit,
    /// The append that was judged is not: its process or its connection is gone.
    Abort,
    /// The witness takes the newest entry as its mark.
    Note,
    /// An older copy takes the place of the store: as it stood after so many entries.
    Restore(usize),
    /// An operator's advance (I3).
    Advance,
}

/// The protocol within bounds, as it is or with one mistake in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "made by tests")]
pub struct Protocol {
    /// How far it goes.
    pub bounds: Bounds,
    /// The mistake.
    pub bug: Option<Bug>,
}

/// All that decides which calls change something.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Situation {
    protocol: Protocol,
    standing: Option<(Lease, Tip)>,
    times: (u8, u8),
    minted: u8,
    ids: u32,
    acquisitions: u32,
}

impl Protocol {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Every call that the most general client can send in a state, also those that change nothing.
    pub fn calls(&self, state: &State) -> Vec<Action> {
        let bounds = self.bounds;
        let mut calls = Vec::new();
        for holder in 1..=bounds.holders {
            for acquisition in 1..=(state.minted + 1).min(bounds.acquisitions) {
                calls.extend([false, true].map(|outdated| Action::Claim { holder, acquisition, outdated }));
            }
            for generation in 1..=bounds.generations() {
                for acquisition in 1..=bounds.acquisitions {
                    let token = Token { holder, generation, acquisition };
                    calls.extend([Action::Renew(token), Action::Release(token)]);
                    calls.extend((1..=bounds.ids).map(|id| Action::Begin(Append { token, id })));
                }
            }
        }
        calls
    }

    /// The calls that are no mere answers. They depend on so little that they are looked for once in each situation.
    fn telling_calls(&self, state: &State, actions: &mut Vec<Action>) {
        thread_local! {
            static KNOWN: RefCell<HashMap<Situation, Vec<Action>>> = RefCell::default();
        }
        let store = &state.store;
        let mask = |has: &dyn Fn(u8) -> bool| (1..32).filter(|bit| has(*bit)).map(|bit| 1 << bit).sum();
        let situation = Situation {
            protocol: *self,
            standing: store.lease.map(|lease| (lease, tip(&store.log))),
            times: (state.clock, store.recorded),
            minted: state.minted,
            ids: mask(&|id| store.appended(id).is_some()),
            acquisitions: mask(&|acquisition| store.knows(acquisition)),
        };
        KNOWN.with_borrow_mut(|known| {
            let calls = known.entry(situation).or_insert_with(|| {
                let tells = |call: &Action| self.call(state, *call).is_some();
                self.calls(state).into_iter().filter(tells).collect()
            });
            actions.extend(calls.iter().copied());
        });
    }

    /// Whether an append holds the partition's lock.
    fn is_locked(&self, state: &State) -> bool {
        state.pending.is_some_and(|pending| pending.locked)
    }

    /// What a call meets in a state, `None` for what is no call.
    pub fn answer(&self, state: &State, action: Action) -> Option<Answer> {
        match action {
            Action::Claim { .. } if self.refuses_to_claim(state) => Some(Answer::RolledBack),
            Action::Claim { .. } | Action::Renew(_) | Action::Release(_) | Action::Begin(_) => {
                Some(self.decided(state, action, state.clock).answer)
            }
            _ => None,
        }
    }

    /// What the witness says to a claim (I3).
    fn refuses_to_claim(&self, state: &State) -> bool {
        let behind = state.store.log.len() < state.mark.len();
        match self.bug {
            Some(Bug::NoWitness) => false,
            Some(Bug::WitnessComparesPosition) => behind,
            Some(Bug::WitnessComparesGeneration) => {
                let generation = state.mark.last().map_or(0, |entry| entry.token.generation);
                state.store.token().generation < generation
            }
            _ => state.rolled_back(),
        }
    }

    /// The core's decision on a call, about what a store with the model's bug would hold against it.
    fn decided(&self, state: &State, action: Action, clock: u8) -> Decided {
        let store = &state.store;
        let now = store.judged(clock);
        let mut standing = store.lease.map(|lease| (lease, tip(&store.log)));
        let presented = |token: Token| {
            let Some(Lease { token: current, .. }) = store.lease else { return token };
            match self.bug {
                Some(Bug::IgnoresHolder) => Token { holder: current.holder, ..token },
                Some(Bug::IgnoresGeneration) => Token { generation: current.generation, ..token },
                Some(Bug::IgnoresAcquisition) => Token { acquisition: current.acquisition, ..token },
                _ => token,
            }
        };
        let mut edit = |edit: &dyn Fn(&mut Lease)| standing.as_mut().map(|(lease, _)| edit(lease));
        let call = match action {
            Action::Begin(Append { token, id }) => {
                match self.bug {
                    Some(Bug::IgnoresExpiry) => drop(edit(&|lease| lease.expires = u8::MAX)),
                    Some(Bug::ValidAtExpiry) => drop(edit(&|lease| lease.expires += 1)),
                    Some(Bug::IgnoresRelease) => {
                        edit(&|lease| lease.vacant = false);
                        standing = standing.map(|(lease, _)| (lease, Tip::Claimed));
                    }
                    _ => {}
                }
                let recorded = store.appended(id).is_some() && !self.has(Bug::WritesTwice);
                Call::Append { token: presented(token), id, recorded }
            }
            Action::Renew(token) => {
                if self.has(Bug::RevivesByRenewal) {
                    edit(&|lease| *lease = Lease { expires: lease.expires.max(now + 1), vacant: false, ..*lease });
                    standing = standing.map(|(lease, _)| (lease, Tip::Claimed));
                }
                Call::Renew { token: presented(token) }
            }
            Action::Release(token) => {
                let theirs = store.lease.filter(|_| self.has(Bug::ReleasesForOthers));
                let token = theirs.map_or_else(|| presented(token), |lease| lease.token);
                Call::Release { token, past: past(&store.log, token.generation) }
            }
            Action::Claim { holder, acquisition, outdated } => {
                let mut spent = store.knows(acquisition);
                match self.bug {
                    Some(Bug::Steals) => drop(edit(&|lease| lease.expires = 0)),
                    Some(Bug::ReusesAcquisition) => {
                        edit(&|lease| lease.token.acquisition = 0);
                        spent = false;
                    }
                    _ => {}
                }
                Call::Claim { holder, acquisition, outdated: outdated && !self.has(Bug::IgnoresObservation), spent }
            }
            other => unreachable!("{other:?} is no call"),
        };
        let recorded = if self.has(Bug::FollowsTheClockBack) { 0 } else { store.recorded };
        decide(Question { call, standing, recorded, clock, ttl: self.bounds.ttl })
    }

    /// Whether a decision says that the newest tenure has expired.
    fn tells_expiry(decided: Decided, lease: Option<Lease>, action: Action) -> bool {
        match (decided.answer, action) {
            (Answer::Refused(Reason::Expired), _) => true,
            (Answer::AlreadyEnded, Action::Release(token)) => {
                lease.is_some_and(|lease| !lease.vacant && lease.token.generation == token.generation)
            }
            _ => false,
        }
    }

    /// The state after a call, `None` where it changes nothing.
    fn call(&self, before: &State, action: Action) -> Option<State> {
        let decided = self.decided(before, action, before.clock);
        let lease = before.store.lease;
        if Self::tells_expiry(decided, lease, action) {
            if before.told && (decided.recorded.is_none() || self.has(Bug::ForgetsExpiry)) {
                return None;
            }
            let mut after = State { told: true, ..before.clone() };
            if let (Some(recorded), false) = (decided.recorded, self.has(Bug::ForgetsExpiry)) {
                after.store.recorded = recorded;
            }
            return Some(after);
        }
        (decided.answer == Answer::Granted).then(|| self.granted(before.clone(), action, decided))
    }

    /// The state after a call that was granted.
    fn granted(&self, mut state: State, action: Action, decided: Decided) -> State {
        let before = state.store.lease;
        let Some(at) = decided.recorded else { unreachable!("what is granted stores its time") };
        match action {
            Action::Begin(append) => {
                let locked = !self.has(Bug::ChecksThenWrites);
                state.pending = Some(Pending { append, at, locked });
                return state;
            }
            Action::Claim { acquisition, .. } => {
                let Some(mut lease) = decided.lease else { unreachable!("a claim writes the lease") };
                if self.has(Bug::ReusesGeneration) && before.is_some_and(|lease| lease.vacant) {
                    lease.token.generation -= 1;
                }
                let token = lease.token;
                state.store.log.push(Entry { kind: Kind::Claimed, token, at, seen: None });
                state.mark.clone_from(&state.store.log);
                state.minted = state.minted.max(acquisition);
                let granted = (token.generation, token.acquisition);
                if let Err(place) = state.granted.binary_search(&granted) {
                    state.granted.insert(place, granted);
                }
                state.told = false;
                state.store.lease = Some(lease);
            }
            Action::Renew(_) => state.store.lease = decided.lease,
            Action::Release(token) => {
                state.store.log.push(Entry { kind: Kind::Released, token, at, seen: before });
                state.store.lease = decided.lease;
                if self.has(Bug::ResetsGeneration)
                    && let Some(lease) = &mut state.store.lease
                {
                    lease.token.generation = 0;
                }
            }
            other => unreachable!("{other:?} is no call"),
        }
        state.store.recorded = at;
        state
    }

    /// The append in the middle is written, or not.
    fn committed(&self, mut state: State, pending: Pending) -> State {
        state.pending = None;
        let mut at = pending.at;
        if self.has(Bug::JudgesByStartTime) {
            let decided = self.decided(&state, Action::Begin(pending.append), pending.at);
            let (Answer::Granted, Some(judged)) = (decided.answer, decided.recorded) else { return state };
            at = judged;
        }
        let Append { token, id } = pending.append;
        state.store.log.push(Entry { kind: Kind::Appended(id), token, at, seen: state.store.lease });
        state.store.recorded = state.store.recorded.max(at);
        state
    }

    /// An operator goes on from a restored copy, above every generation that the witness or the copy knows.
    fn advanced(&self, mut state: State, lease: Lease) -> State {
        let at = state.store.judged(state.clock);
        let marked = state.mark.iter().map(|entry| entry.token.generation).max().unwrap_or(0);
        let known = if self.has(Bug::AdvancesTooLittle) { 0 } else { marked };
        let token = Token { generation: known.max(lease.token.generation) + 1, ..lease.token };
        state.store.log.push(Entry { kind: Kind::Advanced, token, at, seen: None });
        state.store.lease = Some(Lease { token, expires: lease.expires, vacant: true });
        state.store.recorded = at;
        state.mark.clone_from(&state.store.log);
        state.told = false;
        state
    }

    /// The state after an action, `None` where it can not happen or changes nothing.
    pub fn after(&self, before: &State, action: Action) -> Option<State> {
        let log = &before.store.log;
        let has_room = log.len() + usize::from(before.pending.is_some()) < self.bounds.log;
        let is_free = !self.is_locked(before);
        match action {
            Action::Forward => {
                (before.clock < self.bounds.clock).then(|| State { clock: before.clock + 1, ..before.clone() })
            }
            Action::Back => (before.clock > 0).then(|| State { clock: before.clock - 1, ..before.clone() }),
            Action::Claim { .. } if is_free && has_room && !self.refuses_to_claim(before) => self.call(before, action),
            Action::Renew(_) if is_free => self.call(before, action),
            Action::Release(_) if is_free && has_room => self.call(before, action),
            Action::Begin(append) if is_free && has_room && before.pending.is_none() => {
                if self.has(Bug::JudgesByStartTime) {
                    let pending = Pending { append, at: before.clock, locked: false };
                    return Some(State { pending: Some(pending), ..before.clone() });
                }
                self.call(before, action)
            }
            Action::Commit => before.pending.map(|pending| self.committed(before.clone(), pending)),
            Action::Abort => before.pending.map(|_| State { pending: None, ..before.clone() }),
            Action::Note => {
                let is_new = log.len() > before.mark.len() && log.starts_with(&before.mark);
                is_new.then(|| State { mark: log.clone(), ..before.clone() })
            }
            Action::Restore(entries) if before.restores < self.bounds.restores && entries < log.len() => {
                let store = before.store.copy_after(entries, self.bounds.ttl);
                let restores = before.restores + 1;
                Some(State { store, pending: None, told: false, restores, ..before.clone() })
            }
            Action::Advance if is_free && has_room && before.rolled_back() => {
                before.store.lease.map(|lease| self.advanced(before.clone(), lease))
            }
            _ => None,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // Once a property is broken, nothing that follows tells more.
        if state.broken == 0 {
            actions.extend([
                Action::Forward,
                Action::Back,
                Action::Commit,
                Action::Abort,
                Action::Note,
                Action::Advance,
            ]);
            actions.extend((0..state.store.log.len()).map(Action::Restore));
            if !self.is_locked(state) {
                self.telling_calls(state, actions);
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = self.after(before, action)?;
        after.broken = broken_by(self, before, action, &after);
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}

fn tip(log: &Log) -> Tip {
    match log.last().map(|entry| entry.kind) {
        Some(Kind::Claimed) => Tip::Claimed,
        Some(Kind::Appended(_)) => Tip::Appended,
        Some(Kind::Released | Kind::Advanced) => Tip::Vacated,
        None => unreachable!("a claimed partition has its claim in the log"),
    }
}

/// The tenure of a generation that another claim has followed.
fn past(log: &Log, generation: u8) -> Option<Token> {
    let mut claims = log.iter().filter(|entry| entry.kind == Kind::Claimed);
    let found = claims.by_ref().find(|entry| entry.token.generation == generation)?;
    claims.next().map(|_| found.token)
}
