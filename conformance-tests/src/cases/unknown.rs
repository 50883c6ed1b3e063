//! Unknown outcomes: an answer that is lost is told as unknown, settled by everybody alike, and never read as a refusal.

use super::prelude::*;
use crate::Line;

pub(super) async fn unk01_lost_answer_has_landed_once(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = batch(2);
    line.lose_reply().await?;
    expect_unknown("an append whose answer was lost", line.ledger().append(&lease, &sent).await)?;
    let fate = ledger.fate(&jobs, sent.id(), lease.generation).await?;
    let Fate::Recorded(entry) = fate else {
        return Err(Violation::new("the append has landed, and another handle can tell", format!("{fate:?}")).into());
    };
    let before = Snapshot::take(&*ledger, &jobs).await?;
    for (what, handle) in [("on its own handle", line.ledger()), ("on another handle", ledger.clone())] {
        let again = in_time("a retry", handle.append(&lease, &sent)).await??;
        equal(
            &format!("the retry {what}: a replay of the entry"),
            &(again.replayed, again.entry),
            &(true, entry.clone()),
        )?;
    }
    before.expect_unchanged("the retries", &*ledger, &jobs, false).await?;
    equal("the events: the claim and the two, once", &before.events.len(), &3)?;
    Ok(())
}

pub(super) async fn unk02_lost_request_is_never_once_its_tenure_has_ended(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("lost");
    line.lose_request().await?;
    expect_no_proof("an append that did not arrive", line.ledger().append(&lease, &sent).await)?;
    let fate = ledger.fate(&jobs, sent.id(), lease.generation).await?;
    equal("the fate while the tenure lasts", &fate, &Fate::Undecided)?;
    ledger.release(&lease).await?;
    let successor = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    for handle in [line.ledger(), ledger.clone(), cx.open().await?] {
        let fate = handle.fate(&jobs, sent.id(), lease.generation).await?;
        equal("the fate after a takeover, on every handle", &fate, &Fate::Never)?;
    }
    let late = ledger.append(&lease, &sent);
    let refused = refused_without_effect("its retry", &*ledger, &jobs, Reason::StaleGeneration, late).await?;
    equal("the entry that its retry is told of", &refused.earlier, &None)?;
    ledger.append(&successor, &append("1")).await?;
    equal("the fate later", &ledger.fate(&jobs, sent.id(), lease.generation).await?, &Fate::Never)?;
    Ok(())
}

pub(super) async fn unk03_no_never_while_a_commit_is_held(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    let before = read_all(&*ledger, &jobs).await?;
    let sent = append("held");
    let held = cx.hold_commit(&lease, &sent).await?;
    let asks = |what: &'static str| {
        let (ledger, jobs, sent, lease) = (ledger.clone(), jobs.clone(), sent.clone(), lease.clone());
        async move { in_time(what, async move { ledger.fate(&jobs, sent.id(), lease.generation).await }).await }
    };
    equal("the fate of an append whose commit is held", &asks("fate waits for no commit").await??, &Fate::Undecided)?;
    cx.clock()?.set(lease.expires_at).await;
    let fate = asks("fate waits for no commit").await??;
    equal("its fate when the expiry has passed, and nobody was told so", &fate, &Fate::Undecided)?;
    let seen = in_time("reads wait for no commit", read_all(&*ledger, &jobs)).await??;
    equal("what readers see while the commit is held", &seen, &before)?;
    let entry = in_time("the commit ends", held.commit()).await??.entry;
    let fate = ledger.fate(&jobs, sent.id(), lease.generation).await?;
    equal("its fate when it has committed", &fate, &Fate::Recorded(entry))?;
    Ok(())
}

pub(super) async fn unk04_held_commit_stands_before_the_takeover(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    let sent = append("held");
    let held = cx.hold_commit(&lease, &sent).await?;
    cx.expire(&lease).await?;
    let asked = Claim::new(jobs.clone(), holder("b"), long_ttl(), Observation::of(&lease));
    let taking = Running::start(async move { other.claim(&asked).await });
    // The claim has the time to come to the lock; one that is slower makes the case weaker, never wrong.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let committed = in_time("the held commit ends", held.commit()).await?;
    let claimed = taking.end("the claim ends").await??;
    equal("the generation of the takeover", &claimed.lease.generation.get(), &2)?;
    let fate = ledger.fate(&jobs, sent.id(), lease.generation).await?;
    match committed {
        Ok(appended) => {
            let before = appended.entry.last < claimed.head;
            ensure(before, "an append that was held stands before `$claimed`", (&appended.entry, claimed.head))?;
            equal("its fate", &fate, &Fate::Recorded(appended.entry))?;
        }
        Err(LedgerError::Rejected(_)) => equal("the fate of what was refused", &fate, &Fate::Never)?,
        Err(other) => return Err(other.into()),
    }
    let sent = append("late");
    let late = ledger.append(&lease, &sent);
    refused_without_effect("a later append", &*ledger, &jobs, Reason::StaleGeneration, late).await?;
    Ok(())
}

