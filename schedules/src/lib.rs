//! The sources of `ledger-memory` and of the [keeper], compiled a second time on the locks of shuttle, which takes
//! every schedule of them that it draws.
//!
//! Both take their locks from a module `sync` of their crate. There it is the standard library's; here it is shuttle's.
//! So what is shipped has no switch for this, and what is tested are the very files.

// With `cfg(test)` these sources would be their own unit tests, which have a place already.
#![cfg(not(test))]
#![allow(
    dead_code,
    hidden_glob_reexports,
    rustdoc::private_intra_doc_links,
    unreachable_pub,
    unused_imports,
    reason = "sources of other crates, of which a part is used here; their own builds look at that"
)]

#[path = "../../ledger-memory/src/copy.rs"]
mod copy;
#[path = "../../ledger-core/src/keeper/mod.rs"]
pub mod keeper;
#[path = "../../ledger-memory/src/ledger.rs"]
mod ledger;
#[path = "../../ledger-core/src/shadow/mark.rs"]
mod mark;
#[path = "../../ledger-memory/src/partition.rs"]
mod partition;
#[path = "../../ledger-memory/src/partitions.rs"]
mod partitions;
#[path = "../../ledger-core/src/tries.rs"]
mod tries;

/// What the keeper takes of it.
mod shadow {
    pub(crate) use super::mark;
}

/// The locks of shuttle in place of the standard library's.
mod sync {
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

pub use copy::MemoryCopy;
pub use ledger::MemoryLedger;
// The keeper's sources name the core's types as its own crate's.
pub use ledger_core::*;
