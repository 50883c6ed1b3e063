//! Late answers: what a holder that had lost the partition wanted to say of a request (Q6).

use futures_util::TryStreamExt;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde::{Deserialize, Serialize};

use crate::{
    FencedLedger, Generation, Holder, LedgerError, PageSize, PartitionId, Reason, RecordSlot, RejectionRecord, Remark,
    Result, Timestamp,
};

use super::{RequestKey, RequestState, RequestStep};

/// An answer that was refused, and is kept as evidence in the refusal's record. It changes nothing: whoever holds the
/// partition weighs it, looks the request up, and settles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LateAnswer {
    /// The request.
    pub key: RequestKey,
    /// What it would have become: unknown, succeeded or failed, with the evidence.
    pub said: RequestState,
    /// Who wanted to say so.
    pub holder: Holder,
    /// The generation that it presented.
    pub generation: Option<Generation>,
    /// Why it was refused. [`AppendIdReused`](Reason::AppendIdReused): the request was already settled otherwise, or
    /// another change came first.
    pub reason: Reason,
    /// The record that keeps it: the generation that was current, and its number.
    pub slot: RecordSlot,
    /// How often it was refused.
    pub count: u64,
    /// The judged time of the first refusal.
    pub first_at: Timestamp,
    /// The judged time of the last.
    pub last_at: Timestamp,
}

/// The remark of an append that answers a request, as JSON: a persisted layout.
#[derive(Serialize, Deserialize)]
struct Said {
    request: RequestKey,
    answer: RequestState,
}

impl LateAnswer {
    /// Reads a rejection record; `None` where it keeps no answer to a request.
    pub fn of(record: &RejectionRecord) -> Option<Self> {
        let refused = record.refused.as_ref()?;
        let Said { request, answer } = serde_json::from_str(refused.remark.as_ref()?.as_str()).ok()?;
        Some(Self {
            key: request,
            said: answer,
            holder: refused.holder.clone(),
            generation: refused.generation,
            reason: refused.reason,
            slot: record.slot,
            count: record.count,
            first_at: record.first_at,
            last_at: record.last_at,
        })
    }
}

/// What an append is to leave behind if it is refused: the answer, where it is one.
pub(super) fn remark(key: &RequestKey, step: &RequestStep) -> Option<Remark> {
    let answer = match step {
        RequestStep::Unknown { evidence } => RequestState::Unknown { evidence: evidence.clone() },
        RequestStep::Settled { outcome, evidence } => RequestState::settled(*outcome, evidence.clone()),
        _ => return None,
    };
    let said = serde_json::to_string(&Said { request: key.clone(), answer }).expect("texts in structs are JSON");
    Some(Remark::new(said).expect("three texts of 255 bytes, each byte escaped, and 100 more are within 2 KiB"))
}

/// All rejection records of a partition since a generation was current, page by page.
pub(crate) fn records_since<'a, L: FencedLedger + ?Sized>(
    ledger: &'a L,
    partition: &'a PartitionId,
    since: Generation,
) -> BoxStream<'a, Result<RejectionRecord>> {
    let start = Some(RecordSlot::new(Some(since), 0));
    let pages = stream::try_unfold(start, move |after| async move {
        let Some(after) = after else { return Ok(None) };
        let page = ledger.rejections(Some(partition), Some(after), PageSize::default()).await?;
        Ok::<_, LedgerError>(Some((stream::iter(page.records.into_iter().map(Ok)), page.next)))
    });
    pages.try_flatten().boxed()
}

/// The late answers since a generation was current, in the order of their records.
pub(super) async fn late_answers<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    since: Generation,
) -> Result<Vec<LateAnswer>> {
    let answers = records_since(ledger, partition, since);
    answers.try_filter_map(|record| std::future::ready(Ok(LateAnswer::of(&record)))).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Evidence, Outcome};
    use crate::{AcquisitionId, Operation, Refused, Revision};

    #[test]
    fn the_longest_answer_fits_and_is_read_from_the_record() {
        let full = "\"".repeat(255);
        let (key, evidence) = (RequestKey::new(&full).expect("a key"), Evidence::new(&full, &full).expect("evidence"));
        let step = RequestStep::Settled { outcome: Outcome::Succeeded, evidence: evidence.clone() };
        let remark = remark(&key, &step).expect("an answer");
        assert!(remark.as_str().len() > 1_530, "{}", remark.as_str().len());
        let who = (Holder::new("a").expect("a holder"), Some(Generation::FIRST), AcquisitionId::mint());
        let refused = Refused::new((Operation::Append, Reason::StaleGeneration), who, None, None, Revision::new(3));
        let slot = RecordSlot::new(Generation::FIRST.next(), 1);
        let at = Timestamp::from_micros(5);
        let record = |refused| RejectionRecord::new(slot, None, Some(refused), 2, (at, at));
        let late = LateAnswer::of(&record(refused.clone().with_remark(Some(remark)))).expect("an answer");
        assert_eq!((late.key, late.said), (key, RequestState::Succeeded { evidence }));
        assert_eq!(LateAnswer::of(&record(refused.clone())), None);
        let other = Remark::new("something else").expect("a remark");
        assert_eq!(LateAnswer::of(&record(refused.with_remark(Some(other)))), None);
    }

    /// The layout is persisted in rejection records.
    #[test]
    fn the_remark_is_written_as_it_is_written_down() {
        let key = RequestKey::new("k").expect("a key");
        let step = RequestStep::Unknown { evidence: Evidence::new("s", "r").expect("evidence") };
        let text = r#"{"request":"k","answer":{"state":"unknown","evidence":{"source":"s","reference":"r"}}}"#;
        assert_eq!(remark(&key, &step).expect("an answer").as_str(), text);
        assert_eq!(remark(&key, &RequestStep::SentAgain), None);
    }
}
