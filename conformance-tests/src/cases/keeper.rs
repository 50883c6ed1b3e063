//! The keeper on this store. Its own time is moved by hand, so that a slow machine loses no lease; the store's goes on
//! as it does, under TTLs that no case outlives.

use ledger_core::keeper::{
    ClaimError, Driver, End, Keeper, Loss, ManualLocalClock, Pool, Settled, State, Terms, Wait as Waiting, WriteError,
    Writer,
};

use super::prelude::*;
use crate::faulty::{Faulty, Line};

/// Ten minutes: renewed every 200 seconds of the keeper's time.
fn terms() -> Terms {
    Terms::new(long_ttl())
}

fn keeper(ledger: Arc<dyn FencedLedger>, jobs: &PartitionId, name: &str, clock: &ManualLocalClock) -> Keeper {
    let keeper = Keeper::new(ledger, jobs.clone(), holder(name), terms()).expect("the usual terms are accepted");
    keeper.with_clock(clock.clone())
}

async fn hold(keeper: &Keeper) -> Result<Writer, Stop> {
    let (writer, driver) = claimed(keeper.claim(Waiting::No).await)?;
    tokio::spawn(driver);
    Ok(writer)
}

#[track_caller]
fn claimed(claimed: Result<(Writer, Driver), ClaimError>) -> Result<(Writer, Driver), Violation> {
    claimed.map_err(|error| Violation::new("the keeper's claim is granted", error.to_string()))
}

#[track_caller]
fn written<T>(answer: Result<T, WriteError>) -> Result<T, Violation> {
    answer.map_err(|error| Violation::new("the writer's append is in the log", error.to_string()))
}

/// Lets a keeper's time pass until something holds.
async fn pass_until(what: &str, clock: &ManualLocalClock, by: Duration, mut holds: impl FnMut() -> bool) -> Verdict {
    let wait = Wait::until(what);
    while !holds() {
        clock.advance(by);
        wait.a_moment().await?;
    }
    Ok(())
}

/// The same, but no time passes while the store has a call to answer: on a slow one it would be the keeper that cuts its
/// tries short.
async fn pass_between_calls(
    what: &str,
    clock: &ManualLocalClock,
    ledger: &Faulty,
    holds: impl Fn() -> bool,
) -> Verdict {
    let wait = Wait::until(what);
    while !holds() {
        if ledger.is_quiet() {
            clock.advance(Duration::from_secs(30));
        }
        wait.a_moment().await?;
    }
    Ok(())
}

/// Waits until something holds, without the keeper's time.
async fn until(what: &str, holds: impl FnMut() -> bool) -> Verdict {
    pass_until(what, &ManualLocalClock::default(), Duration::ZERO, holds).await
}

async fn take_over(ledger: &dyn FencedLedger, writer: &Writer) -> Result<Lease, Stop> {
    let lease = writer.lease();
    ledger.end_tenure(&lease.partition, Observation::of(&lease), &Note::new("the holder is gone")?).await?;
    Ok(claim(ledger, &lease.partition, "successor", long_ttl()).await?.lease)
}

fn refusal(state: &State) -> Option<Reason> {
    match state {
        State::Ended(end) => match &**end {
            End::Lost(Loss::Refused(rejection)) => Some(rejection.reason),
            _ => None,
        },
        _ => None,
    }
}

pub(super) async fn kep01_renews_and_appends_in_one_tenure(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), ManualLocalClock::default());
    let keeper = keeper(ledger.clone(), &jobs, "a", &clock);
    let writer = hold(&keeper).await?;
    for round in 1..=5_u64 {
        let entry = written(writer.append(&append("x")).await)?.entry;
        equal("the generation of an append", &entry.generation.get(), &1)?;
        clock.advance(Duration::from_secs(200));
        let ended = writer.signal();
        until("a renewal is granted", || keeper.counts().renewals == round || ended.is_ended()).await?;
        ensure(matches!(writer.state(), State::Held), "the writer is held after a renewal", writer.state())?;
    }
    equal("the positions", &read_all(&*ledger, &jobs).await?.len(), &6)?;
    Ok(())
}

