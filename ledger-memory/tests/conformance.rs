//! The conformance suite on the in-memory ledger.

#[path = "common/harness.rs"]
mod harness;

use harness::MemoryHarness;

conformance_tests::conformance_tests!(MemoryHarness, without: {
    restart: "volatile: the ledger is gone with its last handle",
    hold_lock: "a call holds the lock only while it computes, and no caller can hold it",
    tamper: "the memory is reachable through the ledger alone",
    crash: "volatile: nothing survives a crash",
    hold_commit: "judging, writing and becoming visible are one step in memory",
    fail_write: "a write to memory does not fail",
});
