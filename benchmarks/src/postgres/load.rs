//! What stands beside an append: stale writers, an old snapshot, a large log, many partitions, standbys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ledger_core::{FencedLedger, Lease, LedgerError, PartitionId};
use ledger_postgres::PostgresLedger;
use sqlx::{Connection, Executor, PgConnection};
use test_postgres::Server;

use super::facts::Facts;
use super::write::Writer;
use super::{install, open, start};
use crate::report::{Report, Row};
use crate::{Plan, Result, fenced};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: super::Arguments,
    /// How long an old snapshot is held, in seconds.
    #[arg(long, default_value_t = 10)]
    hold: u64,
    /// The events of the largest partition: 10 to this power.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=7))]
    events: u32,
    /// The partitions of the largest ledger: 10 to this power.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=6))]
    partitions: u32,
    /// How long the table of leases is under load, in seconds.
    #[arg(long, default_value_t = 10)]
    leases: u64,
    /// Leaves out the standby, which needs pg_basebackup beside the server.
    #[arg(long)]
    no_standby: bool,
}

/// The reports and the facts of a run.
#[derive(serde::Serialize)]
pub(crate) struct Results {
    reports: Vec<Report>,
    facts: Vec<Facts>,
}

pub(crate) async fn run(plan: &Plan, arguments: &Arguments) -> Result<Results> {
    let server = start(plan, &arguments.server)?;
    let mut results = Results { reports: Vec::new(), facts: Vec::new() };
    let mut done = |report: Report| {
        println!("{report}\n");
        results.reports.push(report);
    };
    done(stale(&server, plan).await?);
    done(events(&server, plan, arguments.events).await?);
    done(partitions(&server, plan, arguments.partitions).await?);
    done(snapshot(&server, plan, Duration::from_secs(arguments.hold)).await?);
    done(commit(&server, plan, !arguments.no_standby).await?);
    let facts = leases(&server, Duration::from_secs(arguments.leases)).await?;
    println!("{facts}\n");
    results.facts.push(facts);
    Ok(results)
}

const ALONE: &str = "alone";

/// A holder, one append after the other, alone and beside stale writes at a steady rate over connections of their own.
async fn stale(server: &Server, plan: &Plan) -> Result<Report> {
    const A_SECOND: u64 = 1_000;
    let (owner, zombies) = (open(server, "stale", 4).await?, again(server, "stale", 16).await?);
    let partition = PartitionId::new("contested")?;
    let ended = fenced::claim(&owner, &partition, "zombie").await?;
    owner.release(&ended).await?;
    let lease = fenced::claim(&owner, &partition, "owner").await?;
    let mut rows = [Row::new(ALONE, None), Row::new("beside 1,000 stale appends a second", Some(ALONE))];
    let refused = Arc::new(AtomicU64::new(0));
    for round in 0..=plan.rounds {
        let alone = rate(&owner, &lease, plan.time).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let (before, start) = (refused.load(Ordering::Relaxed), Instant::now());
        // A task of its own: who is fenced off is no part of the holder.
        let zombie = tokio::spawn({
            let (zombies, ended, refused, stop) = (zombies.clone(), ended.clone(), refused.clone(), stop.clone());
            async move {
                let mut ticks = tokio::time::interval(Duration::from_millis(8));
                while !stop.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let each = (0..A_SECOND * 8 / 1_000).map(|_| refuse(&zombies, &ended, &refused));
                    futures_util::future::try_join_all(each).await?;
                }
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            }
        });
        let beside = rate(&owner, &lease, plan.time).await;
        stop.store(true, Ordering::Relaxed);
        zombie.await??;
        let beside = beside?;
        let came = (refused.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        if came < 0.8 * A_SECOND as f64 {
            eprintln!("only {came:.0} stale appends a second came: the machine is too busy for this figure");
        }
        if round > 0 {
            rows[0].rounds.push(alone);
            rows[1].rounds.push(beside);
        }
    }
    Ok(report("a holder's appends", rows))
}

async fn refuse(ledger: &PostgresLedger, ended: &Lease, refused: &AtomicU64) -> Result<()> {
    match ledger.append(ended, &fenced::one_event()?).await {
        Err(LedgerError::Rejected(_)) => refused.fetch_add(1, Ordering::Relaxed),
        other => return Err(format!("a stale append was answered {other:?}").into()),
    };
    Ok(())
}

