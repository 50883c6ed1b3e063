//! Keeping a lease: claim, renew in the background, append while it is trusted, give it back.
//!
//! A [`Keeper`] claims a partition and gives out two things: a [`Writer`], by which you append, and a [`Driver`], a
//! future that renews the lease and watches the time. The driver needs no runtime: spawn it where you spawn your
//! tasks, or poll it beside your work.
//!
//! **The store stays the only safety.** Whatever a keeper believes, each append is judged by the store, in the step
//! that writes it. What the keeper adds is that a holder which has lost its lease learns so early, by its own clock,
//! and stops work that would be refused; that it does not leave a partition idle; and that it gives back what it
//! holds in good order. Code that must not happen twice belongs into the ledger or behind its generation, never
//! behind [`Writer::trust`] alone.
//!
//! What is made of appends goes by the writer too: `writer.ledger()` is a ledger that a
//! [`RequestBook`](crate::RequestBook) can be used on, and sends nothing without trust.
//!
//! The rules are K1 to K11 of the [contract](crate::contract). They bind the keeper, not the stores.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use ledger_core::{Append, FencedLedger, Holder, NewEvent, PartitionId};
//! use ledger_core::keeper::{Keeper, Settled, Terms, Wait, WriteError};
//!
//! # fn spawn(_: impl Future<Output = impl Sized> + Send + 'static) {}
//! async fn work(ledger: Arc<dyn FencedLedger>) -> Result<(), Box<dyn std::error::Error>> {
//!     let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//!     let keeper = Keeper::new(ledger, partition, holder, Terms::default())?;
//!     let (writer, driver) = keeper.claim(Wait::AtMost(Duration::from_secs(10))).await?;
//!     spawn(driver); // `tokio::spawn`, for example
//!
//!     let signal = writer.signal(); // hand it to long work: `signal.is_ended()`, or race `signal.ended()`
//!     while !signal.is_ended() {
//!         let append = Append::new([NewEvent::of("job-done", &120)?])?;
//!         // Sends the same append again where an answer was lost, and says how it ended.
//!         match writer.settle(&append, Duration::from_secs(2)).await {
//!             Ok(Settled::Appended { appended, .. }) => println!("at position {}", appended.entry.last),
//!             Ok(other) => println!("no answer to the append itself: {other:?}"),
//!             Err(WriteError::Ended(why)) => println!("not sent: {why}"),
//!             Err(error) => return Err(error.into()),
//!         }
//! #       break;
//!     }
//!     writer.release().await?; // after what is in flight
//!     Ok(())
//! }
//! ```

mod changes;
mod claim;
mod clock;
mod counts;
mod driver;
mod end;
mod guarded;
mod pool;
#[cfg(not(test))]
mod rules;
/// The same with bugs that tests switch on.
#[cfg(test)]
#[path = "tests/rules.rs"]
mod rules;
mod settle;
mod signal;
mod tenure;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod trust;
mod writer;

pub use changes::{Change, Changes, State};
pub use claim::{ClaimError, Keeper, Wait};
pub use clock::{BootClock, LocalClock, ManualLocalClock, Moment, SLICE};
pub use counts::Counts;
pub use driver::Driver;
pub use end::{End, Loss, WriteError};
pub use pool::{Pool, PoolDriver};
pub use settle::Settled;
pub use signal::Signal;
pub use terms::Terms;
pub use trust::Trust;
pub use writer::Writer;

pub(crate) use clock::within;
pub(crate) use rules::is_fencing;
pub(crate) use tenure::no_answer;
