//! Verification (I2): a partition re-read, its chain recomputed, the first fault named by its position.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::chain::{self, Content};
use crate::{
    AcquisitionId, Digest, Entry, Event, FencedLedger, Generation, LedgerError, LedgerId, OwnEvent, Page, PageSize,
    PartitionId, Position, Result,
};

/// Where a partition's log stood, kept outside of the store: what tells a cut tail and a rewound store (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Mark {
    /// The generation that wrote the entry.
    pub generation: Generation,
    /// The last position of the entry.
    pub position: Position,
    /// The chain value after the entry.
    pub chain: Digest,
}

impl Mark {
    /// A mark that was kept.
    pub fn new(generation: Generation, position: Position, chain: Digest) -> Self {
        Self { generation, position, chain }
    }

    /// Whether this is the later mark of the two (I5): of a later generation, or of a later position of the same. After
    /// an operator's advance the position of a later mark may be the smaller one.
    pub fn is_later_than(&self, other: &Self) -> bool {
        (self.generation, self.position) > (other.generation, other.position)
    }

    /// The mark of an entry.
    pub fn of(entry: &Entry) -> Self {
        Self::new(entry.generation, entry.last, entry.chain)
    }
}

/// What [`verify`](crate::FencedLedgerExt::verify) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "closed: a log is clean or it is not")]
pub enum Verification {
    /// Every entry was recomputed and is as it was written.
    Clean {
        /// How many entries there are.
        entries: u64,
        /// How many events there are.
        events: u64,
        /// The mark of the newest entry, or `None` where the partition was never claimed.
        head: Option<Mark>,
    },
    /// The log is not as it was written. What stands before `position` is clean.
    Broken {
        /// The first position that is wrong or can not be read: of an entry of several events, the entry's first.
        position: Position,
        /// What is wrong there.
        fault: Fault,
    },
}

/// What is wrong at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// There is no event at this position, though there are later ones.
    Missing,
    /// The log ends before this position, which the store's lease or the mark says was there.
    Truncated,
    /// The events are not those whose digest is stored.
    Content,
    /// Positions, generation, holder, acquisition, time, id or chain value of the entry are not those that were chained.
    Chain,
    /// The entry does not follow from the one before: its generation was not claimed, its time went back, or its
    /// bounds do not fit its events.
    Order,
    /// What is stored can not be read as an entry.
    Unreadable {
        /// What the store says.
        detail: String,
    },
    /// At the mark's position stands another entry, though the log itself is consistent: another history.
    OtherHistory,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the event is missing"),
            Self::Truncated => f.write_str("the log was cut before it"),
            Self::Content => f.write_str("the events were edited"),
            Self::Chain => f.write_str("the entry was edited or moved"),
            Self::Order => f.write_str("the entry does not follow from the one before"),
            Self::Unreadable { detail } => write!(f, "it can not be read: {detail}"),
            Self::OtherHistory => f.write_str("the log is of another history than the mark"),
        }
    }
}

/// Reads the whole partition and recomputes it.
pub(crate) async fn verify<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    mark: Option<Mark>,
) -> Result<Verification> {
    // What the store itself says of its end is read first: the log only grows, so it must reach at least that far.
    let state = ledger.observe(partition).await?;
    let own = state.tenure.map(|tenure| Mark::new(tenure.lease.generation, tenure.head, tenure.chain));
    let walk = Walk::new(state.ledger, partition, own.into_iter().chain(mark).collect());
    walk_through(walk, |from, size| ledger.read(partition, from, size)).await
}

/// Walks along what is read, to the first fault or the end.
async fn walk_through<'r>(
    mut walk: Walk<'_>,
    mut read: impl FnMut(Position, PageSize) -> BoxFuture<'r, Result<Page>>,
) -> Result<Verification> {
    let (mut from, mut items) = (Some(Position::FIRST), PageSize::MAX.get());
    while let Some(position) = from {
        match read(position, PageSize::of_items(items)).await {
            Ok(page) => {
                for event in &page.events {
                    if let Err(broken) = walk.event(event) {
                        return Ok(walk.other_history.unwrap_or(broken));
                    }
                }
                from = page.next;
            }
            // Somewhere in the page. What stands before it comes first, so less is read until nothing stands before it.
            Err(LedgerError::Corrupt { position: at, detail, .. }) => {
                let before = at.and_then(|at| u32::try_from(at.get() - position.get()).ok());
                items = before.filter(|before| *before < items).unwrap_or(items / 2);
                if items == 0 {
                    let broken = Verification::Broken { position: walk.unread(), fault: Fault::Unreadable { detail } };
                    return Ok(walk.other_history.unwrap_or(broken));
                }
            }
            Err(other) => return Err(other),
        }
    }
    Ok(walk.end())
}

