//! Stale writes: a lease that is not the current, valid one changes nothing.

use super::prelude::*;
use ledger_core::LedgerId;

pub(super) async fn stw01_generation_before_is_refused(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (old, new) = two_tenures(&ledger, &jobs).await?;
    let (what, stale) = ("an append of generation 1 under 2", append("stale"));
    let call = ledger.append(&old, &stale);
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
    equal("the generation presented", &refused.presented.generation, &Some(old.generation))?;
    equal("the generation that is true", &refused.current.map(|current| current.generation), &Some(new.generation))?;
    Ok(())
}

pub(super) async fn stw02_generation_ahead_is_refused(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (_, new) = two_tenures(&ledger, &jobs).await?;
    for generation in [shifted(new.generation, 1), Generation::MAX] {
        let ahead = edited(&new, |lease| lease.generation = generation);
        every_call_is_refused(&ledger, &ahead, Reason::UnknownGeneration).await?;
    }
    Ok(())
}

pub(super) async fn stw03_other_holder_is_refused(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (_, new) = two_tenures(&ledger, &jobs).await?;
    for name in ["a", "c", "B", "b "] {
        every_call_is_refused(&ledger, &edited(&new, |lease| lease.holder = holder(name)), Reason::WrongHolder).await?;
    }
    Ok(())
}

pub(super) async fn stw04_other_acquisition_is_refused(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (old, new) = two_tenures(&ledger, &jobs).await?;
    for acquisition in [old.acquisition, AcquisitionId::mint()] {
        let other = edited(&new, |lease| lease.acquisition = acquisition);
        every_call_is_refused(&ledger, &other, Reason::WrongAcquisition).await?;
    }
    Ok(())
}

pub(super) async fn stw05_expired_though_nobody_followed(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&lease).await?;
    let what = "an append after expiry";
    refused_without_effect(what, &*ledger, &jobs, Reason::Expired, ledger.append(&lease, &append("late"))).await?;
    let what = "a renewal after expiry";
    refused_without_effect(what, &*ledger, &jobs, Reason::Expired, ledger.renew(&lease, None)).await?;
    Ok(())
}

pub(super) async fn stw06_paused_holder_wakes_on_its_own_handle(cx: Context) -> Verdict {
    let (first, second, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let a = claim(&*first, &jobs, "a", cx.short_ttl()).await?.lease;
    first.append(&a, &append("1")).await?;
    cx.expire(&a).await?;
    let b = claim(&*second, &jobs, "b", long_ttl()).await?.lease;
    second.append(&b, &append("2")).await?;
    for call in 1..=3 {
        let what = format!("append {call} of the holder that woke up");
        let stale = append("stale");
        refused_without_effect(&what, &*second, &jobs, Reason::StaleGeneration, first.append(&a, &stale)).await?;
    }
    equal("B's next position", &second.append(&b, &append("3")).await?.entry.first, &at(5))?;
    Ok(())
}

pub(super) async fn stw07_released_lease_writes_nothing(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&lease).await?;
    let what = "an append after the release";
    let late = append("late");
    let call = ledger.append(&lease, &late);
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::Released, call).await?;
    equal("why it is vacant", &refused.current.and_then(|current| current.vacancy), &Some(Vacancy::Released))?;
    refused_without_effect("a renewal after it", &*ledger, &jobs, Reason::Released, ledger.renew(&lease, None)).await?;
    Ok(())
}

pub(super) async fn stw08_earlier_tenure_of_the_same_name(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (first, second) = two_tenures(&ledger, &jobs).await?;
    ledger.release(&second).await?;
    let third = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ensure(first.holder == third.holder, "the same name holds again", (&first.holder, &third.holder))?;
    let what = "an append of the name's first tenure";
    refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, ledger.append(&first, &append("stale")))
        .await?;
    let what = "a renewal of the name's first tenure";
    refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, ledger.renew(&first, None)).await?;
    let mixed = edited(&first, |lease| lease.generation = third.generation);
    every_call_is_refused(&ledger, &mixed, Reason::WrongAcquisition).await?;
    ledger.append(&third, &append("good")).await?;
    Ok(())
}

