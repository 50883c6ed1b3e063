//! Appends: all or nothing, at positions without a gap.

use super::prelude::*;

pub(super) async fn app01_positions_have_no_gap(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let stale = edited(&lease, |lease| lease.holder = holder("b"));
    let mut next = 2;
    for round in 1..=20_i64 {
        let count = usize::try_from(round % 3 + 1).unwrap_or(1);
        let sent = batch(count);
        expect_rejected("a stale append", ledger.append(&stale, &sent).await, Reason::WrongHolder)?;
        let wrong = batch(count).expecting(Position::MAX);
        expect_rejected("a conflict", ledger.append(&lease, &wrong).await, Reason::PositionConflict)?;
        let entry = ledger.append(&lease, &sent).await?.entry;
        let last = next + i64::try_from(count).unwrap_or(1) - 1;
        equal("the positions, right after the ones before", &(entry.first, entry.last), &(at(next), at(last)))?;
        ledger.append(&lease, &sent).await?;
        expect_rejected(
            "another content",
            ledger.append(&lease, &append_as(sent.id(), "other")).await,
            Reason::AppendIdReused,
        )?;
        next = last + 1;
    }
    let positions: Vec<i64> = read_all(&*ledger, &jobs).await?.iter().map(|event| event.position.get()).collect();
    equal("the positions in the log", &positions, &(1..next).collect())?;
    Ok(())
}

pub(super) async fn app02_batch_is_one_entry_in_its_order(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = batch(25);
    let appended = ledger.append(&lease, &sent).await?;
    equal("the bounds of the entry", &(appended.entry.first, appended.entry.last), &(at(2), at(26)))?;
    equal("the id of the entry", &appended.entry.id, &Some(sent.id()))?;
    equal("the content of the entry", &appended.entry.content, &sent.content())?;
    let events = read_all(&*ledger, &jobs).await?;
    for (event, new) in events.iter().skip(1).zip(sent.events().iter()) {
        let seen = (&event.kind, &event.payload, &event.metadata);
        equal("the event", &seen, &(&new.kind, &new.payload, &new.metadata))?;
        equal("the entry of each event", &event.entry, &appended.entry)?;
    }
    equal("the number of events", &events.len(), &26)?;
    Ok(())
}

pub(super) async fn app03_expected_position_is_the_head(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &append("at the claim").expecting(at(1))).await?;
    for wrong in [at(1), at(3), Position::MAX] {
        let sent = batch(3).expecting(wrong);
        let what = format!("a batch that expects {wrong} where the head is 2");
        let call = ledger.append(&lease, &sent);
        let refused = refused_without_effect(&what, &*ledger, &jobs, Reason::PositionConflict, call).await?;
        equal("the head that the refusal names", &refused.current.map(|current| current.head), &Some(at(2)))?;
        equal("the head that was expected", &refused.presented.expected, &Some(wrong))?;
    }
    equal("the next position", &ledger.append(&lease, &append("3").expecting(at(2))).await?.entry.first, &at(3))?;
    ensure(append("x").expected() == Expected::Any, "an append expects nothing, if not told", "it does")?;
    equal("the position without expectation", &ledger.append(&lease, &append("4")).await?.entry.first, &at(4))?;
    Ok(())
}

pub(super) async fn app04_tasks_without_expectation_all_land(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let (writers, each) = (20, cx.scale(10, 500));
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let (handle, lease) = (if writer % 2 == 0 { ledger.clone() } else { cx.open().await? }, lease.clone());
        tasks.push(async move {
            let mut positions = Vec::new();
            for _ in 0..each {
                positions.push(handle.append(&lease, &append("1")).await?.entry.first.get());
            }
            Ok::<_, LedgerError>(positions)
        });
    }
    let mut acknowledged = Vec::new();
    for positions in all_at_once(tasks).await? {
        let positions = positions?;
        ensure(positions.is_sorted(), "one writer's appends stand in its order", &positions)?;
        acknowledged.extend(positions);
    }
    acknowledged.sort_unstable();
    let last = i64::try_from(writers * each).unwrap_or(0) + 1;
    equal("the positions that were acknowledged", &acknowledged, &(2..=last).collect())?;
    equal("the events in the log", &i64::try_from(read_all(&*ledger, &jobs).await?.len()).unwrap_or(0), &last)?;
    Ok(())
}

