//! A worker is killed at a step; its successor finishes.

use std::time::Duration;

use ledger_core::{
    Asked, Basis, Evidence, Fate, FencedLedger, FencedLedgerExt, Generation, Handover, Holder, Lease, Outcome,
    RequestBook, Ttl, Verification,
};

use crate::Result;
use crate::bank::{self, Bank};
use crate::place::Place;
use crate::worker::{Step, key, partition, result, what};

/// What the successor sees.
struct Seen {
    /// The kinds of the events in the log before the successor's claim.
    log: &'static [&'static str],
    /// Why the tenure before counts as ended.
    basis: &'static str,
    /// How many requests are open.
    open: usize,
    /// What `fate` says of the result's append under the generation of who died.
    result: &'static str,
    /// How often the bank had been asked to pay.
    paid: usize,
}

const AFTER_CLAIM: Seen = Seen { log: &["$claimed"], basis: "expired", open: 0, result: "never", paid: 0 };
const AFTER_RESULT: Seen = Seen { log: &["$claimed", "result"], result: "recorded", ..AFTER_CLAIM };
const AFTER_INTENT: Seen = Seen { log: &["$claimed", "result", "request/made"], open: 1, ..AFTER_RESULT };
const AFTER_SENDING: Seen = Seen { paid: 1, ..AFTER_INTENT };
const AFTER_SETTLING: Seen =
    Seen { log: &["$claimed", "result", "request/made", "request/settled"], open: 0, ..AFTER_SENDING };

pub(crate) async fn before_claim(place: Place) -> Result<()> {
    life(place, Step::BeforeClaim, Seen { log: &[], basis: "first", ..AFTER_CLAIM }).await
}

pub(crate) async fn claim_answered(place: Place) -> Result<()> {
    life(place, Step::ClaimAnswered, AFTER_CLAIM).await
}

pub(crate) async fn claimed(place: Place) -> Result<()> {
    life(place, Step::Claimed, AFTER_CLAIM).await
}

pub(crate) async fn append_unsent(place: Place) -> Result<()> {
    life(place, Step::AppendUnsent, AFTER_CLAIM).await
}

pub(crate) async fn append_answered(place: Place) -> Result<()> {
    life(place, Step::AppendAnswered, AFTER_RESULT).await
}

pub(crate) async fn intent_recorded(place: Place) -> Result<()> {
    life(place, Step::IntentRecorded, AFTER_INTENT).await
}

pub(crate) async fn request_sent(place: Place) -> Result<()> {
    life(place, Step::RequestSent, AFTER_SENDING).await
}

pub(crate) async fn answer_read(place: Place) -> Result<()> {
    life(place, Step::AnswerRead, AFTER_SENDING).await
}

pub(crate) async fn settle_answered(place: Place) -> Result<()> {
    life(place, Step::SettleAnswered, AFTER_SETTLING).await
}

pub(crate) async fn draining(place: Place) -> Result<()> {
    life(place, Step::Draining, AFTER_SETTLING).await
}

pub(crate) async fn release_answered(place: Place) -> Result<()> {
    let log = &["$claimed", "result", "request/made", "request/settled", "last", "$released"];
    life(place, Step::ReleaseAnswered, Seen { log, basis: "released", ..AFTER_SETTLING }).await
}

