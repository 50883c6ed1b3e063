//! A [`FencedLedger`](ledger_core::FencedLedger) in memory, for the unit tests of code that writes to one.
//!
//! It upholds every rule of the contract but durability (S2): the ledger is gone with its last handle. The judgement is
//! the one of `ledger-core`, so a test meets the same refusals as in production. Appends do not travel together here:
//! there is no flush to share, and each partition has a lock of its own.
//!
//! `Clone` is a second handle on the same ledger. With a [`ManualClock`] a test moves time by hand:
//!
//! ```
//! use ledger_core::{FencedLedger, FencedLedgerExt, Append, Claim, Holder, NewEvent, PartitionId, Reason, Ttl};
//! use ledger_memory::{ManualClock, MemoryLedger};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::default();
//! let ledger = MemoryLedger::with_clock(clock.clone());
//! let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//!
//! let state = ledger.observe(&partition).await?;
//! let claim = Claim::new(partition, holder, Ttl::from_millis(5_000)?, state.observation());
//! let lease = ledger.claim(&claim).await?.lease;
//!
//! clock.advance(Duration::from_secs(5));
//! let late = Append::new([NewEvent::of("job-done", &1)?])?;
//! let refused = ledger.append(&lease, &late).await.expect_err("the lease has expired");
//! assert_eq!(refused.rejection().map(|rejection| rejection.reason), Some(Reason::Expired));
//! # Ok(())
//! # }
//! ```

mod copy;
mod ledger;
mod partition;
mod partitions;
mod sync;

pub use copy::MemoryCopy;
pub use ledger::MemoryLedger;
pub use ledger_core::{Clock, ManualClock, SystemClock};
