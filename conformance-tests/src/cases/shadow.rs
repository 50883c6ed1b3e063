//! Shadows on this store: what they leave in its log and its records, and how they give way. Their own time stands still
//! unless a case moves it, so that a slow machine makes nothing too old.

use ledger_core::keeper::{Keeper, ManualLocalClock, Terms, Wait as Waiting};
use ledger_core::shadow::{Limits, Shadow, ShadowReport, enforce, make_way};

use super::prelude::*;
use crate::faulty::{Faulty, Line};

/// A shadow whose driver runs.
struct Trial {
    shadow: Shadow,
    clock: ManualLocalClock,
}

impl Trial {
    fn begin(cx: &Context, jobs: &PartitionId, writer: &str) -> Result<Self, Stop> {
        Self::over(cx.shadowed(cx.ledger()), jobs, writer)
    }

    fn over(ledger: Arc<dyn FencedLedger>, jobs: &PartitionId, writer: &str) -> Result<Self, Stop> {
        let (limits, clock) =
            (Limits::new(Terms::new(long_ttl())).with_oldest(Duration::from_secs(3_600)), ManualLocalClock::default());
        let (shadow, driver) = Shadow::with_clock(ledger, jobs.clone(), &holder(writer), limits, clock.clone())?;
        tokio::spawn(driver);
        Ok(Self { shadow, clock })
    }

    /// Hands an append over and waits until it is judged.
    async fn offer(&self, append: &Append) -> Verdict {
        self.shadow.offer(append);
        self.judged(|| false).await
    }

    /// Waits until nothing waits. Where a call has failed and the store is quiet, the shadow's time goes on, so that it
    /// tries again.
    async fn judged(&self, is_quiet: impl Fn() -> bool) -> Verdict {
        let wait = Wait::until("what was handed to a shadow is judged");
        while self.shadow.counts().waiting > 0 {
            if is_quiet() {
                self.clock.advance(Duration::from_secs(30));
            }
            wait.a_moment().await?;
        }
        Ok(())
    }

    fn refused(&self, reason: Reason) -> u64 {
        self.shadow.counts().refused.get(&reason).copied().unwrap_or_default()
    }
}

fn shadow_of(writer: &str) -> Holder {
    holder(&format!("shadow/{writer}"))
}

fn reason() -> Result<Note, Stop> {
    Ok(Note::new("the trial is over")?)
}

fn keeper(cx: &Context, jobs: &PartitionId, name: &str) -> Result<Keeper, Stop> {
    let keeper = Keeper::new(cx.ledger(), jobs.clone(), holder(name), Terms::new(long_ttl()))?;
    Ok(keeper.with_clock(ManualLocalClock::default()))
}

/// What is kept of appends that were refused: holder, generation, reason and how often.
async fn refused_appends(
    ledger: &dyn FencedLedger,
    jobs: &PartitionId,
) -> Result<Vec<(Holder, Option<i64>, Reason, u64)>, Stop> {
    let records = records(ledger, Some(jobs)).await?;
    let of_appends = records.into_iter().filter_map(|record| {
        let refused = record.refused.filter(|refused| refused.operation == Operation::Append)?;
        Some((refused.holder, refused.generation.map(Generation::get), refused.reason, record.count))
    });
    Ok(of_appends.collect())
}

pub(super) async fn shd01_bears_its_mark_in_the_log(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let trial = Trial::begin(&cx, &jobs, "a")?;
    trial.offer(&append("x").expecting(at(40))).await?;
    trial.offer(&append("y")).await?;
    equal("what was granted", &trial.shadow.counts().granted, &2)?;
    equal("its name", trial.shadow.holder(), &shadow_of("a"))?;
    let events = read_all(&*ledger, &jobs).await?;
    let holders: Vec<_> = events.iter().map(|event| event.entry.holder.clone()).collect();
    equal("the holder of claim and appends", &holders, &vec![shadow_of("a"); 3])?;
    trial.shadow.release();
    let wait = Wait::until("the shadow has released");
    while !ledger.observe(&jobs).await?.is_free() {
        wait.a_moment().await?;
    }
    let refused = Keeper::new(cx.ledger(), jobs, shadow_of("a"), Terms::default());
    ensure(refused.is_err(), "a keeper takes no name of a shadow", &refused)?;
    Ok(())
}

