//! One request found by its key: by its ids alone, however long the log is.

use std::sync::Arc;

use crate::{Entry, Fate, FencedLedger, Generation, LedgerError, PageSize, PartitionId, Result};

use super::{Request, RequestEvent, RequestKey, RequestStep};

/// The request of a key, with all its changes. The changes are numbered without a gap, and each has an id of its own.
pub(super) async fn look_up<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    key: &RequestKey,
) -> Result<Option<Request>> {
    let Some((RequestStep::Made { what }, entry)) = find(ledger, partition, key, 0).await? else { return Ok(None) };
    let mut request = Request::made(key.clone(), what, entry);
    while request.is_open()
        && let Some((step, entry)) = find(ledger, partition, key, request.changes + 1).await?
    {
        request.apply(step, entry);
    }
    Ok(Some(request))
}

async fn find<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    key: &RequestKey,
    number: u32,
) -> Result<Option<(RequestStep, Arc<Entry>)>> {
    // Whether it is recorded is the same under every generation (U2).
    let Fate::Recorded(entry) = ledger.fate(partition, key.append_id(number), Generation::FIRST).await? else {
        return Ok(None);
    };
    let one = PageSize::new(1)?;
    let page = ledger.read(partition, entry.first, one).await?;
    let event = page.events.first().map(RequestEvent::read).transpose()?.flatten();
    match event {
        Some(event) if event.key == *key && event.number == number => Ok(Some((event.step, entry))),
        _ => Err(LedgerError::corrupt(
            Some(partition),
            Some(entry.first),
            "the entry has the id of a request and is not its event",
        )),
    }
}