pub(super) async fn unk05_lost_claim_is_asked_for_again(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    line.lose_request().await?;
    expect_no_proof("a claim that did not arrive", line.ledger().claim(&asked).await)?;
    let state = ledger.observe(&jobs).await?;
    ensure(state.tenure.is_none(), "nobody holds what no claim has reached", &state)?;
    line.lose_reply().await?;
    expect_unknown("a claim whose answer was lost", line.ledger().claim(&asked).await)?;
    let fate = ledger.fate(&jobs, asked.acquisition.into(), Generation::FIRST).await?;
    ensure(matches!(fate, Fate::Recorded(_)), "the claim has landed, and another handle can tell", &fate)?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let again = in_time("a retry", line.ledger().claim(&asked)).await??;
    equal("the retry: a replay, in generation 1", &(again.replayed, again.lease.generation.get()), &(true, 1))?;
    before.expect_unchanged("the retry", &*ledger, &jobs, false).await?;
    let rival = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    refused_without_effect("a rival's claim", &*ledger, &jobs, Reason::Held, ledger.claim(&rival)).await?;
    ledger.append(&again.lease, &append("1")).await?;
    Ok(())
}

pub(super) async fn unk06_lost_renewal_is_asked_for_again(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", seconds(60)).await?.lease;
    let before = ledger.observe(&jobs).await?;
    line.lose_request().await?;
    expect_no_proof("a renewal that did not arrive", line.ledger().renew(&lease, Some(long_ttl())).await)?;
    equal("the lease that no renewal has reached", &ledger.observe(&jobs).await?.tenure, &before.tenure)?;
    line.lose_reply().await?;
    expect_unknown("a renewal whose answer was lost", line.ledger().renew(&lease, Some(long_ttl())).await)?;
    let renewed = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.lease.expires_at);
    ensure(renewed > Some(lease.expires_at), "the renewal has landed, and others see so", renewed)?;
    let again = in_time("a retry", line.ledger().renew(&lease, Some(long_ttl()))).await??.lease;
    let same = (again.generation, again.acquisition) == (lease.generation, lease.acquisition);
    ensure(same && Some(again.expires_at) >= renewed, "the retry renews the same tenure, and no less", &again)?;
    equal("the events: renewals write none", &read_all(&*ledger, &jobs).await?.len(), &1)?;
    Ok(())
}