pub(super) async fn shd02_stale_write_is_recorded_by_the_store(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (a, b) = (Trial::begin(&cx, &jobs, "a")?, Trial::begin(&cx, &jobs, "b")?);
    a.offer(&append("of a")).await?;
    make_way(&*ledger, &jobs, &reason()?).await?;
    b.offer(&append("of b")).await?;
    let before = read_all(&*ledger, &jobs).await?.len();
    for _ in 0..3 {
        a.offer(&append("late")).await?;
    }
    equal("what would have been refused", &a.refused(Reason::StaleGeneration), &3)?;
    let expected = vec![(shadow_of("a"), Some(1), Reason::StaleGeneration, 3)];
    equal("the store's records", &refused_appends(&*ledger, &jobs).await?, &expected)?;
    equal("the events, unchanged by stale writes", &read_all(&*ledger, &jobs).await?.len(), &before)?;
    equal("what the other was granted", &b.shadow.counts().granted, &1)?;
    Ok(())
}

pub(super) async fn shd03_write_beside_a_holder_is_recorded_by_the_store(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (a, b) = (Trial::begin(&cx, &jobs, "a")?, Trial::begin(&cx, &jobs, "b")?);
    a.offer(&append("of a")).await?;
    for _ in 0..2 {
        b.offer(&append("of b, who never held it")).await?;
    }
    let expected = vec![(shadow_of("b"), Some(1), Reason::WrongAcquisition, 2)];
    equal("the store's records", &refused_appends(&*ledger, &jobs).await?, &expected)?;
    equal("what would have been refused", &b.refused(Reason::WrongAcquisition), &2)?;
    a.offer(&append("of a")).await?;
    equal("the holder's appends, in one tenure", &(a.shadow.counts().granted, a.shadow.counts().claims), &(2, 1))?;
    Ok(())
}

pub(super) async fn shd04_claims_anew_where_it_is_free(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let trial = Trial::begin(&cx, &jobs, "a")?;
    for round in 1..=3 {
        trial.offer(&append("granted")).await?;
        equal("the claims", &trial.shadow.counts().claims, &round)?;
        make_way(&*ledger, &jobs, &reason()?).await?;
        trial.offer(&append("refused")).await?;
        equal("what would have been refused", &trial.refused(Reason::Released), &round)?;
    }
    let claims =
        read_all(&*ledger, &jobs).await?.iter().filter(|event| event.kind.as_str() == OwnEvent::CLAIMED).count();
    equal("the tenures in the log", &claims, &3)?;
    Ok(())
}

pub(super) async fn shd05_gives_way_to_who_enforces_and_stays_away(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let (a, b) = (Trial::begin(&cx, &jobs, "a")?, Trial::begin(&cx, &jobs, "b")?);
    a.offer(&append("of a")).await?;
    b.offer(&append("beside it")).await?;
    let enforced = enforce(&keeper(&cx, &jobs, "c")?, &reason()?, Waiting::No).await;
    let (writer, driver) = enforced.map_err(|error| Violation::new("a claim that enforces", error.to_string()))?;
    tokio::spawn(driver);
    let handover = cx.book().handover(&jobs, writer.generation()).await?;
    let succession = handover.ok_or_else(|| Violation::new("a handover", "none"))?.succession;
    equal("the basis", &succession.basis, &Basis::Ended { reason: reason()? })?;
    let previous = succession.previous.map(|previous| (previous.holder, previous.generation.get()));
    equal("the tenure before", &previous, &Some((shadow_of("a"), 1)))?;
    for trial in [&a, &b, &a] {
        trial.offer(&append("beside one that enforces")).await?;
    }
    equal("what the holder before would have been refused", &a.refused(Reason::StaleGeneration), &2)?;
    let appended = writer.append(&append("enforced")).await;
    appended.map_err(|error| Violation::new("shadows do not disturb who enforces", error.to_string()))?;
    ensure(make_way(&*ledger, &jobs, &reason()?).await?.is_none(), "one that enforces makes no way", "it did")?;
    writer.release().await?;
    for trial in [&a, &b] {
        trial.offer(&append("after one that enforced")).await?;
    }
    let last = read_all(&*ledger, &jobs).await?.pop().map(|event| (event.kind.to_string(), event.entry.holder.clone()));
    equal("the last of the log", &last, &Some((OwnEvent::RELEASED.to_owned(), holder("c"))))?;
    let another = enforce(&keeper(&cx, &jobs, "d")?, &reason()?, Waiting::No).await;
    ensure(another.is_ok(), "it is free for who enforces", another.as_ref().err())?;
    Ok(())
}

