//! The comparison of a store with a mark (I3).

use crate::{
    FencedLedger, Generation, LedgerError, Mark, OwnEvent, PageSize, PartitionId, PartitionState, Position, Result,
    Rewind, RolledBack,
};

/// The newest entry that a state shows.
pub(super) fn newest(state: &PartitionState) -> Option<Mark> {
    state.tenure.as_ref().map(|tenure| Mark::new(tenure.lease.generation, tenure.head, tenure.chain))
}

/// Compares a store whose newest entry is `seen` with a mark that was read before `seen` was. `written` says whether the
/// call that asks has been granted.
pub(super) async fn compare(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    mark: Mark,
    seen: Option<Mark>,
    written: bool,
) -> Result<()> {
    let Some(rewind) = differs(ledger, partition, mark, seen).await? else { return Ok(()) };
    let generation = seen.map(|seen| seen.generation);
    if generation > Some(mark.generation) && has_advanced_above(ledger, partition, mark.generation).await? {
        return Ok(());
    }
    Err(RolledBack { partition: partition.clone(), mark, seen, rewind, written }.into())
}

async fn differs(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    mark: Mark,
    seen: Option<Mark>,
) -> Result<Option<Rewind>> {
    let Some(seen) = seen.filter(|seen| seen.position >= mark.position) else { return Ok(Some(Rewind::Behind)) };
    if seen.position == mark.position {
        return Ok((seen.chain != mark.chain).then_some(Rewind::OtherHistory));
    }
    match ledger.read_back(partition, Some(mark.position), one()).await {
        Ok(page) => {
            let at_mark = page.events.first().map(|event| Mark::of(&event.entry));
            Ok((at_mark != Some(mark)).then_some(Rewind::OtherHistory))
        }
        // Its lease says that it reaches further than its log does.
        Err(LedgerError::AheadOfLog { .. }) => Ok(Some(Rewind::Behind)),
        Err(other) => Err(other),
    }
}

/// Whether an operator has advanced the partition above a generation: from the newest entry back to that generation.
async fn has_advanced_above(
    ledger: &dyn FencedLedger,
    partition: &PartitionId,
    generation: Generation,
) -> Result<bool> {
    let mut from: Option<Position> = None;
    loop {
        let page = ledger.read_back(partition, from, PageSize::default()).await?;
        for event in &page.events {
            if event.entry.generation <= generation {
                return Ok(false);
            }
            if event.kind.as_str() == OwnEvent::ADVANCED {
                return Ok(true);
            }
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(false),
        }
    }
}

pub(super) fn one() -> PageSize {
    PageSize::new(1).expect("1 is a size")
}
