//! Evidence: what the store keeps of what it refused.

use super::prelude::*;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ledger_core::{MAX_RECORD_KEYS, MAX_REMARK_BYTES, RecordSlot, RejectionRecord, Remark};

pub(super) async fn evd01_refusal_leaves_its_record(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&a).await?;
    let b = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let sent = append("a secret payload");
    let refused = expect_rejected("a stale append", ledger.append(&a, &sent).await, Reason::StaleGeneration)?;
    equal("what the refusal says of its record", &refused.record, &RecordState::Stored)?;
    // At once and on another handle: it was committed before the refusal was answered.
    let found = records(&*other, Some(&jobs)).await?;
    let [record] = found.as_slice() else {
        return Err(Violation::new("one record when the refusal is answered", format!("{found:?}")).into());
    };
    let kept = record.refused.as_ref().ok_or_else(|| Violation::new("a record of what was refused", "a count"))?;
    equal("operation and reason", &(kept.operation, kept.reason), &(Operation::Append, Reason::StaleGeneration))?;
    let presented = (&kept.holder, kept.generation, kept.acquisition, kept.append);
    equal("what was presented", &presented, &(&a.holder, Some(a.generation), a.acquisition, Some(sent.id())))?;
    equal("what was true", &kept.current, &Some((b.holder.clone(), b.acquisition, b.expires_at)))?;
    equal("the revision", &kept.revision, &refused.judged.revision)?;
    let times = (record.count, record.first_at, record.last_at);
    equal("count and times", &times, &(1, refused.judged.time, refused.judged.time))?;
    let place = (record.partition.clone(), record.slot);
    equal("its place", &place, &(Some(jobs), RecordSlot::new(Some(b.generation), 1)))?;
    let text = serde_json::to_string(record).unwrap_or_default();
    ensure(!text.contains("secret"), "a record has no payload", &text)?;
    Ok(())
}

pub(super) async fn evd02_repeats_are_counted_in_one_record(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&lease).await?;
    let mut last = append("0");
    for repeat in 1..=20 {
        last = append("stale");
        let handle = if repeat % 2 == 0 { &other } else { &ledger };
        let refused = expect_rejected("a repeat", handle.append(&lease, &last).await, Reason::Released)?;
        let state = if repeat == 1 { RecordState::Stored } else { RecordState::Counted };
        equal("what the refusal says of its record", &refused.record, &state)?;
    }
    let found = counted(&*ledger, Some(&jobs), 20).await?;
    equal("the number of records", &found.len(), &1)?;
    // Two handles may bring their counts in either order, so which append was the last is not to be told apart.
    let append = found.first().and_then(|record| record.refused.as_ref()).and_then(|refused| refused.append);
    ensure(append.is_some(), "the record names the append that was refused last", (append, last.id()))?;
    Ok(())
}

pub(super) async fn evd03_each_part_of_the_key_tells_records_apart(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&a).await?;
    let b = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    ledger.release(&b).await?;
    let c = claim(&*ledger, &jobs, "c", long_ttl()).await?.lease;
    for _ in 0..2 {
        expect_rejected("generation 1", ledger.append(&a, &append("x")).await, Reason::StaleGeneration)?;
        expect_rejected("another operation", ledger.renew(&a, None).await, Reason::StaleGeneration)?;
        expect_rejected("another generation", ledger.append(&b, &append("x")).await, Reason::StaleGeneration)?;
        let renamed = edited(&a, |lease| lease.holder = holder("z"));
        expect_rejected("another holder", ledger.append(&renamed, &append("x")).await, Reason::StaleGeneration)?;
        let forged = edited(&c, |lease| lease.acquisition = AcquisitionId::mint());
        expect_rejected("another reason", ledger.append(&forged, &append("x")).await, Reason::WrongAcquisition)?;
    }
    let found = counted(&*ledger, Some(&jobs), 10).await?;
    equal("the counts of the records", &found.iter().map(|record| record.count).collect::<Vec<_>>(), &vec![2; 5])?;
    let slots: Vec<_> = found.iter().map(|record| record.slot).collect();
    equal("the slots", &slots, &(1..=5).map(|number| RecordSlot::new(Some(c.generation), number)).collect())?;
    Ok(())
}