pub(super) async fn kep02_takeover_ends_the_writer_at_the_first_refusal(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (Faulty::new(cx.ledger()), partition("jobs"), ManualLocalClock::default());
    let writer = hold(&keeper(ledger.clone(), &jobs, "a", &clock)).await?;
    take_over(&*ledger, &writer).await?;
    let refused = writer.append(&append("late")).await;
    let reason = refused.as_ref().err().and_then(WriteError::rejection).map(|rejection| rejection.reason);
    equal("the refusal of an append after a takeover", &reason, &Some(Reason::StaleGeneration))?;
    equal("why the writer has ended", &refusal(&writer.state()), &Some(Reason::StaleGeneration))?;
    let refused = writer.append(&append("later")).await;
    ensure(matches!(refused, Err(WriteError::Ended(_))), "an append after the end is not sent", &refused)?;
    equal("the appends that were sent", &ledger.appends(), &1)?;
    Ok(())
}

pub(super) async fn kep03_release_comes_after_what_was_in_flight(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), ManualLocalClock::default());
    for round in 1..=cx.scale(5, 100) {
        let writer = hold(&keeper(cx.open().await?, &jobs, "a", &clock)).await?;
        equal("the generation", &usize::try_from(writer.generation().get()).ok(), &Some(round))?;
        let release = tokio::spawn({
            let writer = writer.clone();
            async move {
                let_others_run().await;
                writer.release().await
            }
        });
        let appends = (0..8).map(|_| {
            let writer = writer.clone();
            async move { writer.append(&append("x")).await }
        });
        let answers = all_at_once(appends).await?;
        let released = release.await.map_err(|error| Violation::new("no panic in a release", error.to_string()))??;
        let Released::Now { position, .. } = released else {
            return Err(Violation::new("the release ends the tenure", format!("{released:?}")).into());
        };
        for answer in answers {
            match answer {
                Ok(appended) => {
                    let before = appended.entry.last < position;
                    ensure(before, "what was in flight stands before the release", (appended.entry.last, position))?;
                }
                Err(WriteError::Draining | WriteError::Ended(_)) => {}
                Err(error) => return Err(Violation::new("it lands, or is not sent", error.to_string()).into()),
            }
        }
        ensure(ledger.observe(&jobs).await?.is_free(), "the partition is free after a release", "it is held")?;
    }
    Ok(())
}

pub(super) async fn kep04_lost_answers_leave_each_append_once(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (Faulty::new(cx.ledger()), partition("jobs"), ManualLocalClock::default());
    let keeper = keeper(ledger.clone(), &jobs, "a", &clock);
    let writer = hold(&keeper).await?;
    ledger.set(Line::EverySecondAnswerLost);
    let mut sent = Vec::new();
    for nth in 0..10 {
        let (next, settler) = (append(&nth.to_string()), writer.clone());
        sent.push(next.id());
        let settling = tokio::spawn(async move { settler.settle(&next, Duration::from_secs(3600)).await });
        pass_between_calls("an append is settled", &clock, &ledger, || settling.is_finished()).await?;
        let settled = settling.await.map_err(|error| Violation::new("no panic", error.to_string()))?;
        match written(settled)? {
            Settled::Appended { appended, tries: 2 } => ensure(appended.replayed, "a replay", &appended)?,
            other => return Err(Violation::new("it is settled by its second try", format!("{other:?}")).into()),
        }
    }
    let stored: Vec<_> = read_all(&*ledger, &jobs).await?.iter().filter_map(|event| event.entry.id).collect();
    let mut expected = vec![writer.lease().acquisition.into()];
    expected.extend(sent);
    equal("the ids in the log, each once", &stored, &expected)?;
    ensure(keeper.counts().renewals > 0, "renewals were granted beside the lost ones", keeper.counts())?;
    Ok(())
}

