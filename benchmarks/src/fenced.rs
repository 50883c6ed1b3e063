//! The fenced contestants: so many callers at once, each append on its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{Append, Claim, FencedLedger, Holder, Lease, NewEvent, PartitionId, Ttl};

use crate::Result;

/// A payload of about 120 bytes, as a job's result is.
pub(crate) const PAYLOAD: &str = r#"{"job":"nightly-import","source":"eu-west-1","rows":12840,"failed":3,"seconds":41.7,"state":"done","checksum":"9f2c51aa"}"#;

/// Over how many partitions the callers are spread.
pub(crate) const PARTITIONS: usize = 64;

/// Claims all partitions of the benchmark for a day.
pub(crate) async fn claim_all(ledger: &dyn FencedLedger) -> Result<Vec<Lease>> {
    let mut leases = Vec::new();
    for number in 0..PARTITIONS {
        leases.push(claim(ledger, &PartitionId::new(format!("bench/{number}"))?, "owner").await?);
    }
    Ok(leases)
}

/// Claims one partition for a day.
pub(crate) async fn claim(ledger: &dyn FencedLedger, partition: &PartitionId, holder: &str) -> Result<Lease> {
    let state = ledger.observe(partition).await?;
    let claim = Claim::new(partition.clone(), Holder::new(holder)?, Ttl::MAX, state.observation());
    Ok(ledger.claim(&claim).await?.lease)
}

/// An event, made and checked anew.
pub(crate) fn event() -> Result<NewEvent> {
    Ok(NewEvent::new(ledger_core::EventKind::new("result")?, ledger_core::Json::new(PAYLOAD)?))
}

/// An append of one event.
pub(crate) fn one_event() -> Result<Append> {
    Ok(Append::new([event()?])?)
}

/// An append of so many events.
pub(crate) fn events(count: usize) -> Result<Append> {
    let event = NewEvent::new(ledger_core::EventKind::new("result")?, ledger_core::Json::new(PAYLOAD)?);
    Ok(Append::new(vec![event; count])?)
}

/// Appends for a while with so many callers at once, and returns how many a second.
pub(crate) async fn appends(
    ledger: &Arc<dyn FencedLedger>,
    leases: &[Lease],
    callers: usize,
    time: Duration,
) -> Result<f64> {
    let start = Instant::now();
    let tasks = (0..callers).map(|caller| {
        let (ledger, lease) = (ledger.clone(), leases[caller % leases.len()].clone());
        tokio::spawn(async move {
            let mut written = 0_usize;
            while start.elapsed() < time {
                ledger.append(&lease, &one_event()?).await?;
                written += 1;
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(written)
        })
    });
    let mut written = 0;
    for counted in try_join_all(tasks).await? {
        written += counted?;
    }
    Ok(written as f64 / start.elapsed().as_secs_f64())
}
