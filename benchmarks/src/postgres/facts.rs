//! Tables of figures that are no rates.

use comfy_table::{Table, presets};
use serde::Serialize;

/// A table: a title, a header and rows of text.
#[derive(Serialize)]
pub(crate) struct Facts {
    title: &'static str,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Facts {
    pub(crate) fn new(title: &'static str, header: impl IntoIterator<Item = &'static str>) -> Self {
        Self { title, header: header.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row<T: std::fmt::Display>(&mut self, name: &str, figures: impl IntoIterator<Item = T>) {
        let figures = figures.into_iter().map(|figure| figure.to_string());
        self.rows.push(std::iter::once(name.to_owned()).chain(figures).collect());
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(std::iter::once(self.title).chain(self.header.iter().copied()));
        for row in &self.rows {
            table.add_row(row);
        }
        write!(f, "{table}")
    }
}
