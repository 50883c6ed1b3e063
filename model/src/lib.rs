//! The protocol of FencedLedger as a model, for one partition: every state up to a bound is visited, and in each of
//! them the properties of the [contract](ledger_core::contract) must hold.
//!
//! There are no clients and no network in it, but the most general client: a call with any holder, generation,
//! acquisition and id may arrive at any moment. Delays, losses, retries, duplicates and forgeries are all special
//! cases of that. What a call meets is [decided](ledger_core::decide) by the code that the stores use.
//!
//! - [`State`] and [`Action`]: what is modelled. The same model in TLA+ is `docs/FencedLedger.tla`, and the two have
//!   the same number of states.
//! - [`Bug`]: mistakes that a store can make, each of which breaks a property within a few steps.
//! - [`properties`](mod@properties): what must hold, in each state and over each step.
//!
//! What it does not have: an operator's `end_tenure`, appends of several events, expected positions, other content
//! under a used id, several partitions, the evidence. Those are the conformance suite's.

mod bounds;
mod bug;
mod decision;
pub mod properties;
mod protocol;
mod state;

pub use bounds::Bounds;
pub use bug::Bug;
pub use decision::{Answer, real};
pub use protocol::{Action, Protocol};
pub use state::{Append, Entry, Kind, Lease, Log, Pending, State, Store, Token};
