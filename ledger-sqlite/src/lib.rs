//! A [`FencedLedger`](ledger_core::FencedLedger) in one SQLite file, for the processes of one machine.
//!
//! ```
//! use ledger_core::{Append, FencedLedger, FencedLedgerExt, Holder, NewEvent, PartitionId, Ttl};
//! use ledger_sqlite::SqliteLedger;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("ledger.db");
//! let ledger = SqliteLedger::open(file)?;
//! let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//! let lease = ledger.claim_when_free(&partition, &holder, Ttl::default(), Duration::from_secs(10)).await?.lease;
//!
//! let appended = ledger.append(&lease, &Append::new([NewEvent::of("job-done", &120)?])?).await?;
//! println!("durable at position {}", appended.entry.last);
//! ledger.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! One writer thread takes all calls that are queued into one `BEGIN IMMEDIATE … COMMIT`, and answers after the commit:
//! many callers share one flush. There is nothing to turn on: a lone call goes at once, and a group forms while the one
//! before is on its way to the disk. After a lone call the thread looks for the next one for 50 us before it sleeps, as
//! long as they come that fast. What it knows of the partitions it wrote to, half a kilobyte each and 131,072 at most,
//! it keeps until another connection commits. The judgement is the one of `ledger-core`, made while SQLite's write lock
//! is held, so it is atomic across all processes. Reads have threads and connections of their own, which write nothing
//! and hold no transaction between two pages. No asynchronous runtime is needed.
//!
//! Business tables may live in the same file. [`SqliteLedger::append_in`] appends inside a transaction of theirs, under
//! the same judgement: both are in one commit, or neither.
//!
//! # How each rule is upheld
//!
//! | rule | by |
//! |---|---|
//! | T1, T4 | the host's clock (or [`SqliteOptions::clock`]), read for each member of a group under the write lock, after all that the judgement rests on was read |
//! | T2 | lease row and newest log row both carry the recorded time, for every process to see; the first refusal as expired stores it before it is answered |
//! | G, C, R, J | `ledger_core::decide`, under the write lock; `$claimed` and `$released` are rows of the log, in the transaction that changes the lease row |
//! | G4 | the newest row of the log is read with the lease row, for every judgement |
//! | A1 to A4 | everything is read under the lock; an append's rows are written in its transaction; ids are looked up over the partition's whole life, or shown by the row of an append of one event, which is not written where its id is taken. A constraint that is met is [`Corrupt`](ledger_core::LedgerError::Corrupt) |
//! | A6 | `TEXT` columns, byte for byte |
//! | E1 to E3 | table `fenced_rejection`: the first record of a key is in the group's transaction, repeats are counted in memory and written twice a second |
//! | E4 | a tenure that this handle was told has ended is refused by a reader; so is any ended one while another connection holds the lock for longer than 5 ms. Only the first record of a key then waits, at most 250 ms |
//! | U1 | an error before COMMIT, or a full disk in it, is `NotWritten`; an I/O error in COMMIT is `Unknown`, since a crash may bring the transaction back |
//! | U3 | a call is one message to a thread; whoever drops its answer does not stop it half-way |
//! | U4 | nothing is tried again but taking the lock, within [`SqliteOptions::busy_timeout`] |
//! | I1, I2 | the digests are stored with each entry; a page that can not be read is `Corrupt` at its position |
//! | D1, D2, D5, D6 | one page is one short read transaction of a snapshot, on a reader's thread, which ends whether its answer is waited for or not |
//! | D7 | a walk along the positions inside of SQLite: an index on the kind would cost each append a page more |
//! | S1 | [`OpenError`]: everything is looked at before anything is changed, set, and read back |
//! | S2 | WAL with `synchronous=FULL`; weaker by name only |
//! | S3 | the layout is installed in one transaction, whose need is looked up again under the lock |
//!
//! # Tracing
//!
//! Each call is a span at debug level: `fenced_ledger.append`, `.claim`, `.renew`, `.release`, `.end_tenure`, `.advance`, `.observe`,
//! `.fate`, `.read` (backwards too), `.partitions`, `.rejections`. Fields: `partition` where there is one; `holder` of a
//! claim; `generation` of a lease; `id` of an append and of `fate`; `events`, their number. These names are stable. No
//! payload and no metadata is ever told.
//!
//! # Limits
//!
//! - One machine: SQLite's write-ahead log needs shared memory. Network file systems are refused as far as they can be
//!   told (Linux); on others nothing is known.
//! - One writer at a time in the whole file, and each transaction of a caller holds everybody up until it ends.
//! - A process that is *stopped* (not killed) in the middle of a commit keeps the lock, and nobody can break it: until it
//!   goes on or is killed, others read, and refuse whom they know to have been fenced off, but nobody takes over. A
//!   killed process lets go at once.
//! - A database file that is replaced or removed under an open handle is noticed before a write is acknowledged, by
//!   device and inode of the file and of its `-wal`, before and after each commit (Unix; elsewhere not). A file that
//!   others copy *into*, in place, is not noticed. A handle that has noticed it refuses everything: open a new one.
//! - A deleted `-wal`, or one whose content is damaged, loses the newest commits without a word when the file is next
//!   opened: SQLite can not tell. Keep a [`Mark`](ledger_core::Mark) elsewhere for `verify` to compare with.
//! - A process that has a ledger open must not open and close its file by other means than SQLite, nor through a second
//!   copy of SQLite that is linked into it: that ends its locks (POSIX).
//! - A process that forks must not use in the child a handle that was opened before: it is not detected.
//! - All processes must go by one clock. One that is ahead ends leases early; none can lengthen one or revive it.
//! - A long read by another program keeps the `-wal` from being reset, so it grows.
//! - Whoever may write the file may write anything (S5): SQLite has no roles. `verify` finds what was edited.
//! - The evidence is outside of the chain (E5).

mod caller;
mod classify;
mod connection;
mod evidence;
mod file;
mod group;
mod ledger;
mod open;
mod open_error;
mod options;
mod pace;
mod page;
mod reader;
mod records;
mod row;
mod rows;
mod schema;
mod shared;
mod standings;
mod statement;
mod store;
mod task;
mod work;
mod writer;

pub use ledger::SqliteLedger;
pub use open_error::OpenError;
pub use options::SqliteOptions;
