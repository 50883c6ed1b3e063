//! A trial without risk: what would have been refused, beside a system that keeps writing where it writes today.
//!
//! A [`Shadow`] stands beside each writer. The writer goes on as it does; what it has written it hands to its shadow,
//! which sends the same append to a fenced ledger. That ledger judges it as it would judge any other: by the same code,
//! under the same lock, and with the same record of what it refuses. Nothing of that comes back to the writer, neither
//! an error nor a wait beyond the [`Limits`] that it sets. A [`ShadowReport`] sums up who wrote, in which tenures, and
//! what would have been refused and why.
//!
//! **The mark.** A shadow claims under the name `shadow/` and the writer's. So its tenures, entries and refusals are
//! told from those which enforce wherever a holder is named, in the log and in the records, and no store needs to know
//! of shadows. A [`Keeper`](crate::keeper::Keeper) takes no such name.
//!
//! **What a trial shows.** A shadow keeps nothing back by its own clock, as a keeper would: a writer that was paused
//! past its lease and writes is sent to the store with the lease that it had, and refused there. A writer that writes
//! while another holds the partition has no lease at all; it presents its own claim, which nobody granted, and is
//! refused as [`WrongAcquisition`](crate::Reason::WrongAcquisition). Call [`Shadow::release`] wherever a writer gives
//! the partition up: a missing release shows as refusals of the next writer, and it would be one of them afterwards.
//!
//! **Switching over.** [`enforce()`] claims for a holder that enforces: a takeover like every other, whose `$claimed`
//! names the shadow's tenure before it. From then on the shadows that are left, of writers that were not switched, claim
//! that partition no more; what they write is told as a refusal.
//!
//! The rules are W1 to W7 of the [contract](crate::contract).
//!
//! ```
//! use std::sync::Arc;
//! use ledger_core::shadow::{Limits, Shadow, ShadowReport};
//! use ledger_core::{Append, FencedLedger, Holder, NewEvent, PartitionId};
//!
//! # fn spawn(_: impl Future<Output = impl Sized> + Send + 'static) {}
//! # async fn write_as_today(_: u32) {}
//! async fn work(ledger: Arc<dyn FencedLedger>) -> Result<(), Box<dyn std::error::Error>> {
//!     let (partition, me) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//!     let (shadow, driver) = Shadow::new(ledger.clone(), partition.clone(), &me, Limits::default())?;
//!     spawn(driver); // `tokio::spawn`, for example
//!
//!     write_as_today(120).await;
//!     // After the write, and whatever becomes of this, the work goes on.
//!     shadow.offer(&Append::new([NewEvent::of("job-done", &120)?])?);
//!
//!     shadow.release(); // where the writer gives the partition up
//!     let report = ShadowReport::read(&*ledger, &[partition]).await?.with_counts(&shadow.counts());
//!     println!("{report}");
//!     Ok(())
//! }
//! ```

mod counts;
mod driver;
mod enforce;
mod judge;
mod limits;
pub(crate) mod mark;
mod queue;
mod report;
#[cfg(not(test))]
mod rules;
/// The same with bugs that tests switch on.
#[cfg(test)]
#[path = "tests/rules.rs"]
mod rules;
#[cfg(test)]
mod tests;
mod writer;

pub use counts::ShadowCounts;
pub use driver::ShadowDriver;
pub use enforce::{enforce, make_way};
pub use limits::Limits;
pub use mark::{MARK, is_shadow, unmarked};
pub use report::{ShadowReport, ShadowTenures, WouldBeRefusal};
pub use writer::Shadow;
