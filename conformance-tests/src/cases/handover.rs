//! Handovers: what a successor finds, exactly as of its claim.

use super::prelude::*;
use super::requests::{evidence, expect_refused, key, pay, take_over};
use ledger_core::{Handover, Outcome, RequestBook, RequestState};

pub(super) async fn hnd01_first_claim_follows_nobody(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    equal("a handover before the first claim", &book.handover(&jobs, Generation::FIRST).await?, &None)?;
    let claimed = claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let first = handover(&*book, &jobs, Generation::FIRST).await?;
    equal("previous and basis", &(first.succession.previous, first.succession.basis), &(None, Basis::First))?;
    let seen = (first.succession.holder, first.succession.acquisition, first.claimed.chain);
    equal("the new tenure", &seen, &(holder("a"), claimed.lease.acquisition, claimed.chain))?;
    ensure(first.open.is_empty() && first.afterwards == Default::default(), "nothing else", &first.open)?;
    for never in [2, i64::MAX] {
        equal("a generation never granted", &book.handover(&jobs, Generation::new(never)?).await?, &None)?;
    }
    Ok(())
}

pub(super) async fn hnd02_tells_who_was_before_and_why_that_ended(cx: Context) -> Verdict {
    let (ledger, book) = (cx.ledger(), cx.book());
    for how in ["released", "expired", "ended"] {
        let jobs = partition(how);
        let a = claim(&*ledger, &jobs, "a", if how == "expired" { cx.short_ttl() } else { long_ttl() }).await?.lease;
        book.request(&a, &key("k"), &pay(1)).await?;
        let last = match how {
            "released" => ledger.release(&a).await.map(|_| at(3))?,
            "ended" => ledger.end_tenure(&jobs, Observation::of(&a), &Note::new("stuck")?).await.map(|_| at(3))?,
            _ => cx.expire(&a).await.map(|()| at(2))?,
        };
        let b = claim(&*ledger, &jobs, "b", long_ttl()).await?;
        let told = handover(&*book, &jobs, b.lease.generation).await?;
        let previous = told.succession.previous.as_ref();
        let seen = previous.map(|p| (p.holder.clone(), p.generation, p.acquisition, p.last_position));
        equal("the tenure before", &seen, &Some((a.holder, a.generation, a.acquisition, last)))?;
        let basis = match told.succession.basis {
            Basis::Released => "released",
            Basis::Expired { .. } => "expired",
            Basis::Ended { .. } => "ended",
            Basis::Advanced { .. } => "advanced",
            Basis::First => "first",
        };
        equal("the basis", basis, how)?;
        let seen = (told.succession.generation, told.succession.at, told.claimed.first);
        equal("the new generation, the time and the place", &seen, &(b.lease.generation, b.judged.time, b.head))?;
        let open: Vec<_> = told.open.iter().map(|r| (r.key.clone(), r.generation(), r.state.clone())).collect();
        equal("the open requests", &open, &vec![(key("k"), a.generation, RequestState::Requested)])?;
    }
    Ok(())
}

pub(super) async fn hnd03_shows_nothing_that_came_after_the_claim(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for name in ["open", "settled before", "unknown"] {
        book.request(&a, &key(name), &pay(1)).await?;
    }
    book.settle(&a, &key("settled before"), Outcome::Succeeded, &evidence("tx 1")).await?;
    book.mark_unknown(&a, &key("unknown"), &evidence("timed out")).await?;
    let b = take_over(&ledger, &a, "b").await?;
    let before = handover(&*book, &jobs, b.generation).await?;
    let keys: Vec<_> = before.open.iter().map(|request| request.key.clone()).collect();
    equal("the open ones", &keys, &vec![key("open"), key("unknown")])?;
    book.settle(&b, &key("open"), Outcome::Succeeded, &evidence("tx 2")).await?;
    book.send_again(&b, &key("unknown")).await?;
    book.request(&b, &key("new"), &pay(1)).await?;
    let c = take_over(&ledger, &b, "c").await?;
    for (what, handle) in [("on this handle", cx.ledger()), ("on another", cx.open().await?)] {
        let after = handover(&*cx.book_on(handle), &jobs, b.generation).await?;
        equal(&format!("the open ones of the handover, later, {what}"), &after.open, &before.open)?;
        let (after, before) = ((after.succession, after.claimed), (&before.succession, &before.claimed));
        equal("the succession, later", &(&after.0, &after.1), &before)?;
    }
    let next: Vec<_> =
        handover(&*book, &jobs, c.generation).await?.open.into_iter().map(|request| request.key).collect();
    equal("the open ones of the next handover", &next, &vec![key("unknown"), key("new")])?;
    Ok(())
}

