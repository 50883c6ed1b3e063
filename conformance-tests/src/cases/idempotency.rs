//! Append ids: the same id is one append, over the partition's whole life.

use super::prelude::*;
use futures_util::stream::{self, StreamExt, TryStreamExt};

pub(super) async fn idm01_same_content_is_answered_again(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("1").expecting(at(1));
    let first = ledger.append(&lease, &sent).await?;
    ledger.append(&lease, &batch(3)).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    for (what, handle, again) in [
        ("the same append", &ledger, sent.clone()),
        ("the same append through another handle", &other, sent.clone()),
        ("the same append with another expectation", &ledger, sent.clone().expecting(Position::MAX)),
        ("the same append without expectation", &other, append_as(sent.id(), "1")),
    ] {
        let answer = handle.append(&lease, &again).await?;
        equal(&format!("the entry of {what}"), &answer.entry, &first.entry)?;
        ensure(answer.replayed, &format!("{what} is marked as a replay"), answer.replayed)?;
        before.expect_unchanged(what, &*ledger, &jobs, false).await?;
    }
    Ok(())
}

pub(super) async fn idm02_other_content_is_refused(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let (one, two) = (event_of(r#"{"a":1}"#), event_of(r#"{"a":2}"#));
    let sent = Append::new([one.clone(), two.clone()])?;
    let entry = ledger.append(&lease, &sent).await?.entry;
    let kind = NewEvent::new(EventKind::new("other")?, two.payload.clone());
    for (what, events) in [
        ("another payload", vec![one.clone(), event_of(r#"{"a":3}"#)]),
        ("a space in the payload", vec![one.clone(), event_of(r#"{"a": 2}"#)]),
        ("another metadata", vec![one.clone(), two.clone().with_metadata(Json::new("{ }")?)]),
        ("another kind", vec![one.clone(), kind]),
        ("another order", vec![two.clone(), one.clone()]),
        ("fewer events", vec![one.clone()]),
        ("more events", vec![one.clone(), two.clone(), two.clone()]),
    ] {
        let other = Append::with_id(sent.id(), events)?;
        let call = ledger.append(&lease, &other);
        let refused = refused_without_effect(what, &*ledger, &jobs, Reason::AppendIdReused, call).await?;
        equal("the entry that has the id", &refused.earlier, &Some(entry.clone()))?;
    }
    Ok(())
}

pub(super) async fn idm03_known_under_every_later_tenure(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let mut lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("1");
    let first = ledger.append(&lease, &sent).await?;
    for name in ["b", "c", "a"] {
        ledger.release(&lease).await?;
        lease = claim(&*ledger, &jobs, name, long_ttl()).await?.lease;
        let again = ledger.append(&lease, &sent).await?;
        equal("the entry, also for a later holder", &again.entry, &first.entry)?;
        ensure(again.replayed, "it is marked as a replay", again.replayed)?;
        let other = append_as(sent.id(), "2");
        expect_rejected("other content", ledger.append(&lease, &other).await, Reason::AppendIdReused)?;
    }
    Ok(())
}

pub(super) async fn idm04_known_after_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("1");
    let first = ledger.append(&lease, &sent).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    let again = ledger.append(&lease, &sent).await?;
    equal("the entry after a restart", &(again.entry, again.replayed), &(first.entry, true))?;
    let other = append_as(sent.id(), "2");
    expect_rejected("other content", ledger.append(&lease, &other).await, Reason::AppendIdReused)?;
    equal("the next position", &ledger.append(&lease, &append("2")).await?.entry.first, &at(3))?;
    Ok(())
}

pub(super) async fn idm05_known_after_many_others(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("first");
    let first = ledger.append(&lease, &sent).await?;
    let others = cx.scale(2_000, 100_000);
    stream::iter(0..others)
        .map(|_| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            async move { ledger.append(&lease, &append("other")).await }
        })
        .buffer_unordered(512)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let again = ledger.append(&lease, &sent).await?;
    equal(&format!("the entry after {others} others"), &(again.entry, again.replayed), &(first.entry, true))?;
    let head = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.head.get());
    equal("the head", &head, &i64::try_from(others + 2).ok())?;
    Ok(())
}

pub(super) async fn idm06_ids_belong_to_their_partition(cx: Context) -> Verdict {
    let (ledger, id) = (cx.ledger(), AppendId::mint());
    for name in ["one", "two", "three"] {
        let lease = claim(&*ledger, &partition(name), "a", long_ttl()).await?.lease;
        let appended = ledger.append(&lease, &append_as(id, name)).await?;
        let seen = (appended.replayed, appended.entry.first);
        equal("the same id with other content in another partition", &seen, &(false, at(2)))?;
    }
    let other = ledger.fate(&partition("four"), id, Generation::FIRST).await?;
    equal("the fate of the id where it was not sent", &other, &Fate::Undecided)?;
    Ok(())
}

pub(super) async fn idm07_refused_id_is_still_free(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let stale = edited(&lease, |lease| lease.acquisition = AcquisitionId::mint());
    let sent = append("1");
    expect_rejected("a forged lease", ledger.append(&stale, &sent).await, Reason::WrongAcquisition)?;
    let wrong = sent.clone().expecting(at(7));
    expect_rejected("a wrong expectation", ledger.append(&lease, &wrong).await, Reason::PositionConflict)?;
    let other = append_as(sent.id(), "other content");
    let appended = ledger.append(&lease, &other).await?;
    equal("an id that was only refused", &(appended.replayed, appended.entry.first), &(false, at(2)))?;
    Ok(())
}

pub(super) async fn idm08_eight_tasks_with_one_id(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..i64::try_from(cx.scale(10, 200)).unwrap_or(10) {
        let sent = append("1");
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (handle, lease, sent) = (cx.open().await?, lease.clone(), sent.clone());
            tasks.push(async move { handle.append(&lease, &sent).await });
        }
        let mut first_answers = 0;
        for answer in all_at_once(tasks).await? {
            let answer = answer?;
            equal("the position of each", &answer.entry.first, &at(round + 2))?;
            first_answers += usize::from(!answer.replayed);
        }
        equal("the answers that are no replay", &first_answers, &1)?;
    }
    Ok(())
}

pub(super) async fn idm09_claims_use_ids_of_the_same_scope(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let taken = append_as(lease.acquisition.into(), "1");
    let what = "an append with the id of a claim";
    refused_without_effect(what, &*ledger, &jobs, Reason::AppendIdReused, ledger.append(&lease, &taken)).await?;
    let sent = append("1");
    ledger.append(&lease, &sent).await?;
    ledger.release(&lease).await?;
    let acquisition = AcquisitionId::from_uuid(sent.id().as_uuid())?;
    let asked = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?.with_acquisition(acquisition);
    let what = "a claim with the id of an append";
    refused_without_effect(what, &*ledger, &jobs, Reason::AcquisitionSpent, ledger.claim(&asked)).await?;
    Ok(())
}

pub(super) async fn idm10_acquisitions_belong_to_their_partition(cx: Context) -> Verdict {
    let (ledger, acquisition) = (cx.ledger(), AcquisitionId::mint());
    for name in ["one", "two"] {
        let jobs = partition(name);
        let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        ledger.release(&first).await?;
        let asked = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?.with_acquisition(acquisition);
        let claimed = ledger.claim(&asked).await?;
        let seen = (claimed.lease.generation.get(), claimed.replayed);
        equal("generation and mark of one acquisition in each of two partitions", &seen, &(2, false))?;
        ledger.append(&claimed.lease, &append("1")).await?;
    }
    Ok(())
}
