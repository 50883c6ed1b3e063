//! Events a second: one writer, 64 writers on 64 partitions, and batches of 100.

use super::write::Writer;
use super::{Arguments, install, start};
use crate::report::{Report, Row};
use crate::{Plan, Result};

/// The size of each pool.
const POOL: u32 = 16;

pub(crate) async fn run(plan: &Plan, arguments: &Arguments) -> Result<Vec<Report>> {
    let server = start(plan, arguments)?;
    let (url, connections) = (server.url(), usize::try_from(POOL)?);
    Writer::prepare(&server).await?;
    let writers = [
        Writer::plain_pool(&url, POOL, 0).await?,
        Writer::plain_kept(&url, connections, 1_000).await?,
        Writer::fenced_pool(install(&server, "given", connections).await?, &url, POOL).await?,
        Writer::fenced(install(&server, "own", connections).await?, &url).await?,
    ];
    let mut reports = Vec::new();
    for (title, callers, events) in [
        ("1 writer, 1 event an append", 1, 1),
        ("64 writers on 64 partitions, pools of 16", 64, 1),
        ("1 writer, 100 events an append", 1, 100),
    ] {
        let (plain, kept) = ("plain INSERT, sqlx pool", "plain INSERT, kept connections");
        let mut rows = [
            Row::new(plain, None),
            Row::new(kept, None),
            Row::new("fenced, sqlx pool", Some(plain)),
            Row::new("fenced, its own connections", Some(kept)),
        ];
        for round in 0..=plan.rounds {
            for (writer, row) in writers.iter().zip(&mut rows) {
                let rate = writer.rate(callers, events, plan.time).await?;
                // The first round warms plans and caches.
                if round > 0 {
                    row.rounds.push(rate);
                }
            }
        }
        reports.push(Report { title: title.to_owned(), unit: "events a second", rows: rows.into() });
    }
    Ok(reports)
}