pub(super) async fn evd04_bound_of_256_keys_then_a_count(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let forgers = u64::from(MAX_RECORD_KEYS) + 44;
    for round in 1..=2 {
        for forger in 0..forgers {
            let forged = edited(&lease, |lease| lease.holder = holder(&format!("forger-{forger}")));
            let call = ledger.append(&forged, &append("x")).await;
            let refused = expect_rejected("a forged append", call, Reason::WrongHolder)?;
            let first = round == 1 && forger < u64::from(MAX_RECORD_KEYS);
            let state = if first { RecordState::Stored } else { RecordState::Counted };
            equal(&format!("the record of forger {forger}, round {round}"), &refused.record, &state)?;
        }
    }
    let found = counted(&*ledger, Some(&jobs), 2 * forgers).await?;
    equal("the records: 256 keys and the overflow", &found.len(), &257)?;
    let (keys, overflow) = found.split_at(256);
    ensure(keys.iter().all(|record| record.count == 2 && record.refused.is_some()), "each key counts its two", keys)?;
    let seen = overflow.first().map(|record| (record.slot.number, record.count, record.refused.is_none()));
    equal("the overflow record", &seen, &Some((RecordSlot::OVERFLOW, 2 * 44, true)))?;
    ledger.append(&lease, &append("the holder is not disturbed")).await?;
    Ok(())
}

pub(super) async fn evd05_next_generation_has_a_budget_of_its_own(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    for generation in 1..=3_i64 {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        let forged = edited(&lease, |lease| lease.holder = holder("b"));
        for _ in 0..generation {
            expect_rejected("a forged append", ledger.append(&forged, &append("x")).await, Reason::WrongHolder)?;
        }
        ledger.release(&lease).await?;
    }
    let found = counted(&*ledger, Some(&jobs), 6).await?;
    let seen: Vec<_> = found.iter().map(|r| (r.slot.generation.map(Generation::get), r.slot.number, r.count)).collect();
    equal("generation, slot and count", &seen, &vec![(Some(1), 1, 1), (Some(2), 1, 2), (Some(3), 1, 3)])?;
    Ok(())
}

pub(super) async fn evd06_never_claimed_ones_share_one_budget(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let known = claim(&*ledger, &partition("known"), "a", long_ttl()).await?.lease;
    let names = u64::from(MAX_RECORD_KEYS) + 10;
    for round in 0..2 {
        for name in 0..names {
            let forged = edited(&known, |lease| lease.partition = partition(&format!("name-{name:04}")));
            let call = ledger.append(&forged, &append("x")).await;
            let what = format!("an append to the never-claimed name {name}, round {round}");
            expect_rejected(&what, call, Reason::NeverClaimed)?;
        }
    }
    let found = counted(&*ledger, None, 2 * names).await?;
    equal("the records: 256 keys and the overflow", &found.len(), &257)?;
    let overflow = found.last().map(|record| (record.slot, record.partition.is_none(), record.count));
    equal("the overflow record", &overflow, &Some((RecordSlot::new(None, RecordSlot::OVERFLOW), true, 20)))?;
    let one = records(&*ledger, Some(&partition("name-0007"))).await?;
    equal("the records of one of the names", &one.iter().map(|record| record.count).collect::<Vec<_>>(), &vec![2])?;
    let page = ledger.partitions(None, PageSize::MAX).await?.partitions;
    equal("the partitions: a refusal creates none", &page, &vec![partition("known")])?;
    Ok(())
}

