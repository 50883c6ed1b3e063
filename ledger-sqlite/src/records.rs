//! Pages of rejection records: what is stored, and what this handle has counted since (E3).

use ledger_core::{Generation, PageSize, PartitionId, RecordPage, RecordSlot, RejectionRecord};
use rusqlite::{Connection, params};

use crate::classify::Trouble;
use crate::evidence::Evidence;
use crate::reader::snapshot;
use crate::row::{self, Place};
use crate::{statement, store};

/// So often is read again because counts were moving from memory to the file, which they do twice a second.
const TRIES: u32 = 5;

/// A page of the records of a partition, or of the budget that all never-claimed ones share.
pub(crate) fn page(
    connection: &Connection,
    evidence: &Evidence,
    partition: Option<&PartitionId>,
    after: Option<RecordSlot>,
    limit: PageSize,
) -> Result<RecordPage, Trouble> {
    let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
    let stored = || snapshot(connection, |connection| rows(connection, partition, after, limit + 1));
    let mut rows = Vec::new();
    for _ in 0..TRIES {
        let moves = evidence.moves();
        rows = stored()?;
        for (place, record) in &mut rows {
            evidence.add_pending(*place, record);
        }
        if evidence.moves() == moves {
            break;
        }
    }
    Ok(paged(rows, limit))
}

fn paged(rows: Vec<(Place, RejectionRecord)>, limit: usize) -> RecordPage {
    let more = rows.len() > limit;
    RecordPage::new(rows.into_iter().take(limit).map(|(_, record)| record).collect(), more)
}

fn rows(
    connection: &Connection,
    partition: Option<&PartitionId>,
    after: Option<RecordSlot>,
    limit: usize,
) -> Result<Vec<(Place, RejectionRecord)>, Trouble> {
    // What was refused before the first claim stands first, under no generation.
    let mut found = of_scope(connection, 0, partition, after, limit)?;
    if found.len() < limit
        && let Some(partition) = partition
        && let Some(claimed) = store::find(connection, partition)?
    {
        found.extend(of_scope(connection, claimed.key, None, after, limit - found.len())?);
    }
    Ok(found)
}

fn of_scope(
    connection: &Connection,
    scope: i64,
    only: Option<&PartitionId>,
    after: Option<RecordSlot>,
    limit: usize,
) -> Result<Vec<(Place, RejectionRecord)>, Trouble> {
    let (generation, slot) = after.map_or((0, 0), |after| (after.generation.map_or(0, Generation::get), after.number));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(statement::RECORDS)?;
    let mut rows = statement.query(params![scope, generation, slot, limit, only.map(PartitionId::as_str)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(row::record(row).map_err(|bad| bad.at(only, None))?);
    }
    Ok(found)
}