/// One writer on partitions of different length.
async fn events(server: &Server, plan: &Plan, power: u32) -> Result<Report> {
    const FILL: usize = 1_000;
    let ledger = open(server, "events", 4).await?;
    let mut contestants = Vec::new();
    for exponent in 3..=power {
        let events = 10_u64.pow(exponent);
        let lease = fenced::claim(&ledger, &PartitionId::new(format!("events/{events}"))?, "owner").await?;
        for _ in 0..events / u64::try_from(FILL)? {
            ledger.append(&lease, &fenced::events(FILL)?).await?;
        }
        contestants.push((format!("in a partition of {events} events"), ledger.clone(), lease));
    }
    grown("1 writer, by the length of its log", contestants, server, "events", plan).await
}

/// One writer on ledgers of different size.
async fn partitions(server: &Server, plan: &Plan, power: u32) -> Result<Report> {
    let mut contestants = Vec::new();
    for exponent in 1..=power {
        let (partitions, schema) = (10_u64.pow(exponent), format!("partitions_{exponent}"));
        let ledger = open(server, &schema, 4).await?;
        let claims = format!(
            "select count(*) from generate_series(2, {partitions}) n, lateral {schema}.claim('many/' || n,
             gen_random_uuid(), 'owner', 86400000000, 0, null, true, null)"
        );
        server.query(&claims)?;
        let lease = fenced::claim(&ledger, &PartitionId::new("many/1")?, "owner").await?;
        server.query(&format!("vacuum analyze {schema}.partition"))?;
        contestants.push((format!("in a ledger of {partitions} partitions"), ledger, lease));
    }
    grown("1 writer, by the size of the ledger", contestants, server, "partitions_1", plan).await
}

async fn grown(
    title: &str,
    contestants: Vec<(String, PostgresLedger, Lease)>,
    server: &Server,
    schema: &str,
    plan: &Plan,
) -> Result<Report> {
    // What filling has left to be done is done before, and not beside one of them.
    server.query(&format!("vacuum analyze {schema}.log"))?;
    server.query("checkpoint")?;
    let first = contestants[0].0.clone();
    let mut rows: Vec<Row> =
        contestants.iter().map(|(name, ..)| Row::new(name, (*name != first).then_some(first.as_str()))).collect();
    for round in 0..=plan.rounds {
        for ((_, ledger, lease), row) in contestants.iter().zip(&mut rows) {
            let rate = rate(ledger, lease, plan.time).await?;
            if round > 0 {
                row.rounds.push(rate);
            }
        }
    }
    Ok(report(title, rows))
}

/// 16 writers on 16 partitions, before and while a transaction elsewhere in the database holds an old snapshot.
async fn snapshot(server: &Server, plan: &Plan, hold: Duration) -> Result<Report> {
    let writer = Writer::fenced(install(server, "snapshot", 16).await?, &server.url()).await?;
    let end = format!("an old snapshot held, after {} s", hold.as_secs());
    let mut rows = [Row::new("no old snapshot", None), Row::new(&end, Some("no old snapshot"))];
    writer.rate(16, 16, 1, plan.time).await?;
    for _ in 0..plan.rounds {
        rows[0].rounds.push(writer.rate(16, 16, 1, plan.time).await?);
        let mut old = PgConnection::connect(&server.url()).await?;
        old.execute("begin isolation level repeatable read").await?;
        old.execute("select count(*) from snapshot.partition").await?;
        writer.rate(16, 16, 1, hold).await?;
        rows[1].rounds.push(writer.rate(16, 16, 1, plan.time).await?);
        old.execute("rollback").await?;
        old.close().await?;
    }
    Ok(report("16 writers on 16 partitions", rows))
}

