//! The conformance suite on the in-memory ledger.

use std::sync::Arc;

use async_trait::async_trait;
use conformance_tests::{ClockControl, Harness, HarnessError, Storage, conformance_tests};
use ledger_core::{FencedLedger, ManualClock};
use ledger_memory::MemoryLedger;

/// One ledger on a clock that is moved by hand. A handle is a clone.
struct Memory {
    ledger: MemoryLedger,
    clock: ManualClock,
}

struct MemoryHarness;

#[async_trait]
impl Harness for MemoryHarness {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        let clock = ManualClock::default();
        Ok(Box::new(Memory { ledger: MemoryLedger::with_clock(clock.clone()), clock }))
    }
}

#[async_trait]
impl Storage for Memory {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(self.ledger.clone()))
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(&self.clock)
    }
}

conformance_tests!(MemoryHarness, without: {
    restart: "volatile: the ledger is gone with its last handle",
    hold_lock: "a call holds the lock only while it computes, and no caller can hold it",
    tamper: "the memory is reachable through the ledger alone",
});
