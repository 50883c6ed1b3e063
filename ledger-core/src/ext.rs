//! Conveniences over every ledger, also a foreign one.

use std::future::ready;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_timer::Delay;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    AcquisitionId, Append, AppendId, Appended, Claim, Claimed, Event, EventKind, FencedLedger, Holder, LazyPage, Lease,
    LedgerError, Mark, NewEvent, PartitionId, Position, Result, Ttl, Verification, stream, tries::Tries, verify,
};

/// How long [`claim_when_free`](FencedLedgerExt::claim_when_free) waits at most between two looks at the partition.
/// A release wakes nobody, so this bounds how late it is noticed.
pub const POLL: Duration = Duration::from_millis(50);

/// How long it waits after a failure of the store or a lost race.
const RETRY: Duration = Duration::from_millis(5);

/// What users enjoy, implemented for every [`FencedLedger`].
#[async_trait]
pub trait FencedLedgerExt: FencedLedger {
    /// Appends values as events of one kind, under a given id, without an expectation of the head.
    ///
    /// Cancel safe: as [`append`](FencedLedger::append); send the same id and values again.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::Invalid) where a value is no JSON or a limit is passed; else as
    /// [`append`](FencedLedger::append).
    async fn append_values<T: Serialize + Sync>(
        &self,
        lease: &Lease,
        id: AppendId,
        kind: &str,
        values: &[T],
    ) -> Result<Appended> {
        let events: Vec<NewEvent> =
            values.iter().map(|value| NewEvent::of(kind, value)).collect::<std::result::Result<_, _>>()?;
        self.append(lease, &Append::with_id(id, events)?).await
    }

    /// All events of a partition from a position on, as far as there were any when the last page was read.
    ///
    /// The stream ends there; it does not wait for more. It holds two pages of at most 1 MiB: while one is consumed,
    /// the next is read (D6). No transaction is open between them. After an error it ends.
    ///
    /// Cancel safe: a stream that is dropped leaves the ledger as it was.
    fn events<'a>(&'a self, partition: &'a PartitionId, from: Position) -> BoxStream<'a, Result<Event>> {
        let pages = stream::Pages::new(from, move |from| self.read_lazily(partition, from, stream::PAGE));
        pages.boxed()
    }

    /// The payloads of all events of one kind from a position on, as values. Other kinds do not leave the store (D7).
    ///
    /// A payload that does not fit the type ends the stream with [`LedgerError::Corrupt`], which names its position;
    /// [`events`](Self::events) still returns it as text. A kind that no event can have is
    /// [`Invalid`](crate::Invalid). Pages and cancel safety: as [`events`](Self::events).
    fn values<'a, T: DeserializeOwned + Send + 'a>(
        &'a self,
        partition: &'a PartitionId,
        kind: &'a str,
        from: Position,
    ) -> BoxStream<'a, Result<(Position, T)>> {
        let kind = match EventKind::stored(kind) {
            Ok(kind) => kind,
            Err(invalid) => return futures_util::stream::once(ready(Err(invalid.into()))).boxed(),
        };
        let pages = stream::Pages::new(from, move |from| {
            let kind = kind.clone();
            Box::pin(async move { self.read_kind(partition, &kind, from, stream::PAGE).await.map(LazyPage::from) })
        });
        let decode = |event: Event| match event.payload.decode() {
            Ok(value) => Ok((event.position, value)),
            Err(error) => Err(LedgerError::Corrupt {
                partition: Some(partition.clone()),
                position: Some(event.position),
                detail: "the payload does not fit the type".to_owned(),
                source: Some(std::sync::Arc::new(error)),
            }),
        };
        pages.map(move |event| event.and_then(decode)).boxed()
    }

    /// Folds all events of a partition, the ledger's own among them, into one value.
    async fn fold<T, F>(&self, partition: &PartitionId, start: T, mut step: F) -> Result<T>
    where
        T: Send,
        F: FnMut(T, Event) -> T + Send,
    {
        let mut events = self.events(partition, Position::FIRST);
        let mut value = start;
        while let Some(event) = events.try_next().await? {
            value = step(value, event);
        }
        Ok(value)
    }

    /// Claims a partition as soon as it is free, within a budget of time.
    ///
    /// One acquisition is minted and kept over all tries, so that an answer that was lost is asked for again rather
    /// than a second tenure begun (C4). Where the tenure of such a grant has ended before it could be had, the next try has
    /// an acquisition of its own. The time of a grant counts from the grant.
    ///
    /// Not cancel safe in one respect: a claim that was granted just when the future was dropped holds the partition
    /// until it expires.
    ///
    /// # Errors
    ///
    /// When the budget is used up: the last refusal, [`Held`](crate::Reason::Held) for the most part, or the store's last
    /// failure. What waiting does not mend comes at once. Either is [`Unknown`](LedgerError::Unknown) where the answer to
    /// one of the tries stayed out.
    async fn claim_when_free(
        &self,
        partition: &PartitionId,
        holder: &Holder,
        ttl: Ttl,
        budget: Duration,
    ) -> Result<Claimed> {
        let start = Instant::now();
        let mut tries = Tries::new();
        loop {
            let left = budget.saturating_sub(start.elapsed());
            let error = match look_and_claim(self, partition, holder, ttl, tries.acquisition(), left.is_zero()).await {
                Ok(Tried::Granted(claimed)) => return Ok(claimed),
                Ok(Tried::HeldFor(time)) => {
                    Delay::new(time.min(POLL).min(left)).await;
                    continue;
                }
                Err(error) => error,
            };
            tries.failed(error, left.is_zero())?;
            // A store that fails at once is not asked again at once; a lost race is followed by a new look soon.
            Delay::new(RETRY.min(left)).await;
        }
    }

    /// Re-reads a partition and recomputes its chain (I2). With a mark it also finds a tail that was cut and a store
    /// that was rewound.
    ///
    /// # Errors
    ///
    /// Only those of reading; what is wrong with the log is [`Verification::Broken`].
    async fn verify(&self, partition: &PartitionId, mark: Option<Mark>) -> Result<Verification> {
        verify::verify(self, partition, mark).await
    }
}

impl<L: FencedLedger + ?Sized> FencedLedgerExt for L {}

enum Tried {
    Granted(Claimed),
    HeldFor(Duration),
}

/// One look and, where the partition is free or it is the last try, one claim.
async fn look_and_claim<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    holder: &Holder,
    ttl: Ttl,
    acquisition: AcquisitionId,
    is_last: bool,
) -> Result<Tried> {
    let state = ledger.observe(partition).await?;
    let is_ours = state.tenure.as_ref().is_some_and(|tenure| tenure.lease.acquisition == acquisition);
    match &state.tenure {
        Some(tenure) if !(state.is_free() || is_ours || is_last) => {
            Ok(Tried::HeldFor(tenure.lease.expires_at.since(state.judged.time)))
        }
        _ => {
            let claim = Claim::new(partition.clone(), holder.clone(), ttl, state.observation());
            Ok(Tried::Granted(ledger.claim(&claim.with_acquisition(acquisition)).await?))
        }
    }
}
