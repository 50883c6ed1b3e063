//! What a flood of stale appends leaves behind: a bounded number of records, and no event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use ledger_core::{FencedLedger, Holder, Lease, LedgerError, PageSize, PartitionId};
use ledger_postgres::PostgresLedger;
use test_postgres::{Client, Server};

use super::facts::Facts;
use super::open;
use crate::{Result, fenced};

/// How many stale writers write at once, each in a loop.
const ZOMBIES: u64 = 64;
const CONNECTIONS: usize = 16;
/// One refusal of so many comes under a name that no earlier one had: more than the evidence has room for.
const NEW_NAME: u64 = 500;

/// When it is looked at, in percent of all refusals: what is bounded does not go on growing.
const LOOKS: [u64; 4] = [1, 10, 50, 100];

pub(crate) async fn run(server: &Server, refusals: u64) -> Result<Facts> {
    let ledger = open(server, "refusals", CONNECTIONS).await?;
    let partition = PartitionId::new("contested")?;
    let stale = fenced::claim(&ledger, &partition, "zombie").await?;
    ledger.release(&stale).await?;
    fenced::claim(&ledger, &partition, "owner").await?;
    let mut client = server.client()?;
    let start = Instant::now();
    let mut seen = vec![Seen::look(&mut client, start)?];
    let sent = AtomicU64::new(0);
    for percent in LOOKS {
        refuse(&ledger, &stale, &sent, refusals * percent / 100).await?;
        seen.push(Seen::look(&mut client, start)?);
    }

    let page = ledger.rejections(Some(&partition), None, PageSize::MAX).await?;
    let counted: u64 = page.records.iter().map(|record| record.count).sum();
    if counted != refusals || seen.iter().any(|one| one.events != seen[0].events) {
        return Err(format!("{counted} of {refusals} refusals were counted, or there are new events").into());
    }
    let mut facts = Facts::new("stale appends refused", ["before", "after 1 %", "10 %", "50 %", "all"]);
    let mut row = |name, figure: fn(&Seen) -> i64| facts.row(name, seen.iter().map(figure));
    row("counted in the records", |seen| seen.counted);
    row("records", |seen| seen.records);
    row("records and budgets, bytes with indexes", |seen| seen.evidence);
    row("partition, bytes with indexes", |seen| seen.partition);
    row("log, bytes with indexes", |seen| seen.log);
    row("events", |seen| seen.events);
    facts.row("seconds", seen.iter().map(|seen| format!("{:.1}", seen.seconds)));
    Ok(facts)
}

/// Has stale appends refused until so many were, by all writers at once.
async fn refuse(ledger: &PostgresLedger, stale: &Lease, sent: &AtomicU64, until: u64) -> Result<()> {
    let zombies = (0..ZOMBIES).map(async |zombie| {
        let append = fenced::one_event()?;
        let mut lease = stale.clone();
        while let Ok(nth) =
            sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nth| (nth < until).then_some(nth + 1))
        {
            let name = if nth.is_multiple_of(NEW_NAME) { format!("name-{nth}") } else { format!("zombie-{zombie}") };
            lease.holder = Holder::new(name)?;
            match ledger.append(&lease, &append).await {
                Err(LedgerError::Rejected(_)) => {}
                other => return Err(format!("a stale append was answered {other:?}").into()),
            }
        }
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    });
    try_join_all(zombies).await?;
    Ok(())
}

struct Seen {
    counted: i64,
    records: i64,
    events: i64,
    evidence: i64,
    partition: i64,
    log: i64,
    seconds: f64,
}

impl Seen {
    fn look(client: &mut Client, start: Instant) -> Result<Self> {
        let mut number = |what: &str| -> Result<i64> { Ok(client.value(&format!("select {what}"))?.parse()?) };
        let size = |table: &str| format!("pg_total_relation_size('refusals.{table}')");
        Ok(Self {
            seconds: start.elapsed().as_secs_f64(),
            counted: number("coalesce(sum(count), 0)::bigint from refusals.rejection")?,
            records: number("count(*) from refusals.rejection")?,
            events: number("count(*) from refusals.log")?,
            evidence: number(&size("rejection"))? + number(&size("evidence_budget"))?,
            partition: number(&size("partition"))?,
            log: number(&size("log"))?,
        })
    }
}
