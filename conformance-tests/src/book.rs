//! The book of requests that the cases use: the core's, over the handle under test.

use std::sync::Arc;

use async_trait::async_trait;
use ledger_core::{
    Asked, Evidence, FencedLedger, Generation, Handover, Json, LateAnswer, Lease, OpenRequest, Outcome, Owner,
    PartitionId, Request, RequestBook, RequestError, RequestKey, Result,
};

/// The core's book over a handle.
#[derive(Debug)]
pub(crate) struct CoreBook(pub(crate) Arc<dyn FencedLedger>);

#[async_trait]
impl RequestBook for CoreBook {
    async fn request(&self, lease: &Lease, key: &RequestKey, what: &Json) -> Result<Asked, RequestError> {
        self.0.request(lease, key, what).await
    }

    async fn send_again(&self, lease: &Lease, key: &RequestKey) -> Result<Asked, RequestError> {
        self.0.send_again(lease, key).await
    }

    async fn settle(
        &self,
        lease: &Lease,
        key: &RequestKey,
        outcome: Outcome,
        evidence: &Evidence,
    ) -> Result<Request, RequestError> {
        self.0.settle(lease, key, outcome, evidence).await
    }

    async fn mark_unknown(&self, lease: &Lease, key: &RequestKey, why: &Evidence) -> Result<Request, RequestError> {
        self.0.mark_unknown(lease, key, why).await
    }

    async fn assign(&self, lease: &Lease, key: &RequestKey, owner: &Owner) -> Result<Request, RequestError> {
        self.0.assign(lease, key, owner).await
    }

    async fn look_up(&self, partition: &PartitionId, key: &RequestKey) -> Result<Option<Request>> {
        self.0.look_up(partition, key).await
    }

    async fn open_requests(&self, partition: &PartitionId) -> Result<Vec<OpenRequest>> {
        self.0.open_requests(partition).await
    }

    async fn late_answers(&self, partition: &PartitionId, since: Generation) -> Result<Vec<LateAnswer>> {
        self.0.late_answers(partition, since).await
    }

    async fn handover(&self, partition: &PartitionId, generation: Generation) -> Result<Option<Handover>> {
        self.0.handover(partition, generation).await
    }
}
