//! Checks: each compares what was expected with what was seen, and gives a [`Violation`] where they differ. A backend's
//! own tests may use them too.

use std::fmt::Debug;

use ledger_core::{
    Event, FencedLedger, LedgerError, PartitionId, Reason, RecordState, Rejection, Result, Revision, TenureState,
};

use crate::context::read_all;
use crate::{Stop, Violation};

/// Demands that something holds.
#[track_caller]
pub fn ensure(holds: bool, expected: &str, seen: impl Debug) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(expected, format!("{seen:?}"))) }
}

/// Demands that what was seen is what was expected.
#[track_caller]
pub fn equal<T: PartialEq + Debug + ?Sized>(what: &str, seen: &T, expected: &T) -> Result<(), Violation> {
    if seen == expected { Ok(()) } else { Err(Violation::new(format!("{what}: {}", clipped(expected)), clipped(seen))) }
}

/// Demands that a call was refused for a reason, and gives the rejection.
#[track_caller]
pub fn expect_rejected<T: Debug>(what: &str, result: Result<T>, reason: Reason) -> Result<Rejection, Violation> {
    let expected = || format!("{what} is refused as {reason}");
    match result {
        Ok(granted) => Err(Violation::new(expected(), format!("granted: {}", clipped(&granted)))),
        Err(LedgerError::Rejected(rejection)) if rejection.reason == reason => {
            let evidence = rejection.is_evidence();
            match (&rejection.record, evidence) {
                (RecordState::Stored | RecordState::Counted, true) | (RecordState::NotEvidence, false) => {
                    Ok(*rejection)
                }
                (state, true) => Err(Violation::new(
                    format!("{what} is refused as {reason}, and its record is stored or counted"),
                    format!("{state:?}"),
                )),
                (state, false) => {
                    Err(Violation::new(format!("{what} is refused as {reason}, no evidence"), format!("{state:?}")))
                }
            }
        }
        Err(LedgerError::Rejected(rejection)) => Err(Violation::new(expected(), format!("refused: {rejection}"))),
        Err(other) => Err(Violation::new(expected(), crate::case::told(&other))),
    }
}

/// Lease, head, revision and the whole log of a partition at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The newest tenure.
    pub tenure: Option<TenureState>,
    /// The revision.
    pub revision: Revision,
    /// The log.
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Takes a snapshot. Nobody may write meanwhile.
    pub async fn take(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Self, Stop> {
        let state = ledger.observe(partition).await?;
        let events = read_all(ledger, partition).await?;
        Ok(Self { tenure: state.tenure, revision: state.judged.revision, events })
    }

    /// Demands that nothing has changed since. Where `may_record` allows it, the recorded time alone may have moved
    /// on: an expiry that was told is recorded (T2).
    pub async fn expect_unchanged(
        &self,
        what: &str,
        ledger: &dyn FencedLedger,
        partition: &PartitionId,
        may_record: bool,
    ) -> Result<(), Stop> {
        let mut after = Self::take(ledger, partition).await?;
        if let (true, Some(before), Some(after)) = (may_record, &self.tenure, &mut after.tenure) {
            let grows = after.recorded_at >= before.recorded_at;
            ensure(grows, &format!("{what} takes no recorded time back"), (before.recorded_at, after.recorded_at))?;
            after.recorded_at = before.recorded_at;
        }
        equal(&format!("lease and head, unchanged by {what}"), &after.tenure, &self.tenure)?;
        equal(&format!("the revision, unchanged by {what}"), &after.revision, &self.revision)?;
        Ok(equal(&format!("the log, unchanged by {what}"), &after.events, &self.events)?)
    }
}

/// Makes a call that must be refused, and compares the whole partition before and after it.
pub async fn refused_without_effect<T: Debug>(
    what: &str,
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    reason: Reason,
    call: impl Future<Output = Result<T>>,
) -> Result<Rejection, Stop> {
    let before = Snapshot::take(ledger, partition).await?;
    let rejection = expect_rejected(what, call.await, reason)?;
    before.expect_unchanged(what, ledger, partition, reason == Reason::Expired).await?;
    if let (Reason::Expired, Some(tenure)) = (reason, ledger.observe(partition).await?.tenure) {
        let recorded = tenure.recorded_at >= tenure.lease.expires_at;
        ensure(recorded, &format!("{what} has recorded that the lease is expired"), tenure.recorded_at)?;
    }
    Ok(rejection)
}

/// The debug text, cut to a length that a person reads.
fn clipped(value: &(impl Debug + ?Sized)) -> String {
    const LONGEST: usize = 1_500;
    let text = format!("{value:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} … ({} bytes in all)", &text[..end], text.len()),
        None => text,
    }
}
