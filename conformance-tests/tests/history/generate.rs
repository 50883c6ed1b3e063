//! Small histories, of clients that really run: a seeded scheduler says which of them goes on next, and each call is made,
//! carried out and answered in three separate steps, so that calls overlap and answers get lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conformance_tests::context::{edited, partition, shifted};
use conformance_tests::history::{Answer, Call, Content, History, Invocation};
use fastrand::Rng;
use ledger_core::{
    AcquisitionId, Advance, Append, AppendId, Claim, Digest, Expected, FencedLedger, Generation, Holder, Lease,
    ManualClock, NewEvent, Note, Observation, PageSize, PartitionId, Position, Remark, Timestamp, Ttl,
};

/// A generated history, with what the slow search needs beside it.
pub(crate) struct Generated {
    pub(crate) history: History,
    pub(crate) content: Content,
    /// The appends, which a history keeps without their events.
    pub(crate) appends: HashMap<(AppendId, Digest), Append>,
    /// Every time that the clock showed.
    pub(crate) times: Vec<Timestamp>,
}

/// One client: what it is about to do, or has done and was not told yet.
enum Client {
    Idle,
    Called { at: u64, number: u64, call: Call },
    Done { at: u64, number: u64, call: Call, answer: Answer },
}

struct World<'a> {
    ledger: &'a dyn FencedLedger,
    clock: &'a ManualClock,
    rng: Rng,
    partition: PartitionId,
    tick: u64,
    calls: u64,
    leases: Vec<Lease>,
    claims: Vec<Claim>,
    advances: Vec<Advance>,
    appends: HashMap<(AppendId, Digest), Append>,
    sent: Vec<Append>,
    times: Vec<Timestamp>,
    history: Vec<Invocation>,
}

/// Runs `clients` clients until they have made `calls` calls, then the barrier.
pub(crate) async fn generate(
    ledger: &dyn FencedLedger,
    clock: &ManualClock,
    seed: u64,
    (clients, calls): (usize, u64),
) -> Generated {
    let mut world = World {
        ledger,
        clock,
        rng: Rng::with_seed(seed),
        partition: partition("p"),
        tick: 0,
        calls: 0,
        leases: Vec::new(),
        claims: Vec::new(),
        advances: Vec::new(),
        appends: HashMap::new(),
        sent: Vec::new(),
        times: Vec::new(),
        history: Vec::new(),
    };
    world.note_time();
    let mut all: Vec<Client> = (0..clients).map(|_| Client::Idle).collect();
    while world.calls < calls || all.iter().any(|client| !matches!(client, Client::Idle)) {
        world.tick += 1;
        if world.rng.u8(..) < 24 {
            world.step_clock();
        }
        let nth = world.rng.usize(..clients);
        let client = std::mem::replace(&mut all[nth], Client::Idle);
        all[nth] = world.go_on(nth, client, calls).await;
    }
    world.finish().await
}

