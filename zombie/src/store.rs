//! Where the ledger is, and what is written to it.

use std::path::Path;
use std::sync::Arc;

use ledger_core::{FencedLedger, Json, PartitionId};
use ledger_sqlite::SqliteLedger;

use crate::Result;

/// The kind of the events: one line of the input file.
pub(crate) const LINE: &str = "line";

/// Opens the ledger; each process opens its own.
pub(crate) fn open(database: &Path) -> Result<Arc<dyn FencedLedger>> {
    Ok(Arc::new(SqliteLedger::open(database)?))
}

/// The partition of the import.
pub(crate) fn partition() -> Result<PartitionId> {
    Ok(PartitionId::new("import")?)
}

/// The input: one JSON value a line, kept byte for byte. Empty lines are left out.
pub(crate) fn lines(file: &Path) -> Result<Vec<Json>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines = numbered.map(|(number, line)| {
        Json::new(line).map_err(|error| format!("{}, line {}: {error}", file.display(), number + 1))
    });
    Ok(lines.collect::<std::result::Result<_, _>>()?)
}
