//! What a cluster has recorded of the layout: one event, in a partition of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger_core::{
    Append, AppendId, Digest, Event, FencedLedger, FencedLedgerExt, Holder, Invalid, LedgerError, LedgerId, NewEvent,
    PartitionId, Ttl,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::layout::Layout;

/// The partition in which a cluster records the layout. It is the router's: it is not listed, and refused to its users.
pub const LAYOUT_PARTITION: &str = "fenced-ledger/layout";

/// The kind of the event.
const KIND: &str = "layout";

/// How long an installation waits for another one that is at it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    /// Of layout and ledgers: this is what is compared.
    pub(crate) fingerprint: Digest,
    /// The name of this cluster.
    pub(crate) cluster: String,
    /// For people: the clusters with their ledgers, and the rule.
    clusters: BTreeMap<String, LedgerId>,
    rule: serde_json::Value,
}

impl Record {
    pub(crate) fn new(layout: &Layout, ledgers: &[LedgerId], cluster: &str) -> Self {
        let clusters = layout.clusters().map(str::to_owned).zip(ledgers.iter().copied()).collect();
        // It is made of texts alone.
        let rule = serde_json::to_value(layout.rule()).unwrap_or_default();
        let fingerprint = layout.fingerprint(ledgers);
        Self { version: 1, fingerprint, cluster: cluster.to_owned(), clusters, rule }
    }

    /// The same record under the same id: written once, however often an installation is repeated (A4).
    fn append(&self) -> Result<Append, Invalid> {
        let id = derived(b"fenced-ledger/layout/1/id", self.fingerprint);
        Append::with_id(AppendId::from_uuid(id)?, [NewEvent::of(KIND, self)?])
    }
}

pub(crate) fn partition() -> Result<PartitionId, Invalid> {
    PartitionId::new(LAYOUT_PARTITION)
}

/// What a cluster has recorded, if it has.
pub(crate) async fn read(ledger: &dyn FencedLedger) -> Result<Option<Record>, LedgerError> {
    let partition = partition()?;
    let newest = ledger.fold(
        &partition,
        None,
        |newest: Option<Event>, event| {
            if event.kind.as_str() == KIND { Some(event) } else { newest }
        },
    );
    let Some(event) = newest.await? else { return Ok(None) };
    let unreadable = |error: serde_json::Error| {
        LedgerError::corrupt(Some(&partition), Some(event.position), format!("this is no layout: {error}"))
    };
    event.payload.decode().map(Some).map_err(unreadable)
}

/// Records, unless there is a record; gives what is recorded then. Under a lease, so that of two installations one waits.
pub(crate) async fn write(ledger: &dyn FencedLedger, record: &Record) -> Result<Record, LedgerError> {
    let holder = Holder::new("ledger-router")?;
    let lease = ledger.claim_when_free(&partition()?, &holder, Ttl::from_millis(30_000)?, PATIENCE).await?.lease;
    let recorded = match read(ledger).await? {
        Some(recorded) => recorded,
        None => {
            ledger.append(&lease, &record.append()?).await?;
            record.clone()
        }
    };
    ledger.release(&lease).await?;
    Ok(recorded)
}

/// The id of a layout, which a router gives as its own.
pub(crate) fn layout_id(fingerprint: Digest) -> Result<LedgerId, Invalid> {
    LedgerId::from_uuid(derived(b"fenced-ledger/router/1", fingerprint))
}

/// A UUID of version 8 from a fingerprint.
fn derived(domain: &[u8], fingerprint: Digest) -> uuid::Uuid {
    let mut hash = Sha256::new();
    hash.update(domain);
    hash.update(fingerprint.as_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[..16]);
    uuid::Builder::from_custom_bytes(id).into_uuid()
}
