//! Goal: spans have the names that the crate documents, and no span, event or field of ours or of sqlx's holds a payload,
//! metadata, nor the digits of their bytes.
//!
//! Method: a subscriber that takes everything down, while payloads with a marker are appended, refused and read.

mod common;
#[path = "common/heard.rs"]
mod heard;

use std::sync::Arc;

use common::{Place, Wanted, claim, holder, partition, seconds};
use heard::Heard;
use ledger_core::{
    Advance, Append, EventKind, FencedLedger, Json, LedgerError, NewEvent, Note, Observation, PageSize, Position,
};
use ledger_postgres::PostgresLedger;

const MARKER: &str = "kept-to-itself";

/// Every call of the trait, with a payload that has the marker where there is one.
async fn use_all(ledger: &PostgresLedger) {
    let text = Json::new(format!("\"{MARKER}\"")).expect("JSON");
    let event = NewEvent::new(EventKind::new("noted").expect("a kind"), text.clone()).with_metadata(text);
    let append = || Append::new([event.clone()]).expect("a small append");
    let lease = claim(ledger, "p", "a", seconds(600)).await.lease;
    let sent = append();
    ledger.append(&lease, &sent).await.expect("appended");
    ledger.renew(&lease, None).await.expect("renewed");
    ledger.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
    ledger.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read");
    ledger.read_back(&lease.partition, None, PageSize::MAX).await.expect("read");
    ledger.release(&lease).await.expect("released");
    let refused = ledger.append(&lease, &append()).await;
    assert!(matches!(refused, Err(LedgerError::Rejected(_))), "{refused:?}");
    let next = claim(ledger, "p", "b", seconds(600)).await.lease;
    let reason = Note::new("a test").expect("a note");
    ledger.end_tenure(&partition("p"), Observation::of(&next), &reason).await.expect("ended");
    let step = Advance::new(partition("p"), holder("operator"), None, reason);
    ledger.advance(&step).await.expect("advanced");
    ledger.partitions(None, PageSize::MAX).await.expect("read");
    ledger.rejections(None, None, PageSize::MAX).await.expect("read");
}

#[tokio::test(flavor = "current_thread")]
async fn spans_have_stable_names_and_nothing_tells_a_payload() {
    let place = Place::new(Wanted::OLDEST).await;
    let heard = Arc::new(Heard::default());
    let guard = tracing::subscriber::set_default(heard.clone());
    use_all(&place.open().await).await;
    // Its values are in the text of its statements.
    let simple = place.options().transaction_pooler(true).connect(&place.url).await.expect("opened");
    use_all(&simple).await;
    drop(guard);

    heard.assert_spans();
    let digits: String = MARKER.bytes().map(|byte| format!("{byte:02x}")).collect();
    heard.assert_silent_about(&[MARKER, &digits]);
    place.drop().await;
}
