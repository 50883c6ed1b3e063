//! Requests to other systems: recorded before they are sent, so that a successor knows of them (Q1 to Q6).
//!
//! Fencing can not recall what an old holder has already sent to a bank or a mail server. So the intent is written
//! first, under an [`AppendId`](crate::AppendId) that is derived from its idempotency key; what came of it is written
//! when it is known. All of it is made of appends: the store judges each as any other write.

mod error;
mod event;
mod find;
mod key;
mod late;
mod open;
mod sending;
mod state;
mod write;

use async_trait::async_trait;

use crate::{FencedLedger, Generation, Handover, Json, Lease, PartitionId, Result, handover};

pub use error::RequestError;
pub use event::{RequestEvent, RequestStep};
pub use key::RequestKey;
pub use late::LateAnswer;
pub(crate) use late::records_since;
pub use open::{OpenRequest, OpenRequests};
pub use sending::{Asked, Sending};
pub use state::{Evidence, Outcome, Owner, Request, RequestState};

/// The requests that the holders of a partition have sent to other systems. Every [`FencedLedger`] has this.
///
/// ```
/// use ledger_core::{Asked, Evidence, FencedLedger, Json, Lease, Outcome, RequestBook, RequestError, RequestKey};
///
/// # async fn send(_: &RequestKey, _: &Json) -> Option<String> { None }
/// # async fn ask_the_bank(_: &RequestKey) -> Option<String> { None }
/// async fn pay(ledger: &dyn FencedLedger, lease: &Lease) -> Result<(), RequestError> {
///     let key = RequestKey::new("invoice-7")?;
///     match ledger.request(lease, &key, &Json::of(&serde_json::json!({ "pay": 120 }))?).await? {
///         // Recorded by this call: now, and with this key, it may be sent.
///         Asked::Send(sending) => match send(&sending.request.key, &sending.request.what).await {
///             Some(transaction) => {
///                 let evidence = Evidence::new("bank", transaction)?;
///                 ledger.settle(lease, &key, Outcome::Succeeded, &evidence).await?;
///             }
///             // No answer is not a failure.
///             None => drop(ledger.mark_unknown(lease, &key, &Evidence::new("pay", "timed out")?).await?),
///         },
///         // Somebody recorded it before: nothing is sent.
///         Asked::Known(request) => println!("{} under generation {}", request.key, request.generation()),
///     }
///     Ok(())
/// }
///
/// /// After a takeover: what the holders before had sent, and nobody has settled.
/// async fn take_up(ledger: &dyn FencedLedger, lease: &Lease) -> Result<(), RequestError> {
///     for open in ledger.open_requests(&lease.partition).await? {
///         let key = &open.request.key;
///         match ask_the_bank(key).await {
///             Some(found) => {
///                 ledger.settle(lease, key, Outcome::Succeeded, &Evidence::new("bank", found)?).await?;
///             }
///             // Under the same key, which the bank knows if the first one came after all.
///             None => {
///                 if let Asked::Send(sending) = ledger.send_again(lease, key).await? {
///                     send(&sending.request.key, &sending.request.what).await;
///                 }
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// A write is refused like every other: a stale one is [`RequestError::Ledger`] with the
/// [rejection](RequestError::rejection). After an error that does not
/// [prove](crate::LedgerError::proves_not_written) that nothing was written, call again: `request` then answers
/// [`Asked::Known`], although nothing may have been sent, and the way on is to look the request up at the other system
/// and to [send it again](Self::send_again).
///
/// # Cancel safety
///
/// Dropping a future leaves one append, whole, or none (U3); reads leave nothing.
#[async_trait]
pub trait RequestBook: Send + Sync {
    /// Records a request, which may be sent after that: once, by whoever got [`Asked::Send`] (Q1).
    ///
    /// `what` is compared byte for byte. A second call with the same key and the same `what`, by whichever holder,
    /// writes nothing and answers [`Asked::Known`]. Needs one append, however long the log is.
    ///
    /// # Errors
    ///
    /// [`RequestError::KeyReused`] where the key names another request.
    async fn request(&self, lease: &Lease, key: &RequestKey, what: &Json) -> Result<Asked, RequestError>;

    /// Records that an open request is to be sent once more, under its key and as it was made (Q5). The state stays.
    ///
    /// Of tasks of one holder that call this at the same moment, one gets [`Asked::Send`]. Every further call is a
    /// further sending.
    ///
    /// # Errors
    ///
    /// [`RequestError::NotMade`], [`RequestError::Settled`].
    async fn send_again(&self, lease: &Lease, key: &RequestKey) -> Result<Asked, RequestError>;

