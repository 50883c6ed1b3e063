//! Claim and takeover: who becomes holder, and under which generation.

use super::prelude::*;
use crate::Edit;

pub(super) async fn tko01_first_claim_is_generation_1(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let before = ledger.observe(&jobs).await?;
    ensure(before.tenure.is_none() && before.judged.revision.get() == 0, "nothing is known of a fresh name", &before)?;
    let asked = first_claim(&jobs, "a", seconds(7));
    let claimed = ledger.claim(&asked).await?;
    equal("the generation of a first claim", &claimed.lease.generation, &Generation::FIRST)?;
    equal("the holder", &claimed.lease.holder, &asked.holder)?;
    equal("the acquisition", &claimed.lease.acquisition, &asked.acquisition)?;
    equal("the expiry: judged time and TTL", &claimed.lease.expires_at, &claimed.judged.time.after(seconds(7)))?;
    equal("the head: the `$claimed` event alone", &claimed.head, &at(1))?;
    ensure(!claimed.replayed, "a first grant is no replay", claimed.replayed)?;
    let succession = succession_at(&*ledger, &jobs, 1).await?;
    ensure(succession.previous.is_none() && succession.basis == Basis::First, "nobody was before", &succession)?;
    let after = ledger.observe(&jobs).await?;
    equal("the lease that others see", &after.tenure.map(|tenure| tenure.lease), &Some(claimed.lease))?;
    Ok(())
}

pub(super) async fn tko02_valid_lease_is_held(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.set(Timestamp::from_micros(lease.expires_at.as_micros() - 1)).await;
    let asked = prepare_claim(&*ledger, &jobs, "b", seconds(5)).await?;
    let what = "a claim one microsecond before expiry";
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::Held, ledger.claim(&asked)).await?;
    let current = refused.current.ok_or_else(|| Violation::new("the refusal says who holds it", "nothing"))?;
    equal("the holder that the refusal names", &current.holder, &lease.holder)?;
    equal("the expiry that the refusal names", &current.expires_at, &lease.expires_at)?;
    ledger.append(&lease, &append("1")).await?;
    Ok(())
}

pub(super) async fn tko03_granted_at_expiry(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.set(lease.expires_at).await;
    let claimed = ledger.claim(&prepare_claim(&*ledger, &jobs, "b", seconds(5)).await?).await?;
    equal("the generation after a takeover", &claimed.lease.generation.get(), &2)?;
    let basis = Basis::Expired { expires_at: lease.expires_at, judged_at: lease.expires_at };
    equal("the basis of the takeover", &succession_at(&*ledger, &jobs, 2).await?.basis, &basis)?;
    let stale = append("1");
    let late = ledger.append(&lease, &stale);
    refused_without_effect("the append of the one before", &*ledger, &jobs, Reason::StaleGeneration, late).await?;
    Ok(())
}

pub(super) async fn tko04_observation_must_be_current(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let early = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    let tenure = |lease: &Lease| Observation::of(lease);
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&first).await?;
    let second = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&second).await?;
    let forged = Observation::Tenure { generation: second.generation, acquisition: first.acquisition };
    let ahead = Observation::Tenure {
        generation: second.generation.next().unwrap_or(Generation::MAX),
        acquisition: second.acquisition,
    };
    for (what, observed) in [
        ("a claim that saw nobody", Observation::NeverClaimed),
        ("a claim that saw the tenure before", tenure(&first)),
        ("a claim with the right generation and another acquisition", forged),
        ("a claim that saw a generation that is not yet", ahead),
    ] {
        let asked = early.clone().observing(observed).with_acquisition(AcquisitionId::mint());
        let call = ledger.claim(&asked);
        refused_without_effect(what, &*ledger, &jobs, Reason::ObservationOutdated, call).await?;
    }
    let unseen = Claim::new(partition("other"), holder("b"), long_ttl(), tenure(&first));
    let call = ledger.claim(&unseen);
    let other = partition("other");
    let what = "a claim of a fresh name that saw a tenure";
    refused_without_effect(what, &*ledger, &other, Reason::ObservationOutdated, call).await?;
    let granted = ledger.claim(&early.observing(tenure(&second))).await?;
    equal("the generation from the right observation", &granted.lease.generation.get(), &3)?;
    Ok(())
}

