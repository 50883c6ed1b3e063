//! A ledger whose reads were tampered with: shows that what a backend returns is enough to find every edit.

use std::sync::Arc;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Event, Fate, FencedLedger,
    Generation, Lease, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position,
    RecordPage, RecordSlot, Released, Renewal, Result, TenureState, Ttl,
};

/// An edit of a whole log, as a reader is to see it.
pub(crate) type LogEdit = dyn Fn(&mut Vec<Event>) + Send + Sync;

/// Passes every call on, but shows an edited log, and, if told so, a lease that fits its end.
pub(crate) struct Tampered {
    inner: Arc<dyn FencedLedger>,
    edit: Box<LogEdit>,
    rewinds_lease: bool,
}

impl Tampered {
    /// Shows an edited log beside the true lease.
    pub(crate) fn new(inner: Arc<dyn FencedLedger>, edit: impl Fn(&mut Vec<Event>) + Send + Sync + 'static) -> Self {
        Self { inner, edit: Box::new(edit), rewinds_lease: false }
    }

    /// Shows also a lease that is that of the edited log: log and lease were rewound together.
    pub(crate) fn with_lease(mut self) -> Self {
        self.rewinds_lease = true;
        self
    }

    async fn log(&self, partition: &PartitionId) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut from = Some(Position::FIRST);
        while let Some(position) = from {
            let page = self.inner.read(partition, position, PageSize::MAX).await?;
            events.extend(page.events);
            from = page.next;
        }
        (self.edit)(&mut events);
        Ok(events)
    }
}

impl std::fmt::Debug for Tampered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tampered").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl FencedLedger for Tampered {
    async fn describe(&self) -> Result<Description> {
        self.inner.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let mut state = self.inner.observe(partition).await?;
        if let (true, Some(tenure)) = (self.rewinds_lease, &mut state.tenure)
            && let Some(tip) = self.log(partition).await?.pop().map(|event| event.entry)
        {
            let mut lease = tenure.lease.clone();
            (lease.generation, lease.holder, lease.acquisition) = (tip.generation, tip.holder.clone(), tip.acquisition);
            *tenure = TenureState::new(lease, None, tip.recorded_at, tip.last, tip.chain);
        }
        Ok(state)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.inner.claim(claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.inner.renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.inner.release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.inner.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.inner.advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.inner.append(lease, append).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.inner.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        let _ = limit;
        // The whole edited log on one page: `verify` reads forward from the first position.
        let events = self.log(partition).await?.into_iter().skip_while(|event| event.position < from).collect();
        Ok(Page::forward(events, None))
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.inner.read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.inner.partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.inner.rejections(partition, after, limit).await
    }
}
