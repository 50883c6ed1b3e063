//! Small histories step by step: what the checker once got wrong, and what no generated history has.

use std::time::Duration;

use conformance_tests::context::{holder, partition};
use conformance_tests::history::{Answer, Call, Content, Findings, History, Invocation, Kind, check};
use ledger_core::{Append, Claim, FencedLedger, Lease, ManualClock, NewEvent, Observation, Timestamp, Ttl};
use ledger_memory::MemoryLedger;

use crate::now;

/// One step of a client takes so long, in nanoseconds of the history.
const STEP: u64 = 1_000;

/// Clients that come one after another, on a right ledger.
struct Scene {
    ledger: MemoryLedger,
    clock: ManualClock,
    at: u64,
    calls: Vec<Invocation>,
}

impl Scene {
    fn new() -> Self {
        let clock = ManualClock::default();
        Self { ledger: MemoryLedger::with_clock(clock.clone()), clock, at: 0, calls: Vec::new() }
    }

    fn wait(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.at += seconds * 1_000_000_000;
    }

    fn note(&mut self, call: Call, answer: Option<Answer>) -> &mut Invocation {
        let number = self.calls.len() as u64;
        self.at += STEP;
        let answer = answer.map(|answer| (self.at + STEP / 2, answer));
        self.calls.push(Invocation::new("c".into(), number, self.at, call, answer));
        self.calls.last_mut().expect("it was pushed")
    }

    async fn claim(&mut self, name: &str, ttl: Ttl) -> Option<Lease> {
        let observed = self.ledger.observe(&partition("p")).await.expect("the state").observation();
        let claim = Claim::new(partition("p"), holder(name), ttl, observed);
        let answer = self.ledger.claim(&claim).await;
        let kept = answer.as_ref().map_or_else(Answer::of_error, Answer::of_claimed);
        self.note(Call::Claim(claim), Some(kept));
        answer.ok().map(|claimed| claimed.lease)
    }

    async fn append(&mut self, lease: &Lease, is_told: bool) {
        let append = Append::new([NewEvent::of("noted", &1).expect("an event")]).expect("an append");
        let answer = self.ledger.append(lease, &append).await;
        let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_appended);
        self.note(Call::append(lease, &append), is_told.then_some(answer));
    }

    async fn renew(&mut self, lease: &Lease, is_told: bool) {
        let answer = self.ledger.renew(lease, None).await;
        let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_renewal);
        self.note(Call::Renew { lease: lease.clone(), ttl: None }, is_told.then_some(answer));
    }

    async fn look(&mut self) -> usize {
        let answer = self.ledger.observe(&partition("p")).await.expect("the state");
        self.note(Call::Observe(partition("p")), Some(Answer::of_state(&answer)));
        self.calls.len() - 1
    }

    /// The barrier, and everything that is there.
    async fn end(mut self) -> (History, Content) {
        self.wait(100_000);
        self.claim("barrier", Ttl::MAX).await.expect("every lease has ended");
        let content = Content::read(&self.ledger).await.expect("the content");
        (History::new(self.calls), content)
    }
}

fn ttl(seconds: i64) -> Ttl {
    Ttl::from_millis(seconds * 1_000).expect("a TTL")
}

fn checked((history, content): &(History, Content)) -> Findings {
    check(history, content)
}

/// An append and a renewal whose answers were lost, in one order or the other, and a look at what they left. The place of
/// the renewal follows from the look.
async fn lost_beside_each_other(is_renewed_first: bool) -> (History, Content, usize) {
    let mut scene = Scene::new();
    let lease = scene.claim("a", ttl(5)).await.expect("it is free");
    scene.wait(1);
    if is_renewed_first {
        scene.renew(&lease, false).await;
        scene.wait(1);
        scene.append(&lease, false).await;
    } else {
        scene.append(&lease, false).await;
        scene.wait(1);
        scene.renew(&lease, false).await;
    }
    let look = scene.look().await;
    let (history, content) = scene.end().await;
    (history, content, look)
}