pub(super) async fn tko05_one_of_32_racers_takes_an_expired_lease(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&lease).await?;
    race(&cx, &jobs, Observation::of(&lease), 32).await?;
    let successions = successions(&*ledger, &jobs).await?;
    equal("the generations in the log", &generations(&successions), &vec![1, 2])?;
    Ok(())
}

pub(super) async fn tko06_one_of_32_racers_claims_first(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    race(&cx, &jobs, Observation::NeverClaimed, 32).await?;
    equal("the generations in the log", &generations(&successions(&*ledger, &jobs).await?), &vec![1])?;
    Ok(())
}

pub(super) async fn tko07_two_handles_race_for_every_generation(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let rounds = cx.scale(20, 500);
    let mut observed = Observation::NeverClaimed;
    for round in 1..=rounds {
        let winner = race(&cx, &jobs, observed, 2).await?;
        equal("the generation of a round", &winner.lease.generation.get(), &i64::try_from(round).unwrap_or(0))?;
        observed = Observation::of(&winner.lease);
        ledger.release(&winner.lease).await?;
    }
    let counted: Vec<i64> = (1..=i64::try_from(rounds).unwrap_or(0)).collect();
    equal("the generations in the log", &generations(&successions(&*ledger, &jobs).await?), &counted)?;
    Ok(())
}

pub(super) async fn tko08_own_name_does_not_renew_by_claiming(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for handle in [&ledger, &other] {
        let asked = prepare_claim(&**handle, &jobs, "a", long_ttl()).await?;
        let what = "a second claim under the same name";
        refused_without_effect(what, &*ledger, &jobs, Reason::Held, handle.claim(&asked)).await?;
    }
    ledger.append(&lease, &append("1")).await?;
    Ok(())
}

pub(super) async fn tko09_same_acquisition_returns_the_same_lease(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    let granted = ledger.claim(&asked).await?;
    ledger.append(&granted.lease, &append("1")).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let mut retry = asked.clone().observing(Observation::of(&granted.lease));
    retry.ttl = seconds(1);
    for (what, handle, claim) in [
        ("the same claim", &ledger, &asked),
        ("the same claim through another handle", &other, &asked),
        ("a retry with another TTL and another observation", &other, &retry),
    ] {
        let again = handle.claim(claim).await?;
        equal(&format!("the lease of {what}"), &again.lease, &granted.lease)?;
        ensure(again.replayed, &format!("{what} is marked as a replay"), again.replayed)?;
        equal("the head in a retry: the newest event", &again.head, &at(2))?;
        before.expect_unchanged(what, &*ledger, &jobs, false).await?;
    }
    let mut foreign = asked.clone();
    foreign.holder = holder("b");
    let what = "the acquisition of another holder";
    refused_without_effect(what, &*ledger, &jobs, Reason::WrongHolder, other.claim(&foreign)).await?;
    Ok(())
}

pub(super) async fn tko10_spent_acquisition_is_refused_for_ever(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    let first = ledger.claim(&asked).await?.lease;
    ledger.release(&first).await?;
    let what = "the acquisition of the newest tenure, released";
    refused_without_effect(what, &*ledger, &jobs, Reason::Released, ledger.claim(&asked)).await?;
    let mut newest = first;
    for _ in 0..3 {
        newest = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
        let again = asked.clone().observing(Observation::of(&newest));
        let what = "the acquisition of an earlier tenure, the partition held";
        refused_without_effect(what, &*ledger, &jobs, Reason::AcquisitionSpent, ledger.claim(&again)).await?;
        ledger.release(&newest).await?;
        let what = "the acquisition of an earlier tenure, the partition free";
        refused_without_effect(what, &*ledger, &jobs, Reason::AcquisitionSpent, ledger.claim(&again)).await?;
    }
    let fresh = asked.observing(Observation::of(&newest)).with_acquisition(AcquisitionId::mint());
    equal("the generation of a fresh acquisition", &ledger.claim(&fresh).await?.lease.generation.get(), &5)?;
    Ok(())
}

