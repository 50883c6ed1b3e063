//! Events a second: one writer, many at once on many partitions and on one, and batches of 100.

use super::write::Writer;
use super::{Arguments, install, start};
use crate::report::{Report, Row};
use crate::{Plan, Result};

/// The size of each pool.
const POOL: u32 = 16;

const PLAIN: &str = "plain INSERT, sqlx pool";
const KEPT: &str = "plain INSERT, kept connections";
const SINGLY: &str = "fenced, one by one";
const TOGETHER: &str = "fenced";

/// Its place in `writers`, its partitions, its name, whom it is compared with, and the ratio that is wanted.
struct Contestant(usize, usize, &'static str, Option<&'static str>, Option<f64>);

/// How many write at once: on how many partitions, and how many events each time.
struct Load {
    title: &'static str,
    contestants: &'static [Contestant],
    callers: usize,
    events: usize,
}

const LOADS: [Load; 4] = [
    Load {
        title: "1 writer, 1 event an append",
        contestants: &[
            Contestant(0, 64, PLAIN, None, None),
            Contestant(1, 64, KEPT, None, None),
            Contestant(3, 64, TOGETHER, Some(PLAIN), Some(1.0)),
            Contestant(3, 64, "fenced, to kept connections", Some(KEPT), None),
            Contestant(2, 64, "fenced, over a given sqlx pool", Some(PLAIN), None),
        ],
        callers: 1,
        events: 1,
    },
    Load {
        title: "64 writers on 64 partitions",
        contestants: &[
            Contestant(0, 64, PLAIN, None, None),
            Contestant(1, 64, KEPT, None, None),
            Contestant(3, 64, TOGETHER, Some(PLAIN), Some(3.0)),
            Contestant(4, 64, SINGLY, Some(PLAIN), None),
            Contestant(3, 1, "fenced, all in 1 partition", Some(PLAIN), Some(3.5)),
        ],
        callers: 64,
        events: 1,
    },
    Load {
        title: "64 writers in 1 partition",
        contestants: &[Contestant(4, 1, SINGLY, None, None), Contestant(3, 1, TOGETHER, Some(SINGLY), Some(20.0))],
        callers: 64,
        events: 1,
    },
    Load {
        title: "1 writer, 100 events an append",
        contestants: &[
            Contestant(0, 64, PLAIN, None, None),
            Contestant(1, 64, KEPT, None, None),
            Contestant(3, 64, TOGETHER, Some(PLAIN), Some(0.95)),
            Contestant(3, 64, "fenced, to kept connections", Some(KEPT), None),
        ],
        callers: 1,
        events: 100,
    },
];

pub(crate) async fn run(plan: &Plan, arguments: &Arguments) -> Result<Vec<Report>> {
    let server = start(plan, arguments)?;
    let (url, connections) = (server.url(), usize::try_from(POOL)?);
    Writer::prepare(&server).await?;
    let writers = [
        Writer::plain_pool(&url, POOL, 0).await?,
        Writer::plain_kept(&url, connections, 1_000).await?,
        Writer::fenced_pool(install(&server, "given", connections).await?, &url, POOL).await?,
        Writer::fenced(install(&server, "own", connections).await?, &url).await?,
        Writer::fenced(install(&server, "singly", connections).await?.coalesce(false), &url).await?,
    ];
    let mut reports = Vec::new();
    for load in &LOADS {
        let mut rows: Vec<Row> = load
            .contestants
            .iter()
            .map(|Contestant(.., name, to, goal)| Row { goal: *goal, ..Row::new(name, *to) })
            .collect();
        for round in 0..=plan.rounds {
            for (Contestant(writer, partitions, ..), row) in load.contestants.iter().zip(&mut rows) {
                let rate = writers[*writer].rate(load.callers, *partitions, load.events, plan.time).await?;
                // The first round warms plans and caches.
                if round > 0 {
                    row.rounds.push(rate);
                }
            }
        }
        reports.push(Report { title: load.title.to_owned(), unit: "events a second", rows });
    }
    Ok(reports)
}
