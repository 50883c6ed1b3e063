//! One partition: its stored lease, its log, its evidence.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger_core::decide::Write;
use ledger_core::{
    AcquisitionId, AdvanceRecord, AppendId, Entry, Event, EventKind, Fate, Generation, LedgerError, MAX_LOOKED,
    NewEvent, OwnEvent, Page, PageSize, PastTenure, Position, RecordBudget, Result, Room, Standing, StoredLease,
    Succession,
};

/// A claimed partition.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) standing: Standing,
    pub(crate) evidence: RecordBudget,
    log: Vec<(Arc<Entry>, Arc<[NewEvent]>)>,
    /// Where in the log the entry of an id stands. In order of the ids: those that are minted here rise with time, so that
    /// the newest stand together, where the processor's cache has them.
    ids: BTreeMap<AppendId, usize>,
    /// Where in the log the `$claimed` entries stand, by generation.
    claims: Vec<usize>,
}

impl Partition {
    /// A partition with its first claim.
    pub(crate) fn first(lease: StoredLease, entry: Arc<Entry>, events: Arc<[NewEvent]>) -> Self {
        let standing = Standing::new(lease, Some(entry.clone()));
        let mut partition = Self {
            standing,
            evidence: RecordBudget::default(),
            log: Vec::new(),
            ids: BTreeMap::new(),
            claims: Vec::new(),
        };
        partition.push(entry, events);
        partition
    }

    /// Does what a decision says.
    pub(crate) fn apply(&mut self, write: Write) {
        if let Some(lease) = write.lease {
            self.standing.lease = lease;
        }
        if let Some((entry, events)) = write.entry {
            self.standing.tip = Some(entry.clone());
            self.push(entry, events);
        }
    }

    /// The entry of an id.
    pub(crate) fn entry(&self, id: AppendId) -> Option<&Arc<Entry>> {
        self.ids.get(&id).map(|at| &self.log[*at].0)
    }

    pub(crate) fn fate(&self, id: AppendId, generation: Generation) -> Fate {
        match self.entry(id) {
            Some(entry) => Fate::Recorded(entry.clone()),
            None if self.standing.has_visibly_ended(generation) => Fate::Never,
            None => Fate::Undecided,
        }
    }

    /// The tenure of a generation that another has followed.
    pub(crate) fn past(&self, generation: Generation) -> Option<PastTenure> {
        let nth = self.claims.binary_search_by_key(&generation, |at| self.log[*at].0.generation).ok()?;
        let (entry, _) = &self.log[self.claims[nth]];
        let next = self.claims.get(nth + 1).and_then(|at| self.succession(*at));
        PastTenure::before((entry.holder.clone(), entry.acquisition), next.as_ref(), &self.standing.lease)
    }

    /// The `$advanced` entry that has an acquisition. Advances are rare, and asked for by operators alone.
    pub(crate) fn advance(&self, acquisition: AcquisitionId) -> Option<(Arc<Entry>, AdvanceRecord)> {
        let (entry, events) = self.log.iter().find(|(entry, events)| {
            entry.acquisition == acquisition
                && events.first().is_some_and(|event| event.kind.as_str() == OwnEvent::ADVANCED)
        })?;
        match OwnEvent::read(&events.first()?.kind, &events.first()?.payload) {
            Ok(Some(OwnEvent::Advanced(record))) => Some((entry.clone(), record)),
            _ => None,
        }
    }

    /// The events from a position on, or of these those of a kind (D7), as far as there is room (D5).
    pub(crate) fn page(&self, from: Position, kind: Option<&EventKind>, limit: PageSize) -> Result<Page> {
        let head = self.standing.head();
        if from.get() - 1 > head.get() {
            return Err(ahead(from, Some(head)));
        }
        let end = from.checked_add(MAX_LOOKED - 1).filter(|_| kind.is_some()).unwrap_or(Position::MAX);
        let start = self.log.partition_point(|(entry, _)| entry.last < from);
        let mut room = Room::new(limit);
        let (mut page, mut looked) = (Vec::new(), None);
        let events = self.log[start..].iter().flat_map(|(entry, events)| events_of(entry, events));
        for placed in events.skip_while(|(position, ..)| *position < from) {
            let (position, _, event) = placed;
            let matches = kind.is_none_or(|kind| event.kind == *kind);
            if position > end || matches && !room.take(event.bytes()) {
                break;
            }
            looked = Some(position);
            if matches {
                page.push(to_event(placed));
            }
        }
        let head = Some((head, self.standing.lease.generation));
        Ok(if kind.is_some() { Page::of_kind(page, head, looked) } else { Page::forward(page, head) })
    }

    pub(crate) fn page_back(&self, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let head = self.standing.head();
        let from = from.unwrap_or(head);
        if from > head {
            return Err(ahead(from, Some(head)));
        }
        let end = self.log.partition_point(|(entry, _)| entry.first <= from);
        let mut room = Room::new(limit);
        let events = self.log[..end]
            .iter()
            .rev()
            .flat_map(|(entry, events)| events_of(entry, events).rev())
            .skip_while(|(position, ..)| *position > from)
            .take_while(|(.., event)| room.take(event.bytes()))
            .map(to_event)
            .collect();
        Ok(Page::backward(events, Some((head, self.standing.lease.generation))))
    }

    fn push(&mut self, entry: Arc<Entry>, events: Arc<[NewEvent]>) {
        let at = self.log.len();
        if let Some(id) = entry.id {
            self.ids.insert(id, at);
        }
        if events.first().is_some_and(|event| event.kind.as_str() == OwnEvent::CLAIMED) {
            self.claims.push(at);
        }
        self.log.push((entry, events));
    }

    fn succession(&self, at: usize) -> Option<Succession> {
        let event = self.log[at].1.first()?;
        match OwnEvent::read(&event.kind, &event.payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => Some(succession),
            _ => None,
        }
    }
}

/// A read from beyond the end of the log (D4).
pub(crate) fn ahead(from: Position, head: Option<Position>) -> LedgerError {
    LedgerError::AheadOfLog { from, head }
}

type Placed<'a> = (Position, &'a Arc<Entry>, &'a NewEvent);

fn events_of<'a>(entry: &'a Arc<Entry>, events: &'a Arc<[NewEvent]>) -> impl DoubleEndedIterator<Item = Placed<'a>> {
    events.iter().enumerate().map(move |(nth, event)| {
        let nth = u32::try_from(nth).expect("an append has at most 10,000 events");
        (entry.first.checked_add(nth).unwrap_or(entry.last), entry, event)
    })
}

fn to_event((position, entry, event): Placed<'_>) -> Event {
    Event::new(position, event.kind.clone(), event.payload.clone(), event.metadata.clone(), entry.clone())
}
