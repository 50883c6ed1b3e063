//! Memory, 64 tasks: fenced appends against pushes of the same events to a locked `Vec`, without and with the SHA-256 of
//! the chain.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ledger_core::{FencedLedger, NewEvent};
use ledger_memory::MemoryLedger;
use sha2::{Digest, Sha256};

use crate::report::{Report, Row};
use crate::{Plan, Result, fenced};

const TASKS: usize = 64;
const PUSH: &str = "push to a locked Vec";
const HASHED: &str = "the same, and the SHA-256 of a chain";

/// The bytes that one link of the chain hashes, its names being known.
const LINK: usize = 209;

pub(crate) async fn run(plan: &Plan) -> Result<Report> {
    let memory: Arc<dyn FencedLedger> = Arc::new(MemoryLedger::new());
    let leases = fenced::claim_all(&*memory).await?;
    let plan = plan.in_memory();
    let mut rows = [
        Row::new(PUSH, None),
        Row::new(HASHED, Some(PUSH)),
        Row::new("fenced, in 64 partitions", Some(PUSH)).goal(0.8),
        Row::new("fenced, in 64 partitions, beside the hashes", Some(HASHED)).goal(0.8),
        Row::new("fenced, in 1 partition", Some(HASHED)),
    ];
    for round in 0..=plan.rounds {
        let push = pushes(plan.time, false).await?;
        let hashed = pushes(plan.time, true).await?;
        let many = fenced::appends(&memory, &leases, TASKS, plan.time).await?;
        let one = fenced::appends(&memory, &leases[..1], TASKS, plan.time).await?;
        // The first round warms caches and the allocator.
        if round > 0 {
            for (row, figure) in rows.iter_mut().zip([push, hashed, many, many, one]) {
                row.rounds.push(figure);
            }
        }
    }
    Ok(Report { title: format!("memory, {TASKS} tasks, 1 event an append"), unit: "a second", rows: rows.into() })
}

/// Pushes for a while, and returns how many a second.
async fn pushes(time: Duration, is_hashed: bool) -> Result<f64> {
    let log: Arc<Mutex<(Vec<NewEvent>, [u8; 32])>> = Arc::default();
    let start = Instant::now();
    let tasks = (0..TASKS).map(|_| {
        let log = log.clone();
        tokio::spawn(async move {
            let mut pushed = 0_usize;
            while start.elapsed() < time {
                // Made as the fenced contestant makes it.
                let event = fenced::event()?;
                let content: [u8; 32] = if is_hashed { content(&event) } else { [0; 32] };
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                if is_hashed {
                    let mut link = [0; LINK];
                    link[..32].copy_from_slice(&log.1);
                    link[LINK - 32..].copy_from_slice(&content);
                    log.1 = Sha256::digest(link).into();
                }
                log.0.push(event);
                drop(log);
                pushed += 1;
            }
            Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(pushed)
        })
    });
    let pushed: usize = try_join_all(tasks).await?.into_iter().sum::<Result<usize>>()?;
    Ok(pushed as f64 / start.elapsed().as_secs_f64())
}

/// The same bytes as an append's content (I1).
fn content(event: &NewEvent) -> [u8; 32] {
    let mut hash = Sha256::new().chain_update(1_u64.to_be_bytes());
    for text in [event.kind.as_str(), event.payload.as_str(), event.metadata.as_str()] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