/// The choices of `synchronous_commit`, without and with a synchronous standby on the same machine.
async fn commit(server: &Server, plan: &Plan, with_standby: bool) -> Result<Report> {
    const ON: &str = "on";
    let writer = Writer::fenced(install(server, "committed", 16).await?, &server.url()).await?;
    let standby = if with_standby { Some(server.standby("standby")?) } else { None };
    let mut choices =
        vec![(ON.to_owned(), "on", false), ("off: the last appends may be lost".to_owned(), "off", false)];
    if standby.is_some() {
        caught_up(server)?;
        for choice in ["remote_write", "on", "remote_apply"] {
            choices.push((format!("a synchronous standby, {choice}"), choice, true));
        }
    }
    let mut rows: Vec<(Row, Row)> = Vec::new();
    for (name, ..) in &choices {
        let to = (name != ON).then_some(ON);
        let many = |name: &str| format!("{name}; 64 writers");
        rows.push((Row::new(name, to), Row::new(&many(name), to.map(many).as_deref())));
    }
    for round in 0..=plan.rounds {
        for ((_, choice, waits), (one, many)) in choices.iter().zip(&mut rows) {
            server.set_synchronous(if *waits { &["standby"] } else { &[] })?;
            server.set("synchronous_commit", choice)?;
            server.reload()?;
            let rates = (writer.rate(1, 1, 1, plan.time).await?, writer.rate(64, 64, 1, plan.time).await?);
            if round > 0 {
                one.rounds.push(rates.0);
                many.rounds.push(rates.1);
            }
        }
    }
    server.set_synchronous(&[])?;
    server.reset("synchronous_commit")?;
    server.reload()?;
    let (one, many): (Vec<Row>, Vec<Row>) = rows.into_iter().unzip();
    Ok(report("synchronous_commit, 1 writer", one.into_iter().chain(many).collect::<Vec<_>>()))
}

/// Waits for the standby, which has to follow first what was written before and during its copy: an append that waits for
/// that would be no measurement.
fn caught_up(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    let there = "select 1 from pg_stat_replication where state = 'streaming' and replay_lsn = pg_current_wal_lsn()";
    let start = Instant::now();
    while client.query(there)?.is_empty() {
        if start.elapsed() > Duration::from_secs(120) {
            return Err("the standby does not catch up".into());
        }
        // The standby says how far it is when it likes.
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// 64 writers for a while, each of whose leases is renewed ten times a second: what that leaves in the table of leases.
async fn leases(server: &Server, time: Duration) -> Result<Facts> {
    let ledger = open(server, "leases", 8).await?;
    let leases = fenced::claim_all(&ledger).await?;
    let mut client = server.client()?;
    let mut facts = Facts::new(
        "the table of leases",
        ["appends", "updates", "of them HOT", "dead rows", "bytes of the table", "bytes with indexes"],
    );
    let appended = AtomicU64::new(0);
    let mut look = |name: &str, appended: &AtomicU64| -> Result<()> {
        // A session reports its counts at most once a second, when it is idle.
        std::thread::sleep(Duration::from_millis(1_500));
        let row = client.query(
            "select n_tup_upd, n_tup_hot_upd, n_dead_tup, pg_relation_size(relid), pg_total_relation_size(relid)
             from pg_stat_user_tables where schemaname = 'leases' and relname = 'partition'",
        )?;
        let figures = row.into_iter().next().ok_or("no statistics")?.into_iter().map(Option::unwrap_or_default);
        facts.row(name, std::iter::once(appended.load(Ordering::Relaxed).to_string()).chain(figures));
        Ok(())
    };
    look("before", &appended)?;
    for part in 1..=4_u32 {
        let start = Instant::now();
        let until = time / 4;
        let writers = leases.iter().map(async |lease| {
            let mut renewed = Instant::now();
            while start.elapsed() < until {
                ledger.append(lease, &fenced::one_event()?).await?;
                appended.fetch_add(1, Ordering::Relaxed);
                if renewed.elapsed() > Duration::from_millis(100) {
                    renewed = Instant::now();
                    ledger.renew(lease, None).await?;
                }
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        });
        futures_util::future::try_join_all(writers).await?;
        look(&format!("after {:.0} s", (until * part).as_secs_f64()), &appended)?;
    }
    Ok(facts)
}

/// Another handle on a schema that is installed.
async fn again(server: &Server, name: &str, connections: usize) -> Result<PostgresLedger> {
    let schema = ledger_postgres::Schema::new(name)?;
    let options = ledger_postgres::Options::new().schema(schema).connections(connections).reserve(0);
    Ok(options.connect(&server.url()).await?)
}

/// Appends one after the other for a while, and returns how many a second.
async fn rate(ledger: &PostgresLedger, lease: &Lease, time: Duration) -> Result<f64> {
    let (start, mut written) = (Instant::now(), 0_usize);
    while start.elapsed() < time {
        ledger.append(lease, &fenced::one_event()?).await?;
        written += 1;
    }
    Ok(written as f64 / start.elapsed().as_secs_f64())
}

fn report(title: &str, rows: impl Into<Vec<Row>>) -> Report {
    Report { title: title.to_owned(), unit: "appends a second", rows: rows.into() }
}
