//! The table.

use std::time::Duration;

use comfy_table::{Table, presets};

/// A fault, and what was seen of it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) fault: String,
    pub(crate) times: usize,
    pub(crate) acknowledged: usize,
    pub(crate) lost: usize,
    pub(crate) refused: usize,
    pub(crate) refused_found: usize,
    pub(crate) unknown: usize,
    pub(crate) longest_stall: Duration,
}

/// As it stands in `docs/failover.md`. An append is two events.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "fault",
        "times injected",
        "events acknowledged",
        "lost",
        "appends of unknown outcome",
        "refused appends",
        "refused events found",
        "longest stall",
    ]);
    for row in rows {
        table.add_row([
            row.fault.clone(),
            row.times.to_string(),
            (2 * row.acknowledged).to_string(),
            (2 * row.lost).to_string(),
            row.unknown.to_string(),
            row.refused.to_string(),
            (2 * row.refused_found).to_string(),
            format!("{:.1} s", row.longest_stall.as_secs_f64()),
        ]);
    }
    table
}
