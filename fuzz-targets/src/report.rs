//! A report's JSON: whatever a backend says, it is JSON and says the same.

use conformance_tests::{Hook, Outcome, Violation};
use serde_json::Value;

pub(crate) const SEEDS: &[&[u8]] = &[b"expected\nseen", b"\"quoted\" \\ \x07", "\u{1f600}\u{202e}".as_bytes()];

pub(crate) fn run(data: &[u8]) {
    let text = crate::text(data);
    let (expected, seen) = text.split_once('\n').unwrap_or((&text, ""));
    let violation = Violation::new(expected, seen);
    let printed = violation.to_string();
    assert!(printed.contains(expected) && printed.contains(seen), "{printed}");
    let failed = json(&Outcome::Failed { violation });
    assert_eq!(failed["outcome"], "failed");
    assert_eq!((&failed["violation"]["expected"], &failed["violation"]["seen"]), (&expected.into(), &seen.into()));
    let skipped = json(&Outcome::Skipped { hook: Hook::Clock, reason: text.clone() });
    assert_eq!((&skipped["outcome"], &skipped["reason"]), (&"skipped".into(), &text.as_str().into()));
}

fn json(outcome: &Outcome) -> Value {
    let text = serde_json::to_string_pretty(outcome).expect("an outcome is JSON");
    serde_json::from_str(&text).expect("what was written is read")
}