pub(super) async fn kep05_fate_settles_an_append_after_a_takeover(cx: Context) -> Verdict {
    for (line, name) in [(Line::AppendsLost, "lost"), (Line::AppendAnswersLost, "landed")] {
        let (ledger, jobs, clock) = (Faulty::new(cx.ledger()), partition(name), ManualLocalClock::default());
        let writer = hold(&keeper(ledger.clone(), &jobs, "a", &clock)).await?;
        ledger.set(line);
        let (sent, settler) = (append("x"), writer.clone());
        let id = sent.id();
        let settling = tokio::spawn(async move { settler.settle(&sent, Duration::from_secs(3600)).await });
        until("the append is sent", || ledger.appends() > 0).await?;
        let wait = Wait::until("the append has landed, and its answer alone is lost");
        let generation = writer.lease().generation;
        while line == Line::AppendAnswersLost && ledger.fate(&jobs, id, generation).await? == Fate::Undecided {
            wait.a_moment().await?;
        }
        take_over(&*ledger, &writer).await?;
        pass_between_calls("an append is settled", &clock, &ledger, || settling.is_finished()).await?;
        let settled = settling.await.map_err(|error| Violation::new("no panic", error.to_string()))?;
        match (line, written(settled)?) {
            (Line::AppendsLost, Settled::Never { .. }) => {}
            (Line::AppendAnswersLost, Settled::Landed { entry, .. }) => equal("its entry", &entry.id, &Some(id))?,
            (line, other) => {
                let expected = format!("an append is settled by its fate ({line:?})");
                return Err(Violation::new(expected, format!("{other:?}")).into());
            }
        }
    }
    Ok(())
}

pub(super) async fn kep06_waits_for_the_expiry(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), ManualLocalClock::default());
    let lease = claim(&*ledger, &jobs, "before", cx.short_ttl()).await?.lease;
    let waiter = keeper(ledger.clone(), &jobs, "a", &clock);
    let waiting = tokio::spawn(async move { waiter.claim(Waiting::Forever).await });
    cx.expire(&lease).await?;
    let step = Duration::from_millis(50);
    pass_until("the keeper is granted what has expired", &clock, step, || waiting.is_finished()).await?;
    let granted = waiting.await.map_err(|error| Violation::new("no panic in a claim", error.to_string()))?;
    let (writer, _driver) = claimed(granted)?;
    equal("the generation", &writer.generation().get(), &2)?;
    let left = writer.trust().left;
    ensure(left <= terms().ttl.as_duration() - terms().margin, "no more trust than was granted", left)?;
    Ok(())
}

pub(super) async fn kep07_release_of_a_lost_writer_leaves_the_successor_alone(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), ManualLocalClock::default());
    let writer = hold(&keeper(ledger.clone(), &jobs, "a", &clock)).await?;
    let successor = take_over(&*ledger, &writer).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let released = writer.release().await?;
    ensure(matches!(released, Released::AlreadyEnded { .. }), "a tenure that had ended before", &released)?;
    before.expect_unchanged("a late release by the keeper", &*ledger, &jobs, false).await?;
    ledger.append(&successor, &append("the successor goes on")).await?;
    Ok(())
}

pub(super) async fn kep08_pool_loses_one_and_keeps_the_others(cx: Context) -> Verdict {
    let (ledger, clock) = (cx.ledger(), ManualLocalClock::default());
    let (pool, driver) = Pool::new(ledger.clone(), holder("a"), terms())?;
    let pool = pool.with_clock(clock.clone());
    tokio::spawn(driver);
    let names: Vec<PartitionId> = (0..10).map(|nth| partition(&format!("jobs/{nth}"))).collect();
    for name in &names {
        let writer = pool.claim(name, Waiting::No).await;
        let writer = writer.map_err(|error| Violation::new("a claim is granted", error.to_string()))?;
        equal("the generation of a first claim", &writer.generation().get(), &1)?;
    }
    let lost = pool.writer(&names[0]).ok_or_else(|| Violation::new("it is held", "it is not"))?;
    take_over(&*ledger, &lost).await?;
    clock.advance(Duration::from_secs(200));
    let all = || pool.counts().renewals >= 9 && pool.counts().losses() >= 1;
    until("nine are renewed and one is lost", all).await?;
    equal("what is held", &pool.held(), &names[1..].to_vec())?;
    for name in &names[1..] {
        let writer = pool.writer(name).ok_or_else(|| Violation::new("it is held", "it is not"))?;
        written(writer.append(&append("x")).await)?;
    }
    for (name, released) in pool.release_all().await {
        ensure(released.is_ok(), &format!("{name} is released"), &released)?;
    }
    let held = ledger.observe(&names[0]).await?.tenure.is_some_and(|tenure| tenure.vacancy.is_none());
    ensure(held, "the successor holds the one that was lost", held)?;
    Ok(())
}
