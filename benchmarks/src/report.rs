//! Medians with their spread, and ratios to the contestant that stands first.

use comfy_table::{Table, presets};
use serde::Serialize;

/// What one benchmark measured.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// One contestant.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The contestant that it is compared with: the name of another row.
    pub(crate) baseline: Option<String>,
    /// One figure a round.
    pub(crate) rounds: Vec<f64>,
}

impl Row {
    pub(crate) fn new(name: &str, baseline: Option<&str>) -> Self {
        Self { name: name.to_owned(), baseline: baseline.map(str::to_owned), rounds: Vec::new() }
    }

    fn median(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn spread(&self) -> (f64, f64) {
        let low = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.rounds.iter().copied().fold(0.0, f64::max))
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([&self.title, self.unit, "lowest", "highest", "ratio", "to"]);
        for row in &self.rows {
            let (low, high) = row.spread();
            let baseline = self.rows.iter().find(|other| Some(&other.name) == row.baseline.as_ref());
            let ratio = baseline.map_or_else(String::new, |base| format!("{:.2}", row.median() / base.median()));
            table.add_row([
                row.name.clone(),
                format!("{:.0}", row.median()),
                format!("{low:.0}"),
                format!("{high:.0}"),
                ratio,
                row.baseline.clone().unwrap_or_default(),
            ]);
        }
        write!(f, "{table}")
    }
}
