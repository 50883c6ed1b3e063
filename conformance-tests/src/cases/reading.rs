//! Reads: each position once, in order, without a gap, whoever writes meanwhile.

use super::prelude::*;
use futures_util::StreamExt;

pub(super) async fn red01_prefix_while_five_write(cx: Context) -> Verdict {
    let (ledger, reader, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let each = cx.scale(15, 300);
    let mut writers = Vec::new();
    for writer in 0..5 {
        let (handle, lease) = (cx.open().await?, lease.clone());
        writers.push(tokio::spawn(async move {
            for _ in 0..each {
                handle.append(&lease, &batch(writer + 1)).await?;
            }
            Ok::<_, LedgerError>(())
        }));
    }
    let mut known: Vec<Event> = Vec::new();
    let mut reads = 0;
    loop {
        let_others_run().await;
        let done = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let events = read_all(&*reader, &jobs).await?;
        ensure(events.len() >= known.len(), "a log never gets shorter", (known.len(), events.len()))?;
        for (event, position) in events.iter().zip(1..) {
            equal("the position of an event: no gap is ever visible", &event.position.get(), &position)?;
        }
        equal("what was read before", events.get(..known.len()).unwrap_or_default(), known.as_slice())?;
        if let Some(last) = events.last() {
            equal("the end of the last entry: an append is visible as a whole", &last.position, &last.entry.last)?;
        }
        known = events;
        reads += 1;
        if done || reads > 100_000 {
            break;
        }
    }
    for writer in writers {
        writer.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))??;
    }
    equal("the events in the end", &known.len(), &(each * (1 + 2 + 3 + 4 + 5) + 1))?;
    Ok(())
}

pub(super) async fn red02_pages_join_without_seam(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for count in [1, 4, 2, 7, 1] {
        ledger.append(&lease, &batch(count)).await?;
    }
    let whole = read_all(&*ledger, &jobs).await?;
    equal("the number of events", &whole.len(), &16)?;
    for size in [1, 2, 3, 5, 15, 16, 17] {
        for start in 1..=16_i64 {
            let (mut found, mut from) = (Vec::new(), Some(at(start)));
            while let Some(position) = from {
                let page = ledger.read(&jobs, position, PageSize::new(size)?).await?;
                let len = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
                ensure((1..=size).contains(&len), &format!("1 to {size} events on a page from {position}"), len)?;
                equal("the head that a page tells", &page.head, &Some((at(16), lease.generation)))?;
                found.extend(page.events);
                from = page.next;
                ensure(found.len() <= 16, "pages that come to an end", found.len())?;
            }
            let rest = whole.get(usize::try_from(start - 1).unwrap_or(0)..).unwrap_or_default();
            equal(&format!("the events from {start} in pages of {size}"), found.as_slice(), rest)?;
        }
    }
    Ok(())
}

pub(super) async fn red03_backward_is_forward_reversed(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for count in [3, 1, 5] {
        ledger.append(&lease, &batch(count)).await?;
    }
    let whole = read_all(&*ledger, &jobs).await?;
    for size in [1, 2, 4, 10, 11] {
        for start in [None, Some(at(1)), Some(at(2)), Some(at(6)), Some(at(10))] {
            let (mut found, mut from, mut first) = (Vec::new(), start, true);
            while first || from.is_some() {
                let page = ledger.read_back(&jobs, from, PageSize::new(size)?).await?;
                let len = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
                ensure((1..=size).contains(&len), &format!("1 to {size} events on a page back from {from:?}"), len)?;
                found.extend(page.events);
                (from, first) = (page.next, false);
                ensure(found.len() <= 10, "pages that come to an end", found.len())?;
            }
            let newest = usize::try_from(start.map_or(10, Position::get)).unwrap_or(10);
            let expected: Vec<_> = whole.iter().take(newest).rev().cloned().collect();
            equal(&format!("the events back from {start:?} in pages of {size}"), &found, &expected)?;
        }
    }
    Ok(())
}

pub(super) async fn red04_ahead_of_the_log_is_an_error(cx: Context) -> Verdict {
    let (ledger, jobs, size) = (cx.ledger(), partition("jobs"), PageSize::default());
    let empty = ledger.read(&jobs, Position::FIRST, size).await?;
    let seen = (empty.events.len(), empty.head, empty.next);
    equal("a page of a name that nobody claimed", &seen, &(0, None, None))?;
    let back = ledger.read_back(&jobs, None, size).await?;
    equal("the same backwards", &(back.events.len(), back.head, back.next), &(0, None, None))?;
    is_ahead("position 2 of nothing", ledger.read(&jobs, at(2), size).await, at(2), None)?;
    is_ahead("position 1 of nothing, backwards", ledger.read_back(&jobs, Some(at(1)), size).await, at(1), None)?;
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &append("1")).await?;
    let end = ledger.read(&jobs, at(3), size).await?;
    let seen = (end.events.len(), end.head, end.next);
    equal("a page just after the head", &seen, &(0, Some((at(2), lease.generation)), None))?;
    for from in [at(4), at(1_000), Position::MAX] {
        is_ahead("a start beyond that", ledger.read(&jobs, from, size).await, from, Some(at(2)))?;
    }
    for from in [at(3), Position::MAX] {
        is_ahead(
            "a start beyond the head, backwards",
            ledger.read_back(&jobs, Some(from), size).await,
            from,
            Some(at(2)),
        )?;
    }
    Ok(())
}