pub(super) async fn evd07_mere_answers_leave_no_record(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let asked = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    expect_rejected("a claim", ledger.claim(&asked).await, Reason::Held)?;
    let blind = asked.observing(Observation::NeverClaimed);
    expect_rejected("a claim", ledger.claim(&blind).await, Reason::ObservationOutdated)?;
    let wrong = append("1").expecting(at(9));
    expect_rejected("an append", ledger.append(&lease, &wrong).await, Reason::PositionConflict)?;
    let note = Note::new("a try")?;
    let call = ledger.end_tenure(&jobs, Observation::NeverClaimed, &note).await;
    expect_rejected("an operator's step", call, Reason::ObservationOutdated)?;
    equal("the records", &records(&*ledger, Some(&jobs)).await?, &Vec::new())?;
    // A refusal that is evidence, by the same caller, does leave one.
    let used = ledger.append(&lease, &append("1")).await?.entry.id;
    let reused = append_as(used.unwrap_or_else(AppendId::mint), "2");
    expect_rejected("an append", ledger.append(&lease, &reused).await, Reason::AppendIdReused)?;
    equal("the number of records", &records(&*ledger, Some(&jobs)).await?.len(), &1)?;
    Ok(())
}

pub(super) async fn evd08_records_survive_a_restart(mut cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for name in ["b", "c"] {
        let forged = edited(&lease, |lease| lease.holder = holder(name));
        expect_rejected("a forged append", ledger.append(&forged, &append("x")).await, Reason::WrongHolder)?;
    }
    let before = records(&*ledger, Some(&jobs)).await?;
    drop(ledger);
    let ledger = cx.restart().await?;
    equal("the first record of each key", &records(&*ledger, Some(&jobs)).await?, &before)?;
    let forged = edited(&lease, |lease| lease.holder = holder("b"));
    let call = ledger.append(&forged, &append("x")).await;
    let refused = expect_rejected("a repeat after the restart", call, Reason::WrongHolder)?;
    equal("what it says of its record", &refused.record, &RecordState::Counted)?;
    counted(&*ledger, Some(&jobs), 3).await?;
    Ok(())
}

pub(super) async fn evd09_zombie_is_refused_without_the_lock(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&a).await?;
    claim(&*ledger, &jobs, "b", long_ttl()).await?;
    let call = ledger.append(&a, &append("stale")).await;
    expect_rejected("the first stale append", call, Reason::StaleGeneration)?;
    let guard = cx.hold_lock(&jobs).await?;
    for _ in 0..5 {
        let stale = append("stale");
        let bound = Duration::from_secs(1);
        match tokio::time::timeout(bound, ledger.append(&a, &stale)).await {
            Ok(answer) => drop(expect_rejected("a repeat while the lock is held", answer, Reason::StaleGeneration)?),
            Err(_) => {
                let expected = "a repeat of a tenure that has visibly ended waits for no lock";
                return Err(Violation::new(expected, format!("no answer within {bound:?}")).into());
            }
        }
    }
    guard.release().await?;
    counted(&*ledger, Some(&jobs), 6).await?;
    Ok(())
}

pub(super) async fn evd10_zombies_in_a_loop_are_counted_exactly(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&a).await?;
    let b = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let refusals = cx.scale(2_000, 100_000);
    let zombie = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            stream::iter(0..refusals)
                .map(|_| async {
                    let call = ledger.append(&a, &append("stale")).await;
                    expect_rejected("a stale append", call, Reason::StaleGeneration).map(drop)
                })
                .buffer_unordered(512)
                .try_for_each(|()| std::future::ready(Ok(())))
                .await
        }
    });
    let mut appended = 0;
    while !zombie.is_finished() && appended < 10_000 {
        let_others_run().await;
        ledger.append(&b, &append("good")).await?;
        appended += 1;
    }
    zombie.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))??;
    let found = counted(&*ledger, Some(&jobs), u64::try_from(refusals).unwrap_or(0)).await?;
    equal("the number of records", &found.len(), &1)?;
    equal("the events in the log: those of the holder", &read_all(&*ledger, &jobs).await?.len(), &(appended + 3))?;
    Ok(())
}

pub(super) async fn evd11_concurrent_refusals_lose_no_count(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let mut tasks = Vec::new();
    for task in 0..32 {
        let handle = if task % 4 == 0 { cx.open().await? } else { ledger.clone() };
        let forged = edited(&lease, |lease| lease.holder = holder(&format!("forger-{}", task % 8)));
        tasks.push(async move {
            for _ in 0..10 {
                expect_rejected("a forged append", handle.append(&forged, &append("x")).await, Reason::WrongHolder)?;
            }
            Ok::<_, Violation>(())
        });
    }
    for task in all_at_once(tasks).await? {
        task?;
    }
    let found = counted(&*ledger, Some(&jobs), 320).await?;
    equal("the counts of the records", &found.iter().map(|record| record.count).collect::<Vec<_>>(), &vec![40; 8])?;
    Ok(())
}

