//! The background part: takes what the writer handed over, and keeps the lease meanwhile.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, Either, select};

use super::counts::ShadowCounts;
use super::judge::Judge;
use super::limits::Limits;
use super::queue::{Item, Queue};
use crate::keeper::LocalClock;
use crate::{FencedLedger, Holder, PartitionId};

/// Judges what is handed to a [`Shadow`](super::Shadow): a future that the caller spawns or polls. It ends when the last
/// clone of the shadow is gone, what waited was judged and the lease was released; it gives the final counts.
///
/// Dropping it ends the trial: what waits and what comes is dropped, and counted as such. The writer notices nothing.
#[must_use = "without its driver polled a shadow judges nothing"]
pub struct ShadowDriver {
    driving: BoxFuture<'static, ShadowCounts>,
    queue: Arc<Queue>,
}

impl ShadowDriver {
    pub(super) fn new(
        ledger: Arc<dyn FencedLedger>,
        partition: PartitionId,
        holder: Holder,
        limits: Limits,
        clock: Arc<dyn LocalClock>,
        queue: Arc<Queue>,
    ) -> Self {
        let judge = Judge::new(ledger, partition, holder, limits, clock.clone(), queue.clone());
        Self { driving: Box::pin(drive(judge, clock, queue.clone())), queue }
    }
}

impl Future for ShadowDriver {
    type Output = ShadowCounts;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ShadowCounts> {
        self.driving.as_mut().poll(cx)
    }
}

impl Drop for ShadowDriver {
    fn drop(&mut self) {
        self.queue.undrive();
    }
}

impl std::fmt::Debug for ShadowDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShadowDriver").field("queue", &self.queue).finish_non_exhaustive()
    }
}

async fn drive(mut judge: Judge, clock: Arc<dyn LocalClock>, queue: Arc<Queue>) -> ShadowCounts {
    loop {
        // Before anything else, so that a long queue does not cost the lease.
        judge.renew_where_due().await;
        let next = poll_fn(|cx| queue.poll_take(cx));
        let item = match judge.next_renewal() {
            None => next.await,
            Some(moment) => match select(next, clock.sleep_until(moment)).await {
                Either::Left((item, _)) => item,
                Either::Right(_) => continue,
            },
        };
        match item {
            Some(Item::Append(append, at)) => judge.append(&append, at).await,
            Some(Item::Release) => judge.release().await,
            None => break,
        }
    }
    judge.release().await;
    queue.counts()
}