pub(super) async fn red05_own_writes_on_every_handle(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..cx.scale(50, 1_000) {
        let (writer, reader) = if round % 2 == 0 { (&ledger, &other) } else { (&other, &ledger) };
        let entry = writer.append(&lease, &append("1")).await?.entry;
        for handle in [writer, reader] {
            let newest = handle.read_back(&jobs, None, PageSize::new(1)?).await?.events.pop();
            equal("the newest event, right after its append", &newest.map(|event| event.entry), &Some(entry.clone()))?;
            let page = handle.read(&jobs, entry.first, PageSize::MAX).await?;
            equal("the events from there on", &page.events.len(), &1)?;
        }
    }
    Ok(())
}

pub(super) async fn red06_ledgers_own_events_are_read(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&first, &append("1")).await?;
    ledger.release(&first).await?;
    let second = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    ledger.end_tenure(&jobs, Observation::of(&second), &Note::new("stuck")?).await?;
    let events = read_all(&*ledger, &jobs).await?;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    equal("the kinds in the log", &kinds, &vec!["$claimed", "noted", "$released", "$claimed", "$ended"])?;
    let ids: Vec<_> = events.iter().map(|event| event.entry.id.is_some()).collect();
    equal("the entries with an id", &ids, &vec![true, true, false, true, false])?;
    for event in &events {
        let bounds = (event.entry.first, event.entry.last);
        equal("the bounds of an entry", &bounds, &(event.position, event.position))?;
        let lease = if event.position < at(4) { &first } else { &second };
        let by = (&event.entry.holder, event.entry.generation, event.entry.acquisition);
        equal("whose tenure it belongs to", &by, &(&lease.holder, lease.generation, lease.acquisition))?;
    }
    Ok(())
}

pub(super) async fn red07_follower_by_polling_gets_each_once(cx: Context) -> Verdict {
    let (ledger, follower, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let total = cx.scale(200, 5_000);
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let writer = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            for _ in 0..total {
                ledger.append(&lease, &append("1")).await?;
            }
            Ok::<_, LedgerError>(())
        }
    });
    let wait = Wait::until("the follower gets every event");
    let (mut next, mut sizes) = (Position::FIRST, [1, 2, 7, 1_000].into_iter().cycle());
    while next.get() <= i64::try_from(total).unwrap_or(0) + 1 {
        let size = PageSize::new(sizes.next().unwrap_or(1))?;
        let page = follower.read(&jobs, next, size).await?;
        for event in &page.events {
            equal("the next position of a follower", &event.position, &next)?;
            next = shifted_position(next);
        }
        if page.events.is_empty() {
            wait.a_moment().await?;
        }
    }
    writer.await.map_err(|error| Violation::new("no panic in an append", error.to_string()))??;
    let streamed = follower.events(&jobs, Position::FIRST).count().await;
    equal("the events of the stream", &streamed, &(total + 1))?;
    Ok(())
}

pub(super) async fn red08_observing_shows_one_moment(cx: Context) -> Verdict {
    let (ledger, observer, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let rounds = cx.scale(60, 1_000);
    let writer = tokio::spawn({
        let (ledger, jobs) = (ledger.clone(), jobs.clone());
        async move {
            for _ in 0..rounds {
                let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
                ledger.append(&lease, &batch(2)).await?;
                ledger.renew(&lease, None).await?;
                ledger.release(&lease).await?;
            }
            Ok::<_, Stop>(())
        }
    });
    let mut revision = 0;
    while !writer.is_finished() {
        let_others_run().await;
        let state = observer.observe(&jobs).await?;
        ensure(state.judged.revision.get() >= revision, "an observer never goes back", (revision, state.judged))?;
        revision = state.judged.revision.get();
        let Some(tenure) = state.tenure else { continue };
        // Each round moves head and generation on together: claim at 4n+1, batch to 4n+3, release at 4n+4.
        let (head, generation) = (tenure.head.get(), tenure.lease.generation.get());
        equal("the generation that belongs to the head", &generation, &((head - 1) / 4 + 1))?;
        equal("the vacancy that belongs to the head", &tenure.vacancy.is_some(), &(head % 4 == 0))?;
    }
    writer.await.map_err(|error| Violation::new("no panic in a writer", error.to_string()))??;
    Ok(())
}

pub(super) async fn red09_reading_goes_on_while_a_lock_is_held(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let sent = append("1");
    ledger.append(&lease, &sent).await?;
    let guard = cx.hold_lock(&jobs).await?;
    let bound = Duration::from_secs(2);
    let reads = async {
        for handle in [ledger.clone(), cx.open().await?] {
            equal("the events", &read_all(&*handle, &jobs).await?.len(), &2)?;
            handle.read_back(&jobs, None, PageSize::MAX).await?;
            handle.observe(&jobs).await?;
            handle.partitions(None, PageSize::MAX).await?;
            handle.rejections(Some(&jobs), None, PageSize::MAX).await?;
            handle.fate(&jobs, sent.id(), lease.generation).await?;
            handle.describe().await?;
        }
        Ok::<_, Stop>(())
    };
    let read = tokio::time::timeout(bound, reads).await;
    read.map_err(|_| Violation::new("no read waits for a writer's lock", format!("no answer within {bound:?}")))??;
    guard.release().await?;
    equal("the next position", &ledger.append(&lease, &append("2")).await?.entry.first, &at(3))?;
    Ok(())
}

fn shifted_position(position: Position) -> Position {
    position.next().unwrap_or(Position::MAX)
}

#[track_caller]
fn is_ahead<T: std::fmt::Debug>(
    what: &str,
    answer: ledger_core::Result<T>,
    start: Position,
    end: Option<Position>,
) -> Result<(), Violation> {
    let told = matches!(&answer, Err(LedgerError::AheadOfLog { from, head }) if *from == start && *head == end);
    ensure(told, &format!("{what} is ahead of the log, which ends at {end:?}"), &answer)
}
