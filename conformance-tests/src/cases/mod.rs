//! The cases, one family a module.

#[macro_use]
mod list;
mod append;
mod cancel;
mod clock;
mod crash;
mod evidence;
mod fate;
mod handover;
mod idempotency;
mod integrity;
mod judgement;
mod keeper;
mod limits;
mod partitions;
mod payload;
mod reading;
mod release;
mod renewal;
mod requests;
mod restart;
mod rollback;
mod shadow;
mod stale_write;
mod takeover;
mod unknown;
mod witness;

use crate::Case;

macro_rules! array_of_cases {
    ($($family:ident { $($id:ident [$($hook:ident)*] [$($rule:literal)*] $why:literal;)* })*) => {
        &[$($(
            Case {
                id: stringify!($id),
                family: stringify!($family),
                rules: &[$($rule),*],
                why: $why,
                needs: &[$($crate::__hook!($hook)),*],
                run: |context| Box::pin($family::$id(context)),
            },
        )*)*]
    };
}

/// All cases, in the order of the list.
pub const CASES: &[Case] = for_each_case!(array_of_cases);

/// Rules of the contract that no case of this suite can check, and why. A backend's own tests, or documents, must.
pub const UNTESTED: &[(&str, &str)] = &[
    ("E5", "a demand on the documentation"),
    ("U4", "retries within the library show only where the engine fails: the backend's own fault tests"),
    ("K1", "trust is measured without a store: scenarios of `ledger-core` in virtual time"),
    ("K5", "as K1"),
    ("K6", "as K1, and a process that is stopped, in `ledger-memory/tests` and `zombie/tests/what_if`"),
    ("K7", "as K1"),
    ("K11", "as K1, and a subscriber of `tracing`, in `ledger-memory/tests`"),
    ("S1", "what a store refuses at open is its engine's matter"),
    ("S3", "installing a schema is the backend's own door"),
    ("S5", "roles are the engine's matter"),
];

/// What every family uses.
mod prelude {
    pub(super) use std::sync::Arc;
    pub(super) use std::time::Duration;

    pub(super) use ledger_core::{
        AcquisitionId, Advance, Append, AppendId, Basis, Claim, Claimed, Ended, Entry, Event, EventKind, Expected,
        Fate, FencedLedger, FencedLedgerExt, Generation, Holder, Json, Lease, LedgerError, NewEvent, Note, Observation,
        Operation, OwnEvent, PageSize, PartitionId, Position, Reason, RecordState, Released, Succession, Timestamp,
        Ttl, Vacancy,
    };

    pub(super) use crate::check::{Snapshot, ensure, equal, expect_rejected, refused_without_effect};
    pub(super) use crate::context::{
        Running, Wait, all_at_once, append, append_as, at, batch, claim, edited, event, event_of, first_claim, holder,
        in_time, let_others_run, long_ttl, partition, prepare_claim, read_all, records, seconds, shifted,
    };
    pub(super) use crate::{Context, Stop, Verdict, Violation};
}
