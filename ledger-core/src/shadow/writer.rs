//! The handle by which a writer tells its shadow what it has written.

use std::future::poll_fn;
use std::sync::Arc;

use super::counts::ShadowCounts;
use super::driver::ShadowDriver;
use super::limits::Limits;
use super::queue::Queue;
use super::{mark, rules};
use crate::keeper::{BootClock, LocalClock, Moment, within};
use crate::{Append, FencedLedger, Holder, Invalid, PartitionId};

/// Stands beside one writer of one partition. Clones are the same shadow.
///
/// No method of it fails, and none waits for the store (W2). Dropping the last clone lets the driver judge what waits,
/// release and end.
#[derive(Clone, Debug)]
pub struct Shadow(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    holder: Holder,
    queue: Arc<Queue>,
    limits: Limits,
    clock: Arc<dyn LocalClock>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Shadow {
    /// The shadow of a writer, by [`BootClock`], and its driver, which is to be spawned or polled. Asks the ledger
    /// nothing yet: the first append claims.
    ///
    /// # Errors
    ///
    /// [`Limits::check`]'s; [`Invalid::TooLong`] where mark and name have more than 255 bytes together;
    /// [`Invalid::Unusable`] where the writer has a shadow's name.
    pub fn new(
        ledger: Arc<dyn FencedLedger>,
        partition: PartitionId,
        writer: &Holder,
        limits: Limits,
    ) -> Result<(Self, ShadowDriver), Invalid> {
        Self::with_clock(ledger, partition, writer, limits, BootClock)
    }

    /// The same by another clock.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_clock(
        ledger: Arc<dyn FencedLedger>,
        partition: PartitionId,
        writer: &Holder,
        limits: Limits,
        clock: impl LocalClock + 'static,
    ) -> Result<(Self, ShadowDriver), Invalid> {
        limits.check()?;
        let holder = mark::mark(writer)?;
        let (queue, clock): (_, Arc<dyn LocalClock>) = (Arc::new(Queue::default()), Arc::new(clock));
        let driver = ShadowDriver::new(ledger, partition, holder.clone(), limits, clock.clone(), queue.clone());
        Ok((Self(Arc::new(Handle { holder, queue, limits, clock })), driver))
    }

    /// Hands over an append that the writer has made, and does not wait: where there is no room for it, it is dropped
    /// and counted.
    ///
    /// Call it after the write has been done, and directly after: a pause between the two looks like a pause before the
    /// write. An expectation of the head is left out, since the positions are those of another log.
    pub fn offer(&self, append: &Append) {
        let mut call = Call::begin(&self.0);
        call.is_in = self.0.queue.put(append, call.from, &self.0.limits, None).is_ready();
    }

    /// Hands over an append as [`offer`](Self::offer) does, but waits for room where there is none, for
    /// [`Limits::wait`] at most.
    ///
    /// Cancel safe: dropped while it waits, the append is dropped and counted.
    pub async fn append(&self, append: &Append) {
        let handle = &*self.0;
        let mut call = Call::begin(handle);
        let room = poll_fn(|cx| handle.queue.put(append, call.from, &handle.limits, Some(cx.waker())));
        let until = rules::wait_until(&handle.limits, call.from);
        call.is_in = within(&*handle.clock, until, room).await.is_some();
    }

    /// Says that the writer gives the partition up: after what was handed over before, the shadow releases it. The next
    /// append claims anew. Does not wait.
    pub fn release(&self) {
        self.0.queue.put_release();
    }

    /// The name under which it claims: the writer's with the [mark](super::MARK).
    pub fn holder(&self) -> &Holder {
        &self.0.holder
    }

    /// What became of all that was handed over, and what it cost the callers.
    pub fn counts(&self) -> ShadowCounts {
        self.0.queue.counts()
    }
}

/// One call by the writer: append and time are counted however it ends.
struct Call<'a> {
    handle: &'a Handle,
    from: Moment,
    is_in: bool,
}

impl<'a> Call<'a> {
    fn begin(handle: &'a Handle) -> Self {
        let from = handle.clock.now();
        handle.queue.begin();
        Self { handle, from, is_in: false }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let took = self.handle.clock.now().since(self.from);
        self.handle.queue.end(self.is_in, took);
    }
}
