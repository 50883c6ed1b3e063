//! A harness of two other harnesses, with a router over them.

#![allow(unreachable_pub, reason = "`pub` here is `pub` to the test that uses it")]

use std::sync::Arc;

use async_trait::async_trait;
use conformance_tests::{ClockControl, Edit, Harness, HarnessError, Hooked, LockGuard, Storage, StoreCopy};
use ledger_core::{FencedLedger, PartitionId, Timestamp};
use ledger_router::{Layout, Router};

/// Two clusters, each of a harness of its own.
pub struct Routed<A, B> {
    pub one: A,
    pub other: B,
}

struct Clusters {
    one: Box<dyn Storage>,
    other: Box<dyn Storage>,
}

fn layout() -> Layout {
    Layout::hashed(["one", "other"]).expect("two names")
}

#[async_trait]
impl<A: Harness, B: Harness> Harness for Routed<A, B> {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        let clusters = Clusters { one: self.one.provision().await?, other: self.other.provision().await? };
        // One clock, as far as a case can see.
        clusters.set(clusters.now().await).await;
        Router::install(layout(), clusters.open_each().await?).await?;
        Ok(Box::new(clusters))
    }
}

impl Clusters {
    async fn open_each(&self) -> Result<Vec<(&str, Arc<dyn FencedLedger>)>, HarnessError> {
        Ok(vec![("one", self.one.open().await?), ("other", self.other.open().await?)])
    }

    fn of(&self, partition: &PartitionId) -> &dyn Storage {
        if layout().cluster_of(partition) == Some("one") { &*self.one } else { &*self.other }
    }

    fn clocks(&self) -> [&dyn ClockControl; 2] {
        [&self.one, &self.other].map(|storage| storage.clock().expect("both harnesses have a clock"))
    }
}

#[async_trait]
impl Storage for Clusters {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(Router::open(layout(), self.open_each().await?).await?))
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(self)
    }

    async fn restart(&self) -> Hooked<()> {
        self.one.restart().await?;
        self.other.restart().await
    }

    async fn hold_lock(&self, partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        self.of(partition).hold_lock(partition).await
    }

    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        Ok(Box::new(Copies([self.one.snapshot().await?, self.other.snapshot().await?])))
    }

    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        self.of(partition).tamper(partition, edit).await
    }
}

/// Copies of both clusters.
struct Copies([Box<dyn StoreCopy>; 2]);

#[async_trait]
impl StoreCopy for Copies {
    async fn restore(&self) -> Result<(), HarnessError> {
        for copy in &self.0 {
            copy.restore().await?;
        }
        Ok(())
    }
}

#[async_trait]
impl ClockControl for Clusters {
    async fn now(&self) -> Timestamp {
        self.clocks()[0].now().await
    }

    async fn set(&self, time: Timestamp) {
        for clock in self.clocks() {
            clock.set(time).await;
        }
    }
}