pub(super) async fn shd06_each_append_is_counted_once_on_a_bad_line(cx: Context) -> Verdict {
    let jobs = partition("jobs");
    let ledger = Faulty::new(cx.shadowed(cx.ledger()));
    let trial = Trial::over(ledger.clone(), &jobs, "a")?;
    trial.offer(&append("first")).await?;
    ledger.set(Line::EverySecondAnswerLost);
    for nth in 0..cx.scale(10, 50) {
        trial.shadow.offer(&append(&nth.to_string()));
    }
    trial.judged(|| ledger.is_quiet()).await?;
    ledger.set(Line::AppendsLost);
    trial.shadow.offer(&append("lost"));
    trial.judged(|| ledger.is_quiet()).await?;
    let counts = trial.shadow.counts();
    let all = u64::try_from(cx.scale(10, 50)).unwrap_or_default() + 2;
    equal("handed over, granted and unknown", &(counts.offered, counts.granted, counts.unknown), &(all, all - 1, 1))?;
    let stored = read_all(&*cx.ledger(), &jobs).await?.iter().filter(|event| !event.kind.is_own()).count();
    equal("what is in the log, each once", &u64::try_from(stored).ok(), &Some(counts.granted))?;
    Ok(())
}

pub(super) async fn shd07_report_sums_up_what_the_store_has(cx: Context) -> Verdict {
    let (ledger, jobs, other) = (cx.ledger(), partition("jobs"), partition("other"));
    let (a, b) = (Trial::begin(&cx, &jobs, "a")?, Trial::begin(&cx, &jobs, "b")?);
    let elsewhere = Trial::begin(&cx, &other, "a")?;
    for trial in [&a, &b, &b, &a, &elsewhere] {
        trial.offer(&append("x")).await?;
    }
    let enforced = enforce(&keeper(&cx, &jobs, "c")?, &reason()?, Waiting::No).await;
    let (writer, _driver) = enforced.map_err(|error| Violation::new("a claim that enforces", error.to_string()))?;
    a.offer(&append("late")).await?;
    // A refusal of one that enforces is none of the trial's.
    let stale = edited(&writer.lease(), |lease| lease.generation = Generation::FIRST);
    expect_rejected("a stale append", ledger.append(&stale, &append("x")).await, Reason::StaleGeneration)?;
    let partitions = [jobs.clone(), other, partition("never claimed")];
    let report = ShadowReport::read(&*ledger, &partitions)
        .await?
        .with_counts(&a.shadow.counts())
        .with_counts(&b.shadow.counts());
    let writers: Vec<_> = report
        .writers
        .iter()
        .map(|of| (of.writer.as_str(), of.enforces, of.partitions, of.tenures, of.appends))
        .collect();
    equal("the writers", &writers, &vec![("a", false, 2, 2, 3), ("c", true, 1, 1, 0)])?;
    let refusals: Vec<_> = report
        .refusals
        .iter()
        .map(|of| (of.writer.as_str(), of.operation, of.reason, of.holder.clone(), of.count))
        .collect();
    let expected = vec![
        ("b", Operation::Append, Reason::WrongAcquisition, Some(shadow_of("a")), 2),
        ("a", Operation::Append, Reason::StaleGeneration, Some(holder("c")), 1),
    ];
    equal("what would have been refused", &refusals, &expected)?;
    equal("the sum of it", &report.would_be_refusals(), &report.counts.would_be_refusals())?;
    let text = report.to_string();
    ensure(text.contains("2 x Append of `b` on `jobs`") && text.contains("time lost"), "a text for people", text)?;
    Ok(())
}
