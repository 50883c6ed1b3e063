//! What a call meets: decided by the core's own functions, on a store that is built of a state of the model.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use ledger_core::decide::{self, Decision, Subject};
use ledger_core::{
    AcquisitionId, Append, AppendId, Basis, Claim, Digest, Entry, EventKind, Generation, Holder, Json, LedgerId,
    NewEvent, Observation, PartitionId, PastTenure, Position, Reason, Released, Standing, StoredLease, TenureEnd,
    Timestamp, Ttl, Vacancy, chain,
};
use uuid::Uuid;

use crate::{Lease, Token};

/// How a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the answers of the contract, and the one of I3")]
pub enum Answer {
    /// Granted, and written.
    Granted,
    /// An append that is in the log already (A4).
    Replayed,
    /// A claim that was granted before and whose lease is valid (C4).
    Stands,
    /// A release of a tenure that has ended (R3).
    AlreadyEnded,
    /// Refused.
    Refused(Reason),
    /// A claim that was refused because the store is behind the witness's mark, or has another chain at it (I3).
    RolledBack,
}

/// What the newest entry of the log is, as far as a judgement sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tip {
    Claimed,
    Appended,
    Vacated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Append { token: Token, id: u8, recorded: bool },
    Renew { token: Token },
    Release { token: Token, past: Option<Token> },
    Claim { holder: u8, acquisition: u8, outdated: bool, spent: bool },
}

/// All that a judgement depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) call: Call,
    pub(crate) standing: Option<(Lease, Tip)>,
    pub(crate) recorded: u8,
    pub(crate) clock: u8,
    pub(crate) ttl: u8,
}

/// An answer, and what the store holds after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) answer: Answer,
    /// The stored lease, where it changes.
    pub(crate) lease: Option<Lease>,
    /// The recorded time, where it is stored.
    pub(crate) recorded: Option<u8>,
}

thread_local! {
    /// A judgement depends on so little that there are far fewer of them than states.
    static KNOWN: RefCell<HashMap<Question, Decided>> = RefCell::default();
}

pub(crate) fn decide(question: Question) -> Decided {
    KNOWN.with_borrow_mut(|known| *known.entry(question).or_insert_with(|| ask(question)))
}

fn ask(question: Question) -> Decided {
    let Question { call, standing, recorded, clock, ttl } = question;
    let (ledger, partition) = (ledger_id(), partition());
    let standing = standing.map(|(lease, tip)| build(lease, tip, recorded, ttl));
    let subject = Subject::new(ledger, &partition, standing.as_ref(), time(clock));
    let lease = |token: Token| {
        let (holder, generation, acquisition) =
            (holder(token.holder), generation(token.generation), acquisition(token.acquisition));
        // Expiry and TTL of what is presented are not judged by.
        ledger_core::Lease::new(ledger, partition.clone(), holder, generation, acquisition, seconds(ttl), time(0))
    };
    let told = |answer, write| Told { question, answer, write }.decided();
    match call {
        Call::Append { token, id, recorded } => {
            let append = append(id);
            let earlier = recorded.then(|| entry(Some(append.id()), 2, token, 0, append.content()));
            let Decision { answer, write, .. } = decide::append(subject, earlier.as_ref(), &lease(token), &append);
            told(of(answer, |appended| if appended.replayed { Answer::Replayed } else { Answer::Granted }), write)
        }
        Call::Renew { token } => {
            let Decision { answer, write, .. } = decide::renew(subject, &lease(token), None);
            told(of(answer, |_| Answer::Granted), write)
        }
        Call::Release { token, past } => {
            let past = past.map(|past| {
                let end = TenureEnd::new(Basis::Released);
                PastTenure::new(holder(past.holder), acquisition(past.acquisition), end)
            });
            let Decision { answer, write, .. } = decide::release(subject, past.as_ref(), &lease(token));
            let ended = |released| match released {
                Released::Now { .. } => Answer::Granted,
                Released::AlreadyEnded { .. } => Answer::AlreadyEnded,
            };
            told(of(answer, ended), write)
        }
        Call::Claim { holder: by, acquisition: with, outdated, spent } => {
            let current = standing.as_ref().map_or(Observation::NeverClaimed, |standing| Observation::Tenure {
                generation: standing.lease.generation,
                acquisition: standing.lease.acquisition,
            });
            let other = Observation::Tenure { generation: Generation::MAX, acquisition: acquisition(u8::MAX) };
            let claim = Claim::new(partition.clone(), holder(by), seconds(ttl), if outdated { other } else { current })
                .with_acquisition(acquisition(with));
            let token = Token { holder: by, generation: 1, acquisition: with };
            let earlier = spent.then(|| entry(Some(claim.acquisition.into()), 1, token, 0, empty()));
            let Decision { answer, write, .. } = decide::claim(subject, earlier.as_ref(), &claim);
            told(of(answer, |claimed| if claimed.replayed { Answer::Stands } else { Answer::Granted }), write)
        }
    }
}

fn of<A>(answer: Result<A, Box<ledger_core::Rejection>>, granted: impl FnOnce(A) -> Answer) -> Answer {
    match answer {
        Ok(answer) => granted(answer),
        Err(rejection) => Answer::Refused(rejection.reason),
    }
}

/// A decision of the core, on its way back into the model.
struct Told {
    question: Question,
    answer: Answer,
    write: decide::Write,
}

