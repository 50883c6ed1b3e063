//! Marks as events of another ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use super::Witness;
use crate::{
    Append, EventKind, Failure, FailureKind, FencedLedger, FencedLedgerExt, Holder, Json, Lease, LedgerError, LedgerId,
    Mark, NewEvent, PageSize, PartitionId, Ttl,
};

/// How long a mark waits for another process that keeps one of the same partition.
const PATIENCE: Duration = Duration::from_secs(10);

/// Newest events that are looked through at once: a mark stands before its `$released`, or before the `$claimed` of the
/// next.
const NEWEST: u32 = 4;

/// A witness that keeps its marks in another ledger: one on another machine, that is not restored together with the one
/// that it watches.
///
/// The marks of a partition are events of the kind `mark` in a partition of their own, `witness/<ledger>/<SHA-256 of the
/// name>`, with ledger, name, generation, position and chain as JSON. To keep one is a claim, an append and a release: the
/// other ledger judges that no mark of an earlier process comes after a later one. Nothing is written where the mark is
/// there already. A log of marks grows by three entries a mark.
#[derive(Clone, Debug)]
pub struct LedgerWitness {
    ledger: Arc<dyn FencedLedger>,
    holder: Holder,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    ledger: LedgerId,
    partition: PartitionId,
    #[serde(flatten)]
    mark: Mark,
}

impl LedgerWitness {
    /// The kind of the events that are marks.
    pub const KIND: &'static str = "mark";

    /// Keeps marks in `ledger`, under the name `holder`.
    pub fn new(ledger: Arc<dyn FencedLedger>, holder: Holder) -> Self {
        Self { ledger, holder }
    }

    /// The partition of the other ledger that has the marks of a partition.
    pub fn partition(ledger: LedgerId, partition: &PartitionId) -> PartitionId {
        let hash = crate::Digest::new(Sha256::digest(partition.as_str()).into());
        PartitionId::new(format!("witness/{ledger}/{hash}")).expect("hexadecimal digits make a name")
    }

    async fn newest(&self, marks: &PartitionId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        let mut from = None;
        loop {
            let size = PageSize::new(NEWEST).expect("it is a size");
            let page = self.ledger.read_back(marks, from, size).await.map_err(failure)?;
            if let Some(event) = page.events.iter().find(|event| event.kind.as_str() == Self::KIND) {
                let kept: Kept = event.payload.decode().map_err(|error| {
                    let detail = format!("the mark at position {} of `{marks}` can not be read", event.position);
                    Failure::new(FailureKind::Other, detail).with_source(error)
                })?;
                if kept.partition != *partition {
                    let detail = format!("`{marks}` has a mark of `{}` and not of `{partition}`", kept.partition);
                    return Err(Failure::new(FailureKind::Other, detail));
                }
                return Ok(Some(kept.mark));
            }
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(None),
            }
        }
    }

    /// Under a lease of the partition of marks: what was kept meanwhile counts.
    async fn keep_under(&self, lease: &Lease, kept: Kept) -> Result<Mark, Failure> {
        let newest = self.newest(&lease.partition, &kept.partition).await?;
        if let Some(newest) = newest.filter(|newest| !kept.mark.is_later_than(newest)) {
            return Ok(newest);
        }
        let invalid = |error: crate::Invalid| Failure::new(FailureKind::Other, error.to_string());
        let event = NewEvent::new(EventKind::new(Self::KIND).map_err(invalid)?, Json::of(&kept).map_err(invalid)?);
        let append = Append::new([event]).map_err(invalid)?;
        self.ledger.append(lease, &append).await.map_err(failure)?;
        Ok(kept.mark)
    }
}

#[async_trait]
impl Witness for LedgerWitness {
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        self.newest(&Self::partition(ledger, partition), partition).await
    }

    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure> {
        let marks = Self::partition(ledger, partition);
        if let Some(newest) = self.newest(&marks, partition).await?
            && !mark.is_later_than(&newest)
        {
            return Ok(newest);
        }
        let claimed = self.ledger.claim_when_free(&marks, &self.holder, Ttl::default(), PATIENCE).await;
        let lease = claimed.map_err(failure)?.lease;
        let kept = self.keep_under(&lease, Kept { ledger, partition: partition.clone(), mark }).await;
        // Without it the lease runs out by itself.
        if let Err(error) = self.ledger.release(&lease).await {
            tracing::debug!(partition = %marks, %error, "the partition of a mark was not released");
        }
        kept
    }
}

fn failure(error: LedgerError) -> Failure {
    match error {
        LedgerError::NotWritten(failure) | LedgerError::Unknown(failure) => failure,
        other => {
            let detail = format!("the ledger of the marks: {other}");
            Failure::new(FailureKind::Other, detail).with_source(other)
        }
    }
}