fn looked(history: &mut History, look: usize) -> &mut conformance_tests::history::Tenure {
    match &mut history.invocations[look].answer {
        Some((_, Answer::Observed { tenure: Some(tenure), .. })) => tenure,
        other => panic!("a look was answered {other:?}"),
    }
}

fn later(time: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros() + millis * 1_000)
}

#[test]
fn a_lost_renewal_stands_where_a_look_says_that_it_does() {
    for is_renewed_first in [true, false] {
        let (mut history, content, look) = now(lost_beside_each_other(is_renewed_first));
        let findings = check(&history, &content);
        assert!(findings.violations.is_empty(), "renewed first: {is_renewed_first}; {findings}");
        // The time of neither, nor an expiry that no renewal at any time in between can have led to.
        let right = looked(&mut history, look).clone();
        for (recorded_at, expires_at) in [
            (later(right.recorded_at, -500), right.lease.expires_at),
            (later(right.recorded_at, 500), right.lease.expires_at),
            (right.recorded_at, later(right.lease.expires_at, 2_000)),
            (right.recorded_at, later(right.lease.expires_at, -2_000)),
        ] {
            let tenure = looked(&mut history, look);
            (tenure.recorded_at, tenure.lease.expires_at) = (recorded_at, expires_at);
            let findings = check(&history, &content);
            assert!(
                findings.of(Kind::WrongAnswer).next().is_some(),
                "renewed first: {is_renewed_first}, recorded {recorded_at:?}, expiry {expires_at:?}; {findings}"
            );
        }
    }
}

#[test]
fn a_renewal_that_was_sent_later_explains_nothing_before() {
    let (mut history, content, look) = now(lost_beside_each_other(true));
    let after = history.invocations[look].called_at + STEP;
    let renewal = history.invocations.iter_mut().find(|call| matches!(call.call, Call::Renew { .. }));
    renewal.expect("it was sent").called_at = after;
    let findings = check(&history, &content);
    assert!(
        findings.of(Kind::Ghost).any(|found| found.to_string().contains("renewal 1 of the partition")),
        "{findings}"
    );
}

#[test]
fn one_lost_renewal_does_not_explain_two() {
    let mut scene = Scene::new();
    let (mut history, content) = now(async {
        let lease = scene.claim("a", ttl(5)).await.expect("it is free");
        for _ in 0..2 {
            scene.wait(1);
            scene.renew(&lease, false).await;
        }
        scene.end().await
    });
    assert!(checked(&(history.clone(), content.clone())).violations.is_empty());
    history.invocations.remove(1);
    assert!(check(&history, &content).of(Kind::Ghost).next().is_some());
}

#[test]
fn only_a_call_of_the_last_tenure_can_still_come() {
    let mut scene = Scene::new();
    let (mut history, content) = now(async {
        let mut forged = scene.claim("a", ttl(5)).await.expect("it is free");
        // The generation is the one that the barrier gets.
        forged.generation = ledger_core::Generation::new(2).expect("a generation");
        scene.append(&forged, false).await;
        scene.end().await
    });
    let counts = check(&history, &content).counts;
    assert_eq!((counts.unknown, counts.settled), (1, 1));
    let last = content.partitions[0].tenure.as_ref().expect("it is held").lease.clone();
    assert_eq!(last.generation.get(), 2);
    let append = Append::new([NewEvent::of("noted", &1).expect("an event")]).expect("an append");
    let at = history.invocations.last().expect("the barrier's").called_at + STEP;
    history.invocations.push(Invocation::new("d".into(), 0, at, Call::append(&last, &append), None));
    let counts = check(&history, &content).counts;
    assert_eq!((counts.unknown, counts.settled), (2, 1));
}

