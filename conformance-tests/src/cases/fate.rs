//! Fate: what became of an append whose answer was lost.

use super::prelude::*;

pub(super) async fn fat01_recorded_is_told_to_anyone(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("1");
    let entry = ledger.append(&lease, &sent).await?.entry;
    for handle in [&ledger, &other] {
        for generation in [lease.generation, Generation::MAX] {
            let fate = handle.fate(&jobs, sent.id(), generation).await?;
            equal("the fate of an append that landed", &fate, &Fate::Recorded(entry.clone()))?;
        }
    }
    ledger.release(&lease).await?;
    claim(&*ledger, &jobs, "b", long_ttl()).await?;
    let fate = other.fate(&jobs, sent.id(), lease.generation).await?;
    equal("its fate after a takeover", &fate, &Fate::Recorded(entry))?;
    Ok(())
}

pub(super) async fn fat02_undecided_while_the_tenure_lasts(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let id = AppendId::mint();
    for (what, generation) in [("of a name that nobody claimed", Generation::FIRST), ("likewise", Generation::MAX)] {
        equal(&format!("the fate {what}"), &ledger.fate(&jobs, id, generation).await?, &Fate::Undecided)?;
    }
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let fate = ledger.fate(&jobs, id, lease.generation).await?;
    equal("the fate under a valid lease", &fate, &Fate::Undecided)?;
    let fate = ledger.fate(&jobs, id, shifted(lease.generation, 1)).await?;
    equal("the fate under a generation that is not yet", &fate, &Fate::Undecided)?;
    let landed = ledger.append(&lease, &append_as(id, "1")).await?;
    equal("its fate when it came", &ledger.fate(&jobs, id, lease.generation).await?, &Fate::Recorded(landed.entry))?;
    Ok(())
}

pub(super) async fn fat03_never_when_the_tenure_has_ended(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    for how in ["released", "taken over", "ended", "refused as expired"] {
        let jobs = partition(how);
        let ttl = if how == "taken over" || how == "refused as expired" { cx.short_ttl() } else { long_ttl() };
        let lease = claim(&*ledger, &jobs, "a", ttl).await?.lease;
        match how {
            "released" => drop(ledger.release(&lease).await?),
            "ended" => drop(ledger.end_tenure(&jobs, Observation::of(&lease), &Note::new("stuck")?).await?),
            "taken over" => {
                cx.expire(&lease).await?;
                claim(&*ledger, &jobs, "b", long_ttl()).await?;
            }
            _ => {
                cx.expire(&lease).await?;
                expect_rejected("an append", ledger.append(&lease, &append("x")).await, Reason::Expired)?;
            }
        }
        let lost = append("lost");
        let fate = ledger.fate(&jobs, lost.id(), lease.generation).await?;
        equal(&format!("the fate under a tenure that was {how}"), &fate, &Fate::Never)?;
        let late = ledger.append(&lease, &lost).await;
        ensure(late.is_err(), "what can never come is refused", &late)?;
        equal("the fate afterwards", &ledger.fate(&jobs, lost.id(), lease.generation).await?, &Fate::Never)?;
    }
    Ok(())
}

pub(super) async fn fat04_expiry_that_has_merely_passed_is_not_never(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&lease).await?;
    let lost = append("lost");
    let fate = ledger.fate(&jobs, lost.id(), lease.generation).await?;
    equal("the fate when the expiry has passed and nobody was told", &fate, &Fate::Undecided)?;
    expect_rejected("an append", ledger.append(&lease, &lost).await, Reason::Expired)?;
    let fate = ledger.fate(&jobs, lost.id(), lease.generation).await?;
    equal("the fate when somebody was told", &fate, &Fate::Never)?;
    Ok(())
}

