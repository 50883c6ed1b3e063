//! A backend that is led along ways of the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use conformance_tests::ClockControl;
use ledger_core::{
    Claim, FencedLedger, Generation, LedgerError, LedgerId, Observation, OwnEvent, PageSize, PartitionId, Position,
    Released, Timestamp, Ttl,
};
use model::{Action, Answer, Append, Entry, Kind, Lease, Protocol, State, Token, real};

/// A unit of the model's clock.
const UNIT: i64 = 1_000_000;

/// A ledger and its clock. Each way has a partition and a stretch of time of its own.
pub(crate) struct Driven<'a> {
    ledger: Arc<dyn FencedLedger>,
    id: LedgerId,
    clock: &'a dyn ClockControl,
    pub(crate) name: String,
    ways: AtomicI64,
}

impl<'a> Driven<'a> {
    pub(crate) async fn new(ledger: Arc<dyn FencedLedger>, clock: &'a dyn ClockControl) -> Self {
        let described = ledger.describe().await.expect("the ledger says what it is");
        let name = format!("{} {}", described.engine, described.version);
        Self { ledger, id: described.ledger, clock, name, ways: AtomicI64::new(0) }
    }

    /// Walks a way and compares at each step.
    pub(crate) async fn walk(&self, protocol: &Protocol, way: &[Action]) -> Walk<'_> {
        let number = 1 + self.ways.fetch_add(1, Ordering::Relaxed);
        let partition = PartitionId::new(format!("way-{number}")).expect("a name");
        let start = number * 1_000 * UNIT;
        let mut walk = Walk { driven: self, partition, start, state: State::default(), way: Vec::new() };
        walk.set_clock().await;
        for action in way {
            walk.step(protocol, *action).await;
        }
        walk.check().await;
        walk
    }
}

/// A way, as far as it has been walked.
pub(crate) struct Walk<'a> {
    driven: &'a Driven<'a>,
    partition: PartitionId,
    start: i64,
    state: State,
    way: Vec<Action>,
}

impl Walk<'_> {
    /// One step of model and backend, and the comparison of their answers.
    pub(crate) async fn step(&mut self, protocol: &Protocol, action: Action) {
        self.way.push(action);
        let expected = protocol.answer(&self.state, action);
        let mut after = protocol.after(&self.state, action);
        if after.as_ref().is_some_and(|after| after.pending.is_some()) {
            after = after.and_then(|after| protocol.after(&after, Action::Commit));
        }
        self.state = after.unwrap_or_else(|| self.state.clone());
        self.set_clock().await;
        let seen = self.call(protocol, action).await;
        assert_eq!(seen, expected, "the answer of {} to the last of {:#?}", self.driven.name, self.way);
    }

    /// Compares lease, recorded time and log.
    pub(crate) async fn check(&self) {
        let state = self.driven.ledger.observe(&self.partition).await.expect("the partition can be observed");
        let lease = state.tenure.as_ref().map(|tenure| Lease {
            token: self.token(&tenure.lease.holder, tenure.lease.generation, tenure.lease.acquisition.into()),
            expires: self.units(tenure.lease.expires_at),
            vacant: tenure.vacancy.is_some(),
        });
        let store = &self.state.store;
        assert_eq!(lease, store.lease, "the stored lease of {} after {:#?}", self.driven.name, self.way);
        if let Some(tenure) = &state.tenure {
            assert_eq!(self.units(tenure.recorded_at), store.recorded, "the recorded time after {:#?}", self.way);
        }
        let log: Vec<Entry> = store.log.iter().map(|entry| Entry { seen: None, ..*entry }).collect();
        assert_eq!(self.log().await, log, "the log of {} after {:#?}", self.driven.name, self.way);
    }

    async fn set_clock(&self) {
        let now = Timestamp::from_micros(self.start + i64::from(self.state.clock) * UNIT);
        self.driven.clock.set(now).await;
    }

    async fn call(&self, protocol: &Protocol, action: Action) -> Option<Answer> {
        let (ledger, id) = (&self.driven.ledger, self.driven.id);
        let lease = |token| real::lease(id, &self.partition, token);
        let ttl = Ttl::from_millis(i64::from(protocol.bounds.ttl) * UNIT / 1000).expect("a TTL of seconds");
        let answer = match action {
            Action::Forward | Action::Back => return None,
            Action::Claim { holder, acquisition, outdated } => {
                let observed = if outdated {
                    Observation::Tenure { generation: Generation::MAX, acquisition: real::acquisition_of(u8::MAX) }
                } else {
                    let state = ledger.observe(&self.partition).await.expect("the partition can be observed");
                    state.observation()
                };
                let claim = Claim::new(self.partition.clone(), real::holder_of(holder), ttl, observed);
                let claimed = ledger.claim(&claim.with_acquisition(real::acquisition_of(acquisition))).await;
                claimed.map(|claimed| if claimed.replayed { Answer::Stands } else { Answer::Granted })
            }
            Action::Renew(token) => ledger.renew(&lease(token), Some(ttl)).await.map(|_| Answer::Granted),
            Action::Release(token) => ledger.release(&lease(token)).await.map(|released| match released {
                Released::Now { .. } => Answer::Granted,
                Released::AlreadyEnded { .. } => Answer::AlreadyEnded,
            }),
            Action::Begin(Append { token, id }) => ledger
                .append(&lease(token), &real::append_of(id))
                .await
                .map(|appended| if appended.replayed { Answer::Replayed } else { Answer::Granted }),
            other => unreachable!("{other:?} is not walked"),
        };
        Some(answer.unwrap_or_else(|error| match error {
            LedgerError::Rejected(rejection) => Answer::Refused(rejection.reason),
            other => panic!("{} failed: {other:?} at the last of {:#?}", self.driven.name, self.way),
        }))
    }

    async fn log(&self) -> Vec<Entry> {
        let page = self.driven.ledger.read(&self.partition, Position::FIRST, PageSize::MAX).await;
        let events = page.expect("the log can be read").events;
        let entry = |event: &ledger_core::Event| {
            let entry = &event.entry;
            let kind = match event.kind.as_str() {
                OwnEvent::CLAIMED => Kind::Claimed,
                OwnEvent::RELEASED => Kind::Released,
                _ => Kind::Appended(entry.id.and_then(real::number_of).expect("an id of the model")),
            };
            let token = self.token(&entry.holder, entry.generation, entry.acquisition.into());
            Entry { kind, token, at: self.units(entry.recorded_at), seen: None }
        };
        events.iter().map(entry).collect()
    }

    fn token(&self, holder: &ledger_core::Holder, generation: Generation, acquisition: ledger_core::AppendId) -> Token {
        let holder = (0..=u8::MAX).find(|number| real::holder_of(*number) == *holder).expect("a holder of the model");
        let generation = u8::try_from(generation.get()).expect("a generation of the model");
        Token { holder, generation, acquisition: real::number_of(acquisition).expect("an acquisition of the model") }
    }

    fn units(&self, time: Timestamp) -> u8 {
        let micros = time.as_micros() - self.start;
        assert_eq!(micros % UNIT, 0, "a time between two units: {time}");
        u8::try_from(micros / UNIT).expect("a time of the model")
    }
}
