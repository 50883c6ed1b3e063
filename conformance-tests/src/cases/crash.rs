//! Crashes and failed writes: what was acknowledged is there, and nothing is there by half.

use std::sync::atomic::{AtomicBool, Ordering};

use super::prelude::*;
use tokio::sync::Semaphore;

pub(super) async fn crs01_acknowledged_appends_survive_a_crash(mut cx: Context) -> Verdict {
    const WRITERS: usize = 4;
    let mut leases = Vec::new();
    for writer in 0..WRITERS {
        leases.push(claim(&*cx.ledger(), &partition(&format!("p{writer}")), "a", long_ttl()).await?.lease);
    }
    let mut acknowledged: Vec<Vec<Arc<Entry>>> = vec![Vec::new(); WRITERS];
    for _ in 0..cx.scale(2, 5) {
        let load = Load::new();
        let mut tasks = Vec::new();
        for lease in leases.clone() {
            let (ledger, load) = (cx.open().await?, load.clone());
            tasks.push(Running::start(async move {
                let mut seen = Vec::new();
                while load.goes_on() {
                    let_others_run().await;
                    if let Ok(appended) = ledger.append(&lease, &batch(3)).await
                        && load.counts()
                    {
                        seen.push(appended.entry);
                    }
                }
                seen
            }));
        }
        load.wait_for(40).await?;
        load.stop();
        let ledger = cx.crash().await?;
        for (writer, task) in tasks.into_iter().enumerate() {
            acknowledged[writer].extend(task.end("a call ends after a crash").await?);
        }
        for (lease, seen) in leases.iter().zip(&acknowledged) {
            let log = whole_log(&*ledger, &lease.partition).await?;
            for entry in seen {
                let found = log.iter().filter(|event| event.entry == *entry).count();
                ensure(found == 3, "an append that was acknowledged before the crash", (found, entry))?;
            }
            ledger.append(lease, &append("the lease goes on")).await?;
        }
    }
    Ok(())
}

pub(super) async fn crs02_takeover_is_whole_or_absent_after_a_crash(mut cx: Context) -> Verdict {
    const PARTITIONS: usize = 4;
    for _ in 0..cx.scale(2, 5) {
        let load = Load::new();
        let mut tasks = Vec::new();
        for nth in 0..PARTITIONS {
            let (ledger, load, jobs) = (cx.open().await?, load.clone(), partition(&format!("p{nth}")));
            tasks.push(Running::start(async move {
                let mut newest: Option<Claimed> = None;
                while load.goes_on() {
                    let_others_run().await;
                    let Ok(claimed) = claim(&*ledger, &jobs, "a", long_ttl()).await else { continue };
                    // A release that fails leaves the tenure to the operator of the next round.
                    drop(ledger.release(&claimed.lease).await);
                    if load.counts() {
                        newest = Some(claimed);
                    }
                }
                newest
            }));
        }
        load.wait_for(40).await?;
        load.stop();
        let ledger = cx.crash().await?;
        for (nth, task) in tasks.into_iter().enumerate() {
            let jobs = partition(&format!("p{nth}"));
            let newest = task.end("a call ends after a crash").await?;
            let log = whole_log(&*ledger, &jobs).await?;
            let claims: Vec<_> = log.iter().filter(|event| event.kind.as_str() == OwnEvent::CLAIMED).collect();
            for (event, generation) in claims.iter().zip(1..) {
                equal("the generation of each claim in the log", &event.entry.generation.get(), &generation)?;
            }
            let state = ledger.observe(&jobs).await?;
            let lease = state.tenure.as_ref().map(|tenure| (tenure.lease.generation, tenure.lease.acquisition));
            let last = claims.last().map(|event| (event.entry.generation, event.entry.acquisition));
            equal("the lease: that of the newest claim in the log", &lease, &last)?;
            if let Some(newest) = newest {
                let known = claims.iter().any(|event| event.entry.acquisition == newest.lease.acquisition);
                ensure(known, "a claim that was acknowledged before the crash is in the log", &newest.lease)?;
            }
            let reason = Note::new("its holder has crashed")?;
            ledger.end_tenure(&jobs, state.observation(), &reason).await?;
            let next = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
            equal("the next generation", &next.generation.get(), &(i64::try_from(claims.len()).unwrap_or(0) + 1))?;
            ledger.release(&next).await?;
        }
    }
    Ok(())
}