pub(super) async fn stw09_stale_batch_stores_nothing(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (old, new) = two_tenures(&ledger, &jobs).await?;
    let stale = batch(3);
    refused_without_effect("a batch", &*ledger, &jobs, Reason::StaleGeneration, ledger.append(&old, &stale)).await?;
    equal("the next position", &ledger.append(&new, &stale).await?.entry.first, &at(4))?;
    Ok(())
}

pub(super) async fn stw10_expiry_passes_while_waiting_for_the_lock(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    let guard = cx.hold_lock(&jobs).await?;
    let waiting = tokio::spawn({
        let (ledger, lease) = (ledger.clone(), lease.clone());
        async move { ledger.append(&lease, &append("waited")).await }
    });
    reaches_the_lock().await;
    ensure(!waiting.is_finished(), "an append waits for the partition's lock", "it was answered without it")?;
    clock.set(lease.expires_at).await;
    guard.release().await?;
    let answer = waiting.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))?;
    let refused = expect_rejected("an append that got the lock after expiry", answer, Reason::Expired)?;
    equal("the time of the judgement: after the wait", &refused.judged.time, &lease.expires_at)?;
    equal("the events in the log", &read_all(&*ledger, &jobs).await?.len(), &1)?;
    Ok(())
}

pub(super) async fn stw11_renewal_and_claim_are_judged_after_the_wait(cx: Context) -> Verdict {
    let (ledger, other, jobs, clock) = (cx.ledger(), cx.open().await?, partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    let asked = prepare_claim(&*other, &jobs, "b", seconds(5)).await?;
    let guard = cx.hold_lock(&jobs).await?;
    let renewal = tokio::spawn({
        let (ledger, lease) = (ledger.clone(), lease.clone());
        async move { ledger.renew(&lease, None).await }
    });
    let takeover = tokio::spawn(async move { other.claim(&asked).await });
    reaches_the_lock().await;
    clock.set(lease.expires_at).await;
    guard.release().await?;
    let panicked = |error: tokio::task::JoinError| Violation::new("no panic in a call", error.to_string());
    let renewed = renewal.await.map_err(panicked)?;
    let claimed = takeover.await.map_err(panicked)??;
    equal("the generation of the claim that waited past expiry", &claimed.lease.generation.get(), &2)?;
    equal("its expiry counts from the grant", &claimed.lease.expires_at, &lease.expires_at.after(seconds(5)))?;
    match renewed {
        Err(LedgerError::Rejected(refused)) if matches!(refused.reason, Reason::Expired | Reason::StaleGeneration) => {
            Ok(())
        }
        other => Err(Violation::new("a renewal that waited past expiry is refused", format!("{other:?}")).into()),
    }
}

pub(super) async fn stw12_lease_of_another_ledger_is_invalid(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let foreign = edited(&lease, |lease| lease.ledger = LedgerId::mint());
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let answers = [
        ("append", ledger.append(&foreign, &append("1")).await.map(drop)),
        ("renewal", ledger.renew(&foreign, None).await.map(drop)),
        ("release", ledger.release(&foreign).await.map(drop)),
    ];
    for (what, answer) in answers {
        let invalid = matches!(answer, Err(LedgerError::Invalid(_)));
        ensure(invalid, &format!("a lease of another ledger is invalid input for {what}"), &answer)?;
    }
    before.expect_unchanged("a lease of another ledger", &*ledger, &jobs, false).await?;
    equal("the records: invalid input leaves none", &records(&*ledger, Some(&jobs)).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn stw13_nothing_is_written_before_the_first_claim(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let known = claim(&*ledger, &partition("other"), "a", long_ttl()).await?.lease;
    let forged = edited(&known, |lease| lease.partition = jobs.clone());
    every_call_is_refused(&ledger, &forged, Reason::NeverClaimed).await?;
    let page = ledger.partitions(None, PageSize::MAX).await?;
    equal("the partitions: a refusal creates none", &page.partitions, &vec![partition("other")])?;
    equal(
        "the generation of the first claim",
        &claim(&*ledger, &jobs, "b", long_ttl()).await?.lease.generation.get(),
        &1,
    )?;
    Ok(())
}

pub(super) async fn stw14_appends_race_a_takeover(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let rounds = cx.scale(5, 100);
    let mut old = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..rounds {
        let mut writers = Vec::new();
        for _ in 0..5 {
            let (handle, lease) = (cx.open().await?, old.clone());
            writers.push(async move {
                let mut granted = Vec::new();
                for _ in 0..200 {
                    match handle.append(&lease, &append("racing")).await {
                        Ok(appended) => granted.push(appended.entry.last),
                        refused => return (granted, Some(refused)),
                    }
                }
                (granted, None)
            });
        }
        let taken_over = tokio::spawn({
            let (handle, old, note) = (cx.open().await?, old.clone(), Note::new("takeover")?);
            async move {
                handle.end_tenure(&old.partition, Observation::of(&old), &note).await?;
                let name = format!("holder-{round}");
                claim(&*handle, &old.partition, &name, long_ttl()).await
            }
        });
        let answers = all_at_once(writers).await?;
        let new = taken_over.await.map_err(|error| Violation::new("no panic in a claim", error.to_string()))??;
        let boundary = new.head;
        for (granted, refused) in answers {
            let late: Vec<_> = granted.iter().filter(|position| **position >= boundary).collect();
            ensure(
                late.is_empty(),
                &format!("no append of the old holder stands after `$claimed` at {boundary}"),
                late,
            )?;
            if let Some(refused) = refused {
                let fenced = matches!(&refused, Err(LedgerError::Rejected(rejection))
                    if matches!(rejection.reason, Reason::StaleGeneration | Reason::Released));
                ensure(fenced, "a racing append is granted or fenced", &refused)?;
            }
        }
        old = new.lease;
    }
    let mut newest = 0;
    for event in read_all(&*ledger, &jobs).await? {
        let generation = event.entry.generation.get();
        ensure(generation >= newest, "generations never fall along the log", (event.position, generation, newest))?;
        newest = generation;
    }
    Ok(())
}

/// Two tenures: of `a`, released, and of `b`, valid. The log has three events.
async fn two_tenures(ledger: &Arc<dyn FencedLedger>, jobs: &PartitionId) -> Result<(Lease, Lease), Stop> {
    let first = claim(&**ledger, jobs, "a", long_ttl()).await?.lease;
    ledger.release(&first).await?;
    Ok((first, claim(&**ledger, jobs, "b", long_ttl()).await?.lease))
}

/// Every call that presents a lease is refused for the reason, and changes nothing.
async fn every_call_is_refused(ledger: &Arc<dyn FencedLedger>, lease: &Lease, reason: Reason) -> Verdict {
    let (handle, jobs) = (&**ledger, &lease.partition);
    let what = |call: &str| format!("{call} with holder {:?} and generation {}", lease.holder, lease.generation);
    refused_without_effect(&what("an append"), handle, jobs, reason, ledger.append(lease, &append("x"))).await?;
    refused_without_effect(&what("a batch"), handle, jobs, reason, ledger.append(lease, &batch(3))).await?;
    refused_without_effect(&what("a renewal"), handle, jobs, reason, ledger.renew(lease, Some(seconds(9)))).await?;
    refused_without_effect(&what("a release"), handle, jobs, reason, ledger.release(lease)).await?;
    Ok(())
}

/// Gives calls that were just spawned the time to come to a lock that is held. How far they are can not be seen from
/// outside; one that is slower makes the case weaker, never wrong.
async fn reaches_the_lock() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}
