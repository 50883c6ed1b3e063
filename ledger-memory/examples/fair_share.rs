//! A fair share of partitions among workers that come and go.
//!
//! Each of n workers aims at its part of the partitions, and gives some up when others come. There is no coordinator:
//! a worker shows that it is there by holding a partition of its own, `workers/<name>`, and counts whose are held.
//! That count is a hint and may be late or wrong: two workers that aim at the same partition race for its claim, and
//! the store grants one. So nothing here can do harm, and it is an example, not a part of the library; yours may weigh
//! partitions, or keep what is warm.
//!
//! `cargo run -p ledger-memory --example fair_share`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ledger_core::keeper::{Pool, Terms, Wait};
use ledger_core::{FencedLedger, Holder, PageSize, PartitionId, Ttl};
use ledger_memory::MemoryLedger;

type Problem = Box<dyn std::error::Error + Send + Sync>;

const JOBS: usize = 12;
const WORKERS: &str = "workers/";
/// How often a worker looks whether its part has changed.
const LOOK: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let ledger: Arc<dyn FencedLedger> = Arc::new(MemoryLedger::new());
    let mut workers = BTreeMap::new();
    for name in ["ada", "bob", "cid"] {
        workers.insert(name, tokio::spawn(work(ledger.clone(), Holder::new(name)?)));
        println!("{name} has come: {:?}", settled(&ledger, workers.len()).await?);
    }
    if let Some(bob) = workers.remove("bob") {
        // No release: its leases have to run out, as those of a process that was killed.
        bob.abort();
    }
    println!("bob is gone:  {:?}", settled(&ledger, workers.len()).await?);
    Ok(())
}

/// Runs with the tests: each worker comes to hold an equal part, also after one is gone.
#[test]
fn everybody_comes_to_an_equal_part() -> Result<(), Problem> {
    main()
}

/// One worker: sees what its part is, gives up what is too much, and takes what is free. Its work would go on beside
/// this, by `pool.writer(job)`.
async fn work(ledger: Arc<dyn FencedLedger>, me: Holder) -> Result<(), Problem> {
    let (pool, driver) = Pool::new(ledger.clone(), me.clone(), Terms::new(Ttl::from_millis(600)?))?;
    tokio::spawn(driver);
    let presence = PartitionId::new(format!("{WORKERS}{me}"))?;
    loop {
        // Claimed anew where it was lost: here that is asked for.
        pool.claim(&presence, Wait::AtMost(Duration::from_secs(5))).await?;
        let part = JOBS.div_ceil(present(&ledger).await?.max(1));
        let mine: Vec<PartitionId> = pool.held().into_iter().filter(|held| *held != presence).collect();
        for surplus in mine.iter().skip(part) {
            pool.release(surplus).await?;
        }
        let mut missing = part.saturating_sub(mine.len());
        for job in jobs()? {
            // A look first, since most claims of what is held are refused. Of two that race one is refused all the same.
            if missing > 0 && ledger.observe(&job).await?.is_free() && pool.claim(&job, Wait::No).await.is_ok() {
                missing -= 1;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn jobs() -> Result<Vec<PartitionId>, Problem> {
    Ok((0..JOBS).map(|nth| PartitionId::new(format!("jobs/{nth:02}"))).collect::<Result<_, _>>()?)
}

/// How many workers hold their own partition.
async fn present(ledger: &Arc<dyn FencedLedger>) -> Result<usize, Problem> {
    let mut present = 0;
    for partition in ledger.partitions(None, PageSize::MAX).await?.partitions {
        if partition.as_str().starts_with(WORKERS) && !ledger.observe(&partition).await?.is_free() {
            present += 1;
        }
    }
    Ok(present)
}

/// Waits until every job is held, by so many workers with an equal part each, and gives how many each holds.
async fn settled(ledger: &Arc<dyn FencedLedger>, workers: usize) -> Result<BTreeMap<String, usize>, Problem> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut shares = BTreeMap::new();
        for job in jobs()? {
            let state = ledger.observe(&job).await?;
            if let (false, Some(tenure)) = (state.is_free(), &state.tenure) {
                *shares.entry(tenure.lease.holder.to_string()).or_default() += 1;
            }
        }
        if shares.len() == workers && shares.values().all(|share| *share == JOBS / workers) {
            return Ok(shares);
        }
        if tokio::time::Instant::now() > deadline {
            return Err(format!("no equal parts within 20 seconds: {shares:?}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}