impl Told {
    fn decided(self) -> Decided {
        let Question { standing, call, .. } = self.question;
        let entry = self.write.entry.map(|(entry, _)| units(entry.recorded_at));
        let Some(stored) = self.write.lease else {
            return Decided { answer: self.answer, lease: None, recorded: entry };
        };
        let generation = u8::try_from(stored.generation.get()).expect("the model's generations are few");
        let token = match (call, standing) {
            (Call::Claim { holder, acquisition, .. }, _) if entry.is_some() => {
                Token { holder, generation, acquisition }
            }
            (_, Some((before, _))) => before.token,
            (_, None) => unreachable!("only a claim makes a lease where there was none"),
        };
        let lease = Lease { token, expires: units(stored.expires_at), vacant: stored.vacancy.is_some() };
        Decided { answer: self.answer, lease: Some(lease), recorded: Some(units(stored.recorded_at)) }
    }
}

/// A standing as a store would read it. Where the newest entry is the ledger's own, it stands where the lease says.
fn build(lease: Lease, tip: Tip, recorded: u8, ttl: u8) -> Standing {
    let Lease { token, expires, vacant } = lease;
    let (id, last) = match tip {
        Tip::Claimed => (Some(acquisition(token.acquisition).into()), 1),
        Tip::Appended => (Some(append_id(0)), 2),
        Tip::Vacated => (None, 1),
    };
    let newest = entry(id, last, token, recorded, empty());
    let stored = StoredLease::new(
        (generation(token.generation), holder(token.holder), acquisition(token.acquisition)),
        (seconds(ttl), time(expires)),
        vacant.then_some(Vacancy::Released),
        0,
        time(recorded),
        (Position::FIRST, newest.chain),
    );
    Standing::new(stored, Some(newest))
}

fn entry(id: Option<AppendId>, last: i64, token: Token, at: u8, content: Digest) -> Arc<Entry> {
    let position = Position::new(last).expect("a position");
    let (by, with) = (holder(token.holder), acquisition(token.acquisition));
    let chain = chain::start(ledger_id(), &partition());
    Arc::new(Entry::new(id, (position, position), generation(token.generation), by, with, time(at), content, chain))
}

fn empty() -> Digest {
    chain::content(&[])
}

/// The append of an id, always the same.
pub(crate) fn append(id: u8) -> Append {
    let event = NewEvent::new(EventKind::new("k").expect("a kind"), Json::new("1").expect("JSON"));
    Append::with_id(append_id(id), [event]).expect("one small event")
}

/// The model's numbers as values of the core: for a driver that replays the model on a backend.
pub mod real {
    use super::{Uuid, acquisition, append, append_id, generation, holder};
    use crate::Token;
    use ledger_core::{
        AcquisitionId, Append, AppendId, Generation, Holder, Lease, LedgerId, PartitionId, Timestamp, Ttl,
    };

    /// A lease as the model's token presents it to a ledger.
    pub fn lease(ledger: LedgerId, partition: &PartitionId, token: Token) -> Lease {
        let (by, with) = (holder(token.holder), acquisition(token.acquisition));
        let (ttl, expires) = (Ttl::default(), Timestamp::from_micros(0));
        Lease::new(ledger, partition.clone(), by, generation(token.generation), with, ttl, expires)
    }

    /// The holder of a number.
    pub fn holder_of(number: u8) -> Holder {
        holder(number)
    }

    /// The generation of a number.
    pub fn generation_of(number: u8) -> Generation {
        generation(number)
    }

    /// The acquisition of a number.
    pub fn acquisition_of(number: u8) -> AcquisitionId {
        acquisition(number)
    }

    /// The append of a number.
    pub fn append_of(number: u8) -> Append {
        append(number)
    }

    /// The number of an append's or claim's id; `None` for a strange one.
    pub fn number_of(id: AppendId) -> Option<u8> {
        let number = id.as_uuid().as_u128();
        let (base, least) = (number & !0xff, u8::try_from(number & 0xff).ok()?);
        [Uuid::from(append_id(0)), Uuid::from(acquisition(0))]
            .iter()
            .any(|first| first.as_u128() == base)
            .then_some(least)
    }
}

fn ledger_id() -> LedgerId {
    LedgerId::from_uuid(Uuid::from_u128(7)).expect("not nil")
}

fn partition() -> PartitionId {
    PartitionId::new("p").expect("a name")
}

fn holder(number: u8) -> Holder {
    Holder::new(format!("holder-{number}")).expect("a name")
}

fn generation(number: u8) -> Generation {
    Generation::new(number.into()).expect("generations start at 1")
}

fn acquisition(number: u8) -> AcquisitionId {
    AcquisitionId::from_uuid(Uuid::from_u128(0xacacac00 + u128::from(number))).expect("not nil")
}

fn append_id(number: u8) -> AppendId {
    AppendId::from_uuid(Uuid::from_u128(0xededed00 + u128::from(number))).expect("not nil")
}

/// A unit of the model's clock is a second.
fn time(units: u8) -> Timestamp {
    Timestamp::from_micros(i64::from(units) * 1_000_000)
}

fn seconds(units: u8) -> Ttl {
    Ttl::from_millis(i64::from(units) * 1000).expect("a TTL of seconds")
}

fn units(time: Timestamp) -> u8 {
    u8::try_from(time.as_micros() / 1_000_000).expect("the model's times are few")
}
