//! Goal: spans have the names that the crate documents, and no span, event or field holds a payload or metadata.
//!
//! Method: a subscriber that takes everything down, in every thread, while payloads with a marker are appended, refused
//! and read. One test, so that the process has one subscriber.

#[path = "../../ledger-postgres/tests/common/heard.rs"]
mod heard;

use std::sync::Arc;

use heard::Heard;
use ledger_core::{
    Advance, Append, Claim, EventKind, FencedLedger, Holder, Json, Lease, LedgerError, NewEvent, Note, Observation,
    PageSize, PartitionId, Position, Ttl,
};
use ledger_sqlite::SqliteLedger;

const MARKER: &str = "kept-to-itself";

async fn claim(ledger: &SqliteLedger, by: &str) -> Lease {
    let partition = PartitionId::new("p").expect("a plain name");
    let observed = ledger.observe(&partition).await.expect("observed").observation();
    let holder = Holder::new(by).expect("a plain name");
    ledger.claim(&Claim::new(partition, holder, Ttl::MAX, observed)).await.expect("claimed").lease
}

#[tokio::test(flavor = "current_thread")]
async fn spans_have_stable_names_and_nothing_tells_a_payload() {
    let heard = Arc::new(Heard::default());
    // The writer and the readers are threads of their own.
    tracing::subscriber::set_global_default(heard.clone()).expect("the only one");
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = SqliteLedger::open(folder.path().join("ledger.db")).expect("opened");

    let text = Json::new(format!("\"{MARKER}\"")).expect("JSON");
    let event = NewEvent::new(EventKind::new("noted").expect("a kind"), text.clone()).with_metadata(text);
    let append = || Append::new([event.clone()]).expect("a small append");
    let lease = claim(&ledger, "a").await;
    let sent = append();
    ledger.append(&lease, &sent).await.expect("appended");
    ledger.renew(&lease, None).await.expect("renewed");
    ledger.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
    ledger.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read");
    ledger.read_back(&lease.partition, None, PageSize::MAX).await.expect("read");
    ledger.release(&lease).await.expect("released");
    let refused = ledger.append(&lease, &append()).await;
    assert!(matches!(refused, Err(LedgerError::Rejected(_))), "{refused:?}");
    let next = claim(&ledger, "b").await;
    let reason = Note::new("a test").expect("a note");
    ledger.end_tenure(&next.partition, Observation::of(&next), &reason).await.expect("ended");
    let step = Advance::new(next.partition, next.holder, None, reason);
    ledger.advance(&step).await.expect("advanced");
    ledger.partitions(None, PageSize::MAX).await.expect("read");
    ledger.rejections(None, None, PageSize::MAX).await.expect("read");
    ledger.close().await;

    heard.assert_spans();
    heard.assert_silent_about(&[MARKER]);
}
