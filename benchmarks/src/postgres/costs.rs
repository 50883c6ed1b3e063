//! What one append costs: round trips, flushes, bytes, CPU.

use std::time::{Duration, Instant};

use test_postgres::{Client, Server};

use super::facts::Facts;
use super::write::Writer;
use super::{install, refusals, start, takeover};
use crate::{Plan, Result};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: super::Arguments,
    /// How many calls a figure is the mean of.
    #[arg(long, default_value_t = 2_000)]
    calls: usize,
    /// How many refusals the evidence is flooded with.
    #[arg(long, default_value_t = 1_000_000)]
    refusals: u64,
}

pub(crate) async fn run(plan: &Plan, arguments: &Arguments) -> Result<Vec<Facts>> {
    let server = start(plan, &arguments.server)?;
    Writer::prepare(&server).await?;
    let mut all = Vec::new();
    let mut done = |facts: Facts| {
        println!("{facts}\n");
        all.push(facts);
    };
    done(round_trips(&server).await?);
    done(log(&server, arguments.calls).await?);
    done(processor(&server, arguments.calls, plan.rounds).await?);
    done(disk(&server).await?);
    done(takeover::run(&server).await?);
    if arguments.refusals > 0 {
        done(refusals::run(&server, arguments.refusals).await?);
    }
    Ok(all)
}

/// Counted on the wire, over connections that are warm.
async fn round_trips(server: &Server) -> Result<Facts> {
    const CALLS: usize = 200;
    let proxy = server.proxy()?;
    let url = proxy.url();
    let options = async |name| install(server, name, 1).await;
    let mut facts = Facts::new("on the wire, each append", ["requests", "round trips", "messages of the client"]);
    for (name, writer) in [
        ("fenced, its own connections", Writer::fenced(options("wire_own").await?, &url).await?),
        (
            "fenced, as behind a pooler",
            Writer::fenced(options("wire_simple").await?.transaction_pooler(true), &url).await?,
        ),
        ("fenced, sqlx pool", Writer::fenced_pool(options("wire_pool").await?, &url, 1).await?),
        ("plain INSERT, sqlx pool", Writer::plain_pool(&url, 1, 2_000).await?),
        ("plain INSERT, kept connection", Writer::plain_kept(&url, 1, 3_000).await?),
    ] {
        writer.times(20, 1).await?;
        let before = proxy.counts();
        writer.times(CALLS, 1).await?;
        let counts = proxy.counts() - before;
        let figures = [counts.requests, counts.round_trips, counts.messages];
        facts.row(name, figures.map(|count| format!("{:.2}", count as f64 / CALLS as f64)));
    }
    Ok(facts)
}

/// Flushes of the write-ahead log, as the server counts them, and the bytes written to it.
async fn log(server: &Server, calls: usize) -> Result<Facts> {
    // The counters of PostgreSQL 18 tell them apart by who did it; the older ones are the whole server's.
    let flushes = if server.installation().major() >= 18 {
        "select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal'"
    } else {
        "select wal_sync from pg_stat_wal"
    };
    let (url, mut client) = (server.url(), server.client()?);
    let mut facts = Facts::new("write-ahead log, each transaction", ["flushes", "bytes"]);
    for (name, events) in [("1 event", 1), ("100 events", 100)] {
        let calls = if events == 1 { calls } else { calls / 10 };
        for (who, base) in [("plain INSERT", 4_000), ("plain INSERT with an id", 1), ("fenced", 0)] {
            if base == 1 && events > 1 {
                continue;
            }
            // Else the first change of each page after it would bring the whole page, now here and now there.
            client.query("checkpoint")?;
            let number = |client: &mut Client, sql: &str| -> Result<i64> { Ok(client.value(sql)?.parse()?) };
            let written = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
            let writer = if base == 1 {
                Writer::plain_id(&url, 1, 0).await?
            } else if base > 0 {
                Writer::plain_kept(&url, 1, base + i64::from(events > 1) * 100).await?
            } else {
                Writer::fenced(install(server, &format!("log_{events}"), 1).await?, &url).await?
            };
            writer.times(10, events).await?;
            quiet(&mut client).await?;
            // A session reports its counts when it has ended a call, at most once a second: now what came before.
            writer.times(1, events).await?;
            quiet(&mut client).await?;
            let before = (number(&mut client, flushes)?, number(&mut client, written)?);
            writer.times(calls, events).await?;
            let bytes = number(&mut client, written)? - before.1;
            // And the rest when it ends.
            drop(writer);
            quiet(&mut client).await?;
            let flushed = number(&mut client, flushes)? - before.0;
            let each = |count: i64| count as f64 / calls as f64;
            facts.row(&format!("{who}, {name}"), [format!("{:.2}", each(flushed)), format!("{:.0}", each(bytes))]);
        }
    }
    Ok(facts)
}

