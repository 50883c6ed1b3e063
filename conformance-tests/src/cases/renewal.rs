//! Renewal: a valid lease gets longer, and nothing else changes.

use super::prelude::*;

pub(super) async fn rnw01_extends_from_the_judged_time(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.advance(Duration::from_secs(4)).await;
    let now = clock.now().await;
    let renewal = ledger.renew(&lease, None).await?;
    equal("the new expiry: the judged time plus the TTL", &renewal.lease.expires_at, &now.after(seconds(5)))?;
    equal("what is left", &renewal.remaining, &Duration::from_secs(5))?;
    clock.set(lease.expires_at).await;
    ledger.append(&renewal.lease, &append("after the old expiry")).await?;
    ledger.append(&lease, &append("the lease as it was granted stands for the same tenure")).await?;
    Ok(())
}

pub(super) async fn rnw02_never_shortens(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for ttl in [Ttl::from_micros(1)?, seconds(1)] {
        let renewal = ledger.renew(&lease, Some(ttl)).await?;
        equal("the expiry after a renewal for less", &renewal.lease.expires_at, &lease.expires_at)?;
    }
    let observed = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.lease.expires_at);
    equal("the expiry that is stored", &observed, &Some(lease.expires_at))?;
    Ok(())
}

pub(super) async fn rnw03_expired_is_not_revived(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&lease).await?;
    for _ in 0..2 {
        let call = ledger.renew(&lease, Some(long_ttl()));
        refused_without_effect("a renewal after expiry", &*ledger, &jobs, Reason::Expired, call).await?;
    }
    equal(
        "the generation of the next claim",
        &claim(&*ledger, &jobs, "b", long_ttl()).await?.lease.generation.get(),
        &2,
    )?;
    Ok(())
}

pub(super) async fn rnw04_changes_expiry_and_revision_alone(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &batch(2)).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let renewal = ledger.renew(&lease, Some(Ttl::MAX)).await?;
    let same = edited(&renewal.lease, |renewed| renewed.expires_at = lease.expires_at);
    equal("all of the lease but its expiry", &same, &lease)?;
    equal("the revision, moved on by one", &renewal.judged.revision.get(), &(before.revision.get() + 1))?;
    let after = Snapshot::take(&*ledger, &jobs).await?;
    equal("the log, unchanged by a renewal", &after.events, &before.events)?;
    equal("the revision that others see", &after.revision, &renewal.judged.revision)?;
    equal("the lease that others see", &after.tenure.map(|tenure| tenure.lease), &Some(renewal.lease))?;
    Ok(())
}

pub(super) async fn rnw05_tells_head_and_chain(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..3 {
        let entry = ledger.append(&lease, &batch(round + 1)).await?.entry;
        for handle in [&ledger, &other] {
            let renewal = handle.renew(&lease, None).await?;
            equal("head and chain in a renewal", &(renewal.head, renewal.chain), &(entry.last, entry.chain))?;
        }
    }
    Ok(())
}

pub(super) async fn rnw06_ttl_of_one_call_does_not_stay(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    ledger.renew(&lease, Some(seconds(8))).await?;
    clock.advance(Duration::from_secs(6)).await;
    let renewal = ledger.renew(&lease, None).await?;
    equal("the expiry: by the TTL of the claim", &renewal.lease.expires_at, &clock.now().await.after(seconds(5)))?;
    equal("the TTL of the lease", &renewal.lease.ttl, &seconds(5))?;
    Ok(())
}

pub(super) async fn rnw07_renewals_race_a_release(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    for _ in 0..cx.scale(10, 200) {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        let mut renewals = Vec::new();
        for _ in 0..5 {
            let (handle, lease) = (cx.open().await?, lease.clone());
            renewals.push(async move { handle.renew(&lease, None).await });
        }
        let release = tokio::spawn({
            let (handle, lease) = (cx.open().await?, lease.clone());
            async move { handle.release(&lease).await }
        });
        let answers = all_at_once(renewals).await?;
        let released = release.await.map_err(|error| Violation::new("no panic in a release", error.to_string()))??;
        ensure(matches!(released, Released::Now { .. }), "the release ends the tenure", &released)?;
        for answer in answers {
            match answer {
                Ok(renewal) => {
                    let before = renewal.judged.revision < released.judged().revision;
                    ensure(before, "a renewal that was granted comes before the release", &renewal)?;
                }
                refused => drop(expect_rejected("a renewal after the release", refused, Reason::Released)?),
            }
        }
        ensure(ledger.observe(&jobs).await?.is_free(), "the partition is free after a release", "it is held")?;
    }
    Ok(())
}
