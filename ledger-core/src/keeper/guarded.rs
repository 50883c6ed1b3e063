//! The ledger as seen through a writer, for what is made of appends, such as a request book.

use std::sync::Arc;

use async_trait::async_trait;
use tracing::Instrument;

use super::end::WriteError;
use super::rules;
use super::tenure::Tenure;
use crate::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, EventKind, Failure, FailureKind,
    Fate, FencedLedger, Generation, LazyPage, Lease, LedgerError, Note, Observation, Page, PageSize, PartitionId,
    PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

/// Sends appends under the writer's lease as the writer does; all else goes to the ledger as it is.
#[derive(Debug)]
pub(super) struct Guarded(pub(super) Arc<Tenure>);

impl Guarded {
    fn ledger(&self) -> &dyn FencedLedger {
        &*self.0.ground.ledger
    }
}

#[async_trait]
impl FencedLedger for Guarded {
    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        if lease.acquisition != self.0.lease().acquisition {
            return self.ledger().append(lease, append).await;
        }
        match self.0.admit(append) {
            Ok((permit, left)) => permit.send(append).instrument(self.0.span("through", left)).await,
            Err(_) if rules::is_for_the_record(append) => self.ledger().append(lease, append).await,
            Err(WriteError::Ledger(error)) => Err(error),
            Err(not_sent) => Err(LedgerError::NotWritten(Failure::new(FailureKind::Closed, not_sent.to_string()))),
        }
    }

    async fn describe(&self) -> Result<Description> {
        self.ledger().describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger().observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.ledger().claim(claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.ledger().renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.ledger().release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger().end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger().advance(advance).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger().fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger().read(partition, from, limit).await
    }

    async fn read_lazily(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<LazyPage> {
        self.ledger().read_lazily(partition, from, limit).await
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        self.ledger().read_kind(partition, kind, from, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.ledger().read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.ledger().partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.ledger().rejections(partition, after, limit).await
    }
}
