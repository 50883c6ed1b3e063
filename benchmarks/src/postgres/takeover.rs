//! How long a takeover waits for a client that stalls with an append in its open transaction.

use std::time::{Duration, Instant};

use ledger_core::{Claim, FencedLedger, Holder, LedgerError, PartitionId, Ttl};
use sqlx::{Connection, Executor, PgConnection};
use test_postgres::Server;

use super::{facts::Facts, install};
use crate::{Result, fenced};

/// The lease of the client that stalls.
const TTL: Duration = Duration::from_secs(1);
/// Between two tries of the one that takes over.
const POLL: Duration = Duration::from_millis(20);

pub(crate) async fn run(server: &Server) -> Result<Facts> {
    let header = ["idle_in_transaction", "lock_wait", "taken over after", "claims told to try again"];
    let mut facts = Facts::new("append_in open and its client stalled", header);
    for (nth, (idle, wait)) in
        [(500, 2_000), (2_000, 2_000), (2_000, 200), (5_000, 2_000), (10_000, 2_000)].into_iter().enumerate()
    {
        let (idle, wait) = (Duration::from_millis(idle), Duration::from_millis(wait));
        let (took, busy) = stalled(server, nth, idle, wait).await?;
        let figures = [idle, wait, took].map(|time| format!("{:.2} s", time.as_secs_f64()));
        facts.row("lease of 1 s", figures.into_iter().chain([busy.to_string()]));
    }
    Ok(facts)
}

/// The time from the stalled append to the claim that is granted, and how many claims were not written before.
async fn stalled(server: &Server, nth: usize, idle: Duration, wait: Duration) -> Result<(Duration, usize)> {
    let options = install(server, &format!("takeover_{nth}"), 2).await?;
    // One try each, so that every time-out is seen here.
    let ledger = options.idle_in_transaction(idle).lock_wait(wait).tries(1).connect(&server.url()).await?;
    let (partition, new) = (PartitionId::new("contested")?, Holder::new("new")?);
    let observed = ledger.observe(&partition).await?.observation();
    let ttl = Ttl::try_from(TTL)?;
    let lease = ledger.claim(&Claim::new(partition.clone(), Holder::new("old")?, ttl, observed)).await?.lease;

    let mut client = PgConnection::connect(&server.url()).await?;
    client.execute("begin").await?;
    ledger.append_in(&mut client, &lease, &fenced::one_event()?).await?;
    let (start, mut busy) = (Instant::now(), 0);
    // From here on the client does nothing, as one that is paused.
    let observed = ledger.observe(&partition).await?.observation();
    let claim = Claim::new(partition, new, ttl, observed);
    loop {
        match ledger.claim(&claim).await {
            Ok(_) => return Ok((start.elapsed(), busy)),
            Err(LedgerError::NotWritten(_)) => busy += 1,
            Err(LedgerError::Rejected(_)) => {}
            Err(other) => return Err(other.into()),
        }
        tokio::time::sleep(POLL).await;
    }
}
