//! Reads: each position once, in order, without a gap, whoever writes meanwhile.

use super::prelude::*;
use futures_util::{FutureExt, StreamExt, TryStreamExt};

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
    let waiting = || Wait::until("the follower gets every event");
    // Anew with each page that brings something: thousands of appends may take longer than one event.
    let mut wait = waiting();
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
        } else {
            wait = waiting();
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

pub(super) async fn red10_page_is_bounded_by_bytes(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    // One is larger than every bound below. A store that compresses must not count what it has stored.
    for sizes in [&[10, 2_000, 10][..], &[300_000], &[10; 5], &[5_000, 5_000], &[10]] {
        ledger.append(&lease, &Append::new(sizes.iter().map(|size| sized(*size)).collect::<Vec<_>>())?).await?;
    }
    let whole = read_all(&*ledger, &jobs).await?;
    for (items, bytes) in [(1_000, 1), (1_000, 100), (1_000, 2_500), (1_000, 12_000), (3, 12_000), (1_000, 200_000)] {
        let size = PageSize::new(items)?.with_bytes(bytes)?;
        let (mut forward, mut from) = (Vec::new(), Some(Position::FIRST));
        while let Some(position) = from {
            let page = ledger.read(&jobs, position, size).await?;
            is_within(&page.events, size)?;
            forward.extend(page.events);
            from = page.next;
        }
        equal(&format!("the events in pages of {items} and {bytes} bytes"), &forward, &whole)?;
        let (mut backward, mut from) = (Vec::new(), Some(at(i64::try_from(whole.len()).unwrap_or(0))));
        while let Some(position) = from {
            let page = ledger.read_back(&jobs, Some(position), size).await?;
            is_within(&page.events, size)?;
            backward.extend(page.events);
            from = page.next;
        }
        backward.reverse();
        equal(&format!("the events in pages of {items} and {bytes} bytes, backwards"), &backward, &whole)?;
    }
    Ok(())
}

pub(super) async fn red11_stream_reads_on_while_it_is_consumed(cx: Context) -> Verdict {
    let (ledger, writer, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    // Two of them do not fit into one page of a stream.
    for _ in 0..4 {
        writer.append(&lease, &Append::new([sized(700_000)])?).await?;
    }
    let mut stream = ledger.events(&jobs, Position::FIRST);
    let mut positions = vec![stream.try_next().await?.map_or(0, |event| event.position.get())];
    let late = writer.append(&lease, &append("late")).await?.entry;
    while let Some(event) = stream.try_next().await? {
        positions.push(event.position.get());
    }
    let expected: Vec<i64> = (1..=late.last.get()).collect();
    equal("the positions of a stream whose last page was read after an append", &positions, &expected)?;
    ensure(stream.try_next().await?.is_none(), "a stream that has ended stays so", ())?;
    drop(stream);
    // Dropped on each of its pages, it leaves a ledger that reads and writes.
    for taken in 0..5 {
        let mut stream = ledger.events(&jobs, Position::FIRST);
        for _ in 0..taken {
            stream.try_next().await?;
        }
        drop(stream);
        ledger.append(&lease, &append("1")).await?;
    }
    equal("the events in the end", &read_all(&*ledger, &jobs).await?.len(), &11)?;
    Ok(())
}

pub(super) async fn red12_read_that_nobody_polls_holds_up_nobody(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &Append::new([sized(700_000)])?).await?;
    // More than a store has connections or threads.
    let mut begun: Vec<_> = (0..64).map(|_| ledger.read(&jobs, Position::FIRST, PageSize::MAX).boxed()).collect();
    let mut early = Vec::new();
    for reading in &mut begun {
        early.push((&mut *reading).now_or_never());
    }
    let bound = Duration::from_secs(5);
    let others = async {
        for round in 0..10 {
            ledger.append(&lease, &append(&round.to_string())).await?;
            ledger.renew(&lease, None).await?;
            ledger.read_back(&jobs, None, PageSize::new(1)?).await?;
            ledger.observe(&jobs).await?;
        }
        Ok::<_, Stop>(())
    };
    let done = tokio::time::timeout(bound, others).await;
    done.map_err(|_| {
        Violation::new("no call waits for a read that nobody polls", format!("no end within {bound:?}"))
    })??;
    for (reading, early) in begun.into_iter().zip(early) {
        let page = match early {
            Some(page) => page?,
            None => reading.await?,
        };
        ensure((2..=12).contains(&page.events.len()), "a read that is polled on has its page", page.events.len())?;
    }
    Ok(())
}

pub(super) async fn red13_rare_kind_is_found_behind_many_others(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let rare = EventKind::new("rare")?;
    let others = |count: usize| vec![of_kind("other", 1); count];
    // First, in the middle and last of an entry, alone, and behind 10,000 others.
    let mut appends = vec![vec![of_kind("rare", 1), of_kind("rare", 2)], vec![of_kind("rare", 3)]];
    appends.extend((0..10).map(|_| others(1_000)));
    appends.push([others(3), vec![of_kind("rare", 4)], others(2), vec![of_kind("rare", 5)]].concat());
    for events in appends {
        ledger.append(&lease, &Append::new(events)?).await?;
    }
    let whole = read_all(&*ledger, &jobs).await?;
    let expected: Vec<Event> = whole.iter().filter(|event| event.kind == rare).cloned().collect();
    equal("the rare events of the whole log", &expected.len(), &5)?;
    let near_the_end = i64::try_from(whole.len()).unwrap_or(0) - 8;
    for (size, start) in [(100, 1), (10_000, 1), (1, near_the_end), (2, near_the_end)] {
        let expected: Vec<_> = expected.iter().filter(|event| event.position.get() >= start).cloned().collect();
        let (mut found, mut from, mut calls) = (Vec::new(), Some(at(start)), 0);
        while let Some(position) = from {
            let page = ledger.read_kind(&jobs, &rare, position, PageSize::new(size)?).await?;
            let len = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
            ensure(len <= size, &format!("at most {size} events on a page"), len)?;
            equal(
                "the head that a page tells",
                &page.head.map(|(head, _)| head),
                &whole.last().map(|last| last.position),
            )?;
            ensure(page.next.is_none_or(|next| next > position), "a page by kind moves on", (position, page.next))?;
            found.extend(page.events);
            (from, calls) = (page.next, calls + 1);
            ensure(calls <= whole.len() + 1, "pages that come to an end", calls)?;
        }
        equal(&format!("the rare events in pages of {size} from {start}"), &found, &expected)?;
    }
    let values: Vec<(Position, i64)> = ledger.values(&jobs, "rare", Position::FIRST).try_collect().await?;
    equal(
        "the values of the stream",
        &values.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
        &vec![1, 2, 3, 4, 5],
    )?;
    let end = shifted_position(whole.last().map_or(Position::FIRST, |last| last.position));
    let page = ledger.read_kind(&jobs, &rare, end, PageSize::default()).await?;
    equal("a page just after the head", &(page.events.len(), page.next), &(0, None))?;
    let beyond = shifted_position(end);
    let head = whole.last().map(|last| last.position);
    is_ahead("beyond that", ledger.read_kind(&jobs, &rare, beyond, PageSize::default()).await, beyond, head)?;
    Ok(())
}

/// An event whose payload has about so many bytes, which compress well.
fn sized(bytes: usize) -> NewEvent {
    event_of(&format!("\"{}\"", "x".repeat(bytes)))
}

fn of_kind(kind: &str, number: i64) -> NewEvent {
    NewEvent::of(kind, &number).expect("a plain word is a kind, and a number is JSON")
}

fn is_within(events: &[Event], size: PageSize) -> Result<(), Violation> {
    let (count, bytes) = (events.len(), events.iter().map(Event::bytes).sum::<usize>());
    ensure(count > 0, "a page is not empty where something follows", size)?;
    let fits = count <= usize::try_from(size.get()).unwrap_or(usize::MAX)
        && (count == 1 || bytes <= usize::try_from(size.bytes()).unwrap_or(usize::MAX));
    ensure(fits, "a page keeps its bounds of events and bytes", (size, count, bytes))
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