/// Waits until a session that goes on may report its counts again, or one that is about to end has done so.
async fn quiet(client: &mut Client) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    client.query("select pg_stat_force_next_flush()")?;
    client.query("select pg_stat_clear_snapshot()")?;
    Ok(())
}

/// utime and stime of the server's process, over so many calls, in turns.
async fn processor(server: &Server, calls: usize, rounds: usize) -> Result<Facts> {
    /// What the kernel counts in, on every architecture that we run on.
    const TICK_MICROS: f64 = 10_000.0;
    let url = server.url();
    let plain = Writer::plain_kept(&url, 1, 5_000).await?;
    let fenced = Writer::fenced(install(server, "processor", 1).await?, &url).await?;
    let writers = [("plain INSERT, 1 event", &plain, 1), ("fenced, 1 event", &fenced, 1)];
    let batches = [("plain INSERT, 100 events", &plain, 100), ("fenced, 100 events", &fenced, 100)];
    let mut facts = Facts::new("the server's CPU, each transaction", ["us", "lowest", "highest", "wall clock us"]);
    for pair in [writers, batches] {
        let mut samples: [Vec<(f64, f64)>; 2] = Default::default();
        for round in 0..=rounds {
            for ((_, writer, events), samples) in pair.iter().zip(&mut samples) {
                let calls = if *events == 1 { calls } else { (calls / 10).max(1) };
                let (before, start) = (ticks(server)?, Instant::now());
                writer.times(calls, *events).await?;
                let each = |micros: f64| micros / calls as f64;
                let used = (ticks(server)? - before) as f64 * TICK_MICROS;
                if round > 0 {
                    samples.push((each(used), each(start.elapsed().as_secs_f64() * 1e6)));
                }
            }
        }
        for ((name, ..), mut samples) in pair.into_iter().zip(samples) {
            samples.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (Some(low), Some(high)) = (samples.first(), samples.last()) else { continue };
            let median = samples[samples.len() / 2];
            facts.row(name, [median.0, low.0, high.0, median.1].map(|figure| format!("{figure:.0}")));
        }
    }
    Ok(facts)
}

/// The ticks of all sessions but the one that asks.
fn ticks(server: &Server) -> Result<u64> {
    let pids = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    let mut sum = 0;
    for row in server.query(pids)? {
        let pid = row.into_iter().next().flatten().ok_or("a session without a process")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name in brackets may have spaces; utime and stime are the 12th and 13th field behind it.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        for field in fields {
            sum += field.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// The log's table with its indexes, divided by its events.
async fn disk(server: &Server) -> Result<Facts> {
    const EVENTS: usize = 20_000;
    let (url, mut client) = (server.url(), server.client()?);
    let mut facts =
        Facts::new("on disk, each event", ["table, bytes", "indexes, bytes", "of which the payload's text"]);
    client.query("truncate plain, plain_id")?;
    for (name, table, writer, events) in [
        ("plain INSERT", "plain", Writer::plain_kept(&url, 1, 6_000).await?, 100),
        ("plain INSERT with an id", "plain_id", Writer::plain_id(&url, 16, 1_000).await?, 1),
        (
            "fenced, 1 event an append",
            "disk_1.log",
            Writer::fenced(install(server, "disk_1", 16).await?, &url).await?,
            1,
        ),
        (
            "fenced, 100 events an append",
            "disk_100.log",
            Writer::fenced(install(server, "disk_100", 16).await?, &url).await?,
            100,
        ),
    ] {
        // Side by side, to be done sooner.
        let writers = 32;
        let each = (0..writers).map(async |nth| {
            for _ in 0..EVENTS / events / writers {
                writer.write(nth, events).await?;
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        });
        futures_util::future::try_join_all(each).await?;
        let sizes = client.query(&format!(
            "select pg_table_size('{table}')::float / count(*), pg_indexes_size('{table}')::float / count(*) from {table}"
        ))?;
        let row = sizes.into_iter().next().ok_or("no sizes")?;
        let mut figures = Vec::new();
        for value in row {
            figures.push(format!("{:.0}", value.ok_or("no size")?.parse::<f64>()?));
        }
        figures.push(crate::fenced::PAYLOAD.len().to_string());
        facts.row(name, figures);
    }
    Ok(facts)
}
