//! What a flood of stale appends leaves behind: a bounded number of records, and no event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use ledger_core::{FencedLedger, Holder, LedgerError, PageSize, PartitionId};
use test_postgres::{Client, Server};

use super::facts::Facts;
use super::open;
use crate::{Result, fenced};

/// How many stale writers write at once, each in a loop.
const ZOMBIES: u64 = 64;
const CONNECTIONS: usize = 16;
/// One refusal of so many comes under a name that no earlier one had: more than the evidence has room for.
const NEW_NAME: u64 = 500;

pub(crate) async fn run(server: &Server, refusals: u64) -> Result<Facts> {
    let ledger = open(server, "refusals", CONNECTIONS).await?;
    let partition = PartitionId::new("contested")?;
    let stale = fenced::claim(&ledger, &partition, "zombie").await?;
    ledger.release(&stale).await?;
    fenced::claim(&ledger, &partition, "owner").await?;
    let mut client = server.client()?;
    let before = Seen::look(&mut client)?;

    let (start, sent) = (Instant::now(), AtomicU64::new(0));
    let zombies = (0..ZOMBIES).map(async |zombie| {
        let append = fenced::one_event()?;
        let mut lease = stale.clone();
        loop {
            let nth = sent.fetch_add(1, Ordering::Relaxed);
            if nth >= refusals {
                return Ok::<(), Box<dyn std::error::Error + Send + Sync>>(());
            }
            let name = if nth.is_multiple_of(NEW_NAME) { format!("name-{nth}") } else { format!("zombie-{zombie}") };
            lease.holder = Holder::new(name)?;
            match ledger.append(&lease, &append).await {
                Err(LedgerError::Rejected(_)) => {}
                other => return Err(format!("a stale append was answered {other:?}").into()),
            }
        }
    });
    try_join_all(zombies).await?;
    let seconds = start.elapsed().as_secs_f64();

    let after = Seen::look(&mut client)?;
    let page = ledger.rejections(Some(&partition), None, PageSize::MAX).await?;
    let counted: u64 = page.records.iter().map(|record| record.count).sum();
    if counted != refusals || after.events != before.events {
        return Err(format!("{counted} of {refusals} refusals were counted, {} events", after.events).into());
    }
    let mut facts = Facts::new("stale appends refused", ["before", "after"]);
    facts.row("refusals that the records count", [0, counted]);
    facts.row("records", [before.records, after.records]);
    facts.row("records and budgets, bytes with indexes", [before.evidence, after.evidence]);
    facts.row("partition, bytes with indexes", [before.partition, after.partition]);
    facts.row("log, bytes with indexes", [before.log, after.log]);
    facts.row("events", [before.events, after.events]);
    facts.row("seconds", ["0".to_owned(), format!("{seconds:.0}")]);
    facts.row("refusals a second", ["-".to_owned(), format!("{:.0}", refusals as f64 / seconds)]);
    Ok(facts)
}

struct Seen {
    records: i64,
    events: i64,
    evidence: i64,
    partition: i64,
    log: i64,
}

impl Seen {
    fn look(client: &mut Client) -> Result<Self> {
        let mut number = |what: &str| -> Result<i64> { Ok(client.value(&format!("select {what}"))?.parse()?) };
        let size = |table: &str| format!("pg_total_relation_size('refusals.{table}')");
        Ok(Self {
            records: number("count(*) from refusals.rejection")?,
            events: number("count(*) from refusals.log")?,
            evidence: number(&size("rejection"))? + number(&size("evidence_budget"))?,
            partition: number(&size("partition"))?,
            log: number(&size("log"))?,
        })
    }
}