pub(super) async fn app05_one_of_20_with_the_same_expectation(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for head in 1..=10 {
        let mut tasks = Vec::new();
        for writer in 0..20 {
            let (handle, lease) = (if writer % 2 == 0 { ledger.clone() } else { cx.open().await? }, lease.clone());
            tasks.push(async move { handle.append(&lease, &append("1").expecting(at(head))).await });
        }
        let mut granted = 0;
        for answer in all_at_once(tasks).await? {
            if answer.is_ok() {
                granted += 1;
            } else {
                expect_rejected("an append that came second", answer, Reason::PositionConflict)?;
            }
        }
        equal("the appends that were granted", &granted, &1)?;
        equal(
            "the events in the log",
            &i64::try_from(read_all(&*ledger, &jobs).await?.len()).unwrap_or(0),
            &(head + 1),
        )?;
    }
    Ok(())
}

pub(super) async fn app06_counter_by_compare_and_retry(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let each = cx.scale(10, 100);
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (handle, lease) = (cx.open().await?, lease.clone());
        tasks.push(async move {
            for _ in 0..each {
                let mut tries = 0;
                loop {
                    let newest = handle.read_back(&lease.partition, None, PageSize::new(1)?).await?.events.pop();
                    let newest = newest.ok_or_else(|| Violation::new("a newest event", "none"))?;
                    let count: u64 = newest.payload.decode().unwrap_or(0);
                    let next = Append::new([event_of(&(count + 1).to_string())])?.expecting(newest.position);
                    match handle.append(&lease, &next).await {
                        Ok(_) => break,
                        lost => drop(expect_rejected("a lost race", lost, Reason::PositionConflict)?),
                    }
                    tries += 1;
                    ensure(tries < 10_000, "a writer gets its turn", tries)?;
                }
            }
            Ok::<_, Stop>(())
        });
    }
    for task in all_at_once(tasks).await? {
        task?;
    }
    let newest = read_all(&*ledger, &jobs).await?.pop();
    let count = newest.map(|event| event.payload.as_str().to_owned());
    equal("the counter", &count, &Some((8 * each).to_string()))?;
    Ok(())
}

pub(super) async fn app07_answer_is_what_is_stored(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let claimed = claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let lease = claimed.lease;
    for count in [1, 3] {
        let sent = batch(count);
        let appended = ledger.append(&lease, &sent).await?;
        ensure(!appended.replayed, "a first append is no replay", appended.replayed)?;
        let entry = &appended.entry;
        let by = (entry.generation, &entry.holder, entry.acquisition);
        equal("by whom it was written", &by, &(lease.generation, &lease.holder, lease.acquisition))?;
        equal("when it was written: the judged time", &entry.recorded_at, &appended.judged.time)?;
        for handle in [&ledger, &other] {
            let read = handle.read(&jobs, entry.first, PageSize::MAX).await?;
            ensure(read.events.iter().all(|event| event.entry == *entry), "a read returns that entry", &read.events)?;
            equal("the replay's entry", &handle.append(&lease, &sent).await?.entry, entry)?;
            let fate = handle.fate(&jobs, sent.id(), lease.generation).await?;
            equal("the fate's entry", &fate, &Fate::Recorded(entry.clone()))?;
            let state = handle.observe(&jobs).await?.tenure;
            let tip = state.map(|tenure| (tenure.head, tenure.chain, tenure.recorded_at));
            equal("the head of the partition", &tip, &Some((entry.last, entry.chain, entry.recorded_at)))?;
        }
    }
    Ok(())
}

pub(super) async fn app08_append_does_not_extend_the_lease(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    for _ in 0..4 {
        clock.advance(Duration::from_secs(1)).await;
        ledger.append(&lease, &append("1")).await?;
        let stored = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.lease);
        equal("the lease, untouched by an append", &stored, &Some(lease.clone()))?;
    }
    clock.set(lease.expires_at).await;
    expect_rejected("an append at the first expiry", ledger.append(&lease, &append("x")).await, Reason::Expired)?;
    Ok(())
}

pub(super) async fn app09_ten_thousand_events_in_one(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let entry = ledger.append(&lease, &batch(ledger_core::MAX_EVENTS)).await?.entry;
    equal("the bounds of the entry", &(entry.first, entry.last), &(at(2), at(10_001)))?;
    equal("the next position", &ledger.append(&lease, &append("1")).await?.entry.first, &at(10_002))?;
    let events = read_all(&*ledger, &jobs).await?;
    equal("the events in the log", &events.len(), &10_002)?;
    let last = events.get(10_000).map(|event| event.payload.as_str().to_owned());
    equal("the last of the batch", &last, &Some("\"9999\"".to_owned()))?;
    Ok(())
}
