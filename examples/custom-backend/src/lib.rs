//! A FencedLedger on [redb](https://docs.rs/redb), an embedded key-value store.
//!
//! It was written with nothing but the documentation of `ledger-core` and `conformance-tests`, to see how far that
//! carries. `README.md` tells what happened on the way.
//!
//! - `ledger`: the calls. Each takes redb's one write transaction, reads, judges with [`ledger_core::decide`], writes
//!   and commits.
//! - `store`: the tables, and what is read from them and written to them.
//! - `evidence`: the rejection records, which are counted in memory and written with the next commit.

mod evidence;
mod ledger;
mod store;

pub use ledger::RedbLedger;
