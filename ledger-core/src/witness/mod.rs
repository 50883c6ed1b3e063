//! Witnesses: marks kept outside of a store, which show that it went back in time (I3, I5).
//!
//! A store that was restored from an older copy looks, from inside, like one to which less was written. A [`Witness`]
//! keeps the newest [`Mark`] of each partition somewhere else, and [`Witnessed`] is a ledger that compares:
//!
//! | call | compared | marked |
//! |---|---|---|
//! | `claim` | with the witness, before it is sent and again with what was granted | the grant |
//! | `renew` | with what this handle was acknowledged for the lease (R2) | its head |
//! | `append` | the same | with [`Marking::Appends`], its entry |
//! | `release` | the same | before it is sent, the newest acknowledged entry |
//! | `advance` | with the witness, where it is not to go above its mark | the `$advanced` entry |
//!
//! A store that is behind, or that has another history, is answered as [`RolledBack`](crate::LedgerError::RolledBack). Only
//! an operator's [`advance`](crate::FencedLedger::advance) above the mark's generation lets the partition go on, for every
//! witness: each finds the `$advanced` entry in the log by itself.
//!
//! [`LedgerWitness`] keeps the marks in another ledger; the crate `ledger-witness` keeps them in a file.

mod compare;
mod in_ledger;
mod rolled_back;
mod witnessed;

use async_trait::async_trait;

pub use in_ledger::LedgerWitness;
pub use rolled_back::{Rewind, RolledBack};
pub use witnessed::{Marking, Witnessed};

use crate::{Failure, LedgerId, Mark, PartitionId};

/// Keeps the newest mark of each partition of some ledgers, outside of their stores (I5).
///
/// # Contract
///
/// - A mark that was kept is durable, and is what every later [`mark`](Self::mark) answers, of every handle and process
///   that shares the witness, until a later one is kept.
/// - A mark never goes back: one that is [not later](Mark::is_later_than) than what is kept changes nothing.
/// - What can not be read or written is an error, never the absence of a mark.
///
/// # Cancel safety
///
/// A dropped future leaves the mark kept or not, and a usable witness.
#[async_trait]
pub trait Witness: Send + Sync + std::fmt::Debug {
    /// The newest mark that was kept of a partition, or `None` where none ever was.
    ///
    /// # Errors
    ///
    /// The marks can not be read.
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure>;

    /// Keeps a mark, if it is later than what is kept, and answers the mark that is kept then.
    ///
    /// # Errors
    ///
    /// The mark may have been kept or not.
    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure>;
}