/// Kills a worker at a step, looks at what is there, and finishes its work.
async fn life(place: Place, step: Step, expected: Seen) -> Result<()> {
    let (bank, ledger) = (Bank::open()?, place.store.open().await?);
    let mut worker = place.start(step, &bank.address.to_string())?;
    if step == Step::RequestSent {
        bank.payment()?;
    } else {
        // Answered as soon as it is asked.
        bank.answer();
        worker.line_with(&format!("AT {step}"))?;
    }
    worker.kill()?;

    let (jobs, b) = (partition()?, Holder::new("b")?);
    let claimed = ledger.claim_when_free(&jobs, &b, Ttl::from_millis(60_000)?, Duration::from_secs(30)).await?;
    let lease = claimed.lease;
    let handover = ledger.handover(&jobs, lease.generation).await?.ok_or("the claim has a handover")?;
    compare(&*ledger, &handover, &bank, &expected).await?;
    finish(&*ledger, &lease, &handover, &bank).await?;

    let kinds = kinds(&*ledger).await?;
    for once in ["result", "request/made", "request/settled"] {
        assert_eq!(kinds.iter().filter(|kind| *kind == once).count(), 1, "{once}, in {kinds:?}");
    }
    assert_eq!(bank.counted().0, 1, "how often the bank was asked to pay");
    assert!(ledger.open_requests(&jobs).await?.is_empty());
    let verified = ledger.verify(&jobs, None).await?;
    assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
    drop(ledger);
    place.store.remove().await
}

async fn compare(ledger: &dyn FencedLedger, handover: &Handover, bank: &Bank, expected: &Seen) -> Result<()> {
    let before = usize::try_from(handover.claimed.first.get() - 1)?;
    // A `last` that raced the release was in flight before it, or was never sent.
    let seen: Vec<_> = kinds(ledger).await?.into_iter().take(before).collect();
    let wanted: Vec<_> =
        expected.log.iter().filter(|kind| **kind != "last" || seen.iter().any(|k| k == "last")).collect();
    assert!(seen.iter().eq(wanted), "the log before the claim: {seen:?}, expected {:?}", expected.log);
    let basis = match &handover.succession.basis {
        Basis::First => "first",
        Basis::Released => "released",
        Basis::Expired { .. } => "expired",
        Basis::Ended { .. } => "ended",
        Basis::Advanced { .. } => "advanced",
    };
    assert_eq!((basis, handover.open.len()), (expected.basis, expected.open), "the basis, and the open requests");
    let fate = match ledger.fate(&partition()?, result()?.id(), Generation::FIRST).await? {
        Fate::Recorded(_) => "recorded",
        Fate::Never => "never",
        Fate::Undecided => "undecided",
    };
    // Where nobody was before, the successor itself has the first generation.
    let undecided = if expected.basis == "first" { "undecided" } else { expected.result };
    assert_eq!((fate, bank.counted().0), (undecided, expected.paid), "the fate of its append, and what was paid");
    Ok(())
}

/// What a successor does, whatever it finds.
async fn finish(ledger: &dyn FencedLedger, lease: &Lease, handover: &Handover, bank: &Bank) -> Result<()> {
    // The same append: it lands now, or it is answered as it was.
    ledger.append(lease, &result()?).await?;
    let pay = |request: &ledger_core::Request| {
        bank.answer();
        bank::pay(bank.address, &request.key, &request.what)
    };
    for open in &handover.open {
        let transaction = match bank::find(bank.address, &open.key)? {
            Some(transaction) => transaction,
            None => match ledger.send_again(lease, &open.key).await? {
                Asked::Send(sending) => pay(&sending.request)?,
                Asked::Known(known) => return Err(format!("another sends: {known:?}").into()),
            },
        };
        let evidence = Evidence::new("bank", transaction)?;
        ledger.settle(lease, &open.key, Outcome::Succeeded, &evidence).await?;
    }
    // As if it did not know: the key tells.
    if let Asked::Send(sending) = ledger.request(lease, &key()?, &what()?).await? {
        let evidence = Evidence::new("bank", pay(&sending.request)?)?;
        ledger.settle(lease, &key()?, Outcome::Succeeded, &evidence).await?;
    }
    Ok(())
}

async fn kinds(ledger: &dyn FencedLedger) -> Result<Vec<String>> {
    let jobs = partition()?;
    let note = |mut kinds: Vec<String>, event: ledger_core::Event| {
        kinds.push(event.kind.to_string());
        kinds
    };
    Ok(ledger.fold(&jobs, Vec::new(), note).await?)
}
