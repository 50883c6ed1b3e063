//! What a shadow asks the ledger: to claim, to renew, to judge an append under the lease that its writer would have.

use std::sync::Arc;

use super::counts::ShadowCounts;
use super::limits::Limits;
use super::queue::Queue;
use super::rules;
use crate::keeper::{LocalClock, Moment, is_fencing, no_answer, within};
use crate::{
    AcquisitionId, Append, Claim, FencedLedger, Holder, Lease, LedgerError, PartitionId, PartitionState, Reason, Result,
};

#[derive(Debug)]
pub(super) struct Judge {
    ledger: Arc<dyn FencedLedger>,
    partition: PartitionId,
    holder: Holder,
    limits: Limits,
    clock: Arc<dyn LocalClock>,
    queue: Arc<Queue>,
    standing: Standing,
    /// Of the next claim, kept until that is granted (C4).
    acquisition: AcquisitionId,
}

/// By what right the next append is written.
#[derive(Debug)]
enum Standing {
    /// By none yet: it claims before that.
    New,
    /// By a lease that was granted. It is presented until the store has refused an append under it, be it long over:
    /// what a writer does that has not noticed. Renewed from that moment on, unless a renewal was refused.
    Held { lease: Lease, renew_at: Option<Moment> },
    /// By a lease under which an append was refused. It claims before the next one, and presents it where it can not.
    Refused { lease: Lease },
}

impl Judge {
    pub(super) fn new(
        ledger: Arc<dyn FencedLedger>,
        partition: PartitionId,
        holder: Holder,
        limits: Limits,
        clock: Arc<dyn LocalClock>,
        queue: Arc<Queue>,
    ) -> Self {
        let (standing, acquisition) = (Standing::New, AcquisitionId::mint());
        Self { ledger, partition, holder, limits, clock, queue, standing, acquisition }
    }

    /// When the lease is to be renewed, if there is one.
    pub(super) fn next_renewal(&self) -> Option<Moment> {
        match &self.standing {
            Standing::Held { renew_at, .. } => *renew_at,
            Standing::New | Standing::Refused { .. } => None,
        }
    }

    pub(super) async fn renew_where_due(&mut self) {
        let sent = self.clock.now();
        if self.next_renewal().is_none_or(|due| sent < due) {
            return;
        }
        let Standing::Held { lease, .. } = &self.standing else { return };
        let renewal = self.call("a renewal", self.ledger.renew(lease, None)).await;
        let Standing::Held { lease, renew_at } = &mut self.standing else { return };
        match renewal {
            Ok(renewal) => (*lease, *renew_at) = (renewal.lease, Some(sent.after(self.limits.terms.renew_every))),
            // It has ended. What the writer does without knowing is still presented under it.
            Err(LedgerError::Rejected(_)) => *renew_at = None,
            Err(error) => {
                *renew_at = Some(self.clock.now().after(self.limits.terms.pause()));
                self.queue.count(|counts| counts.trouble = Some(error.to_string()));
            }
        }
    }

    /// Has an append judged, as long as it is young enough, and counts how that ended.
    pub(super) async fn append(&mut self, append: &Append, at: Moment) {
        let mut was_sent = false;
        loop {
            if !rules::is_judged_at(&self.limits, self.clock.now().since(at)) {
                return self.queue.judged(
                    |counts| {
                        if was_sent { counts.unknown += 1 } else { counts.dropped_old += 1 }
                    },
                );
            }
            let error = match self.lease().await {
                Ok(lease) => {
                    was_sent = true;
                    match self.call("an append", self.ledger.append(&lease, append)).await {
                        Ok(_) => return self.judged(at, |counts| counts.granted += 1),
                        Err(LedgerError::Rejected(rejection)) => {
                            let reason = rejection.reason;
                            tracing::debug!(
                                partition = %self.partition, holder = %self.holder, %reason, %rejection,
                                "would have been refused"
                            );
                            if is_fencing(reason) {
                                self.standing = Standing::Refused { lease };
                            }
                            return self.judged(at, |counts| *counts.refused.entry(reason).or_default() += 1);
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            self.queue.count(|counts| counts.trouble = Some(error.to_string()));
            self.clock.sleep_until(self.clock.now().after(self.limits.terms.pause())).await;
            self.renew_where_due().await;
        }
    }

    /// Gives the partition back. An answer that stays out is not waited for: the lease runs out.
    pub(super) async fn release(&mut self) {
        if let Standing::Held { lease, .. } = &self.standing
            && let Err(error) = self.call("a release", self.ledger.release(lease)).await
        {
            self.queue.count(|counts| counts.trouble = Some(error.to_string()));
        }
        self.standing = Standing::New;
    }

    /// The lease under which the next append is written, after a claim where there is none (W4, W5).
    async fn lease(&mut self) -> Result<Lease> {
        if let Standing::Held { lease, .. } = &self.standing {
            return Ok(lease.clone());
        }
        let state = self.call("a look", self.ledger.observe(&self.partition)).await?;
        // A grant whose answer was lost is asked for again (C4).
        let is_ours = state.tenure.as_ref().is_some_and(|tenure| tenure.lease.acquisition == self.acquisition);
        if is_ours || rules::may_claim(&state) {
            let claimed = self.claim(&state).await;
            if let Err(LedgerError::Rejected(rejection)) = &claimed
                && !matches!(rejection.reason, Reason::Held | Reason::ObservationOutdated)
            {
                // Granted once, and over before its answer could be had.
                self.acquisition = AcquisitionId::mint();
            }
            return claimed;
        }
        Ok(match (&self.standing, state.tenure) {
            (Standing::Refused { lease }, _) if lease.acquisition != self.acquisition => lease.clone(),
            (_, Some(tenure)) => Lease { holder: self.holder.clone(), acquisition: self.acquisition, ..tenure.lease },
            // A partition that nobody ever claimed is free, and was claimed above.
            (_, None) => return Err(no_answer("the partition's tenure is gone")),
        })
    }

    async fn claim(&mut self, state: &PartitionState) -> Result<Lease> {
        let terms = &self.limits.terms;
        let claim = Claim::new(self.partition.clone(), self.holder.clone(), terms.ttl, state.observation())
            .with_acquisition(self.acquisition);
        let sent = self.clock.now();
        let lease = self.call("a claim", self.ledger.claim(&claim)).await?.lease;
        self.acquisition = AcquisitionId::mint();
        self.standing = Standing::Held { lease: lease.clone(), renew_at: Some(sent.after(terms.renew_every)) };
        self.queue.count(|counts| counts.claims += 1);
        Ok(lease)
    }

    /// The answer to a call, if it comes in the time of one try.
    async fn call<T>(&self, what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let until = self.clock.now().after(self.limits.terms.try_for);
        let answer = within(&*self.clock, until, call).await;
        answer.unwrap_or_else(|| Err(no_answer(&format!("{what} was not answered in its time"))))
    }

    fn judged(&self, at: Moment, step: impl FnOnce(&mut ShadowCounts)) {
        let age = self.clock.now().since(at);
        self.queue.judged(|counts| {
            counts.oldest = counts.oldest.max(age);
            step(counts);
        });
    }
}
