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
    /// The ratio to it that is wanted, at least.
    pub(crate) goal: Option<f64>,
    /// One figure a round.
    pub(crate) rounds: Vec<f64>,
}

impl Row {
    pub(crate) fn new(name: &str, baseline: Option<&str>) -> Self {
        Self { name: name.to_owned(), baseline: baseline.map(str::to_owned), goal: None, rounds: Vec::new() }
    }

    /// The same row, with the ratio to its baseline that is wanted.
    pub(crate) fn goal(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self
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
        table.set_header([&self.title, self.unit, "lowest", "highest", "ratio", "goal", "to"]);
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
                row.goal.map_or_else(String::new, |goal| format!("{goal:.2}")),
                row.baseline.clone().unwrap_or_default(),
            ]);
        }
        write!(f, "{table}")
    }
}