pub(super) async fn tko11_succession_names_the_tenure_before(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let first = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    ledger.append(&first, &batch(3)).await?;
    clock.advance(Duration::from_secs(6)).await;
    let second = claim(&*ledger, &jobs, "b", seconds(5)).await?;
    let expired = succession_at(&*ledger, &jobs, 5).await?;
    let previous = expired.previous.as_ref().ok_or_else(|| Violation::new("a tenure before", "none"))?;
    let names = (&previous.holder, previous.generation, previous.acquisition, previous.last_position);
    equal("the tenure before", &names, &(&first.holder, first.generation, first.acquisition, at(4)))?;
    let basis = Basis::Expired { expires_at: first.expires_at, judged_at: second.judged.time };
    equal("the basis", &expired.basis, &basis)?;
    let new = (&expired.holder, expired.generation, expired.acquisition, expired.expires_at, expired.at);
    let lease = &second.lease;
    let granted = (&lease.holder, lease.generation, lease.acquisition, lease.expires_at, second.judged.time);
    equal("the new tenure", &new, &granted)?;
    ledger.release(&second.lease).await?;
    let third = claim(&*ledger, &jobs, "c", seconds(5)).await?.lease;
    equal("the basis after a release", &succession_at(&*ledger, &jobs, 7).await?.basis, &Basis::Released)?;
    let reason = Note::new("the clock had jumped")?;
    ledger.end_tenure(&jobs, Observation::of(&third), &reason).await?;
    claim(&*ledger, &jobs, "d", seconds(5)).await?;
    equal("the basis after an operator", &succession_at(&*ledger, &jobs, 9).await?.basis, &Basis::Ended { reason })?;
    Ok(())
}

pub(super) async fn tko12_hundred_tenures_count_up(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    for round in 1..=100 {
        let handle = if round % 2 == 0 { &ledger } else { &other };
        let lease = claim(&**handle, &jobs, if round % 3 == 0 { "a" } else { "b" }, long_ttl()).await?.lease;
        equal("the generation", &lease.generation.get(), &round)?;
        handle.append(&lease, &append("1")).await?;
        handle.release(&lease).await?;
    }
    let events = read_all(&*ledger, &jobs).await?;
    equal("the events of 100 tenures, three each", &events.len(), &300)?;
    for (event, position) in events.iter().zip(1..) {
        equal("the position", &event.position.get(), &position)?;
        equal("the generation of an event", &event.entry.generation.get(), &((position - 1) / 3 + 1))?;
    }
    Ok(())
}

pub(super) async fn tko13_expired_acquisition_is_not_granted_again(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let asked = first_claim(&jobs, "a", cx.short_ttl());
    let lease = ledger.claim(&asked).await?.lease;
    cx.expire(&lease).await?;
    let what = "the retry of a claim whose lease has expired";
    refused_without_effect(what, &*ledger, &jobs, Reason::Expired, ledger.claim(&asked)).await?;
    let next = asked.observing(Observation::of(&lease)).with_acquisition(AcquisitionId::mint());
    equal("the generation of a new attempt", &ledger.claim(&next).await?.lease.generation.get(), &2)?;
    Ok(())
}

