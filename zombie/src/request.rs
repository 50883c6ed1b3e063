//! The second act: what a worker asks of another system, recorded before it is sent.

use std::net::SocketAddr;

use ledger_core::{
    Asked, Evidence, FencedLedger, Json, Lease, Outcome, Request, RequestBook, RequestError, RequestKey, Sending,
};

use crate::report::Report;
use crate::{Result, bank};

/// The import's fee, which is to be paid once, whoever finishes the import.
pub(crate) fn key() -> Result<RequestKey> {
    Ok(RequestKey::new("import/fee")?)
}

fn what() -> Result<Json> {
    Ok(Json::of(&serde_json::json!({ "pay": 120, "for": "the import" }))?)
}

/// How the work goes on.
#[derive(PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    /// The ledger has refused: another holds the partition.
    Stop,
}

/// Takes up what the holders before had sent: looks each open request up by its key, and settles it.
pub(crate) async fn take_up(ledger: &dyn FencedLedger, lease: &Lease, bank: SocketAddr) -> Result<Next> {
    let Some(handover) = ledger.handover(&lease.partition, lease.generation).await? else { return Ok(Next::GoOn) };
    for open in handover.open {
        Report::Found { key: open.key.clone(), generation: open.generation() }.send()?;
        let next = match bank::find(bank, &open.key)? {
            Some(transaction) => settle(ledger, lease, &open.key, &transaction).await?,
            // It never arrived: sent again under its own key, which the bank would know if it came after all.
            None => match ledger.send_again(lease, &open.key).await? {
                Asked::Send(sending) => send(ledger, lease, bank, &sending).await?,
                Asked::Known(known) => made_before(&known)?,
            },
        };
        if next == Next::Stop {
            return Ok(next);
        }
    }
    Ok(Next::GoOn)
}

/// Pays the fee, unless that was asked for before, by whomever.
pub(crate) async fn pay(ledger: &dyn FencedLedger, lease: &Lease, bank: SocketAddr) -> Result<Next> {
    match ledger.request(lease, &key()?, &what()?).await {
        Ok(Asked::Send(sending)) => send(ledger, lease, bank, &sending).await,
        Ok(Asked::Known(known)) => made_before(&known),
        Err(error) => refused(error, |why| Report::Refused { why }),
    }
}

fn made_before(known: &Request) -> Result<Next> {
    Report::MadeBefore { key: known.key.clone(), generation: known.generation() }.send()?;
    Ok(Next::GoOn)
}

async fn send(ledger: &dyn FencedLedger, lease: &Lease, bank: SocketAddr, sending: &Sending) -> Result<Next> {
    Report::Sends { key: sending.request.key.clone() }.send()?;
    let transaction = bank::pay(bank, &sending.request.key, &sending.request.what)?;
    settle(ledger, lease, &sending.request.key, &transaction).await
}

async fn settle(ledger: &dyn FencedLedger, lease: &Lease, key: &RequestKey, transaction: &str) -> Result<Next> {
    match ledger.settle(lease, key, Outcome::Succeeded, &Evidence::new("bank", transaction)?).await {
        Ok(_) => Report::Settled { key: key.clone(), transaction: transaction.to_owned() }.send()?,
        Err(error) => {
            let key = key.clone();
            return refused(error, |why| Report::AnswerRefused { key, why });
        }
    }
    Ok(Next::GoOn)
}

fn refused(error: RequestError, report: impl FnOnce(String) -> Report) -> Result<Next> {
    match error.rejection() {
        Some(rejection) => report(rejection.to_string()).send()?,
        None => return Err(error.into()),
    }
    Ok(Next::Stop)
}
