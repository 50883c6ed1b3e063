//! Dropped futures: whatever the number of polls, the whole effect or none, and a handle that still works.

use std::pin::pin;
use std::task::Context as TaskContext;

use super::prelude::*;
use futures_util::task::noop_waker;

/// So many polls end every call of a store that makes progress.
const MOST_POLLS: usize = 2_000;

/// Polls a call `polls` times, with time for real progress between two polls, and drops it. Whether it had ended.
async fn drop_after<T>(polls: usize, call: impl Future<Output = T> + Send) -> bool {
    let mut call = pin!(call);
    for poll in 0..polls {
        if poll > 0 {
            // The store's threads need real time; nothing tells when they are at which step.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        // The waker does nothing: the loop polls again anyway.
        if call.as_mut().poll(&mut TaskContext::from_waker(&noop_waker())).is_ready() {
            return true;
        }
    }
    false
}

/// The numbers of polls to try: each one at first, then wider, until a call has ended by itself.
fn more(polls: usize) -> usize {
    polls + 1 + polls / 8
}

pub(super) async fn can01_dropped_append_is_whole_or_absent(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let (mut polls, mut sent, mut ended) = (0, Vec::new(), false);
    while !ended {
        let dropped = batch(3);
        ended = drop_after(polls, ledger.append(&lease, &dropped)).await;
        let next = ledger.append(&lease, &append("next")).await?;
        ensure(!next.replayed, "the handle works after a dropped append", &next)?;
        sent.push((polls, dropped.id()));
        polls = more(polls);
        ensure(ended || polls < MOST_POLLS, "an append ends", polls)?;
    }
    // The end of the tenure makes the fate of every append final.
    ledger.release(&lease).await?;
    let log = read_all(&*ledger, &jobs).await?;
    for (event, position) in log.iter().zip(1..) {
        equal("the position of an event", &event.position.get(), &position)?;
    }
    for (polls, id) in sent {
        let found = log.iter().filter(|event| event.entry.id == Some(id)).count();
        let whole = found == 3 || (found == 0);
        ensure(whole, &format!("an append dropped after {polls} polls is whole or absent"), found)?;
        ensure(polls > 0 || found == 0, "an append that was never polled is absent", found)?;
        let fate = ledger.fate(&jobs, id, lease.generation).await?;
        let agrees = matches!((&fate, found), (Fate::Recorded(_), 3) | (Fate::Never, 0));
        ensure(agrees, "its fate is final, and as the log says", (&fate, found))?;
    }
    Ok(())
}

pub(super) async fn can02_dropped_claim_is_settled_by_a_retry(cx: Context) -> Verdict {
    let (ledger, other) = (cx.ledger(), cx.open().await?);
    let (mut polls, mut ended) = (0, false);
    while !ended {
        let jobs = partition(&format!("jobs-{polls}"));
        let asked = first_claim(&jobs, "a", long_ttl());
        ended = drop_after(polls, ledger.claim(&asked)).await;
        let claimed = ledger.claim(&asked).await?;
        equal("the lease of the retry", &claimed.lease.acquisition, &asked.acquisition)?;
        let kinds: Vec<_> = read_all(&*other, &jobs).await?.iter().map(|event| event.kind.to_string()).collect();
        equal(&format!("the log of a claim dropped after {polls} polls"), &kinds, &vec!["$claimed".to_owned()])?;
        equal("the next position", &other.append(&claimed.lease, &append("1")).await?.entry.first, &at(2))?;
        polls = more(polls);
        ensure(ended || polls < MOST_POLLS, "a claim ends", polls)?;
    }
    Ok(())
}

pub(super) async fn can03_dropped_renewal_and_release(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (mut polls, mut ended, mut generation) = (0, false, 0);
    while !ended {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        generation += 1;
        equal("the generation, one a round", &lease.generation.get(), &generation)?;
        let renewed = drop_after(polls, ledger.renew(&lease, Some(Ttl::MAX))).await;
        let after = ledger.renew(&lease, None).await?;
        ensure(after.lease.expires_at >= lease.expires_at, "a renewal after a dropped one", &after.lease)?;
        let released = drop_after(polls, ledger.release(&lease)).await;
        let again = ledger.release(&lease).await?;
        let settled = match &again {
            Released::Now { .. } => true,
            Released::AlreadyEnded { end, .. } => end.basis == Basis::Released && end.successor.is_none(),
        };
        ensure(settled, &format!("a release after one dropped after {polls} polls"), &again)?;
        let log = read_all(&*ledger, &jobs).await?;
        let kinds: Vec<_> = log.iter().rev().take(2).map(|event| event.kind.as_str()).collect();
        equal("the newest events: one release a tenure", &kinds, &vec!["$released", "$claimed"])?;
        ended = renewed && released;
        polls = more(polls);
        ensure(ended || polls < MOST_POLLS, "renewals and releases end", polls)?;
    }
    Ok(())
}

pub(super) async fn can04_many_dropped_at_once_leave_a_usable_handle(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let mut ids = Vec::new();
    for round in 0..10 {
        let mut tasks = Vec::new();
        for _ in 0..32 {
            let (handle, lease, sent) = (ledger.clone(), lease.clone(), batch(2));
            ids.push(sent.id());
            tasks.push(tokio::spawn(async move { handle.append(&lease, &sent).await.map(drop) }));
        }
        // Not a wait for anything: each round the calls are a little further when they are dropped.
        tokio::time::sleep(Duration::from_micros(100 * round)).await;
        for task in tasks {
            task.abort();
        }
    }
    for _ in 0..5 {
        ledger.append(&lease, &append("after")).await?;
        ledger.renew(&lease, None).await?;
    }
    ledger.release(&lease).await?;
    let log = read_all(&*ledger, &jobs).await?;
    for id in ids {
        let found = log.iter().filter(|event| event.entry.id == Some(id)).count();
        ensure(found == 0 || found == 2, "a dropped append is whole or absent", found)?;
    }
    for (event, position) in log.iter().zip(1..) {
        equal("the position of an event", &event.position.get(), &position)?;
    }
    Ok(())
}

pub(super) async fn can05_dropped_refusal_keeps_the_count_true(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let forged = edited(&lease, |lease| lease.holder = holder("b"));
    let (mut polls, mut tried, mut ended) = (0, 0, false);
    while !ended {
        let sent = append("x");
        ended = drop_after(polls, ledger.append(&forged, &sent)).await;
        tried += 1;
        polls = more(polls);
        ensure(ended || polls < MOST_POLLS, "a refusal ends", polls)?;
    }
    let call = ledger.append(&forged, &append("x")).await;
    expect_rejected("a forged append after dropped ones", call, Reason::WrongHolder)?;
    let found = records(&*ledger, Some(&jobs)).await?;
    let count: u64 = found.iter().map(|record| record.count).sum();
    ensure(found.len() == 1 && (1..=tried + 1).contains(&count), "one record, and no more than was tried", &found)?;
    ledger.append(&lease, &append("1")).await?;
    Ok(())
}
