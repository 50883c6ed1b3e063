//! A [`Witness`](ledger_core::Witness) in a file, for all processes of one machine.
//!
//! ```
//! use ledger_core::{FencedLedger, FencedLedgerExt, Holder, PartitionId, Ttl, Witnessed};
//! use ledger_memory::MemoryLedger; // a store that lasts, in its place
//! use ledger_witness::FileWitness;
//! use std::{sync::Arc, time::Duration};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("marks");
//! let witness = Arc::new(FileWitness::open(path)?);
//! let ledger = Witnessed::new(Arc::new(MemoryLedger::new()), witness);
//! let (jobs, me) = (PartitionId::new("jobs")?, Holder::new("worker-a")?);
//! # futures_executor::block_on(async {
//! // A store that went back in time is not claimed: `LedgerError::RolledBack`.
//! let lease = ledger.claim_when_free(&jobs, &me, Ttl::default(), Duration::from_secs(5)).await?.lease;
//! # ledger.release(&lease).await
//! # })?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to keep it
//!
//! On another disk than the store, and in no backup that is restored together with it: a witness that goes back with its
//! store has seen nothing. On a local disk, as its lock is the operating system's. A witness on each machine notices what
//! was acknowledged to that machine; one for all is a [`LedgerWitness`](ledger_core::LedgerWitness).
//!
//! Who deletes the file forgets the marks: under an open handle that is an error, and the next open begins anew.
//!
//! # The file
//!
//! Version 1, UTF-8, only ever appended to. It is locked by `<file>.lock`, which stays.
//!
//! ```text
//! fenced-ledger-witness 1 <UUID>
//! <check> {"ledger":…,"partition":…,"generation":…,"position":…,"chain":…}
//! …
//! ```
//!
//! `check` is the first 8 bytes of the SHA-256 of the JSON, as 16 hexadecimal digits. Of a partition, the latest mark
//! counts. A last line without its end was being written in a crash, and nobody was answered: it is ignored, and cut off
//! by the next write. Any other line that can not be read is damage, and an error that names it. When the file has four
//! lines for each partition (and 256 more) it is written anew beside itself with one line each, under another UUID, with
//! the same group and mode, and renamed. Where that fails, the marks are kept all the same and the file grows: an event of
//! `tracing` warns, and after 256 more lines it is tried again.
//!
//! A mark costs one write and one `fdatasync`, shared by all that wait at that moment; reading one costs the lock and what
//! was appended since. What another handle has written is synced before a call is answered by it: its process may have
//! been killed before it had done so.

mod file;
mod journal;

pub use file::FileWitness;
pub use journal::{Kept, WitnessError};