pub(super) async fn evd12_pages_give_each_record_once(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let known = claim(&*ledger, &partition("other"), "a", long_ttl()).await?.lease;
    let unclaimed = edited(&known, |lease| lease.partition = jobs.clone());
    expect_rejected("before the first claim", ledger.renew(&unclaimed, None).await, Reason::NeverClaimed)?;
    for _ in 0..2 {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        for name in ["b", "c", "d"] {
            let forged = edited(&lease, |lease| lease.holder = holder(name));
            expect_rejected("a forged renewal", ledger.renew(&forged, None).await, Reason::WrongHolder)?;
        }
        ledger.release(&lease).await?;
    }
    let whole = records(&*ledger, Some(&jobs)).await?;
    equal("the number of records", &whole.len(), &7)?;
    ensure(whole.is_sorted_by_key(|record| record.slot), "they are ordered by slot", &whole)?;
    for size in 1..=8 {
        let (mut found, mut after) = (Vec::new(), None);
        for _ in 0..8 {
            let page = ledger.rejections(Some(&jobs), after, PageSize::new(size)?).await?;
            let len = u32::try_from(page.records.len()).unwrap_or(u32::MAX);
            ensure(len <= size, &format!("at most {size} on a page"), len)?;
            found.extend(page.records);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        equal(&format!("the records in pages of {size}"), &found, &whole)?;
    }
    Ok(())
}

pub(super) async fn evd13_remark_is_kept_with_the_refusal_alone(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let longest = "é".repeat(MAX_REMARK_BYTES / 2);
    let remarks = ["{\"said\":\"a\"}", "{\"said\":\"A\"}", longest.as_str()].map(Remark::new);
    let [first, second, long] = remarks.map(|remark| remark.expect("within the limit"));
    let granted = append("granted");
    let entry = ledger.append(&lease, &granted.clone().remarking(first.clone())).await?.entry;
    let replay = ledger.append(&lease, &granted.clone().remarking(second.clone())).await?;
    equal("a remark is no content: the entry in a replay with another one", &replay.entry, &entry)?;
    equal("the records of what was granted", &records(&*ledger, Some(&jobs)).await?, &Vec::new())?;
    ledger.release(&lease).await?;
    let kept = [Some(first), None, Some(second), Some(long)];
    for remark in kept.iter().chain(&kept) {
        let stale = append("stale");
        let stale = remark.clone().map_or(stale.clone(), |remark| stale.remarking(remark));
        let refused = expect_rejected("a stale append", ledger.append(&lease, &stale).await, Reason::Released)?;
        equal("the remark in the refusal", &refused.presented.remark, remark)?;
    }
    let found = counted(&*other, Some(&jobs), 8).await?;
    let seen: Vec<_> = found
        .iter()
        .map(|record| (record.count, record.refused.as_ref().and_then(|refused| refused.remark.clone())))
        .collect();
    equal("a record for each remark, repeats counted", &seen, &kept.map(|remark| (2, remark)).to_vec())?;
    Ok(())
}

/// The records, when together they count what is expected: counts of repeats may lag by a second (E3).
async fn counted(
    ledger: &dyn FencedLedger,
    partition: Option<&PartitionId>,
    expected: u64,
) -> Result<Vec<RejectionRecord>, Stop> {
    let what = format!("the records count {expected} refusals");
    let wait = Wait::until(&what);
    loop {
        let found = records(ledger, partition).await?;
        let count: u64 = found.iter().map(|record| record.count).sum();
        if count == expected {
            return Ok(found);
        }
        ensure(count < expected, &what, count)?;
        wait.a_moment().await.map_err(|late| Violation { seen: format!("{count}, {}", late.seen), ..late })?;
    }
}
