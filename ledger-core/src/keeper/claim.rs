//! The keeper: claims a partition, now or when it is free.

use std::sync::Arc;
use std::time::Duration;

use super::changes::{Changes, Feed};
use super::clock::{BootClock, LocalClock, Moment, within};
use super::counts::{Counters, Counts};
use super::driver::Driver;
use super::tenure::{Ground, Tenure, no_answer};
use super::terms::Terms;
use super::writer::Writer;
use crate::shadow::mark;
use crate::tries::Tries;
use crate::{AcquisitionId, Claim, Claimed, FencedLedger, Holder, Invalid, Lease, LedgerError, POLL, PartitionId};

/// Claims one partition for one holder, as often as it is asked to, and gives out a [`Writer`] and its [`Driver`].
///
/// Cheap to clone: clones share counters and subscribers.
#[derive(Clone, Debug)]
pub struct Keeper {
    ground: Ground,
    partition: PartitionId,
    holder: Holder,
}

/// What to do while another holds the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: not, for a time, for ever")]
pub enum Wait {
    /// Nothing: one claim is sent, and its refusal is the answer.
    No,
    /// Wait for expiry or release, for so long by the keeper's clock.
    AtMost(Duration),
    /// Wait for expiry or release, as long as it takes, also through failures of the store. Drop the future to stop.
    Forever,
}

/// Why a keeper has no writer to give out.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(clippy::exhaustive_enums, reason = "closed: the store's answer, or one that came too late")]
pub enum ClaimError {
    /// The store's answer: what it proves is the [`LedgerError`]'s to say (U1).
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The claim was granted, and nothing of its trust was left when the answer came (K9). The lease runs out by
    /// itself; nothing renews it.
    #[error("granted too late: nothing of the trust in generation {} was left when the answer came", lease.generation)]
    TooLate {
        /// What was granted.
        lease: Box<Lease>,
    },
}

impl Keeper {
    /// A keeper that uses [`BootClock`].
    ///
    /// # Errors
    ///
    /// [`Terms::check`]'s: an interval that leaves no room for one failed try is refused (K2). The name of a
    /// [shadow](crate::shadow) is [`Invalid::Unusable`] (W1).
    pub fn new(
        ledger: Arc<dyn FencedLedger>,
        partition: PartitionId,
        holder: Holder,
        terms: Terms,
    ) -> Result<Self, Invalid> {
        mark::refuse(&holder, "holder of a keeper")?;
        Ok(Self { ground: Ground::new(ledger, terms)?, partition, holder })
    }

    /// A keeper of a pool.
    pub(super) fn on(ground: Ground, partition: PartitionId, holder: Holder) -> Self {
        Self { ground, partition, holder }
    }

    /// The same keeper with another clock. Writers that it gave out before keep theirs.
    #[must_use]
    pub fn with_clock(mut self, clock: impl LocalClock + 'static) -> Self {
        self.ground.clock = Arc::new(clock);
        self
    }

    /// Claims the partition.
    ///
    /// The trust counts from before the claim that was granted was sent, however long the wait before it was (K9). One
    /// acquisition is kept over all tries, so that a grant whose answer was lost is asked for again (C4).
    ///
    /// Not cancel safe in one respect: a claim that was granted just when the future was dropped holds the partition
    /// until it expires.
    ///
    /// # Errors
    ///
    /// [`TooLate`](ClaimError::TooLate), or the store's: without waiting the first, with a time limit the last when it
    /// is used up ([`Held`](crate::Reason::Held) for the most part). What waiting does not mend comes at once. Either is
    /// [`Unknown`](LedgerError::Unknown) where the answer to one of the tries stayed out.
    pub async fn claim(&self, wait: Wait) -> Result<(Writer, Driver), ClaimError> {
        let (sent, claimed) = self.claim_when_free(wait).await?;
        let lease = claimed.lease.clone();
        let Some(tenure) = Tenure::begin(self.ground.clone(), sent, claimed) else {
            return Err(ClaimError::TooLate { lease: Box::new(lease) });
        };
        Ok((Writer::new(tenure.clone()), Driver::new(tenure, sent)))
    }

    pub(crate) fn ledger(&self) -> &dyn FencedLedger {
        &*self.ground.ledger
    }

    pub(crate) fn partition(&self) -> &PartitionId {
        &self.partition
    }

    /// The changes of all tenures that this keeper claims from now on, and of those that last.
    pub fn subscribe(&self) -> Changes {
        self.ground.feed.subscribe()
    }

    /// The counters over all tenures of this keeper.
    pub fn counts(&self) -> Counts {
        *self.ground.counters.lock()
    }

    async fn claim_when_free(&self, wait: Wait) -> Result<(Moment, Claimed), LedgerError> {
        let (clock, terms) = (&*self.ground.clock, &self.ground.terms);
        let start = clock.now();
        let deadline = match wait {
            Wait::No => start,
            Wait::AtMost(time) => start.after(time),
            Wait::Forever => start.after(Duration::MAX),
        };
        let mut tries = Tries::new();
        loop {
            let is_last = clock.now() >= deadline;
            let error = match self.look_and_claim(tries.acquisition(), is_last).await {
                Ok(Tried::Granted(sent, claimed)) => return Ok((sent, claimed)),
                Ok(Tried::HeldFor(time)) => {
                    clock.sleep_until(clock.now().after(time.min(POLL)).min(deadline)).await;
                    continue;
                }
                Err(error) => error,
            };
            tries.failed(error, is_last)?;
            clock.sleep_until(clock.now().after(terms.pause().min(POLL)).min(deadline)).await;
        }
    }

    /// One look and, where the partition is free or it is the last try, one claim.
    async fn look_and_claim(&self, acquisition: AcquisitionId, is_last: bool) -> Result<Tried, LedgerError> {
        let Ground { ledger, clock, terms, .. } = &self.ground;
        // What takes longer than a grant can be trusted is of no use any more.
        let latest = || clock.now().after(terms.longest_trust());
        let observed = within(&**clock, latest(), ledger.observe(&self.partition)).await;
        let state = observed.unwrap_or_else(|| Err(not_read()))?;
        let is_ours = state.tenure.as_ref().is_some_and(|tenure| tenure.lease.acquisition == acquisition);
        if let Some(tenure) = &state.tenure
            && !(state.is_free() || is_ours || is_last)
        {
            return Ok(Tried::HeldFor(tenure.lease.expires_at.since(state.judged.time)));
        }
        let claim = Claim::new(self.partition.clone(), self.holder.clone(), terms.ttl, state.observation())
            .with_acquisition(acquisition);
        let sent = clock.now();
        let claimed = within(&**clock, latest(), ledger.claim(&claim)).await;
        let claimed = claimed.unwrap_or_else(|| Err(no_answer("a claim was not answered in its time")))?;
        Ok(Tried::Granted(sent, claimed))
    }
}

impl Ground {
    /// What all tenures stand on, by the boot clock.
    pub(super) fn new(ledger: Arc<dyn FencedLedger>, terms: Terms) -> Result<Self, Invalid> {
        terms.check()?;
        let (counters, feed) = (Arc::new(Counters::default()), Feed::default());
        Ok(Self { ledger, clock: Arc::new(BootClock), terms, counters, feed })
    }
}

enum Tried {
    Granted(Moment, Claimed),
    HeldFor(Duration),
}

/// A look that was not answered wrote nothing.
fn not_read() -> LedgerError {
    let failure = crate::Failure::new(crate::FailureKind::Unavailable, "the partition could not be observed in time");
    LedgerError::NotWritten(failure)
}
