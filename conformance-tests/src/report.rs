//! Reports: what a run of the suite found, for people (a table) and for tools (JSON).

use std::time::Duration;

use comfy_table::Table;
use ledger_core::Description;

use crate::{Hook, Violation};

/// What a run of the suite found.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of the suite.
    pub suite: &'static str,
    /// What the backend says of itself, or `None` where it could not be asked.
    pub backend: Option<Description>,
    /// Whether anything was skipped: a backend that was tested in part.
    pub partial: bool,
    /// Every case, in the order of the list.
    pub cases: Vec<CaseReport>,
    /// The random run, where one was [asked for](crate::Suite::random).
    pub random: Option<RandomReport>,
}

/// How a random run ended.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct RandomReport {
    /// The seed: the same one makes the same operations.
    pub seed: u64,
    /// How many operations there were.
    pub operations: usize,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How to run it again.
    pub reproduce: String,
}

/// How one case ended.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case.
    pub id: &'static str,
    /// Its family.
    pub family: &'static str,
    /// The rules that it checks.
    pub rules: &'static [&'static str],
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How to run it again, where the backend's tests are made by [`conformance_tests!`](crate::conformance_tests).
    pub reproduce: String,
    /// How long it took.
    #[serde(rename = "milliseconds", serialize_with = "as_millis")]
    pub took: Duration,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "closed: a skip is no pass, and there is no fourth way")]
pub enum Outcome {
    /// All that it demands holds.
    Passed,
    /// A rule is broken.
    Failed {
        /// How.
        violation: Violation,
    },
    /// It did not run, or not to its end.
    Skipped {
        /// The hook that is missing.
        hook: Hook,
        /// Why it is.
        reason: String,
    },
}

impl Report {
    pub(crate) fn new(backend: Option<Description>, cases: Vec<CaseReport>, random: Option<RandomReport>) -> Self {
        let outcomes = cases.iter().map(|case| &case.outcome).chain(random.iter().map(|random| &random.outcome));
        let partial = outcomes.into_iter().any(|outcome| matches!(outcome, Outcome::Skipped { .. }));
        Self { suite: env!("CARGO_PKG_VERSION"), backend, partial, cases, random }
    }

    /// Whether nothing failed, neither a case nor the random run. What was skipped is [`partial`](Self::partial).
    pub fn is_clean(&self) -> bool {
        let random = self.random.as_ref().is_some_and(|random| matches!(random.outcome, Outcome::Failed { .. }));
        self.failed().next().is_none() && !random
    }

    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = (&CaseReport, &Violation)> {
        self.cases.iter().filter_map(|case| match &case.outcome {
            Outcome::Failed { violation } => Some((case, violation)),
            Outcome::Passed | Outcome::Skipped { .. } => None,
        })
    }

    /// How many cases passed, failed and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.cases.iter().fold((0, 0, 0), |(passed, failed, skipped), case| match case.outcome {
            Outcome::Passed => (passed + 1, failed, skipped),
            Outcome::Failed { .. } => (passed, failed + 1, skipped),
            Outcome::Skipped { .. } => (passed, failed, skipped + 1),
        })
    }

    /// The report as JSON.
    ///
    /// # Errors
    ///
    /// None are known: a report has nothing that JSON lacks.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::ASCII_NO_BORDERS);
        table.set_header(["case", "rules", "outcome", "ms", "detail"]);
        for case in &self.cases {
            let (outcome, detail) = match &case.outcome {
                Outcome::Passed => ("passed", String::new()),
                Outcome::Failed { violation } => ("FAILED", violation.to_string()),
                Outcome::Skipped { hook, reason } => ("skipped", format!("{hook}: {reason}")),
            };
            table.add_row([
                case.id.to_owned(),
                case.rules.join(" "),
                outcome.to_owned(),
                case.took.as_millis().to_string(),
                detail,
            ]);
        }
        writeln!(f, "{table}")?;
        if let Some(random) = &self.random {
            write!(f, "random run, seed {}, {} operations: ", random.seed, random.operations)?;
            match &random.outcome {
                Outcome::Passed => writeln!(f, "no difference")?,
                Outcome::Failed { violation } => writeln!(f, "FAILED\n{violation}")?,
                Outcome::Skipped { hook, reason } => writeln!(f, "skipped, {hook}: {reason}")?,
            }
        }
        let (passed, failed, skipped) = self.counts();
        let backend = self
            .backend
            .as_ref()
            .map_or_else(|| "unknown backend".to_owned(), |backend| format!("{} {}", backend.engine, backend.version));
        write!(f, "suite {} on {backend}: {passed} passed, {failed} failed, {skipped} skipped", self.suite)?;
        f.write_str(if self.partial { " (partial)" } else { "" })
    }
}

fn as_millis<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