    /// Settles a request, once and for good (Q3). The same settling again is answered as before, and writes nothing.
    ///
    /// An old holder's call is refused; what it wanted to say is kept in the refusal's record (Q6).
    ///
    /// # Errors
    ///
    /// [`RequestError::NotMade`]; [`RequestError::Settled`] where it was settled otherwise, be it only by other
    /// evidence.
    async fn settle(
        &self,
        lease: &Lease,
        key: &RequestKey,
        outcome: Outcome,
        evidence: &Evidence,
    ) -> Result<Request, RequestError>;

    /// Notes that nobody could learn what came of a request. It stays open (Q3). The same again writes nothing.
    ///
    /// # Errors
    ///
    /// As [`settle`](Self::settle).
    async fn mark_unknown(&self, lease: &Lease, key: &RequestKey, evidence: &Evidence)
    -> Result<Request, RequestError>;

    /// Gives an open request an owner and a note (Q4). The same again writes nothing; another one takes its place.
    ///
    /// # Errors
    ///
    /// [`RequestError::NotMade`], [`RequestError::Settled`].
    async fn assign(&self, lease: &Lease, key: &RequestKey, owner: &Owner) -> Result<Request, RequestError>;

    /// Finds one request by its key, open or settled; `None` where it was never made. Needs no lease.
    ///
    /// Two reads for it and two for each of its changes, however long the log is.
    async fn look_up(&self, partition: &PartitionId, key: &RequestKey) -> Result<Option<Request>>;

    /// Lists the open requests of a partition, in the order in which they were made, each with the late answers to it
    /// (Q5, Q6). Needs no lease.
    ///
    /// Reads the whole log, page by page, and holds the open requests alone in memory. To go on from a checkpoint, keep
    /// an [`OpenRequests`].
    async fn open_requests(&self, partition: &PartitionId) -> Result<Vec<OpenRequest>>;

    /// Lists the late answers since a generation was current, also to requests that are settled (Q6). Needs no lease.
    async fn late_answers(&self, partition: &PartitionId, since: Generation) -> Result<Vec<LateAnswer>>;

    /// Tells how a generation took a partition over, and which requests were open then (H1 to H3); `None` where it was
    /// never granted. Needs no lease.
    ///
    /// Reads the log up to that claim, page by page.
    async fn handover(&self, partition: &PartitionId, generation: Generation) -> Result<Option<Handover>>;
}

#[async_trait]
impl<L: FencedLedger + ?Sized> RequestBook for L {
    async fn request(&self, lease: &Lease, key: &RequestKey, what: &Json) -> Result<Asked, RequestError> {
        write::request(self, lease, key, what).await
    }

    async fn send_again(&self, lease: &Lease, key: &RequestKey) -> Result<Asked, RequestError> {
        write::send_again(self, lease, key).await
    }

    async fn settle(
        &self,
        lease: &Lease,
        key: &RequestKey,
        outcome: Outcome,
        evidence: &Evidence,
    ) -> Result<Request, RequestError> {
        let step = RequestStep::Settled { outcome, evidence: evidence.clone() };
        Ok(write::change(self, lease, key, step).await?.0)
    }

    async fn mark_unknown(
        &self,
        lease: &Lease,
        key: &RequestKey,
        evidence: &Evidence,
    ) -> Result<Request, RequestError> {
        Ok(write::change(self, lease, key, RequestStep::Unknown { evidence: evidence.clone() }).await?.0)
    }

    async fn assign(&self, lease: &Lease, key: &RequestKey, owner: &Owner) -> Result<Request, RequestError> {
        Ok(write::change(self, lease, key, RequestStep::Owned { owner: owner.clone() }).await?.0)
    }

    async fn look_up(&self, partition: &PartitionId, key: &RequestKey) -> Result<Option<Request>> {
        find::look_up(self, partition, key).await
    }

    async fn open_requests(&self, partition: &PartitionId) -> Result<Vec<OpenRequest>> {
        open::open_requests(self, partition).await
    }

    async fn late_answers(&self, partition: &PartitionId, since: Generation) -> Result<Vec<LateAnswer>> {
        late::late_answers(self, partition, since).await
    }

    async fn handover(&self, partition: &PartitionId, generation: Generation) -> Result<Option<Handover>> {
        handover::handover(self, partition, generation).await
    }
}
