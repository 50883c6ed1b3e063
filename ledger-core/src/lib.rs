//! An event-sourced ledger whose store refuses stale writers.
//!
//! Several processes write results into one ledger. Each partition of it has one holder at a time, under a lease. A
//! holder stalls, another takes over, and then the first one wakes up and writes. Here **the store itself** judges
//! every append, in the same atomic step that writes it: by holder, generation (the fencing token), acquisition and an
//! unexpired lease. A stale write changes nothing, the refusal is a typed value, and the store keeps a record of it.
//!
//! This crate has the [contract], the [`FencedLedger`] trait with its types, the [judgement](mod@judge), and the
//! [hash chain](chain), and a [keeper] that renews leases and stops early; a [shadow] tries all that beside a system that
//! runs. Pick a backend crate for a store, or write one and run `conformance-tests` on it.
//!
//! ```
//! use ledger_core::{Append, FencedLedger, FencedLedgerExt, Holder, NewEvent, PartitionId, Reason, Ttl};
//! use std::time::Duration;
//!
//! async fn work(ledger: &dyn FencedLedger) -> Result<(), Box<dyn std::error::Error>> {
//!     let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//!     let lease = ledger.claim_when_free(&partition, &holder, Ttl::default(), Duration::from_secs(10)).await?.lease;
//!
//!     let append = Append::new([NewEvent::of("job-done", &serde_json::json!({ "rows": 120 }))?])?;
//!     match ledger.append(&lease, &append).await {
//!         Ok(appended) => println!("at position {}", appended.entry.last),
//!         Err(error) => match error.rejection() {
//!             Some(refused) if refused.reason == Reason::StaleGeneration => println!("another took over: {refused}"),
//!             _ => return Err(error.into()),
//!         },
//!     }
//!     Ok(())
//! }
//! ```

/// The README's example is compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

mod advance;
mod append;
mod budget;
pub mod chain;
mod claim;
pub mod decide;
mod describe;
mod error;
mod event;
mod ext;
mod handover;
mod id;
mod invalid;
pub mod judge;
pub mod keeper;
mod lease;
mod ledger;
mod name;
mod number;
mod own;
mod page;
mod partition;
mod random;
mod record;
mod rejection;
mod remark;
mod request;
pub mod shadow;
mod state;
mod stream;
mod sync;
mod time;
mod tries;
mod verify;
mod witness;

#[doc = include_str!("contract.md")]
pub mod contract {}

pub use advance::{Advance, AdvanceRecord, Advanced, FoundLease};
pub use append::{Append, Appended, Expected, Fate, MAX_APPEND_BYTES, MAX_EVENTS};
pub use budget::RecordBudget;
pub use chain::Digest;
pub use claim::{Basis, Claim, Claimed, Observation, Predecessor, Succession};
pub use describe::{Capability, Description, Durability};
pub use error::{Failure, FailureKind, LedgerError, Result, Source};
pub use event::{Entry, Event, EventKind, Json, MAX_NESTING, NewEvent};
pub use ext::{FencedLedgerExt, POLL};
pub use handover::{Afterwards, Handover};
pub use id::{AcquisitionId, AppendId, LedgerId};
pub use invalid::Invalid;
pub use lease::{Ended, Holder, Judged, Lease, Note, Released, Renewal, TenureEnd, Vacancy};
pub use ledger::{FencedLedger, MAX_LOOKED};
pub use name::MAX_NAME_BYTES;
pub use number::{Generation, Position, Revision};
pub use own::OwnEvent;
pub use page::{LazyPage, Page, PageSize, PartitionPage, RecordPage, Room};
pub use partition::{PartitionId, PartitionState, TenureState};
pub use record::{MAX_RECORD_KEYS, RecordSlot, Refused, RejectionRecord};
pub use rejection::{Current, Operation, Presented, Reason, RecordState, Rejection};
pub use remark::{MAX_REMARK_BYTES, Remark};
pub use request::{
    Asked, Evidence, LateAnswer, OpenRequest, OpenRequests, Outcome, Owner, Request, RequestBook, RequestError,
    RequestEvent, RequestKey, RequestState, RequestStep, Sending,
};
pub use state::{PastTenure, Standing, StoredLease, Tail};
pub use time::{Clock, ManualClock, SystemClock, Timestamp, Ttl};
pub use verify::{Fault, Mark, Verification};
pub use witness::{LedgerWitness, Marking, Rewind, RolledBack, Witness, Witnessed};