pub(super) async fn hnd04_open_request_is_carried_on_over_takeovers(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    book.request(&first, &key("k"), &pay(1)).await?;
    let made = book.look_up(&jobs, &key("k")).await?.map(|request| request.made);
    let mut lease = first.clone();
    for name in ["b", "c", "d", "e"] {
        lease = take_over(&ledger, &lease, name).await?;
        let told = handover(&*book, &jobs, lease.generation).await?;
        let open: Vec<_> = told.open.iter().map(|r| (r.key.clone(), r.generation(), Some(r.made.clone()))).collect();
        let expected = vec![(key("k"), first.generation, made.clone())];
        equal(&format!("what `{name}` finds: it, once, with its first generation"), &open, &expected)?;
        let listed = book.open_requests(&jobs).await?;
        let listed: Vec<_> = listed.iter().map(|open| (open.request.key.clone(), open.request.generation())).collect();
        equal(&format!("what is listed for `{name}`"), &listed, &vec![(key("k"), first.generation)])?;
        if name == "c" {
            book.send_again(&lease, &key("k")).await?;
        }
    }
    book.settle(&lease, &key("k"), Outcome::Failed, &evidence("never came")).await?;
    lease = take_over(&ledger, &lease, "f").await?;
    equal("what is carried on when it is settled", &handover(&*book, &jobs, lease.generation).await?.open, &vec![])?;
    Ok(())
}

pub(super) async fn hnd05_shows_what_the_predecessor_tried_since(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    book.request(&a, &key("k"), &pay(1)).await?;
    // What was refused while its tenure lasted is not "since".
    let sent = append("1");
    ledger.append(&a, &sent).await?;
    let reused = ledger.append(&a, &append_as(sent.id(), "2")).await;
    expect_rejected("an id for other content", reused, Reason::AppendIdReused)?;
    let note = Note::new("stuck")?;
    ledger.end_tenure(&jobs, Observation::of(&a), &note).await?;
    let late = book.settle(&a, &key("k"), Outcome::Succeeded, &evidence("tx 1")).await;
    expect_refused("a settling after the end", late, Reason::Released)?;
    let b = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let before = handover(&*book, &jobs, b.generation).await?;
    expect_rejected("a late renewal", ledger.renew(&a, None).await, Reason::StaleGeneration)?;
    let forged = edited(&b, |lease| lease.holder = holder("z"));
    expect_rejected("somebody else's", ledger.renew(&forged, None).await, Reason::WrongHolder)?;
    let after = handover(&*book, &jobs, b.generation).await?;
    let seen = |told: &Handover| -> Vec<_> {
        let kept = told.afterwards.rejections.iter().filter_map(|record| record.refused.as_ref());
        kept.map(|refused| (refused.operation, refused.reason)).collect()
    };
    let end = (Operation::Append, Reason::Released);
    equal("the predecessor's rejections at first", &seen(&before), &vec![end])?;
    let all = vec![end, (Operation::Renew, Reason::StaleGeneration)];
    equal("the predecessor's rejections later", &seen(&after), &all)?;
    let late: Vec<_> = after.afterwards.late.iter().map(|late| (late.key.clone(), late.said.clone())).collect();
    let said = RequestState::settled(Outcome::Succeeded, evidence("tx 1"));
    equal("the late answers", &late, &vec![(key("k"), said)])?;
    equal("the requests that were open", &after.open, &before.open)?;
    // Two takeovers later the answer of the first holder is still shown with the request that it is about.
    let c = take_over(&ledger, &b, "c").await?;
    let told = handover(&*book, &jobs, c.generation).await?;
    equal("the late answers in the next handover", &told.afterwards.late.len(), &1)?;
    equal("the next predecessor's rejections", &told.afterwards.rejections.len(), &0)?;
    Ok(())
}

async fn handover(book: &dyn RequestBook, partition: &PartitionId, generation: Generation) -> Result<Handover, Stop> {
    let found = book.handover(partition, generation).await?;
    Ok(found.ok_or_else(|| Violation::new(format!("generation {generation} has a handover"), "None"))?)
}
