//! The store dies under a worker, and comes back.

use std::time::Duration;

use ledger_core::keeper::{End, Keeper, Loss, Settled, Terms, Wait};
use ledger_core::{FencedLedgerExt, Holder, Ttl};
use test_postgres::Wanted;

use crate::Result;
use crate::store::Store;
use crate::worker::{partition, result};

/// The server is killed while a worker holds: its trust ends by its own clock, and says why. What it could not settle
/// is settled when the server is back; whoever claims then goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_stops_by_its_own_clock_while_the_server_is_dead() -> Result<()> {
    let server = test_postgres::Options::new(Wanted::NEWEST).start()?;
    let store = Store::on_postgres(Some(server.url()))?;
    store.install().await?;
    let (ledger, jobs) = (store.open().await?, partition()?);
    let terms = Terms::new(Ttl::from_millis(2_000)?);
    let keeper = Keeper::new(ledger.clone(), jobs.clone(), Holder::new("a")?, terms)?;
    let (writer, driver) = keeper.claim(Wait::No).await?;
    let driver = tokio::spawn(driver);
    while keeper.counts().renewals == 0 {
        // A pause between two looks: what is waited for is the condition.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.crash()?;
    let append = result()?;
    let settled = writer.settle(&append, Duration::from_secs(3)).await;
    let end = driver.await?;
    assert!(matches!(&*end, End::Lost(Loss::Unrenewed(_))), "{end}");
    // Nothing was written, or nobody could know.
    match &settled {
        Ok(Settled::Undecided { .. }) => {}
        Err(error) => assert!(error.proves_not_written(), "{error}"),
        other => panic!("settled by a server that is dead: {other:?}"),
    }
    server.start()?;
    let b = Holder::new("b")?;
    let lease = ledger.claim_when_free(&jobs, &b, Ttl::from_millis(60_000)?, Duration::from_secs(60)).await?.lease;
    assert_eq!(lease.generation.get(), 2);
    ledger.append(&lease, &append).await?;
    let count = ledger.fold(&jobs, 0, |count, event| count + usize::from(event.kind.as_str() == "result")).await?;
    assert_eq!(count, 1, "it is in the log once");
    Ok(())
}
