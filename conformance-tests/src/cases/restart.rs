//! Restart and reopening: what was acknowledged is there, whoever opens the storage next.

use super::prelude::*;

pub(super) async fn rst01_lease_survives_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    let lease = ledger.claim(&asked).await?.lease;
    ledger.append(&lease, &batch(3)).await?;
    let lease = ledger.renew(&lease, Some(Ttl::MAX)).await?.lease;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    before.expect_unchanged("a restart", &*ledger, &jobs, false).await?;
    let again = ledger.claim(&asked).await?;
    equal("the lease of the same claim", &(again.lease, again.replayed), &(lease.clone(), true))?;
    let claim = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    refused_without_effect("a claim", &*ledger, &jobs, Reason::Held, ledger.claim(&claim)).await?;
    equal("the next position", &ledger.append(&lease, &append("1")).await?.entry.first, &at(5))?;
    Ok(())
}

pub(super) async fn rst02_generation_survives_release_and_restart(mut cx: Context) -> Verdict {
    let jobs = partition("jobs");
    let mut old: Option<Lease> = None;
    for generation in 1..=4 {
        let ledger = cx.restart().await?;
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        equal("the generation after a restart", &lease.generation.get(), &generation)?;
        if let Some(old) = old {
            let what = "an append of the tenure before the restart";
            let stale = append("stale");
            let call = ledger.append(&old, &stale);
            refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
        }
        ledger.release(&lease).await?;
        old = Some(lease);
    }
    Ok(())
}

pub(super) async fn rst03_log_and_chain_survive_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let described = ledger.describe().await?;
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for count in [1, 5, 2] {
        ledger.append(&lease, &batch(count)).await?;
    }
    let log = read_all(&*ledger, &jobs).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    equal("the ledger that is described", &ledger.describe().await?.ledger, &described.ledger)?;
    equal("the log after a restart", &read_all(&*ledger, &jobs).await?, &log)?;
    ledger.append(&lease, &append("1")).await?;
    let verified = ledger.verify(&jobs, log.last().map(|event| ledger_core::Mark::of(&event.entry))).await?;
    let clean = matches!(verified, ledger_core::Verification::Clean { entries: 5, events: 10, .. });
    ensure(clean, "the log verifies over the restart", &verified)?;
    Ok(())
}

pub(super) async fn rst04_recorded_time_survives_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    cx.clock()?.set(lease.expires_at).await;
    expect_rejected("an append at expiry", ledger.append(&lease, &append("x")).await, Reason::Expired)?;
    drop(ledger);
    let ledger = cx.restart().await?;
    cx.clock()?.step_back(Duration::from_secs(4)).await;
    let call = ledger.append(&lease, &append("x")).await;
    expect_rejected("an append, the clock back before a recorded expiry", call, Reason::Expired)?;
    let state = ledger.observe(&jobs).await?.judged;
    equal("time and mark", &(state.time, state.clock_behind), &(lease.expires_at, true))?;
    Ok(())
}

pub(super) async fn rst05_spent_acquisitions_survive_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    let first = ledger.claim(&asked).await?.lease;
    ledger.release(&first).await?;
    let second = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    ledger.release(&second).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    let again = asked.observing(Observation::of(&second));
    let what = "the acquisition of an earlier tenure";
    refused_without_effect(what, &*ledger, &jobs, Reason::AcquisitionSpent, ledger.claim(&again)).await?;
    Ok(())
}

pub(super) async fn rst06_handles_come_and_go(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..i64::try_from(cx.scale(20, 200)).unwrap_or(20) {
        let handle = cx.open().await?;
        equal("the next position", &handle.append(&lease, &append("1")).await?.entry.first, &at(round + 2))?;
        drop(handle);
        let found = ledger.read(&jobs, at(round + 2), PageSize::MAX).await?.events.len();
        equal("what the handle wrote that is gone", &found, &1)?;
    }
    ledger.append(&lease, &append("the first handle still writes")).await?;
    Ok(())
}
