//! The conformance suite on SQLite: one test a case.

#[path = "common/harness.rs"]
mod harness;

use harness::SqliteHarness;

conformance_tests::conformance_tests!(SqliteHarness);