impl World<'_> {
    async fn go_on(&mut self, nth: usize, client: Client, calls: u64) -> Client {
        let process: Arc<str> = format!("c{nth}").into();
        match client {
            Client::Idle if self.calls >= calls => Client::Idle,
            Client::Idle => {
                self.calls += 1;
                let call = self.choose(nth).await;
                // A call that never arrives, or whose client dies before it is answered.
                if self.rng.u8(..) < 8 {
                    let answer = self.rng.bool().then(|| (self.tick + 1, Answer::Unknown("lost".to_owned())));
                    self.history.push(Invocation::new(process, self.calls, self.tick, call, answer));
                    return Client::Idle;
                }
                Client::Called { at: self.tick, number: self.calls, call }
            }
            Client::Called { at, number, call } => {
                let answer = self.carry_out(&call).await;
                Client::Done { at, number, call, answer }
            }
            Client::Done { at, number, call, answer } => {
                let answer = match self.rng.u8(..) {
                    0..8 => None,
                    8..16 => Some((self.tick, Answer::Unknown("lost".to_owned()))),
                    _ => Some((self.tick, answer)),
                };
                self.history.push(Invocation::new(process, number, at, call, answer));
                Client::Idle
            }
        }
    }

    fn step_clock(&mut self) {
        match self.rng.u8(..6) {
            0 => self.clock.step_back(Duration::from_secs(self.rng.u64(1..6))),
            _ => self.clock.advance(Duration::from_secs(self.rng.u64(1..4))),
        }
        self.note_time();
    }

    fn note_time(&mut self) {
        let now = ledger_core::Clock::now(self.clock);
        if !self.times.contains(&now) {
            self.times.push(now);
        }
    }

    /// The most general client: it knows every lease that anybody was given, and forges some.
    async fn choose(&mut self, nth: usize) -> Call {
        let holder = Holder::new(["a", "b", "c", "d"][nth % 4]).expect("a name");
        let state = self.ledger.observe(&self.partition).await.expect("the state");
        if self.leases.is_empty() || self.rng.u8(..) < 40 {
            return self.choose_claim(holder, state.observation());
        }
        let lease = self.choose_lease();
        let ttl = Ttl::from_millis(self.rng.i64(1..6) * 1000).expect("a TTL");
        match self.rng.u8(..20) {
            0..8 => self.choose_append(lease),
            8..11 => Call::Renew { lease, ttl: self.rng.bool().then_some(ttl) },
            11..13 => Call::Release(lease),
            13 if self.rng.u8(..3) == 0 => Call::Advance(self.choose_advance(holder, lease.generation)),
            13 => {
                let observed = if self.rng.bool() { state.observation() } else { Observation::of(&lease) };
                Call::EndTenure {
                    partition: self.partition.clone(),
                    observed,
                    reason: Note::new("stuck").expect("a note"),
                }
            }
            14..16 => Call::Observe(self.partition.clone()),
            16..18 => {
                let id = match self.rng.choice(&self.sent) {
                    Some(append) => append.id(),
                    None => AppendId::from(lease.acquisition),
                };
                Call::Fate { partition: self.partition.clone(), id, generation: lease.generation }
            }
            _ => {
                // The end of the log, and what is ahead of it, as often as all the rest.
                let head = state.tenure.map_or(1, |tenure| tenure.head.get());
                let from = if self.rng.bool() { self.rng.i64(1..=head) } else { head + self.rng.i64(0..4) };
                let (partition, from) = (self.partition.clone(), Position::new(from).expect("a position"));
                match self.rng.u8(..4) {
                    0 => Call::ReadBack { partition, from: None },
                    1 => Call::ReadBack { partition, from: Some(from) },
                    _ => Call::Read { partition, from },
                }
            }
        }
    }

    fn choose_claim(&mut self, holder: Holder, observed: Observation) -> Call {
        if let (Some(claim), true) = (self.rng.choice(&self.claims), self.rng.u8(..4) == 0) {
            return Call::Claim(claim.clone());
        }
        let ttl = Ttl::from_millis(self.rng.i64(2..6) * 1000).expect("a TTL");
        let observed = match self.rng.choice(&self.leases) {
            Some(lease) if self.rng.u8(..6) == 0 => Observation::of(lease),
            _ => observed,
        };
        let mut claim = Claim::new(self.partition.clone(), holder, ttl, observed);
        // An id that an advance has, which is none of the log's.
        if let (Some(advance), true) = (self.rng.choice(&self.advances), self.rng.u8(..16) == 0) {
            claim = claim.with_acquisition(advance.acquisition);
        }
        self.claims.push(claim.clone());
        Call::Claim(claim)
    }

    fn choose_advance(&mut self, operator: Holder, known: Generation) -> Advance {
        if let (Some(advance), true) = (self.rng.choice(&self.advances), self.rng.u8(..3) == 0) {
            return advance.clone();
        }
        let above = self.rng.bool().then(|| shifted(known, self.rng.i64(0..4)));
        let mut advance = Advance::new(self.partition.clone(), operator, above, Note::new("restored").expect("a note"));
        // An id that a claim has, which is refused.
        if let (Some(claim), true) = (self.rng.choice(&self.claims), self.rng.u8(..8) == 0) {
            advance = advance.with_acquisition(claim.acquisition);
        }
        self.advances.push(advance.clone());
        advance
    }

    fn choose_lease(&mut self) -> Lease {
        // The newest for the most part.
        let newest = self.leases.len() - 1;
        let nth = if self.rng.u8(..3) > 0 { newest } else { self.rng.usize(..=newest) };
        let lease = self.leases[nth].clone();
        match self.rng.u8(..24) {
            0 => edited(&lease, |lease| lease.holder = Holder::new("x").expect("a name")),
            1 => edited(&lease, |lease| lease.acquisition = AcquisitionId::mint()),
            2 => edited(&lease, |lease| lease.generation = shifted(lease.generation, 1)),
            3 if lease.generation > Generation::FIRST => {
                edited(&lease, |lease| lease.generation = shifted(lease.generation, -1))
            }
            _ => lease,
        }
    }

    fn choose_append(&mut self, lease: Lease) -> Call {
        let again = self.rng.choice(&self.sent).filter(|_| self.rng.u8(..3) == 0).cloned();
        let id = again.as_ref().filter(|_| self.rng.u8(..5) == 0).map(Append::id);
        let append = match (again, id) {
            (Some(append), None) => append,
            (_, id) => {
                let count = self.rng.usize(1..4);
                let event = |nth: usize| NewEvent::of("noted", &(self.calls, nth)).expect("an event");
                let events: Vec<NewEvent> = (0..count).map(event).collect();
                let append = Append::with_id(id.unwrap_or_else(AppendId::mint), events).expect("an append");
                match self.rng.u8(..8) {
                    0 => append.expecting(Position::new(self.rng.i64(1..12)).expect("a position")),
                    1 => append.remarking(Remark::new("late").expect("a remark")),
                    _ => append,
                }
            }
        };
        self.appends.insert((append.id(), append.content()), append.clone());
        self.sent.push(append.clone());
        Call::append(&lease, &append)
    }

    async fn carry_out(&mut self, call: &Call) -> Answer {
        let ledger = self.ledger;
        let answer = match call {
            Call::Append { lease, id, content, expected, remark, .. } => {
                let append = restored(&self.appends[&(*id, *content)], *expected, remark.clone());
                ledger.append(lease, &append).await.map(|answer| Answer::of_appended(&answer))
            }
            Call::Claim(claim) => ledger.claim(claim).await.map(|answer| {
                self.leases.push(answer.lease.clone());
                Answer::of_claimed(&answer)
            }),
            Call::Renew { lease, ttl } => ledger.renew(lease, *ttl).await.map(|answer| Answer::of_renewal(&answer)),
            Call::Release(lease) => ledger.release(lease).await.map(|answer| Answer::of_released(&answer)),
            Call::EndTenure { partition, observed, reason } => {
                ledger.end_tenure(partition, *observed, reason).await.map(|answer| Answer::of_ended(&answer))
            }
            Call::Advance(advance) => ledger.advance(advance).await.map(|answer| Answer::of_advanced(&answer)),
            Call::Observe(partition) => ledger.observe(partition).await.map(|answer| Answer::of_state(&answer)),
            Call::Fate { partition, id, generation } => {
                ledger.fate(partition, *id, *generation).await.map(|answer| Answer::of_fate(&answer))
            }
            Call::Read { partition, from } => {
                let limit = self.page_size();
                ledger.read(partition, *from, limit).await.map(|answer| Answer::of_page(&answer))
            }
            Call::ReadBack { partition, from } => {
                let limit = self.page_size();
                ledger.read_back(partition, *from, limit).await.map(|answer| Answer::of_page(&answer))
            }
        };
        answer.unwrap_or_else(|error| Answer::of_error(&error))
    }

    fn page_size(&mut self) -> PageSize {
        if self.rng.u8(..3) == 0 { PageSize::MAX } else { PageSize::new(self.rng.u32(1..6)).expect("a size") }
    }

    /// The barrier, recorded like everything else, and what is there after it.
    async fn finish(mut self) -> Generated {
        let state = self.ledger.observe(&self.partition).await.expect("the state");
        if !state.is_free() {
            let reason = Note::new("barrier").expect("a note");
            let call = Call::EndTenure { partition: self.partition.clone(), observed: state.observation(), reason };
            self.call_at_once(call).await;
        }
        let state = self.ledger.observe(&self.partition).await.expect("the state");
        let holder = Holder::new("barrier").expect("a name");
        let claim = Claim::new(self.partition.clone(), holder, Ttl::MAX, state.observation());
        self.call_at_once(Call::Claim(claim)).await;
        for id in self.sent.iter().map(Append::id).collect::<Vec<_>>() {
            let generation = Generation::FIRST;
            self.call_at_once(Call::Fate { partition: self.partition.clone(), id, generation }).await;
        }
        let mut history = History::new(self.history);
        // All clients ended well: every repeat counts.
        history.closed = (0..8).map(|nth| format!("c{nth}").into()).chain(["barrier".into()]).collect();
        let content = Content::read(self.ledger).await.expect("the content");
        Generated { history, content, appends: self.appends, times: self.times }
    }

    async fn call_at_once(&mut self, call: Call) {
        self.calls += 1;
        self.tick += 2;
        let answer = self.carry_out(&call).await;
        let answered = Some((self.tick + 1, answer));
        self.history.push(Invocation::new("barrier".into(), self.calls, self.tick, call, answered));
    }
}

/// An append as it was sent: an id may have been sent with several expectations.
pub(crate) fn restored(append: &Append, expected: Expected, remark: Option<Remark>) -> Append {
    let mut append = Append::with_id(append.id(), append.events().clone()).expect("it was an append before");
    if let Expected::Position(head) = expected {
        append = append.expecting(head);
    }
    match remark {
        Some(remark) => append.remarking(remark),
        None => append,
    }
}
