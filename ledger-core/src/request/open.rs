//! The open requests of a partition, folded from its log (Q5).

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::{Event, FencedLedger, FencedLedgerExt, LedgerError, PartitionId, Position, Result};

use super::{LateAnswer, Request, RequestEvent, RequestKey, RequestStep, late};

/// An open request, and what late answers there are to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The request.
    pub request: Request,
    /// What holders that had lost the partition wanted to say of it (Q6), in the order of the records.
    pub late: Vec<LateAnswer>,
}

/// The fold that finds the open requests: a value that can be kept as a checkpoint and caught up from there.
///
/// It holds the open requests and no others, so its size is theirs and not the log's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequests {
    partition: PartitionId,
    /// The next event to be taken in, or `None` past the last possible position.
    next: Option<Position>,
    open: BTreeMap<RequestKey, Request>,
}

impl OpenRequests {
    /// The fold of a partition before its first event.
    pub fn of(partition: PartitionId) -> Self {
        Self { partition, next: Some(Position::FIRST), open: BTreeMap::new() }
    }

    /// Takes in everything that the log has since. Cancel safe: dropped, it has taken in a part, and goes on from there.
    ///
    /// # Errors
    ///
    /// Those of reading; [`LedgerError::AheadOfLog`] where the store has lost what the fold has seen.
    pub async fn catch_up<L: FencedLedger + ?Sized>(&mut self, ledger: &L) -> Result<()> {
        let (partition, Some(from)) = (self.partition.clone(), self.next) else { return Ok(()) };
        let mut events = ledger.events(&partition, from);
        while let Some(event) = events.try_next().await? {
            self.apply(&event)?;
        }
        Ok(())
    }

    /// Takes in the next event of the partition, also one that is of no request.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Corrupt`], where the event is not the next one, or as [`RequestEvent::read`].
    pub fn apply(&mut self, event: &Event) -> Result<()> {
        let corrupt = |detail: &str| Err(LedgerError::corrupt(Some(&self.partition), Some(event.position), detail));
        if self.next != Some(event.position) {
            return corrupt("the event is not the next one of the log");
        }
        if let Some(RequestEvent { key, number, step }) = RequestEvent::read(event)? {
            match (step, self.open.get_mut(&key)) {
                (RequestStep::Made { what }, None) => {
                    self.open.insert(key.clone(), Request::made(key, what, event.entry.clone()));
                }
                (step, Some(request)) if request.changes.checked_add(1) == Some(number) => {
                    request.apply(step, event.entry.clone());
                    if !request.is_open() {
                        self.open.remove(&key);
                    }
                }
                (_, Some(_)) => return corrupt("a change of the request before this one is missing"),
                // After its settling: the first one counts, and nothing changes it (Q3).
                (_, None) => {}
            }
        }
        self.next = event.position.next();
        Ok(())
    }

    /// The open requests, in the order in which they were made.
    pub fn requests(&self) -> Vec<Request> {
        let mut open: Vec<_> = self.open.values().cloned().collect();
        open.sort_by_key(|request| request.made.first);
        open
    }
}

/// The open requests as of now, each with its late answers.
pub(super) async fn open_requests<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
) -> Result<Vec<OpenRequest>> {
    let mut fold = OpenRequests::of(partition.clone());
    fold.catch_up(ledger).await?;
    let mut open: Vec<_> =
        fold.requests().into_iter().map(|request| OpenRequest { request, late: Vec::new() }).collect();
    let Some(oldest) = open.first().map(|open| open.request.generation()) else { return Ok(open) };
    let mut records = late::records_since(ledger, partition, oldest);
    while let Some(record) = records.try_next().await? {
        if let Some(answer) = LateAnswer::of(&record)
            && let Some(open) = open.iter_mut().find(|open| open.request.key == answer.key)
        {
            open.late.push(answer);
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::request::{Evidence, Outcome};
    use crate::{AcquisitionId, Append, AppendId, Digest, Entry, Generation, Holder, Json, NewEvent, Timestamp};

    /// A log as it is read: each append is one entry.
    fn log(appends: &[Append]) -> Vec<Event> {
        let placed = (1..).map(|at| Position::new(at).expect("counted from 1")).zip(appends);
        let event = |(at, append): (Position, &Append)| {
            let entry = Entry::new(
                Some(append.id()),
                (at, at),
                Generation::FIRST,
                Holder::new("a").expect("a holder"),
                AcquisitionId::mint(),
                Timestamp::from_micros(0),
                append.content(),
                Digest::new([0; 32]),
            );
            let event = append.events()[0].clone();
            Event::new(at, event.kind, event.payload, event.metadata, Arc::new(entry))
        };
        placed.map(event).collect()
    }

    fn step(key: &str, number: u32, step: RequestStep) -> Append {
        let key = RequestKey::new(key).expect("a key");
        RequestEvent { key, number, step }.to_append().expect("small")
    }

    fn made(key: &str) -> Append {
        step(key, 0, RequestStep::Made { what: Json::empty_object() })
    }

    fn settled(key: &str, number: u32, outcome: Outcome) -> Append {
        step(key, number, RequestStep::Settled { outcome, evidence: Evidence::new("s", "r").expect("evidence") })
    }

    fn fold(events: &[Event]) -> Result<Vec<String>> {
        let mut fold = OpenRequests::of(PartitionId::new("jobs")?);
        events.iter().try_for_each(|event| fold.apply(event))?;
        Ok(fold.requests().iter().map(|request| request.key.to_string()).collect())
    }

    #[test]
    fn fold_keeps_the_open_ones_in_their_order_and_nothing_else() {
        let other = Append::with_id(AppendId::mint(), [NewEvent::of("other", &1).expect("JSON")]).expect("small");
        let events = log(&[
            made("z"),
            other,
            made("a"),
            step("a", 1, RequestStep::SentAgain),
            made("m"),
            settled("m", 1, Outcome::Failed),
            // No writer of this crate gets so far: the first settling counts.
            settled("m", 2, Outcome::Succeeded),
        ]);
        assert_eq!(fold(&events).expect("a log of requests"), ["z", "a"]);
    }

    #[test]
    fn what_does_not_follow_is_corrupt_and_names_its_position() {
        let at = |events: &[Event]| match fold(events) {
            Err(LedgerError::Corrupt { position, .. }) => position.map(Position::get),
            other => panic!("not corrupt: {other:?}"),
        };
        let events = log(&[made("a"), step("a", 2, RequestStep::SentAgain)]);
        assert_eq!(at(&events), Some(2), "a change before it is missing");
        let events = log(&[made("a"), made("b"), made("c")]);
        assert_eq!(at(&[events[0].clone(), events[2].clone()]), Some(3), "an event is missing");
        assert_eq!(at(&[events[0].clone(), events[0].clone()]), Some(1), "an event comes twice");
    }
}
