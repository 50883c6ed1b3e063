//! Ledgers with one bug each, over a good one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Entry, Fate, FencedLedger,
    Generation, Lease, LedgerError, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState,
    Position, Reason, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

/// A bug of a ledger that a simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// An append counts as the current holder's, whoever sends it.
    IgnoresGeneration,
    /// The lease is good for longer than its holder was told.
    HoldsLongerThanTold,
    /// The id of an append is not kept, so that a retry is written again.
    WritesRetriesAgain,
    /// Some appends are acknowledged and not written.
    AcknowledgesFirst,
    /// `fate` says never where it does not know.
    SaysNeverTooSoon,
    /// A claim ends a valid tenure.
    Steals,
}

#[derive(Debug)]
pub(crate) struct Broken {
    ledger: Arc<dyn FencedLedger>,
    flaw: Flaw,
    appends: AtomicU64,
}

impl Broken {
    pub(crate) fn new(ledger: Arc<dyn FencedLedger>, flaw: Flaw) -> Self {
        Self { ledger, flaw, appends: AtomicU64::new(0) }
    }

    async fn current(&self, lease: &Lease) -> Result<Lease> {
        let state = self.ledger.observe(&lease.partition).await?;
        Ok(state.tenure.map_or_else(|| lease.clone(), |tenure| tenure.lease))
    }
}

#[async_trait]
impl FencedLedger for Broken {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger.observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        if self.flaw == Flaw::HoldsLongerThanTold {
            let mut longer = claim.clone();
            longer.ttl = Ttl::from_millis(12_000).expect("a TTL");
            let mut claimed = self.ledger.claim(&longer).await?;
            claimed.lease.expires_at = claimed.judged.time.after(claim.ttl);
            return Ok(claimed);
        }
        match self.ledger.claim(claim).await {
            Err(LedgerError::Rejected(refused)) if refused.reason == Reason::Held && self.flaw == Flaw::Steals => {
                let reason = Note::new("stolen").expect("a note");
                self.ledger.end_tenure(&claim.partition, claim.observed, &reason).await?;
                self.ledger.claim(claim).await
            }
            answer => answer,
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let mut renewal = self.ledger.renew(lease, ttl).await?;
        if self.flaw == Flaw::HoldsLongerThanTold {
            renewal.lease.expires_at = renewal.judged.time.after(Ttl::default());
        }
        Ok(renewal)
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.ledger.release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger.advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        let nth = self.appends.fetch_add(1, Ordering::SeqCst);
        match self.flaw {
            Flaw::IgnoresGeneration => self.ledger.append(&self.current(lease).await?, append).await,
            Flaw::WritesRetriesAgain => self.ledger.append(lease, &Append::new(append.events().clone())?).await,
            Flaw::AcknowledgesFirst if nth % 100 == 99 => {
                let state = self.ledger.observe(&lease.partition).await?;
                let is_free = state.is_free();
                let tenure = state.tenure.filter(|tenure| !is_free && tenure.lease.generation == lease.generation);
                let Some(tenure) = tenure else { return self.ledger.append(lease, append).await };
                let (position, by) = (tenure.head.next().expect("far from the ceiling"), tenure.lease);
                let (content, at) = (append.content(), state.judged.time);
                let place = (position, position);
                let (generation, holder) = (by.generation, by.holder);
                let entry =
                    Entry::new(Some(append.id()), place, generation, holder, by.acquisition, at, content, tenure.chain);
                Ok(Appended::new(Arc::new(entry), false, state.judged))
            }
            _ => self.ledger.append(lease, append).await,
        }
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        match self.ledger.fate(partition, id, generation).await? {
            Fate::Undecided if self.flaw == Flaw::SaysNeverTooSoon => Ok(Fate::Never),
            fate => Ok(fate),
        }
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
