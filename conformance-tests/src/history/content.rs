//! What a ledger holds once nothing of the past can write to it any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger_core::{
    AcquisitionId, AdvanceRecord, Claim, Entry, Event, Failure, FailureKind, FencedLedger, FencedLedgerExt, Holder,
    LedgerError, Note, OwnEvent, PageSize, PartitionId, Reason, Result, Revision, Succession, Ttl, Verification,
};
use serde::{Deserialize, Serialize};

use super::facts::Tenure;
use crate::context;
use crate::{Stop, Violation};

/// Everything that a ledger holds, read after a barrier.
///
/// The *barrier* is a last takeover of each partition. After it no call of an earlier generation can write any more
/// (C6), so what is read then is final: a call with an unknown outcome either is in it, or never happened. Only a log
/// that fences has this, and it spares the checker every search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Content {
    /// Each partition that was ever claimed.
    pub partitions: Vec<PartitionContent>,
    /// The records of partitions that were never claimed, with the overflow record of their budget.
    pub never_claimed: Vec<ledger_core::RejectionRecord>,
}

/// Everything that a ledger holds of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartitionContent {
    /// The partition.
    pub partition: PartitionId,
    /// The log, in the order of positions.
    pub log: Vec<Logged>,
    /// The newest tenure, as a look tells it.
    pub tenure: Option<Tenure>,
    /// The revision, as the same look tells it.
    pub revision: Revision,
    /// The rejection records.
    pub records: Vec<ledger_core::RejectionRecord>,
    /// What `verify` found wrong, in its words.
    pub fault: Option<String>,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Logged {
    /// The entry.
    pub entry: Arc<Entry>,
    /// How many events of it were read, at its positions in order.
    pub events: u32,
    /// For one of the ledger's own events, what it says.
    pub own: Option<Own>,
}

impl Logged {
    /// An entry as it was read.
    pub fn new(entry: Arc<Entry>, events: u32, own: Option<Own>) -> Self {
        Self { entry, events, own }
    }
}

/// One of the ledger's own events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a new kind is a new version of the format")]
pub enum Own {
    /// `$claimed`.
    Claimed(Succession),
    /// `$released`.
    Released,
    /// `$ended`, with the operator's reason.
    Ended(Note),
    /// `$advanced`, with what the operator's step found.
    Advanced(AdvanceRecord),
}

impl Content {
    /// Verifies and reads everything. Nobody may write meanwhile: call [`barrier`] first.
    ///
    /// # Errors
    ///
    /// A violation, where the ledger does not let itself be read.
    pub async fn read(ledger: &dyn FencedLedger) -> Result<Self, Stop> {
        let mut content = Self::default();
        for partition in all_partitions(ledger).await? {
            content.partitions.push(PartitionContent::read(ledger, &partition).await?);
        }
        content.never_claimed = context::records(ledger, None).await?;
        Ok(content)
    }
}