/// The sequence of the lease model, in seconds from the first claim.
pub(super) async fn tko14_lease_model_in_sequence(cx: Context) -> Verdict {
    let (ledger, other, jobs, clock) = (cx.ledger(), cx.open().await?, partition("jobs"), cx.clock()?);
    let start = clock.now().await;
    let moment = |second: i64| Timestamp::from_micros(start.as_micros() + second * 1_000_000);

    let a = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    equal("A's generation at 0", &a.generation.get(), &1)?;
    clock.set(moment(2)).await;
    equal("A's append at 2", &ledger.append(&a, &append("1")).await?.entry.first, &at(2))?;
    clock.set(moment(4)).await;
    let a = ledger.renew(&a, None).await?.lease;
    equal("A's expiry after its renewal at 4", &a.expires_at, &moment(9))?;
    clock.set(moment(8)).await;
    equal("A's append at 8", &ledger.append(&a, &append("2")).await?.entry.first, &at(3))?;

    clock.set(moment(9)).await;
    let late = append("late");
    let call = ledger.append(&a, &late);
    let refused = refused_without_effect("A's append at 9", &*ledger, &jobs, Reason::Expired, call).await?;
    equal("the time of that refusal", &refused.judged.time, &moment(9))?;
    let call = ledger.renew(&a, None);
    refused_without_effect("A's renewal at 9", &*ledger, &jobs, Reason::Expired, call).await?;

    clock.set(moment(10)).await;
    let b = claim(&*other, &jobs, "b", seconds(5)).await?.lease;
    equal("B's generation at 10", &b.generation.get(), &2)?;
    clock.set(moment(11)).await;
    equal("B's append at 11", &other.append(&b, &append("3")).await?.entry.first, &at(5))?;

    clock.set(moment(12)).await;
    let mut as_b = a.clone();
    as_b.holder = b.holder.clone();
    let stale = append("stale");
    for (what, lease) in [("B's name with A's lease", &as_b), ("A's own append", &a)] {
        let call = ledger.append(lease, &stale);
        refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
    }
    let asked = prepare_claim(&*ledger, &jobs, "c", seconds(5)).await?;
    refused_without_effect("C's claim at 12", &*ledger, &jobs, Reason::Held, ledger.claim(&asked)).await?;
    ends_nothing("A's release of the old lease", &*ledger, &a).await?;
    let released = other.release(&b).await?;
    ensure(matches!(released, Released::Now { .. }), "B releases at 12", &released)?;

    clock.set(moment(13)).await;
    let again = claim(&*other, &jobs, "b", seconds(5)).await?.lease;
    equal("B's second generation, at 13", &again.generation.get(), &3)?;
    ensure(again.acquisition != b.acquisition, "B's second tenure has an acquisition of its own", again.acquisition)?;
    let call = other.renew(&b, None);
    let what = "a renewal with B's earlier lease";
    refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
    ends_nothing("a release of B's earlier lease", &*ledger, &b).await?;
    clock.set(moment(14)).await;
    equal("B's append at 14", &other.append(&again, &append("4")).await?.entry.first, &at(8))?;
    other.release(&again).await?;
    let c = claim(&*ledger, &jobs, "c", seconds(5)).await?.lease;
    equal("C's generation at 14", &c.generation.get(), &4)?;
    clock.set(moment(15)).await;
    let last = ledger.append(&c, &append("5")).await?.entry;
    equal("C's append at 15", &(last.first, last.recorded_at), &(at(11), moment(15)))?;

    for wrong in [0, -1, i64::MIN] {
        ensure(Ttl::from_micros(wrong).is_err(), "a TTL that is not positive is refused", wrong)?;
    }
    let events = read_all(&*ledger, &jobs).await?;
    let written: Vec<i64> = events.iter().map(|event| event.entry.generation.get()).collect();
    equal("the generations in the log", &written, &vec![1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4])?;
    Ok(())
}

pub(super) async fn tko15_renewal_races_a_takeover_at_expiry(cx: Context) -> Verdict {
    let (ledger, other, jobs, clock) = (cx.ledger(), cx.open().await?, partition("jobs"), cx.clock()?);
    for _ in 0..cx.scale(20, 200) {
        let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
        clock.set(Timestamp::from_micros(lease.expires_at.as_micros() - 1)).await;
        let asked = Claim::new(jobs.clone(), holder("b"), seconds(5), Observation::of(&lease));
        let (renewing, claiming) = (ledger.clone(), other.clone());
        let renewal = Running::start({
            let lease = lease.clone();
            async move { renewing.renew(&lease, None).await }
        });
        let takeover = Running::start(async move { claiming.claim(&asked).await });
        clock.set(lease.expires_at).await;
        let renewed = renewal.end("a renewal ends").await?;
        let taken = takeover.end("a claim ends").await?;
        let state = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.lease);
        let held = match (renewed, taken) {
            (Ok(renewal), Ok(claimed)) => {
                let seen = format!("{renewal:?} and {claimed:?}");
                return Err(Violation::new("a renewal or a takeover is granted, not both", seen).into());
            }
            (Ok(renewal), lost) => {
                expect_rejected("a takeover after a renewal", lost, Reason::Held)?;
                renewal.lease
            }
            (lost, Ok(claimed)) => {
                let reason = |error: &LedgerError| error.rejection().map(|rejection| rejection.reason);
                let reason = lost.as_ref().err().and_then(reason);
                let fenced = matches!(reason, Some(Reason::StaleGeneration | Reason::Expired));
                ensure(fenced, "a renewal beside a takeover is refused as expired or fenced", &lost)?;
                claimed.lease
            }
            (renewed, taken) => {
                // The claim came a moment before the expiry, the renewal at it.
                expect_rejected("a renewal at expiry", renewed, Reason::Expired)?;
                expect_rejected("a claim before expiry", taken, Reason::Held)?;
                lease
            }
        };
        equal("the lease that others see", &state, &Some(held.clone()))?;
        ledger.release(&held).await?;
    }
    let count = generations(&successions(&*ledger, &jobs).await?);
    let expected: Vec<i64> = (1..).take(count.len()).collect();
    equal("the generations in the log", &count, &expected)?;
    Ok(())
}