/// The log as far as it was read.
struct Walk<'a> {
    ledger: LedgerId,
    partition: &'a PartitionId,
    next: Position,
    chain: Digest,
    tip: Option<Arc<Entry>>,
    entries: u64,
    open: Option<(Arc<Entry>, Content)>,
    marks: Vec<Mark>,
    /// A mark that was passed and does not fit. An advance above its generation, further on, lifts it (I4).
    other_history: Option<Verification>,
    /// The newest generation, and who has it.
    current: Option<(Generation, AcquisitionId)>,
}

impl<'a> Walk<'a> {
    fn new(ledger: LedgerId, partition: &'a PartitionId, marks: Vec<Mark>) -> Self {
        Self {
            ledger,
            partition,
            next: Position::FIRST,
            chain: chain::start(ledger, partition),
            tip: None,
            entries: 0,
            open: None,
            marks,
            other_history: None,
            current: None,
        }
    }

    /// The first position of the next entry, or of the one that is read in part.
    fn unread(&self) -> Position {
        self.open.as_ref().map_or(self.next, |(entry, _)| entry.first)
    }

    fn event(&mut self, event: &Event) -> std::result::Result<(), Verification> {
        let broken = |position, fault| Err(Verification::Broken { position, fault });
        if event.position > self.next {
            return broken(self.unread(), Fault::Missing);
        }
        let entry = &event.entry;
        if event.position < self.next || !(entry.first..=entry.last).contains(&event.position) {
            return broken(event.position, Fault::Order);
        }
        let mut content = match self.open.take() {
            Some((open, content)) if open == *entry => content,
            Some((open, _)) => return broken(open.first, Fault::Chain),
            None if entry.first != event.position => return broken(event.position, Fault::Order),
            None => Content::new((entry.last.get() - entry.first.get()).unsigned_abs() + 1),
        };
        content.event(event.kind.as_str(), event.payload.as_str(), event.metadata.as_str());
        if event.position == entry.last {
            self.close(event, content.finish())?;
        } else {
            self.open = Some((entry.clone(), content));
        }
        self.next = event.position.next().unwrap_or(Position::MAX);
        Ok(())
    }

    fn close(&mut self, last: &Event, content: Digest) -> std::result::Result<(), Verification> {
        let entry = &last.entry;
        let fault = if content != entry.content {
            Some(Fault::Content)
        } else if chain::next(self.chain, self.ledger, self.partition, entry) != entry.chain {
            Some(Fault::Chain)
        } else if !self.follows(last) {
            Some(Fault::Order)
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(Verification::Broken { position: entry.first, fault });
        }
        if last.kind.as_str() == OwnEvent::ADVANCED {
            // Of a mark from below the generation of an advance nothing more is demanded (I4).
            self.marks.retain(|mark| mark.generation >= entry.generation);
            self.other_history = None;
        }
        let passed = |mark: &&Mark| (entry.first..=entry.last).contains(&mark.position);
        if let Some(mark) = self.marks.iter().filter(passed).find(|mark| **mark != Mark::of(entry)) {
            let broken = Verification::Broken { position: mark.position, fault: Fault::OtherHistory };
            self.other_history.get_or_insert(broken);
        }
        self.chain = entry.chain;
        self.tip = Some(entry.clone());
        self.entries += 1;
        Ok(())
    }

    /// Whether the entry may follow the one before: only a claim or an advance moves the generation, the latter alone over
    /// a gap, and time does not go back.
    fn follows(&mut self, last: &Event) -> bool {
        let entry = &last.entry;
        let time_holds = self.tip.as_ref().is_none_or(|tip| tip.recorded_at <= entry.recorded_at);
        let newest = self.current.map(|(generation, _)| generation);
        let moves = match last.kind.as_str() {
            OwnEvent::CLAIMED => newest.map_or(Some(Generation::FIRST), Generation::next) == Some(entry.generation),
            OwnEvent::ADVANCED => Some(entry.generation) > newest,
            _ => return time_holds && self.current == Some((entry.generation, entry.acquisition)),
        };
        self.current = Some((entry.generation, entry.acquisition));
        time_holds && moves
    }

    fn end(self) -> Verification {
        let broken = |position, fault| Verification::Broken { position, fault };
        if self.open.is_some() {
            return broken(self.unread(), Fault::Missing);
        }
        if let Some(broken) = self.other_history {
            return broken;
        }
        let head = self.tip.as_deref().map(Mark::of);
        if self.marks.iter().any(|mark| mark.position >= self.next) {
            return broken(self.next, Fault::Truncated);
        }
        let events = head.map_or(0, |head| head.position.get().unsigned_abs());
        Verification::Clean { entries: self.entries, events, head }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
