//! Shadows with a bug: the core's, with something between it and the store that changes what it asks and is told.

use std::sync::Arc;

use async_trait::async_trait;
use ledger_core::shadow::unmarked;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Current, Description, Ended, Fate, FencedLedger,
    Generation, Holder, Lease, LedgerError, Note, Observation, Operation, Page, PageSize, PartitionId, PartitionPage,
    PartitionState, Position, Presented, Reason, RecordPage, RecordSlot, Rejection, Released, Renewal, Result, Ttl,
};

use crate::bugs::Bug;

#[derive(Debug)]
pub(crate) struct BrokenShadow {
    pub(crate) ledger: Arc<dyn FencedLedger>,
    pub(crate) bug: Bug,
}

impl BrokenShadow {
    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// The name that it uses at the store.
    fn name(&self, holder: &Holder) -> Holder {
        let name = if self.has(Bug::ShadowWithoutAMark) { unmarked(holder) } else { holder.as_str() };
        Holder::new(name).expect("a part of a name")
    }

    fn lease(&self, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        lease.holder = self.name(&lease.holder);
        lease
    }

    /// The answer to an append that it does not send: what it thinks that the store would say.
    async fn own_answer(&self, lease: &Lease, append: &Append) -> Result<Option<LedgerError>> {
        let state = self.ledger.observe(&lease.partition).await?;
        let Some(tenure) = state.tenure else { return Ok(None) };
        let reason = match lease.generation.cmp(&tenure.lease.generation) {
            std::cmp::Ordering::Less => Reason::StaleGeneration,
            _ if tenure.lease.acquisition != lease.acquisition => Reason::WrongAcquisition,
            _ => return Ok(None),
        };
        let silent = match reason {
            Reason::WrongAcquisition => self.has(Bug::ShadowWithoutALeaseIsSilent),
            _ => self.has(Bug::ShadowJudgesByItself),
        };
        let held = (tenure.lease.holder, tenure.lease.generation, tenure.lease.acquisition);
        let current = Current::new(held, tenure.lease.expires_at, tenure.vacancy, tenure.head);
        let presented = Presented::lease(lease, Some(append));
        let partition = lease.partition.clone();
        let refused =
            Rejection::new(reason, Operation::Append, partition, presented, Some(current), None, state.judged);
        Ok(silent.then(|| refused.into()))
    }
}

#[async_trait]
impl FencedLedger for BrokenShadow {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let mut state = self.ledger.observe(partition).await?;
        let is_free = state.is_free();
        if let (true, true, Some(tenure)) = (self.has(Bug::ShadowClaimsWhereOthersEnforced), is_free, &mut state.tenure)
        {
            tenure.lease.holder = Holder::new(format!("shadow/{}", unmarked(&tenure.lease.holder)))?;
        }
        Ok(state)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let mut sent = claim.clone();
        sent.holder = self.name(&claim.holder);
        let mut claimed = self.ledger.claim(&sent).await?;
        claimed.lease.holder = claim.holder.clone();
        Ok(claimed)
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let mut renewal = self.ledger.renew(&self.lease(lease), ttl).await?;
        renewal.lease.holder = lease.holder.clone();
        Ok(renewal)
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.ledger.release(&self.lease(lease)).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger.advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        if let Some(refused) = self.own_answer(lease, append).await? {
            return Err(refused);
        }
        let state = self.ledger.observe(&lease.partition).await?;
        if self.has(Bug::ShadowClaimsBeforeItIsRefused) && state.is_free() {
            let claim = Claim::new(lease.partition.clone(), lease.holder.clone(), lease.ttl, state.observation());
            let lease = self.ledger.claim(&claim).await?.lease;
            return self.ledger.append(&lease, append).await;
        }
        self.ledger.append(&self.lease(lease), append).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger.read(partition, from, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.ledger.read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.ledger.partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.ledger.rejections(partition, after, limit).await
    }
}
