//! A worker: waits until the partition is free, goes on where the log ends, stops when the store refuses it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ledger_core::{
    Append, EventKind, FencedLedger, FencedLedgerExt, Holder, Json, Lease, LedgerError, NewEvent, PartitionId,
    Position, Ttl,
};

use crate::Result;
use crate::report::Report;
use crate::request::{self, Next};
use crate::store::{self, Store};

/// How long a lease lasts; a paused holder is replaced after at most this long.
const TTL_MILLIS: i64 = 1_000;
/// How long a worker waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an append is sent again whose outcome is unknown or that surely was not written.
const TRIES: u32 = 5;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The worker's name.
    #[arg(long)]
    holder: Holder,
    /// The file to import.
    #[arg(long)]
    input: PathBuf,
    /// How many lines make an append.
    #[arg(long)]
    batch: usize,
    /// How long the work on a batch takes, in milliseconds.
    #[arg(long)]
    pace: u64,
    /// Where the bank is.
    #[arg(long)]
    bank: SocketAddr,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let ledger = Store::told()?.open().await?;
    let partition = store::partition()?;
    let lines = store::lines(&arguments.input)?;
    let ttl = Ttl::from_millis(TTL_MILLIS)?;

    let claimed = ledger.claim_when_free(&partition, &arguments.holder, ttl, PATIENCE).await?;
    let mut lease = claimed.lease;
    let mut imported = imported(&*ledger, &partition).await?;
    Report::Claimed { generation: lease.generation, found: imported }.send()?;
    if request::take_up(&*ledger, &lease, arguments.bank).await? == Next::Stop {
        return Ok(());
    }

    let (mut head, mut fee_is_paid) = (head(&*ledger, &partition).await?, false);
    while imported < lines.len() {
        if !fee_is_paid && (imported + arguments.batch) * 4 > lines.len() * 3 {
            if request::pay(&*ledger, &lease, arguments.bank).await? == Next::Stop {
                return Ok(());
            }
            (head, fee_is_paid) = (self::head(&*ledger, &partition).await?, true);
        }
        let batch: Vec<Json> = lines.iter().skip(imported).take(arguments.batch).cloned().collect();
        // Stands for the work on the batch. A worker that is stopped here does not know it when it wakes.
        tokio::time::sleep(Duration::from_millis(arguments.pace)).await;
        match import(&*ledger, &lease, &batch, head).await {
            Ok(new_head) => head = new_head,
            Err(error) => return stop(error),
        }
        imported += batch.len();
        match ledger.renew(&lease, None).await {
            Ok(renewal) => lease = renewal.lease,
            Err(error) => return stop(error),
        }
        Report::Appended { lines: batch.len(), imported, head }.send()?;
    }
    ledger.release(&lease).await?;
    Report::Finished { imported }.send()
}

/// Where the log ends: this worker alone writes to it now, or it will be refused.
async fn head(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Position> {
    Ok(ledger.observe(partition).await?.tenure.ok_or("the partition was claimed")?.head)
}

/// How many lines the log has: whoever holds the partition goes on from there.
async fn imported(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<usize> {
    let count = |lines, event: ledger_core::Event| lines + usize::from(event.kind.as_str() == store::LINE);
    Ok(ledger.fold(partition, 0, count).await?)
}

/// Appends one batch where the log is expected to end, and returns where it ends then. The same append is sent again
/// where that is safe: it has one id, so it is written once.
async fn import(
    ledger: &dyn FencedLedger,
    lease: &Lease,
    batch: &[Json],
    head: Position,
) -> std::result::Result<Position, LedgerError> {
    let kind = EventKind::new(store::LINE)?;
    let events: Vec<NewEvent> = batch.iter().map(|line| NewEvent::new(kind.clone(), line.clone())).collect();
    let append = Append::new(events)?.expecting(head);
    let mut tries = 1;
    loop {
        match ledger.append(lease, &append).await {
            Ok(appended) => return Ok(appended.entry.last),
            Err(LedgerError::NotWritten(_) | LedgerError::Unknown(_)) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A refusal ends the work of a worker, and is no failure of it; anything else is.
fn stop(error: LedgerError) -> Result<()> {
    match error.rejection() {
        Some(rejection) => Report::Refused { why: rejection.to_string() }.send(),
        None => Err(error.into()),
    }
}
