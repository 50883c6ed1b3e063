//! A book of requests on the core's, with a switch for each bug in it.

use std::sync::Arc;

use async_trait::async_trait;
use ledger_core::{
    Asked, Claim, Evidence, FencedLedger, Generation, Handover, Holder, Json, LateAnswer, Lease, Observation,
    OpenRequest, Outcome, Owner, PageSize, PartitionId, Request, RequestBook, RequestError, RequestKey, RequestState,
    Result, Ttl,
};

use crate::bugs::Bug;

/// The book under test.
pub(crate) struct BrokenBook {
    pub(crate) ledger: Arc<dyn FencedLedger>,
    pub(crate) bug: Option<Bug>,
}

impl BrokenBook {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The lease of whoever holds the partition now.
    async fn lease_of_the_holder(&self, partition: &PartitionId) -> Result<Option<Lease>> {
        Ok(self.ledger.observe(partition).await?.tenure.map(|tenure| tenure.lease))
    }

    /// A lease of a partition that no case looks at.
    async fn lease_elsewhere(&self) -> Result<Lease> {
        let (partition, holder) = (PartitionId::new("elsewhere")?, Holder::new("book")?);
        Ok(self.ledger.claim(&Claim::new(partition, holder, Ttl::default(), Observation::NeverClaimed)).await?.lease)
    }

    /// How a bug shows an open request.
    fn shown(&self, request: &mut Request) {
        if self.has(Bug::LastSenderShownAsTheFirst) {
            request.made = request.last_sent.clone();
        }
    }
}

#[async_trait]
impl RequestBook for BrokenBook {
    async fn request(&self, lease: &Lease, key: &RequestKey, what: &Json) -> Result<Asked, RequestError> {
        if self.has(Bug::SentBeforeItIsRecorded) {
            return self.ledger.request(&self.lease_elsewhere().await?, key, what).await;
        }
        match self.ledger.request(lease, key, what).await {
            Ok(Asked::Known(_)) if self.has(Bug::SecondRequestSends) => self.ledger.send_again(lease, key).await,
            Err(RequestError::KeyReused(known)) if self.has(Bug::KeyOfAnotherRequestAccepted) => {
                Ok(Asked::Known(known))
            }
            answer => answer,
        }
    }

    async fn send_again(&self, lease: &Lease, key: &RequestKey) -> Result<Asked, RequestError> {
        match self.ledger.look_up(&lease.partition, key).await? {
            Some(known) if self.has(Bug::SentAgainUnderAnotherKey) => {
                let another = RequestKey::new(format!("{key}, again"))?;
                self.ledger.request(lease, &another, &known.what).await
            }
            _ => self.ledger.send_again(lease, key).await,
        }
    }

    async fn settle(
        &self,
        lease: &Lease,
        key: &RequestKey,
        outcome: Outcome,
        evidence: &Evidence,
    ) -> Result<Request, RequestError> {
        let current = self.lease_of_the_holder(&lease.partition).await?;
        let lease = current.as_ref().filter(|_| self.has(Bug::LateAnswerSettles)).unwrap_or(lease);
        match self.ledger.settle(lease, key, outcome, evidence).await {
            Err(RequestError::Settled(mut known)) if self.has(Bug::SettledOneChanges) => {
                known.state = RequestState::settled(outcome, evidence.clone());
                Ok(*known)
            }
            answer => answer,
        }
    }

    async fn mark_unknown(&self, lease: &Lease, key: &RequestKey, why: &Evidence) -> Result<Request, RequestError> {
        if self.has(Bug::UnknownTreatedAsFailed) {
            return self.ledger.settle(lease, key, Outcome::Failed, why).await;
        }
        self.ledger.mark_unknown(lease, key, why).await
    }

    async fn assign(&self, lease: &Lease, key: &RequestKey, owner: &Owner) -> Result<Request, RequestError> {
        let request = self.ledger.assign(lease, key, owner).await?;
        if self.has(Bug::OwnerChangesTheState) {
            let why = Evidence::new(owner.owner.as_str(), owner.note.as_str())?;
            return self.ledger.mark_unknown(lease, key, &why).await;
        }
        Ok(request)
    }

    async fn look_up(&self, partition: &PartitionId, key: &RequestKey) -> Result<Option<Request>> {
        self.ledger.look_up(partition, key).await
    }

    async fn open_requests(&self, partition: &PartitionId) -> Result<Vec<OpenRequest>> {
        let mut open = self.ledger.open_requests(partition).await?;
        open.iter_mut().for_each(|open| self.shown(&mut open.request));
        if self.has(Bug::OpenOnesOfTheNewestPage) {
            let page = self.ledger.read_back(partition, None, PageSize::default()).await?;
            let oldest = page.events.last().map(|event| event.position);
            open.retain(|open| Some(open.request.made.first) >= oldest);
        }
        Ok(open)
    }

    async fn late_answers(&self, partition: &PartitionId, since: Generation) -> Result<Vec<LateAnswer>> {
        self.ledger.late_answers(partition, since).await
    }

    async fn handover(&self, partition: &PartitionId, generation: Generation) -> Result<Option<Handover>> {
        let mut found = self.ledger.handover(partition, generation).await?;
        if let (true, None, Some(lease)) =
            (self.has(Bug::HandoverOfTheNewest), &found, self.lease_of_the_holder(partition).await?)
        {
            found = self.ledger.handover(partition, lease.generation).await?;
        }
        let Some(told) = &mut found else { return Ok(None) };
        told.open.iter_mut().for_each(|request| self.shown(request));
        match self.bug {
            Some(Bug::HandoverAsOfNow) => {
                let open = self.ledger.open_requests(partition).await?;
                told.open = open.into_iter().map(|open| open.request).collect();
            }
            Some(Bug::OnlyThePredecessorsRequests) => {
                let previous = told.succession.previous.as_ref().map(|previous| previous.generation);
                told.open.retain(|request| Some(request.generation()) == previous);
            }
            Some(Bug::AdvancesNotToldInHandover) => told.advances.clear(),
            Some(Bug::HandoverNamesNoBasis) => told.succession.basis = ledger_core::Basis::Released,
            Some(Bug::RejectionsOfAnybody) => {
                let page = self.ledger.rejections(Some(partition), None, PageSize::MAX).await?;
                told.afterwards.rejections = page.records;
            }
            _ => {}
        }
        Ok(found)
    }
}
