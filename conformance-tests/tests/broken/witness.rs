//! The comparison with a witness on the core's, with a switch for each bug in it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, EventKind, Failure, Fate,
    FencedLedger, FencedLedgerExt, Generation, Holder, Json, Lease, LedgerError, LedgerId, LedgerWitness, Mark,
    NewEvent, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position, RecordPage,
    RecordSlot, Released, Renewal, Result, Ttl, Witness, Witnessed,
};

use crate::bugs::Bug;

/// A witness that answers otherwise than it should, or nothing of what it is told.
#[derive(Debug)]
pub(crate) struct BrokenWitness {
    bug: Option<Bug>,
    witness: Arc<dyn Witness>,
    ledger: Arc<dyn FencedLedger>,
}

impl BrokenWitness {
    /// The handle under test.
    pub(crate) fn compare(
        bug: Option<Bug>,
        ledger: Arc<dyn FencedLedger>,
        witness: Arc<dyn Witness>,
    ) -> Arc<dyn FencedLedger> {
        if bug == Some(Bug::WitnessNotAsked) {
            return ledger;
        }
        let witness = Arc::new(Self { bug, witness, ledger: ledger.clone() });
        let witnessed = Witnessed::new(ledger.clone(), witness);
        match bug {
            Some(Bug::AcknowledgedForgotten) => Arc::new(ClaimsAlone { plain: ledger, witnessed }),
            _ => Arc::new(witnessed),
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

#[async_trait]
impl Witness for BrokenWitness {
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        let mark = match self.witness.mark(ledger, partition).await {
            Err(_) if self.has(Bug::WitnessFailsOpen) => None,
            answer => answer?,
        };
        let Some(mut mark) = mark else { return Ok(None) };
        if self.has(Bug::PositionsComparedAlone)
            && let Ok(page) = self.ledger.read_back(partition, Some(mark.position), PageSize::MAX).await
            && let Some(event) = page.events.first()
        {
            mark = Mark::of(&event.entry);
        }
        if self.has(Bug::AdvanceLiftsNoMark) {
            mark.generation = Generation::MAX;
        }
        Ok(Some(mark))
    }

    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure> {
        match self.witness.keep(ledger, partition, mark).await {
            Err(_) if self.has(Bug::WitnessFailsOpen) => Ok(mark),
            answer => answer,
        }
    }
}

/// A witness in a ledger.
pub(crate) fn in_ledger(bug: Option<Bug>, marks: Arc<dyn FencedLedger>) -> Arc<dyn Witness> {
    let witness = LedgerWitness::new(marks.clone(), Holder::new("witness").expect("a name"));
    if bug == Some(Bug::MarksGoBack) { Arc::new(LastWins(witness, marks)) } else { Arc::new(witness) }
}

/// Keeps whatever comes last.
#[derive(Debug)]
struct LastWins(LedgerWitness, Arc<dyn FencedLedger>);

#[async_trait]
impl Witness for LastWins {
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        self.0.mark(ledger, partition).await
    }

    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure> {
        let marks = LedgerWitness::partition(ledger, partition);
        let holder = Holder::new("witness").expect("a name");
        let failed = |error: LedgerError| Failure::new(ledger_core::FailureKind::Other, error.to_string());
        let patience = Duration::from_secs(10);
        let claimed = self.1.claim_when_free(&marks, &holder, Ttl::default(), patience).await.map_err(failed)?;
        let kept = serde_json::json!({
            "ledger": ledger, "partition": partition,
            "generation": mark.generation, "position": mark.position, "chain": mark.chain,
        });
        let kind = EventKind::new(LedgerWitness::KIND).expect("a kind");
        let event = NewEvent::new(kind, Json::of(&kept).expect("JSON"));
        let append = Append::new([event]).expect("one small event");
        self.1.append(&claimed.lease, &append).await.map_err(failed)?;
        self.1.release(&claimed.lease).await.map_err(failed)?;
        Ok(mark)
    }
}

/// Compares claims, and nothing of what follows them.
#[derive(Debug)]
struct ClaimsAlone {
    plain: Arc<dyn FencedLedger>,
    witnessed: Witnessed,
}

#[async_trait]
impl FencedLedger for ClaimsAlone {
    async fn describe(&self) -> Result<Description> {
        self.plain.describe().await
    }
    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.plain.observe(partition).await
    }
    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.witnessed.claim(claim).await
    }
    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.plain.renew(lease, ttl).await
    }
    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.plain.release(lease).await
    }
    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.plain.end_tenure(partition, observed, reason).await
    }
    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.witnessed.advance(advance).await
    }
    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.plain.append(lease, append).await
    }
    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.plain.fate(partition, id, generation).await
    }
    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.plain.read(partition, from, limit).await
    }
    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.plain.read_back(partition, from, limit).await
    }
    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.plain.partitions(after, limit).await
    }
    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.plain.rejections(partition, after, limit).await
    }
}