impl PartitionContent {
    /// Verifies and reads everything of one partition. Nobody may write meanwhile.
    ///
    /// # Errors
    ///
    /// A violation, where it can not be read.
    pub async fn read(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Self, Stop> {
        let fault = match ledger.verify(partition, None).await? {
            Verification::Clean { .. } => None,
            Verification::Broken { position, fault } => Some(format!("position {position}: {fault}")),
        };
        let state = ledger.observe(partition).await?;
        Ok(Self {
            partition: partition.clone(),
            log: logged(&context::read_all(ledger, partition).await?)?,
            tenure: state.tenure.as_ref().map(Tenure::of),
            revision: state.judged.revision,
            records: context::records(ledger, Some(partition)).await?,
            fault,
        })
    }
}

/// Who takes every partition over, as the barrier.
const BARRIER: &str = "barrier";

/// How long the barrier goes on where neither waiting nor an operator's step helps.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Takes every partition over, so that nothing of the past can write to it any more: afterwards [`Content::read`].
///
/// But for an operator's advance, which needs no lease: so none may be under way. To be called when all who wrote are gone
/// or have been given up, on a [recorded](super::Recorded) ledger, so that the
/// checker knows whose these claims are. `also` names partitions that may not exist yet: where the answer of a first claim
/// was lost, it could still come, and is settled by being too late. A partition whose lease does not end within `patience` (its store's clock may
/// stand behind the recorded time) is freed as an operator does.
///
/// # Errors
///
/// A violation, where a partition does not let itself be taken over within a minute after that.
pub async fn barrier(recorded: &dyn FencedLedger, also: &[PartitionId], patience: Duration) -> Result<(), Stop> {
    let mut all: BTreeSet<PartitionId> = also.iter().cloned().collect();
    all.extend(all_partitions(recorded).await?);
    for partition in all {
        take_over(recorded, &partition, patience).await?;
    }
    Ok(())
}

async fn take_over(ledger: &dyn FencedLedger, partition: &PartitionId, patience: Duration) -> Result<(), Stop> {
    let (holder, acquisition) = (Holder::new(BARRIER).map_err(Stop::from)?, AcquisitionId::mint());
    let reason = Note::new("the lease does not end by the store's clock").map_err(Stop::from)?;
    let start = Instant::now();
    loop {
        let waited = start.elapsed();
        match try_take_over(ledger, partition, &holder, acquisition, (waited > patience).then_some(&reason)).await {
            Ok(()) => return Ok(()),
            Err(LedgerError::Rejected(refused))
                if matches!(refused.reason, Reason::Held | Reason::ObservationOutdated) => {}
            Err(LedgerError::NotWritten(_) | LedgerError::Unknown(_)) => {}
            Err(other) => return Err(other.into()),
        }
        if waited > patience.saturating_add(GIVE_UP) {
            let expected = format!("`{partition}` can be taken over, or freed by an operator after {patience:?}");
            return Err(Violation::new(expected, format!("not within {waited:?}")).into());
        }
        // Between two looks: what is waited for is the end of the last lease.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn try_take_over(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    holder: &Holder,
    acquisition: AcquisitionId,
    as_operator: Option<&Note>,
) -> Result<()> {
    let mut state = ledger.observe(partition).await?;
    let is_ours = state.tenure.as_ref().is_some_and(|tenure| tenure.lease.acquisition == acquisition);
    if let (Some(reason), false, false) = (as_operator, state.is_free(), is_ours) {
        ledger.end_tenure(partition, state.observation(), reason).await?;
        state = ledger.observe(partition).await?;
    }
    if state.is_free() || is_ours {
        // Long, so that no other claim can come after it while the content is read.
        let claim = Claim::new(partition.clone(), holder.clone(), Ttl::MAX, state.observation());
        ledger.claim(&claim.with_acquisition(acquisition)).await?;
        return Ok(());
    }
    Err(LedgerError::NotWritten(Failure::new(FailureKind::Busy, "a lease has not ended yet")))
}

async fn all_partitions(ledger: &dyn FencedLedger) -> Result<Vec<PartitionId>, Stop> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = ledger.partitions(after.as_ref(), PageSize::MAX).await?;
        all.extend(page.partitions);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// The entries of events that were read in ascending order.
fn logged(events: &[Event]) -> Result<Vec<Logged>, Stop> {
    let mut log: Vec<Logged> = Vec::new();
    for event in events {
        match log.last_mut() {
            Some(last)
                if last.entry == event.entry && last.entry.first.checked_add(last.events) == Some(event.position) =>
            {
                last.events += 1;
            }
            _ => {
                let own = OwnEvent::read(&event.kind, &event.payload).map_err(|error| {
                    Violation::new(format!("the payload at {} is the ledger's own", event.position), error.to_string())
                })?;
                let own = match own {
                    Some(OwnEvent::Claimed(succession)) => Some(Own::Claimed(succession)),
                    Some(OwnEvent::Released) => Some(Own::Released),
                    Some(OwnEvent::Ended { reason }) => Some(Own::Ended(reason)),
                    Some(OwnEvent::Advanced(record)) => Some(Own::Advanced(record)),
                    _ => None,
                };
                log.push(Logged::new(event.entry.clone(), 1, own));
            }
        }
    }
    Ok(log)
}
