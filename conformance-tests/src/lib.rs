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
//! | [`snapshot`](Storage::snapshot) | that a store which went back in time is noticed, with a witness, and how it goes on |
//!
//! # Figures
//!
//! With `FENCED_LEDGER_FULL=1` in the environment, cases that count (100,000 other appends, 100,000 refusals) run with
//! their full figures.
//!
//! # Does it bite?
//!
//! `tests/broken` of this crate holds ledgers with one bug each, and for each the case that must fail on it.

mod book;
mod case;
mod cases;
pub mod check;
pub mod context;
mod faulty;
mod harness;
mod macros;
pub mod network;
mod report;
mod suite;
mod tampered;

pub use case::{Case, Stop, Verdict, Violation};
pub use cases::{CASES, UNTESTED};
pub use context::Context;
pub use harness::{ClockControl, Edit, Harness, HarnessError, Hook, HookError, Hooked, LockGuard, Storage, StoreCopy};
pub use report::{CaseReport, Outcome, Report};
pub use suite::Suite;
#[doc(hidden)]
pub use suite::{run_declared_skips, run_test};
