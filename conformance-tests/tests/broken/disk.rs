//! What the reference keeps, and what a restart leaves of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger_core::{
    AcquisitionId, AdvanceRecord, AppendId, Entry, Event, Generation, LedgerId, ManualClock, NewEvent, OwnEvent,
    PartitionId, PastTenure, Position, Standing, Vacancy,
};

use crate::bugs::Bug;
use crate::records::Records;

/// What survives a restart.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) id: LedgerId,
    pub(crate) clock: ManualClock,
    pub(crate) bug: Option<Bug>,
    /// The lock of the writers: all partitions share it.
    pub(crate) writer: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) parts: BTreeMap<PartitionId, Part>,
    /// Names that were only asked for, where a bug lists them.
    pub(crate) asked: BTreeSet<PartitionId>,
    pub(crate) never_claimed: Records,
}

/// A claimed partition.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) standing: Standing,
    pub(crate) log: Vec<(Arc<Entry>, Arc<[NewEvent]>)>,
    pub(crate) records: Records,
    /// Positions that refusals have used up, where a bug lets them.
    pub(crate) burned: u32,
}

impl Part {
    pub(crate) fn entry(&self, id: AppendId) -> Option<&Arc<Entry>> {
        self.log.iter().map(|(entry, _)| entry).find(|entry| entry.id == Some(id))
    }

    pub(crate) fn past(&self, generation: Generation) -> Option<PastTenure> {
        let mut claims = self.log.iter().filter(|(_, events)| events[0].kind.as_str() == OwnEvent::CLAIMED);
        let (entry, _) = claims.by_ref().find(|(entry, _)| entry.generation == generation)?;
        let next = claims.next().and_then(|(_, next)| match OwnEvent::read(&next[0].kind, &next[0].payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => Some(succession),
            _ => None,
        });
        PastTenure::before((entry.holder.clone(), entry.acquisition), next.as_ref(), &self.standing.lease)
    }

    pub(crate) fn advance(&self, acquisition: AcquisitionId) -> Option<(Arc<Entry>, AdvanceRecord)> {
        self.log.iter().filter(|(entry, _)| entry.acquisition == acquisition).find_map(|(entry, events)| {
            match OwnEvent::read(&events[0].kind, &events[0].payload) {
                Ok(Some(OwnEvent::Advanced(record))) => Some((entry.clone(), record)),
                _ => None,
            }
        })
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let of_entry = |(entry, events): &(Arc<Entry>, Arc<[NewEvent]>)| {
            let first = entry.first.get();
            let placed: Vec<Event> = (first..)
                .zip(events.iter())
                .map(|(position, event)| {
                    let position = Position::new(position).expect("entries start at 1 or later");
                    let (kind, payload) = (event.kind.clone(), event.payload.clone());
                    Event::new(position, kind, payload, event.metadata.clone(), entry.clone())
                })
                .collect();
            placed
        };
        self.log.iter().flat_map(of_entry).collect()
    }
}

impl Disk {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        let (id, clock) = (LedgerId::mint(), ManualClock::default());
        Self { id, clock, bug, writer: Arc::default(), state: Mutex::default() }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a restart leaves of it: all, but for the bugs that keep something in memory alone.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        if self.has(Bug::GenerationResetOnReopen) {
            state.parts.retain(|_, part| part.standing.lease.vacancy.is_none());
        }
        if self.has(Bug::LeaseLostOnReopen) {
            state.parts.values_mut().for_each(|part| part.standing.lease.vacancy = Some(Vacancy::Released));
        }
        if self.has(Bug::RecordsInMemory) {
            state.parts.values_mut().for_each(|part| part.records = Records::default());
        }
    }
}