pub(super) async fn unk07_lost_release_is_answered_as_ended(cx: Context) -> Verdict {
    let (ledger, line, jobs) = (cx.ledger(), cx.line().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    line.lose_request().await?;
    expect_no_proof("a release that did not arrive", line.ledger().release(&lease).await)?;
    ledger.append(&lease, &append("still held")).await?;
    line.lose_reply().await?;
    expect_unknown("a release whose answer was lost", line.ledger().release(&lease).await)?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let again = in_time("a retry", line.ledger().release(&lease)).await??;
    let told = matches!(&again, Released::AlreadyEnded { end, .. }
        if end.basis == Basis::Released && end.successor.is_none());
    ensure(told, "the retry is told that it was released", &again)?;
    before.expect_unchanged("the retry", &*ledger, &jobs, false).await?;
    equal("the events: claim, append, one release", &before.events.len(), &3)?;
    Ok(())
}

pub(super) async fn unk08_broken_line_is_never_a_refusal(cx: Context) -> Verdict {
    let (ledger, line) = (cx.ledger(), cx.line().await?);
    let note = Note::new("the line is broken")?;
    for loses_reply in [true, false] {
        let what = |call: &str| format!("{call}, its {} lost", if loses_reply { "answer" } else { "request" });
        for call in ["a claim", "an append", "a renewal", "a release", "an operator's end"] {
            let jobs = partition(&what(call));
            let asked = first_claim(&jobs, "a", long_ttl());
            if call == "a claim" {
                strike(&*line, loses_reply).await?;
                expect_no_proof(&what(call), line.ledger().claim(&asked).await)?;
                ledger.claim(&asked).await?;
                continue;
            }
            let lease = ledger.claim(&asked).await?.lease;
            let before = Snapshot::take(&*ledger, &jobs).await?;
            let sent = append("1");
            strike(&*line, loses_reply).await?;
            let handle = line.ledger();
            let proves = match call {
                "an append" => expect_no_proof(&what(call), handle.append(&lease, &sent).await)?,
                "a renewal" => expect_no_proof(&what(call), handle.renew(&lease, None).await)?,
                "a release" => expect_no_proof(&what(call), handle.release(&lease).await)?,
                _ => {
                    let observed = Observation::of(&lease);
                    expect_no_proof(&what(call), handle.end_tenure(&jobs, observed, &note).await)?
                }
            };
            if proves {
                before.expect_unchanged(&what(call), &*ledger, &jobs, false).await?;
            }
            let found = records(&*ledger, Some(&jobs)).await?;
            ensure(found.is_empty(), "what was not refused leaves no record", &found)?;
            in_time("the handle works afterwards", handle.observe(&jobs)).await??;
        }
    }
    Ok(())
}

pub(super) async fn unk09_refused_stays_absent(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let old = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&old).await?;
    let lease = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let mut refused = Vec::new();
    for (what, lease, sent, reason) in [
        ("a stale append", old.clone(), append("stale"), Reason::StaleGeneration),
        ("a foreign one", edited(&lease, |lease| lease.holder = holder("c")), batch(3), Reason::WrongHolder),
        ("a conflict", lease.clone(), append("late").expecting(at(1)), Reason::PositionConflict),
    ] {
        refused_without_effect(what, &*ledger, &jobs, reason, ledger.append(&lease, &sent)).await?;
        refused.push(sent.id());
    }
    ledger.append(&lease, &batch(2)).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    ledger.append(&lease, &append("1")).await?;
    ledger.release(&lease).await?;
    let log = read_all(&*ledger, &jobs).await?;
    for id in refused {
        let found = log.iter().filter(|event| event.entry.id == Some(id)).count();
        equal("the events of what was refused", &found, &0)?;
        let fate = ledger.fate(&jobs, id, lease.generation).await?;
        equal("the fate of what was refused, the tenure ended", &fate, &Fate::Never)?;
    }
    Ok(())
}

pub(super) async fn unk10_other_process_settles_after_a_crash(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &append("1")).await?;
    let sent: Vec<Append> = (0..40).map(|_| batch(2)).collect();
    let tasks: Vec<_> = sent
        .iter()
        .map(|append| {
            let (ledger, lease, append) = (ledger.clone(), lease.clone(), append.clone());
            Running::start(async move { drop(ledger.append(&lease, &append).await) })
        })
        .collect();
    drop(ledger);
    let ledger = cx.crash().await?;
    // The process of the callers is gone: so are they.
    drop(tasks);
    let other = cx.open().await?;
    ledger.release(&lease).await?;
    let log = read_all(&*ledger, &jobs).await?;
    for append in &sent {
        let found = log.iter().filter(|event| event.entry.id == Some(append.id())).count();
        ensure(found == 0 || found == 2, "an append is whole or absent after a crash", found)?;
        let fates = (
            ledger.fate(&jobs, append.id(), lease.generation).await?,
            other.fate(&jobs, append.id(), lease.generation).await?,
        );
        equal("its fate, asked of two processes", &fates.0, &fates.1)?;
        let agrees = matches!((&fates.0, found), (Fate::Recorded(_), 2) | (Fate::Never, 0));
        ensure(agrees, "its fate is final, and as the log says", (&fates.0, found))?;
    }
    Ok(())
}

async fn strike(line: &dyn Line, loses_reply: bool) -> Verdict {
    if loses_reply {
        line.lose_reply().await?
    } else {
        line.lose_request().await?
    };
    Ok(())
}

/// Demands that a call says that its effect is not known.
#[track_caller]
fn expect_unknown<T: std::fmt::Debug>(what: &str, answer: ledger_core::Result<T>) -> Result<(), Violation> {
    match answer {
        Err(LedgerError::Unknown(_)) => Ok(()),
        other => Err(Violation::new(format!("{what} is told as unknown"), format!("{other:?}"))),
    }
}

/// Demands that a call failed, and was neither refused nor granted; gives whether it claims to have written nothing.
#[track_caller]
fn expect_no_proof<T: std::fmt::Debug>(what: &str, answer: ledger_core::Result<T>) -> Result<bool, Violation> {
    match answer {
        Err(LedgerError::Unknown(_)) => Ok(false),
        Err(LedgerError::NotWritten(_)) => Ok(true),
        other => Err(Violation::new(format!("{what} is told as unknown, or as not written"), format!("{other:?}"))),
    }
}
