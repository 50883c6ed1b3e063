//! The conformance suite of FencedLedger: one list of cases for every backend, also yours.
//!
//! It names no backend. Each [case](Case) checks rules of the [contract](ledger_core::contract) on a fresh storage,
//! and says what was expected and what was seen where one is broken. There are two doors to the one list:
//! [`conformance_tests!`] makes one `#[test]` of each case, and [`Suite::run`] gives a [`Report`].
//!
//! # Test your backend in 20 lines
//!
//! Say how to make a fresh storage and how to open another independent handle on it. That is all that must be written:
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use conformance_tests::{Harness, HarnessError, Storage, Suite};
//! use ledger_core::FencedLedger;
//! use ledger_memory::MemoryLedger; // yours in its place
//!
//! struct MyHarness;
//! struct MyStorage(MemoryLedger);
//!
//! #[async_trait]
//! impl Harness for MyHarness {
//!     async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
//!         Ok(Box::new(MyStorage(MemoryLedger::new())))
//!     }
//! }
//!
//! #[async_trait]
//! impl Storage for MyStorage {
//!     async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
//!         Ok(Arc::new(self.0.clone()))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() {
//!     let report = Suite::new().run(&MyHarness).await;
//!     println!("{report}");
//!     assert_eq!(report.failed().count(), 0, "every rule that could be checked holds");
//!     assert!(report.partial, "without a clock that can be set, some could not");
//! }
//! ```
//!
//! In a test file of the backend, `conformance_tests!(MyHarness, without: { … })` takes the place of `main`: see
//! [there](conformance_tests!).
//!
//! # What the hooks buy
//!
//! [`Storage`] has hooks, each with a default that says that it is not there. A case that needs one is then skipped,
//! by name and with the reason, and the report is `partial`. A skip is never a pass.
//!
//! | hook | what only it can show |
//! |---|---|
//! | [`clock`](Storage::clock) | the boundary of expiry to the microsecond, clocks that step; without it, cases wait for the store's own clock |
//! | [`restart`](Storage::restart) | that nothing which was acknowledged lives in memory alone |
//! | [`hold_lock`](Storage::hold_lock) | what is judged by the time after a wait, and what may not wait at all |
//! | [`tamper`](Storage::tamper) | that an edit of the storage itself is found, at its position |
//! | [`crash`](Storage::crash) | that acknowledged means durable, and that nothing is there by half |
//! | [`line`](Storage::line) | that a lost answer is never told as a refusal, and what comes late is fenced |
//! | [`hold_commit`](Storage::hold_commit) | that nobody is told "never" of what is about to be written |
//! | [`fail_write`](Storage::fail_write) | that a write which the engine fails is undone as a whole, and told as such |
//! | [`snapshot`](Storage::snapshot) | that a store which went back in time is noticed, with a witness, and how it goes on |
//!
//! # Many processes at once
//!
//! Cases ask one thing after another. What concurrent processes were told is recorded and checked by [`history`].

//! # The families
//!
//! | family | what it asks |
//! |---|---|
//! | `takeover` | who becomes holder, and under which generation; of those that race, one |
//! | `stale_write` | that nobody writes whose lease is not the current one, however late, forged or doubled the call is |
//! | `renewal`, `release` | that time is only ever given, that an end is an end, and that a late call leaves the successor alone |
//! | `clock` | the boundary of expiry, and a clock that steps forward and back |
//! | `judgement` | that the first check that fails names the refusal, and that the refusal says what is true |
//! | `append` | positions without a gap, batches whole or absent, expectations of the head |
//! | `idempotency` | that the same append again is written once, for ever |
//! | `evidence` | that a refusal leaves its record, and a flood of them a bounded number |
//! | `fate` | that anybody can ask what became of an append, and that the answer is never taken back |
//! | `reading` | that readers see a prefix, and wait for nobody |
//! | `payload`, `limits` | that what is accepted comes back byte for byte, and that all stores accept the same |
//! | `partitions` | that they do not meet |
//! | `restart`, `crash` | that what was acknowledged is there afterwards, and nothing by half |
//! | `unknown` | that a lost answer is told as unknown, and settled by everybody alike |
//! | `cancel` | that a dropped future leaves the whole effect or none, and a usable handle |
//! | `keeper` | the core's keeper on this store |
//! | `integrity` | that an edit of the storage is found, at its position |
//! | `rollback`, `witness` | an operator's step above every generation; a store that went back in time |
//! | `shadow` | a trial beside a running system: marked, counted, giving way |
//! | `requests`, `handover` | requests to other systems over the store, and what a successor is told of them |
//!
//! [`Case::why`] has for each case the mistake that it is about. Beside the cases, [`random`] compares a store with a
//! model over operations at random; [`Suite::random`] puts such a run into the report.
//!
//! # What a new version may change
//!
//! The version of this crate is the version of the suite, and stands in each report.
//!
//! - A **patch** release mends a case that fails on a right backend, or words; it adds no case and no demand.
//! - A **minor** release may add cases, hooks and edits. A new hook has a default that says that it is not there, so a
//!   harness still compiles, and its new cases are skipped. A new case may fail on a backend that passed before: the
//!   change log lists each under "New cases", with its rules.
//! - A **major** release may remove or rename cases and hooks, or change what a case demands; then the contract has
//!   changed, and its change log says how.
//!
//! A case's id is never used again for another demand. The JSON of a report gains fields in minor releases; fields are
//! removed or change their meaning in major ones alone.
//!
//! # Figures
//!
//! With `FENCED_LEDGER_FULL=1` in the environment, cases that count (100,000 other appends, 100,000 refusals) run with
//! their full figures.
//!
//! # Does it bite?
//!
//! `tests/broken` of this crate holds ledgers with one bug each, and for each the case that must fail on it;
//! `docs/broken-ledgers.md` shows which families find which. `examples/custom-backend` is a backend on an embedded
//! key-value store, written from these pages alone.

mod book;
mod case;
mod cases;
pub mod check;
pub mod context;
mod faulty;
mod harness;
pub mod history;
mod line;
mod macros;
pub mod network;
pub mod random;
mod report;
mod suite;
mod tampered;

pub use case::{Case, Stop, Verdict, Violation};
pub use cases::{CASES, UNTESTED};
pub use context::Context;
pub use harness::{
    ClockControl, Edit, Harness, HarnessError, HeldCommit, Hook, HookError, Hooked, LockGuard, Storage, StoreCopy,
};
pub use line::{Gate, InProcessLine, Line};
pub use report::{CaseReport, Outcome, RandomReport, Report};
pub use suite::Suite;
#[doc(hidden)]
pub use suite::{run_declared_skips, run_test};
