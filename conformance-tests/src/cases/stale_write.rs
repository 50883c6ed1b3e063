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

pub(super) async fn stw15_delayed_request_arrives_after_a_takeover(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    for call in ["an append", "a renewal", "a release"] {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        let sent = append("delayed");
        let mut gate = line.hold_request().await?;
        let task = Running::start({
            let (handle, lease, sent) = (line.ledger(), lease.clone(), sent.clone());
            async move {
                match call {
                    "an append" => handle.append(&lease, &sent).await.map(|appended| format!("{appended:?}")),
                    "a renewal" => handle.renew(&lease, None).await.map(|renewal| format!("{renewal:?}")),
                    _ => handle.release(&lease).await.map(|released| format!("{released:?}")),
                }
            }
        });
        in_time("the call is on its way", gate.reached()).await??;
        ledger.release(&lease).await?;
        let successor = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
        ledger.append(&successor, &append("1")).await?;
        let before = Snapshot::take(&*ledger, &jobs).await?;
        gate.open().await?;
        let answer = task.end("a delayed call ends").await?;
        let what = format!("{call} that arrives after a takeover");
        if call == "a release" {
            let ended = answer.as_ref().is_ok_and(|told| told.contains("AlreadyEnded"));
            ensure(ended, &format!("{what} is answered as ended"), &answer)?;
        } else {
            expect_rejected(&what, answer, Reason::StaleGeneration)?;
            let kept = records(&*ledger, Some(&jobs)).await?;
            ensure(!kept.is_empty(), "it has left its record", &kept)?;
        }
        before.expect_unchanged(&what, &*ledger, &jobs, false).await?;
        let fate = ledger.fate(&jobs, sent.id(), lease.generation).await?;
        equal("the fate of what came too late", &fate, &Fate::Never)?;
        ledger.release(&successor).await?;
    }
    Ok(())
}

pub(super) async fn stw16_request_that_is_doubled_across_a_takeover(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let mut lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for _ in 0..cx.scale(10, 100) {
        let sent = batch(2);
        let copies = [&ledger, &other].map(|handle| {
            let (handle, lease, sent) = (handle.clone(), lease.clone(), sent.clone());
            async move { handle.append(&lease, &sent).await }
        });
        let mut entries = Vec::new();
        for answer in all_at_once(copies).await? {
            entries.push(answer?);
        }
        let replays = entries.iter().filter(|appended| appended.replayed).count();
        let one = entries.iter().all(|appended| appended.entry == entries[0].entry);
        ensure(one && replays == 1, "of two copies one is written, and the other is its replay", &entries)?;
        ledger.release(&lease).await?;
        let successor = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
        let call = other.append(&lease, &sent);
        let what = "a third copy, after the takeover";
        let refused = refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
        equal("the entry that it is told of", &refused.earlier.as_ref(), &Some(&entries[0].entry))?;
        let again = ledger.append(&successor, &sent).await?;
        let told = (again.replayed, &again.entry);
        equal("the successor's copy: a replay", &told, &(true, &entries[0].entry))?;
        lease = successor;
    }
    Ok(())
}

/// Writers that believe whatever lease was granted last, and often one that has ended; claimants that come and go.
pub(super) async fn stw17_storm_of_takeovers_and_writers(cx: Context) -> Verdict {
    let (ledger, jobs, rounds) = (cx.ledger(), partition("jobs"), cx.scale(10, 100));
    let first = claim(&*ledger, &jobs, "first", long_ttl()).await?.lease;
    let (granted, newest) = tokio::sync::watch::channel(first);
    let mut claimants = Vec::new();
    for nth in 0..8 {
        let (handle, jobs, granted) = (cx.open().await?, jobs.clone(), granted.clone());
        claimants.push(Running::start(async move {
            for _ in 0..rounds {
                let current = granted.borrow().clone();
                drop(handle.release(&current).await);
                let name = format!("claimant-{nth}");
                if let Ok(claimed) = claim(&*handle, &jobs, &name, long_ttl()).await {
                    granted.send_replace(claimed.lease);
                }
            }
        }));
    }
    drop(granted);
    let mut writers = Vec::new();
    for _ in 0..8 {
        let (handle, mut newest) = (cx.open().await?, newest.clone());
        writers.push(Running::start(async move {
            let mut landed = Vec::new();
            while newest.has_changed().is_ok() {
                let_others_run().await;
                let lease = newest.borrow_and_update().clone();
                // A few with one lease: the later ones meet the takeover.
                for _ in 0..3 {
                    if let Ok(appended) = handle.append(&lease, &append("1")).await {
                        landed.push(appended.entry);
                    }
                }
            }
            landed
        }));
    }
    for task in claimants {
        task.end("a claimant ends").await?;
    }
    let mut landed = Vec::new();
    for task in writers {
        landed.extend(task.end("a writer ends").await?);
    }
    let log = read_all(&*ledger, &jobs).await?;
    let (mut tenure, mut ended) = (None, true);
    for (event, position) in log.iter().zip(1..) {
        equal("the position of an event", &event.position.get(), &position)?;
        let entry = (event.entry.generation, event.entry.acquisition, &event.entry.holder);
        match event.kind.as_str() {
            OwnEvent::CLAIMED => (tenure, ended) = (Some(entry), false),
            _ if ended => {
                return Err(Violation::new("nothing stands behind the end of a tenure", format!("{event:?}")).into());
            }
            kind => {
                equal("the tenure that an event was written in", &Some(entry), &tenure)?;
                ended = kind == OwnEvent::RELEASED;
            }
        }
    }
    for entry in &landed {
        let found = log.iter().filter(|event| event.entry == *entry).count();
        equal("the events of an append that was acknowledged", &found, &1)?;
    }
    let written = log.iter().filter(|event| !event.kind.is_own()).count();
    equal("the appends in the log: those that were acknowledged", &written, &landed.len())?;
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
