//! The process that dies: one worker's life, step by step.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::keeper::{BootClock, Keeper, LocalClock, Moment, State, Terms, Wait, WriteError};
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Asked, Claim, Claimed, Description, Ended, Evidence, Fate,
    FencedLedger, Generation, Holder, Json, Lease, NewEvent, Note, Observation, Outcome, Page, PageSize, PartitionId,
    PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, RequestBook, RequestKey, Ttl,
};
use uuid::Uuid;

use crate::store::Store;
use crate::{Result, bank};

pub(crate) const TTL: Duration = Duration::from_millis(1_000);

/// Where the worker stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    BeforeClaim,
    ClaimAnswered,
    Claimed,
    AppendUnsent,
    AppendAnswered,
    IntentRecorded,
    /// It waits for the bank's answer; the bank says so.
    RequestSent,
    AnswerRead,
    SettleAnswered,
    Draining,
    ReleaseAnswered,
    /// It renews, and waits for its parent to let it append.
    Renewing,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The step that this process was told.
fn is_told(step: Step) -> bool {
    std::env::var("STEP").is_ok_and(|told| told == step.to_string())
}

/// Stands still where this is the step, until it is killed.
async fn stand_still_at(step: Step) {
    if is_told(step) {
        println!("AT {step}");
        std::future::pending::<()>().await;
    }
}

pub(crate) fn partition() -> Result<PartitionId> {
    Ok(PartitionId::new("jobs")?)
}

pub(crate) fn key() -> Result<RequestKey> {
    Ok(RequestKey::new("invoice-7")?)
}

pub(crate) fn what() -> Result<Json> {
    Ok(Json::of(&serde_json::json!({ "pay": 120 }))?)
}

/// The worker's result: whoever writes it takes the same id, so that it is written once.
pub(crate) fn result() -> Result<Append> {
    Ok(Append::with_id(AppendId::from_uuid(Uuid::from_u128(7))?, [NewEvent::of("result", &120)?])?)
}

fn last_one() -> Result<Append> {
    Ok(Append::new([NewEvent::of("last", &1)?])?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts"]
async fn worker() -> Result<()> {
    let ledger = Arc::new(Still { ledger: Store::told()?.open().await?, calls: Mutex::default() });
    let keeper = Keeper::new(ledger.clone(), partition()?, Holder::new("a")?, Terms::new(Ttl::try_from(TTL)?))?;
    stand_still_at(Step::BeforeClaim).await;
    let (writer, driver) = keeper.claim(Wait::No).await?;
    let driver = tokio::spawn(driver);
    stand_still_at(Step::Claimed).await;
    if is_told(Step::Renewing) {
        while keeper.counts().renewals < 2 {
            // A pause between two looks: what is waited for is the condition.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("AT {}", Step::Renewing);
        // Waits for the parent's line on a thread of its own, so that the driver goes on meanwhile.
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        let said = match writer.append(&result()?).await {
            Err(WriteError::Ended(end)) => format!("not sent, {end}"),
            other => format!("{other:?}"),
        };
        driver.await?;
        println!("result: {said}; asked without trust: {:?}", ledger.calls_since(writer.trust().until));
        return Ok(());
    }
    writer.append(&result()?).await?;

    let bank_at = std::env::var("OTHER")?.parse()?;
    let (lease, book) = (writer.lease(), writer.ledger());
    let Asked::Send(sending) = book.request(&lease, &key()?, &what()?).await? else {
        return Err("nobody asked before".into());
    };
    stand_still_at(Step::IntentRecorded).await;
    let request = sending.request.clone();
    let paid = tokio::task::spawn_blocking(move || bank::pay(bank_at, &request.key, &request.what));
    let transaction = paid.await??;
    stand_still_at(Step::AnswerRead).await;
    book.settle(&lease, &key()?, Outcome::Succeeded, &Evidence::new("bank", transaction)?).await?;

    let (in_flight, releaser) = (writer.clone(), writer.clone());
    let last = last_one()?;
    let last = tokio::spawn(async move { in_flight.append(&last).await });
    while is_told(Step::Draining) && ledger.calls_of("last") == 0 {
        tokio::task::yield_now().await;
    }
    let release = tokio::spawn(async move { releaser.release().await });
    while !matches!(writer.state(), State::Draining | State::Ended(_)) {
        tokio::task::yield_now().await;
    }
    stand_still_at(Step::Draining).await;
    // It was in flight before the release, or it was not sent.
    let _ = last.await?;
    release.await??;
    Err("it was to be killed before its end".into())
}

/// A ledger at whose calls the worker may stand still, and which notes them.
#[derive(Debug)]
struct Still {
    ledger: Arc<dyn FencedLedger>,
    calls: Mutex<Vec<(String, Moment)>>,
}

impl Still {
    fn note(&self, call: &str) -> &dyn FencedLedger {
        self.calls.lock().expect("no panic under this lock").push((call.to_owned(), BootClock.now()));
        &*self.ledger
    }

    fn calls_of(&self, call: &str) -> usize {
        self.calls.lock().expect("no panic under this lock").iter().filter(|(name, _)| name == call).count()
    }

    fn calls_since(&self, moment: Moment) -> Vec<String> {
        let calls = self.calls.lock().expect("no panic under this lock");
        calls.iter().filter(|(_, at)| *at >= moment).map(|(name, _)| name.clone()).collect()
    }
}

#[async_trait]
impl FencedLedger for Still {
    async fn describe(&self) -> ledger_core::Result<Description> {
        self.note("describe").describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> ledger_core::Result<PartitionState> {
        self.note("observe").observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> ledger_core::Result<Claimed> {
        let claimed = self.note("claim").claim(claim).await?;
        stand_still_at(Step::ClaimAnswered).await;
        Ok(claimed)
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> ledger_core::Result<Renewal> {
        self.note("renew").renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> ledger_core::Result<Released> {
        let released = self.note("release").release(lease).await?;
        stand_still_at(Step::ReleaseAnswered).await;
        Ok(released)
    }

    async fn end_tenure(
        &self,
        partition: &PartitionId,
        observed: Observation,
        reason: &Note,
    ) -> ledger_core::Result<Ended> {
        self.note("end_tenure").end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> ledger_core::Result<Advanced> {
        self.note("advance").advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> ledger_core::Result<Appended> {
        let kind = append.events()[0].kind.as_str();
        let ledger = self.note(kind);
        if kind == "result" {
            stand_still_at(Step::AppendUnsent).await;
        }
        if kind == "last" && is_told(Step::Draining) {
            std::future::pending::<()>().await;
        }
        let appended = ledger.append(lease, append).await?;
        match kind {
            "result" => stand_still_at(Step::AppendAnswered).await,
            "request/settled" => stand_still_at(Step::SettleAnswered).await,
            _ => {}
        }
        Ok(appended)
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> ledger_core::Result<Fate> {
        self.note("fate").fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> ledger_core::Result<Page> {
        self.note("read").read(partition, from, limit).await
    }

    async fn read_back(
        &self,
        partition: &PartitionId,
        from: Option<Position>,
        limit: PageSize,
    ) -> ledger_core::Result<Page> {
        self.note("read_back").read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> ledger_core::Result<PartitionPage> {
        self.note("partitions").partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> ledger_core::Result<RecordPage> {
        self.note("rejections").rejections(partition, after, limit).await
    }
}
