//! A simulated network, in virtual time, between writers and any ledger.
//!
//! [`SimNetwork`] carries the calls of its clients as messages on one queue of events: it delays them, loses them,
//! delivers them twice and in another order, and does the same to the answers. Nothing in it takes real time, and all
//! that is random comes from one seed: the same seed gives the same run, event by event, as [`SimNetwork::trace`]
//! shows. [`Simulation`] is a run of writers over it that use keepers and request books, and what must hold of it.
//!
//! The ledger is called when a message arrives, one call after another. So what is tested is what writers and a ledger
//! make of a bad network, and not the ledger under calls at the same moment.

mod executor;
mod faults;
mod figures;
mod oracle;
mod remote;
mod simulation;
mod worker;

pub use executor::{SimClock, SimNetwork};
pub use faults::Faults;
pub use figures::Figures;
pub use simulation::{Habit, Simulation};
