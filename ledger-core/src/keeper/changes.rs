//! State changes, to every subscriber, in one order.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_core::Stream;

use super::clock::Moment;
use super::end::End;
use crate::sync::{Arc, Mutex, PoisonError};
use crate::{AcquisitionId, Generation, PartitionId};

/// Where a writer stands.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "closed: K7 lists the states")]
pub enum State {
    /// It may append, as far as it knows.
    Held,
    /// A release has begun: what is in flight ends, and nothing new begins but answers to requests (K4).
    Draining,
    /// It has ended. Final.
    Ended(Arc<End>),
}

/// One step of one tenure: `Held`, then perhaps `Draining`, then `Ended` (K7).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The partition.
    pub partition: PartitionId,
    /// The generation of the tenure.
    pub generation: Generation,
    /// Its acquisition.
    pub acquisition: AcquisitionId,
    /// What it is now.
    pub state: State,
    /// When it was noticed, by the keeper's clock.
    pub at: Moment,
}

/// The changes from the moment of the subscription on: every one, in the order in which they happened, the same for
/// every subscriber. Ends when the keeper or pool and all of its writers are gone.
///
/// A tenure has at most three changes, and what is not read waits in memory. Cancel safe: a `next` that was dropped
/// loses nothing.
#[derive(Debug)]
pub struct Changes(UnboundedReceiver<Change>);

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        Pin::new(&mut self.0).poll_next(cx)
    }
}

/// The sending side. Clones are the same feed.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed(Arc<Mutex<Vec<UnboundedSender<Change>>>>);

impl Feed {
    pub(super) fn subscribe(&self) -> Changes {
        let (sender, receiver) = unbounded();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Changes(receiver)
    }

    /// Called under the tenure's lock; all subscribers get it under the feed's, so that they see one order.
    pub(super) fn tell(&self, change: &Change) {
        let mut subscribers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| subscriber.unbounded_send(change.clone()).is_ok());
    }
}
