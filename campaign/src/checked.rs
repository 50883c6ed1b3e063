//! The check at the end of a round, and the same check of a round that was kept.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use conformance_tests::history::{Answer, Call, Content, Findings, History, Invocation, check};

use crate::Result;

const CONTENT: &str = "content.json";

/// Checks the histories of a folder against what the ledger holds, and keeps that beside them.
pub(crate) fn check_round(folder: &Path, content: &Content) -> Result<(Findings, u64)> {
    fs::write(folder.join(CONTENT), serde_json::to_vec(content)?)?;
    let history = History::load(folder.join("histories"))?;
    Ok((check(&history, content), undecided(&history)))
}

/// `campaign check FOLDER`.
pub(crate) fn again(folder: &Path) -> Result<ExitCode> {
    let content: Content = serde_json::from_slice(&fs::read(folder.join(CONTENT))?)?;
    let history = History::load(folder.join("histories"))?;
    let findings = check(&history, &content);
    println!("{findings}{:#?}", findings.counts);
    Ok(if findings.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the barrier's process asked after and was not told: nothing, as it has taken every partition over. Only of an
/// append under a forged generation ahead nobody can tell, where the barrier's own is not above it.
fn undecided(history: &History) -> u64 {
    let by_barrier = || history.invocations.iter().filter(|call| &*call.process == crate::round::BARRIER);
    let mut taken = HashMap::new();
    for call in by_barrier() {
        if let Some((_, Answer::Claimed { lease, .. })) = &call.answer {
            taken.insert(&lease.partition, lease.generation);
        }
    }
    let is_told = |call: &Invocation| match (&call.answer, &call.call) {
        (Some((_, Answer::Undecided)), Call::Fate { partition, generation, .. }) => {
            taken.get(partition).is_some_and(|taken| generation >= taken)
        }
        (Some((_, answer)), _) => *answer != Answer::Undecided,
        (None, _) => false,
    };
    by_barrier().filter(|call| !is_told(call)).count() as u64
}