pub(super) async fn fat05_pending_append_is_undecided(cx: Context) -> Verdict {
    let (ledger, other, jobs, clock) = (cx.ledger(), cx.open().await?, partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    let sent = append("pending");
    let guard = cx.hold_lock(&jobs).await?;
    let pending = tokio::spawn({
        let (ledger, lease, sent) = (ledger.clone(), lease.clone(), sent.clone());
        async move { ledger.append(&lease, &sent).await }
    });
    clock.set(lease.expires_at).await;
    for handle in [&ledger, &other] {
        let bound = Duration::from_secs(1);
        let asked = tokio::time::timeout(bound, handle.fate(&jobs, sent.id(), lease.generation)).await;
        let fate = asked.map_err(|_| Violation::new("fate takes no lock", format!("no answer within {bound:?}")))??;
        equal("the fate while the append waits for the lock", &fate, &Fate::Undecided)?;
    }
    // The clock steps back, the append is judged in time, and it lands: `Never` would have been wrong.
    clock.step_back(Duration::from_secs(1)).await;
    guard.release().await?;
    let landed = pending.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))??;
    let fate = other.fate(&jobs, sent.id(), lease.generation).await?;
    equal("the fate when it has landed", &fate, &Fate::Recorded(landed.entry))?;
    Ok(())
}

pub(super) async fn fat06_never_is_final_among_writers(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    for round in 0..cx.scale(5, 100) {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        let appends: Vec<_> = (0..60).map(|_| append("racing")).collect();
        let mut writers = Vec::new();
        for share in appends.chunks(12) {
            let (handle, lease, share) = (cx.open().await?, lease.clone(), share.to_vec());
            writers.push(tokio::spawn(async move {
                for sent in share {
                    if handle.append(&lease, &sent).await.is_err() {
                        return;
                    }
                }
            }));
        }
        let ids: Vec<_> = appends.iter().map(Append::id).collect();
        let asker = tokio::spawn({
            let (handle, lease, ids) = (cx.open().await?, lease.clone(), ids.clone());
            async move {
                let mut never = Vec::new();
                for _ in 0..20 {
                    for id in &ids {
                        if handle.fate(&lease.partition, *id, lease.generation).await? == Fate::Never {
                            never.push(*id);
                        }
                    }
                }
                Ok::<_, LedgerError>(never)
            }
        });
        let note = Note::new("takeover")?;
        ledger.end_tenure(&jobs, Observation::of(&lease), &note).await?;
        for writer in writers {
            writer.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))?;
        }
        let never = asker.await.map_err(|error| Violation::new("no panic in fate", error.to_string()))??;
        let log = read_all(&*ledger, &jobs).await?;
        for id in never {
            let landed = log.iter().find(|event| event.entry.id == Some(id));
            ensure(landed.is_none(), &format!("what was `Never` does not come (round {round})"), landed)?;
        }
        for id in ids {
            let landed = log.iter().any(|event| event.entry.id == Some(id));
            let fate = ledger.fate(&jobs, id, lease.generation).await?;
            let agrees = matches!((&fate, landed), (Fate::Recorded(_), true) | (Fate::Never, false));
            ensure(agrees, "after the end of the tenure every fate is final, and as the log says", (&fate, landed))?;
        }
    }
    Ok(())
}

pub(super) async fn fat07_claim_is_settled_by_its_acquisition(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    let id: AppendId = asked.acquisition.into();
    equal("the fate before the claim", &ledger.fate(&jobs, id, Generation::FIRST).await?, &Fate::Undecided)?;
    let claimed = ledger.claim(&asked).await?;
    match ledger.fate(&jobs, id, Generation::FIRST).await? {
        Fate::Recorded(entry) => {
            let seen = (entry.first, entry.generation, entry.acquisition, entry.chain);
            let told = (at(1), claimed.lease.generation, asked.acquisition, claimed.chain);
            Ok(equal("the `$claimed` entry", &seen, &told)?)
        }
        other => Err(Violation::new("the fate of a granted claim is its entry", format!("{other:?}")).into()),
    }
}
