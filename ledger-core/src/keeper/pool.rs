//! Many partitions in one process.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::changes::{Changes, State};
use super::claim::{ClaimError, Keeper, Wait};
use super::clock::LocalClock;
use super::counts::Counts;
use super::driver::Driver;
use super::tenure::Ground;
use super::terms::Terms;
use super::writer::Writer;
use crate::shadow::mark;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::{FencedLedger, Holder, Invalid, PartitionId, Released};

/// Holds many partitions for one holder, on the same terms. Each has a tenure of its own: losing one, or a store that
/// does not answer for one, does not disturb another (K10).
///
/// Which partitions to hold is the caller's to say; a fair share among workers is shown by the example `fair_share`.
///
/// Dropping the pool abandons what it holds, as dropping writers does; writers that were handed out keep theirs.
#[derive(Debug)]
pub struct Pool {
    ground: Ground,
    holder: Holder,
    writers: Mutex<BTreeMap<PartitionId, Writer>>,
    drivers: UnboundedSender<Driver>,
}

impl Pool {
    /// An empty pool that uses [`BootClock`](super::BootClock), and its driver: one future for all that it will hold.
    ///
    /// # Errors
    ///
    /// [`Terms::check`]'s; [`Invalid::Unusable`] for the name of a [shadow](crate::shadow) (W1).
    pub fn new(ledger: Arc<dyn FencedLedger>, holder: Holder, terms: Terms) -> Result<(Self, PoolDriver), Invalid> {
        mark::refuse(&holder, "holder of a pool")?;
        let (drivers, incoming) = unbounded();
        let pool = Self { ground: Ground::new(ledger, terms)?, holder, writers: Mutex::default(), drivers };
        Ok((pool, PoolDriver { incoming: Some(incoming), running: FuturesUnordered::new() }))
    }

    /// The same pool with another clock, before anything was claimed.
    #[must_use]
    pub fn with_clock(mut self, clock: impl LocalClock + 'static) -> Self {
        self.ground.clock = Arc::new(clock);
        self
    }

    /// Claims a partition, as [`Keeper::claim`] does, and keeps it. Where the pool holds it already, gives that writer;
    /// one that is being released is no longer held. Of two calls for one partition at once, one claims and the other
    /// waits as it would for a stranger.
    ///
    /// Cancel safe as [`Keeper::claim`].
    ///
    /// # Errors
    ///
    /// As [`Keeper::claim`]. Where the pool's driver is gone, the writer has ended as
    /// [`Unkept`](super::Loss::Unkept) when it is given.
    pub async fn claim(&self, partition: &PartitionId, wait: Wait) -> Result<Writer, ClaimError> {
        let held = || self.writer(partition).filter(|writer| matches!(writer.state(), State::Held));
        if let Some(writer) = held() {
            return Ok(writer);
        }
        let keeper = Keeper::on(self.ground.clone(), partition.clone(), self.holder.clone());
        let (writer, driver) = match keeper.claim(wait).await {
            Ok(claimed) => claimed,
            // Another call of this pool may have been the one that was granted.
            Err(error) => return held().ok_or(error),
        };
        // Where it can not be sent it is dropped, and says so to its writer.
        let _ = self.drivers.unbounded_send(driver);
        self.lock().insert(partition.clone(), writer.clone());
        Ok(writer)
    }

    /// The writer of a partition, where its time has not ended.
    pub fn writer(&self, partition: &PartitionId) -> Option<Writer> {
        let mut writers = self.lock();
        let writer = writers.get(partition)?;
        if matches!(writer.state(), State::Ended(_)) {
            writers.remove(partition);
            return None;
        }
        Some(writer.clone())
    }

    /// The partitions that are held at this moment and are not being released, in the order of their names.
    pub fn held(&self) -> Vec<PartitionId> {
        let mut writers = self.lock();
        writers.retain(|_, writer| !matches!(writer.state(), State::Ended(_)));
        let held = writers.iter().filter(|(_, writer)| matches!(writer.state(), State::Held));
        held.map(|(partition, _)| partition.clone()).collect()
    }

    /// Gives a partition back, as [`Writer::release`] does; `None` where the pool does not hold it. Cancel safe as that.
    ///
    /// # Errors
    ///
    /// As [`Writer::release`].
    pub async fn release(&self, partition: &PartitionId) -> crate::Result<Option<Released>> {
        match self.writer(partition) {
            Some(writer) => Ok(Some(writer.release().await?)),
            None => Ok(None),
        }
    }

    /// Gives all back, side by side: one that takes long, or fails, does not hold the others up. Each has its own answer,
    /// which is that of [`Writer::release`]. Cancel safe as that.
    pub async fn release_all(&self) -> Vec<(PartitionId, crate::Result<Released>)> {
        let writers: Vec<(PartitionId, Writer)> =
            self.lock().iter().map(|(partition, writer)| (partition.clone(), writer.clone())).collect();
        let releases = writers.into_iter().map(|(partition, writer)| async move {
            let released = writer.release().await;
            (partition, released)
        });
        releases.collect::<FuturesUnordered<_>>().collect().await
    }

    /// The changes of all partitions from now on, in one order.
    pub fn subscribe(&self) -> Changes {
        self.ground.feed.subscribe()
    }

    /// The counters over all tenures of this pool.
    pub fn counts(&self) -> Counts {
        *self.ground.counters.lock()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Writer>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps all leases of a [`Pool`]: a future that the caller spawns or polls. It ends when the pool is gone and every
/// tenure has ended. Dropping it ends them all, as dropping a [`Driver`] does.
#[must_use = "without its driver polled a pool renews nothing"]
#[derive(Debug)]
pub struct PoolDriver {
    /// New drivers, until the pool is gone.
    pub(super) incoming: Option<UnboundedReceiver<Driver>>,
    pub(super) running: FuturesUnordered<Driver>,
}

impl Future for PoolDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(incoming) = &mut self.incoming {
            match incoming.poll_next_unpin(cx) {
                Poll::Ready(Some(driver)) => self.running.push(driver),
                Poll::Ready(None) => self.incoming = None,
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(_)) = self.running.poll_next_unpin(cx) {}
        if self.incoming.is_none() && self.running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}