#[test]
fn calls_beyond_the_trust_are_counted() {
    for (waits, beyond) in [(4, 0), (6, 1)] {
        let mut scene = Scene::new();
        let all = now(async {
            let lease = scene.claim("a", ttl(5)).await.expect("it is free");
            scene.wait(waits);
            scene.append(&lease, true).await;
            scene.end().await
        });
        let findings = checked(&all);
        assert!(findings.violations.is_empty(), "{findings}");
        assert_eq!(findings.counts.beyond_trust, beyond, "after {waits} s of 5");
    }
}

/// A claim that is refused, and granted only once the lease of before is over; the faults are over from the start.
async fn waited_for(seconds: u64) -> (History, Content) {
    let mut scene = Scene::new();
    scene.claim("a", ttl(5)).await.expect("it is free");
    scene.wait(1);
    assert!(scene.claim("b", ttl(5)).await.is_none(), "it is held");
    let healed = scene.at;
    scene.wait(seconds);
    scene.claim("b", ttl(5)).await.expect("the lease is over");
    let (mut history, content) = scene.end().await;
    history.healed = Some((healed, 2_000_000_000));
    (history, content)
}

#[test]
fn a_partition_that_stands_still_once_the_faults_are_over_is_found() {
    let (mut history, content) = now(waited_for(5));
    let findings = check(&history, &content);
    assert!(findings.violations.is_empty(), "{findings}");
    // The same claim is said to have been told that it can not be decided, and so the one of the barrier.
    for call in history.invocations.iter_mut().filter(|call| call.called_at > 2_000_000_000) {
        if let Some((_, answer)) = &mut call.answer {
            *answer = Answer::Unknown("the connection was lost".to_owned());
        }
    }
    let findings = check(&history, &content);
    let stands_still = |found: &conformance_tests::history::Finding| found.to_string().contains("is written to within");
    assert!(findings.of(Kind::Progress).any(stands_still), "{findings}");
}

#[test]
fn a_call_that_is_answered_late_or_never_once_the_faults_are_over_is_found() {
    for late in [Some(3_000_000_000), None] {
        let (mut history, content) = now(waited_for(5));
        let last = history.invocations.last_mut().expect("the barrier");
        last.answer = last.answer.take().zip(late).map(|((_, answer), late)| (last.called_at + late, answer));
        let findings = check(&history, &content);
        assert!(
            findings.of(Kind::Progress).any(|found| found.to_string().contains("is answered within")),
            "{findings}"
        );
    }
}

#[test]
fn an_operators_advance_is_judged() {
    let scene = Scene::new();
    let partition = partition("p");
    now(async {
        let mut scene = scene;
        let lease = scene.claim("a", ttl(5)).await.expect("it is free");
        let reason = ledger_core::Note::new("restored").expect("a note");
        let above = Some(ledger_core::Generation::new(7).expect("a generation"));
        let advance = ledger_core::Advance::new(partition.clone(), holder("operator"), above, reason);
        for _ in 0..2 {
            let answer = scene.ledger.advance(&advance).await.expect("nothing is in its way");
            scene.note(Call::Advance(advance.clone()), Some(Answer::of_advanced(&answer)));
        }
        scene.append(&lease, true).await;
        let observed = Observation::of(&lease);
        let claim = Claim::new(partition.clone(), holder("b"), ttl(5), observed);
        let answer = scene.ledger.claim(&claim).await;
        scene.note(Call::Claim(claim), Some(answer.as_ref().map_or_else(Answer::of_error, Answer::of_claimed)));
        let answer = scene.ledger.release(&lease).await;
        scene.note(Call::Release(lease), Some(answer.as_ref().map_or_else(Answer::of_error, Answer::of_released)));
        let findings = checked(&scene.end().await);
        assert!(findings.violations.is_empty(), "{findings}");
        assert_eq!(findings.counts.refusals, 2, "the old lease's append, and the claim of what was observed before");
    });
}
