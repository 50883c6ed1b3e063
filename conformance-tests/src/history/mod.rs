//! Histories of concurrent clients, and the check of them against what the ledger holds in the end.
//!
//! Cases ask one thing after another. A history is what really happened: many processes, calls that overlap, answers
//! that were lost, processes that were paused and killed. It is judged afterwards, whole.
//!
//! 1. Each process writes through a [`Recorded`] ledger.
//! 2. When all are done or gone, [`barrier`] takes every partition over a last time, on a recorded ledger too. No
//!    earlier call can write after it, so no outcome stays unknown.
//! 3. [`Content::read`] reads everything that the ledger holds.
//! 4. [`check()`] compares both, and gives [`Findings`].
//!
//! # What is checked
//!
//! | | |
//! |---|---|
//! | log | positions without a gap; each entry is written under the lease in force, before its expiry; each claim and each operator's advance follows from what was there before it (V1) |
//! | writes | whatever was acknowledged is there as it was acknowledged; nothing is there that nobody sent, or whose call was told that it was not written (V2, V3) |
//! | order | what had returned before another was called stands before it, and its time is not later (V4) |
//! | refusals, looks, replays, pages | each is what [`judge`](ledger_core::judge::judge) says of the state at the revision which it names, and that state was in force during the call (V5). This finds a refusal that is *wrong* |
//! | fate | `Never` came true, `Undecided` could still be so, `Recorded` is in the log |
//! | evidence | each refusal about the right to write has its record, with a count that is neither too small nor too large (E1 to E3) |
//! | belief | counted, and no violation: writes under a lease that was over by the caller's own clock (V6) |
//! | progress | since [`Recorder::healed`]: each call is answered within the bound, and a partition that is asked for is written to (V7) |
//!
//! Every answer carries its revision (J2), so the place of each in the one order is known, and nothing is searched:
//! the check takes O(n log n), and each finding names its call. What no answer tells is where a renewal stands whose own
//! answer was lost. That follows from what others were told: heads and revisions before and behind it, the expiry and
//! the times that it explains, and the moment of its call. Where they leave its order among entries open whose answers
//! were lost too, every such order is gone through, and accused is what none of them explains. So a finding is never a
//! guess. What is not checked: docs/verification.md of the repository.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use conformance_tests::history::{Content, History, Recorded, Recorder, barrier, check};
//! # use ledger_core::{FencedLedgerExt, Holder, PartitionId, Ttl};
//! # use ledger_memory::MemoryLedger;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = Arc::new(MemoryLedger::new()); // yours in its place
//! let recorder = Arc::new(Recorder::create(folder.path().join("worker-a.jsonl"), "worker-a")?);
//! let ledger = Recorded::new(store.clone(), recorder);
//! # let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//! # ledger.claim_when_free(&partition, &holder, Ttl::from_millis(10)?, Duration::from_secs(1)).await?;
//! // … many processes write …
//! barrier(&ledger, &[], Duration::from_secs(10)).await?;
//! let content = Content::read(&*store).await?;
//! let findings = check(&History::load(folder.path())?, &content);
//! assert!(findings.violations.is_empty(), "{findings}");
//! # Ok(())
//! # }
//! ```

mod check;
mod content;
mod facts;
mod invocation;
mod load;
mod record;
mod recorder;

pub use check::{Counts, Finding, Findings, Kind, check};
pub use content::{Content, Logged, Own, PartitionContent, barrier};
pub use facts::{Kept, Seen, Tenure, Truth};
pub use invocation::Invocation;
pub use load::{History, LoadError};
pub use record::{Answer, Call, FORMAT, Line};
pub use recorder::{Recorded, Recorder, now};
