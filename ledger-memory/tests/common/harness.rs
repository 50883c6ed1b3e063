//! How the conformance suite gets a ledger in memory.

use std::sync::Arc;

use async_trait::async_trait;
use conformance_tests::{
    ClockControl, Edit, Harness, HarnessError, HeldCommit, HookError, Hooked, InProcessLine, Line, LockGuard, Storage,
    StoreCopy,
};
use ledger_core::{Append, FencedLedger, Lease, ManualClock, PartitionId};
use ledger_memory::{MemoryCopy, MemoryLedger};

/// One ledger on a clock that is moved by hand. A handle is a clone.
struct Memory {
    ledger: MemoryLedger,
    clock: ManualClock,
}

pub(crate) struct MemoryHarness;

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

    async fn restart(&self) -> Hooked<()> {
        Err(HookError::unsupported("volatile: the ledger is gone with its last handle"))
    }

    async fn hold_lock(&self, _: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        Err(HookError::unsupported("a call holds the lock only while it computes, and no caller can hold it"))
    }

    async fn tamper(&self, _: &PartitionId, _: &Edit) -> Hooked<()> {
        Err(HookError::unsupported("the memory is reachable through the ledger alone"))
    }

    async fn crash(&self) -> Hooked<()> {
        Err(HookError::unsupported("volatile: nothing survives a crash"))
    }

    async fn line(&self) -> Hooked<Box<dyn Line>> {
        Ok(Box::new(InProcessLine::new(self.open().await?)))
    }

    async fn hold_commit(&self, _: &Lease, _: &Append) -> Hooked<Box<dyn HeldCommit>> {
        Err(HookError::unsupported("judging, writing and becoming visible are one step in memory"))
    }

    async fn fail_write(&self, _: u32) -> Hooked<Box<dyn LockGuard>> {
        Err(HookError::unsupported("a write to memory does not fail"))
    }

    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        Ok(Box::new(Copied(self.ledger.clone(), self.ledger.copy())))
    }
}

struct Copied(MemoryLedger, MemoryCopy);

#[async_trait]
impl StoreCopy for Copied {
    async fn restore(&self) -> Result<(), HarnessError> {
        self.0.restore(&self.1);
        Ok(())
    }
}
