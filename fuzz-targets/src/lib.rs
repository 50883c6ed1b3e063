//! Everything that parses, as functions that take any bytes and panic where something is wrong.
//!
//! `fuzz/` runs them with coverage guidance; the test of this crate runs each with some thousand random inputs.

mod chain;
mod events;
mod file;
mod json;
mod names;
mod report;
mod values;

pub use file::{Judged, judge as judge_file};

/// A target: its name, what it does with an input, and inputs to start from.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "used by the two runners here")]
pub struct Target {
    /// Its name, and that of its binary in `fuzz/`.
    pub name: &'static str,
    /// Panics where something is wrong.
    pub run: fn(&[u8]),
    /// Valid and nearly valid inputs.
    pub seeds: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "names", run: names::run, seeds: names::SEEDS },
    Target { name: "json", run: json::run, seeds: json::SEEDS },
    Target { name: "values", run: values::run, seeds: values::SEEDS },
    Target { name: "events", run: events::run, seeds: events::SEEDS },
    Target { name: "chain", run: chain::run, seeds: chain::SEEDS },
    Target { name: "report", run: report::run, seeds: report::SEEDS },
    Target { name: "file", run: file::run, seeds: file::SEEDS },
];

/// Runs the target of a name on an input.
///
/// # Panics
///
/// Where something is wrong, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target is called {name}")).run)(data);
}

/// The input as text; what is no UTF-8 in it becomes replacement characters.
fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
