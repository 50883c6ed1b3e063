//! What the reference keeps, and what a restart leaves of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// Which write of a call fails, or 0.
    failing: AtomicU32,
    /// Whether the next call's answer, or its request, is lost: only where a bug tells that as a refusal.
    pub(crate) losing: Mutex<Option<Lost>>,
}

/// What the line does to the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Reply,
    Request,
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
    /// How many entries' ids are no longer known, where a bug forgets them.
    pub(crate) forgotten: usize,
}

impl Part {
    pub(crate) fn entry(&self, id: AppendId) -> Option<&Arc<Entry>> {
        self.log.iter().skip(self.forgotten).map(|(entry, _)| entry).find(|entry| entry.id == Some(id))
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
        let (failing, losing) = (AtomicU32::new(0), Mutex::default());
        Self { id, clock, bug, writer: Arc::default(), state: Mutex::default(), failing, losing }
    }

    /// Lets the `nth` write of each call fail, or none with 0.
    pub(crate) fn fail_write(&self, nth: u32) {
        self.failing.store(nth, Ordering::SeqCst);
    }

    /// Whether a call that makes so many writes fails, and at which.
    pub(crate) fn fails_within(&self, writes: usize) -> Option<usize> {
        let nth = usize::try_from(self.failing.load(Ordering::SeqCst)).unwrap_or(0);
        (1..=writes).contains(&nth).then_some(nth)
    }

    /// What a crash leaves of it: all that was acknowledged, but for the bug that acknowledges too early.
    pub(crate) fn crash(&self) {
        if self.has(Bug::AcknowledgedBeforeDurable) {
            for part in self.state().parts.values_mut().filter(|part| part.log.len() > 1) {
                part.log.pop();
                part.standing.tip = part.log.last().map(|(entry, _)| entry.clone());
            }
        }
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
        if self.has(Bug::IdsLostOnReopen) {
            state.parts.values_mut().for_each(|part| part.forgotten = part.log.len());
        }
        if self.has(Bug::RecordsInMemory) {
            state.parts.values_mut().for_each(|part| part.records = Records::default());
        }
    }
}