pub(super) async fn tko16_generations_end_and_do_not_wrap(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&lease).await?;
    let generation = Generation::MAX;
    cx.tamper(&jobs, Edit::Generation { position: at(2), generation }).await?;
    cx.tamper(&jobs, Edit::LeaseGeneration { generation }).await?;
    let asked = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    equal("what is observed", &asked.observed, &Observation::Tenure { generation, acquisition: lease.acquisition })?;
    let call = ledger.claim(&asked);
    let what = "a claim after the highest generation";
    refused_without_effect(what, &*ledger, &jobs, Reason::GenerationExhausted, call).await?;
    Ok(())
}

/// A release of an earlier tenure is a success without effect.
async fn ends_nothing(what: &str, ledger: &dyn FencedLedger, lease: &Lease) -> Verdict {
    let before = Snapshot::take(ledger, &lease.partition).await?;
    let released = ledger.release(lease).await?;
    ensure(matches!(released, Released::AlreadyEnded { .. }), &format!("{what} had ended before"), &released)?;
    before.expect_unchanged(what, ledger, &lease.partition, false).await
}

/// Lets as many claims race from one observation, each on a handle and a task of its own, and demands that exactly
/// one is granted and the others learn so.
async fn race(cx: &Context, jobs: &PartitionId, observed: Observation, racers: usize) -> Result<Claimed, Stop> {
    let mut claims = Vec::new();
    for racer in 0..racers {
        let handle = cx.open().await?;
        let asked = Claim::new(jobs.clone(), holder(&format!("racer-{racer}")), long_ttl(), observed);
        claims.push(async move { handle.claim(&asked).await });
    }
    let mut winners = Vec::new();
    for answer in all_at_once(claims).await? {
        match answer {
            Ok(claimed) => winners.push(claimed),
            lost => {
                expect_rejected("a claim that lost the race", lost, Reason::ObservationOutdated)?;
            }
        }
    }
    let held_by: Vec<_> = winners.iter().map(|won| (&won.lease.holder, won.lease.generation)).collect();
    ensure(winners.len() == 1, &format!("exactly 1 of {racers} racers wins"), held_by)?;
    winners.pop().ok_or_else(|| Violation::new("one winner", "none").into())
}

async fn successions(ledger: &dyn FencedLedger, jobs: &PartitionId) -> Result<Vec<Succession>, Stop> {
    let mut successions = Vec::new();
    for event in read_all(ledger, jobs).await? {
        let own = OwnEvent::read(&event.kind, &event.payload)
            .map_err(|error| Violation::new("the ledger's own events are readable", error.to_string()))?;
        if let Some(OwnEvent::Claimed(succession)) = own {
            successions.push(succession);
        }
    }
    Ok(successions)
}

fn generations(successions: &[Succession]) -> Vec<i64> {
    successions.iter().map(|succession| succession.generation.get()).collect()
}

async fn succession_at(ledger: &dyn FencedLedger, jobs: &PartitionId, position: i64) -> Result<Succession, Stop> {
    let page = ledger.read(jobs, at(position), PageSize::default()).await?;
    let event = page.events.first().ok_or_else(|| Violation::new(format!("an event at {position}"), "none"))?;
    match OwnEvent::read(&event.kind, &event.payload) {
        Ok(Some(OwnEvent::Claimed(succession))) => Ok(succession),
        other => Err(Violation::new(format!("`$claimed` at {position}"), format!("{other:?} of {event:?}")).into()),
    }
}
