//! The handle by which a holder writes.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::changes::State;
use super::end::{End, WriteError};
use super::guarded::Guarded;
use super::settle::{Settled, settle};
use super::signal::Signal;
use super::tenure::Tenure;
use super::trust::Trust;
use crate::{Append, Appended, FencedLedger, Generation, Lease, PartitionId, Released, Result};

/// Writes to a partition while its lease is trusted. Clones are the same writer.
///
/// When the trust ends, for whatever reason, it sends nothing more, says why, and its [`signal`](Self::signal) fires
/// (K3). That is final: claim anew with the [`Keeper`](super::Keeper).
///
/// Dropping the last clone ends the tenure as [`End::Abandoned`]: it never blocks, and it does
/// not release; the lease runs out by itself (K5). To free the partition at once, [`release`](Self::release).
#[derive(Clone, Debug)]
pub struct Writer(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Tenure>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.finish(End::Abandoned);
    }
}

impl Writer {
    pub(super) fn new(tenure: Arc<Tenure>) -> Self {
        Self(Arc::new(Handle(tenure)))
    }

    fn tenure(&self) -> &Arc<Tenure> {
        &self.0.0
    }

    /// The lease as it was granted last.
    pub fn lease(&self) -> Lease {
        self.tenure().lease()
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.lease().partition
    }

    /// The generation: hand it on where another system can fence by it too.
    pub fn generation(&self) -> Generation {
        self.lease().generation
    }

    /// How long the lease is trusted.
    pub fn trust(&self) -> Trust {
        self.tenure().trust()
    }

    /// Where the writer stands, after a look at the clock.
    pub fn state(&self) -> State {
        self.tenure().state()
    }

    /// The signal that this writer's time has ended.
    pub fn signal(&self) -> Signal {
        Signal(self.tenure().clone())
    }

    /// Appends once, if the lease is trusted at this moment.
    ///
    /// Cancel safe as [`FencedLedger::append`]: what was dropped may have been written; send the same value again. A
    /// release does not wait for a dropped one.
    ///
    /// # Errors
    ///
    /// [`Ended`](WriteError::Ended) or [`Draining`](WriteError::Draining), without a call to the store; else the
    /// store's. What has a remark is sent during a drain too (K4). A refusal for want of the right to write ends this
    /// writer's time; `Unknown` does not.
    pub async fn append(&self, append: &Append) -> Result<Appended, WriteError> {
        let (permit, left) = self.tenure().admit(append)?;
        permit.send(append).instrument(self.tenure().span("append", left)).await.map_err(WriteError::Ledger)
    }

    /// Appends, and finds out within `budget` what became of it where an answer stays out (K8).
    ///
    /// The same append is sent again, under the same id, while the lease is trusted: it lands once. When the trust
    /// has ended, [`fate`](crate::FencedLedger::fate) is asked instead; after a takeover its answer is final.
    ///
    /// `budget` is by the keeper's clock and bounds the whole. One try takes at most
    /// [`try_for`](super::Terms::try_for). A release waits for a settlement.
    ///
    /// Cancel safe as [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append), but never `Unknown`: an error proves that the append was not written. What stays
    /// unknown when the budget is used up, or is written on a store that went back in time, is
    /// [`Settled::Undecided`].
    pub async fn settle(&self, append: &Append, budget: Duration) -> Result<Settled, WriteError> {
        let (permit, left) = self.tenure().admit(append)?;
        settle(self.tenure(), permit, append, budget).instrument(self.tenure().span("settle", left)).await
    }

    /// The ledger as this writer sees it, for what is made of appends, such as a
    /// [`RequestBook`](crate::RequestBook). An append under [`lease`](Self::lease) is as one by
    /// [`append`](Self::append): it is sent while the lease is trusted, a release waits for it, and a refusal ends the
    /// writer's time. One that is not sent is [`NotWritten`](crate::LedgerError::NotWritten) with the reason. One that
    /// has a remark, such as the answer to a request, is sent all the same: a release that has begun waits for it, and
    /// once that is sent, or the time has ended, the store judges it, and keeps what it wanted to say where it is refused
    /// (K4, Q6). All else goes to the ledger as it is.
    ///
    /// It keeps no writer alive.
    pub fn ledger(&self) -> Arc<dyn FencedLedger> {
        Arc::new(Guarded(self.tenure().clone()))
    }

    /// Gives the partition back: stops new appends but those with a remark (answers to requests), waits for those in
    /// flight to end, and releases the acquisition by which this writer holds it (K4). The driver goes on renewing until
    /// nothing is in flight, and then no more.
    ///
    /// It waits as long as what is in flight takes. Dropped before its end it leaves the writer draining; call it
    /// again. After a loss it still tells the store, which frees the partition where the lease has not run out.
    ///
    /// # Errors
    ///
    /// The store's. The writer sends and renews nothing more all the same; call it again, or let the lease run out.
    pub async fn release(&self) -> Result<Released> {
        self.tenure().release().await
    }
}