pub(super) async fn crs03_failed_write_is_whole_or_absent(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let mut lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for call in ["an append", "a release", "a claim"] {
        let mut nth = 0;
        loop {
            nth += 1;
            let what = format!("{call} whose write {nth} fails");
            ensure(nth <= 50, &format!("{call} makes fewer writes than 50"), nth)?;
            let (sent, asked) = (batch(3), prepare_claim(&*ledger, &jobs, "a", long_ttl()).await?);
            let before = Snapshot::take(&*ledger, &jobs).await?;
            let fault = cx.fail_write(nth).await?;
            let answer = in_time(&what, async {
                match call {
                    "an append" => ledger.append(&lease, &sent).await.map(drop),
                    "a release" => ledger.release(&lease).await.map(drop),
                    _ => ledger.claim(&asked).await.map(drop),
                }
            })
            .await;
            fault.release().await?;
            let answer = answer?;
            match &answer {
                Ok(()) => {}
                Err(error @ (LedgerError::Rejected(_) | LedgerError::Invalid(_))) => {
                    return Err(Violation::new(format!("{what} is no refusal"), crate::case::told(error)).into());
                }
                Err(error) if error.proves_not_written() => {
                    before.expect_unchanged(&what, &*ledger, &jobs, false).await?;
                }
                Err(_) => {}
            }
            // The same call again lands, once.
            match call {
                "an append" => drop(ledger.append(&lease, &sent).await?),
                "a release" => drop(ledger.release(&lease).await?),
                _ => lease = ledger.claim(&asked).await?.lease,
            }
            let log = whole_log(&*ledger, &jobs).await?;
            let found = log.iter().filter(|event| event.entry.id == Some(sent.id())).count();
            ensure(call != "an append" || found == 3, &format!("{what} is whole once it is tried again"), found)?;
            match (answer.is_ok(), call) {
                // So many writes it does not make.
                (true, _) => break,
                (false, "a release") => lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease,
                (false, "a claim") => drop(ledger.release(&lease).await?),
                _ => {}
            }
        }
    }
    Ok(())
}

pub(super) async fn crs04_refusal_whose_record_fails_says_so(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let forged = edited(&lease, |lease| lease.holder = holder("b"));
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let fault = cx.fail_write(1).await?;
    let answer = in_time("a refusal whose record fails", ledger.append(&forged, &append("x"))).await;
    fault.release().await?;
    match answer? {
        Err(LedgerError::NotWritten(_)) => {}
        Err(LedgerError::Rejected(rejection)) => {
            let told =
                rejection.reason == Reason::WrongHolder && matches!(rejection.record, RecordState::Missing { .. });
            ensure(told, "the refusal stands, and says that its record is missing", &rejection)?;
        }
        other => {
            let expected = "a refusal that says that its record is missing, or an error that says not written";
            return Err(Violation::new(expected, format!("{other:?}")).into());
        }
    }
    before.expect_unchanged("a refusal whose record fails", &*ledger, &jobs, false).await?;
    let next = append("x");
    let again = ledger.append(&forged, &next);
    refused_without_effect("the next one", &*ledger, &jobs, Reason::WrongHolder, again).await?;
    let found = records(&*ledger, Some(&jobs)).await?;
    ensure(found.len() == 1, "the next one leaves its record", &found)?;
    Ok(())
}

/// Callers that go on until a crash.
#[derive(Clone)]
struct Load {
    stopped: Arc<AtomicBool>,
    done: Arc<Semaphore>,
}

impl Load {
    fn new() -> Self {
        Self { stopped: Arc::default(), done: Arc::new(Semaphore::new(0)) }
    }

    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    /// Whether an answer that has just come was there before the crash began.
    fn counts(&self) -> bool {
        self.done.add_permits(1);
        self.goes_on()
    }

    /// Waits until so many calls were answered, so that the crash comes in the midst of them.
    async fn wait_for(&self, calls: u32) -> Result<(), Violation> {
        drop(in_time("calls are answered", self.done.acquire_many(calls)).await?);
        Ok(())
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}

/// A log that has no gap and whose chain holds.
async fn whole_log(ledger: &dyn FencedLedger, jobs: &PartitionId) -> Result<Vec<Event>, Stop> {
    let log = read_all(ledger, jobs).await?;
    for (event, position) in log.iter().zip(1..) {
        equal("the position of an event", &event.position.get(), &position)?;
    }
    let verified = ledger.verify(jobs, None).await?;
    let clean = matches!(verified, ledger_core::Verification::Clean { .. });
    ensure(clean, "the log verifies", &verified)?;
    Ok(log)
}
