//! A ledger for these tests: the decisions of the core in memory, with faults by script and a record of every call.
//! Three bugs of keepers stand here, at the place where what they send arrives.
//!
//! `ledger-memory` can not be used here: it is built on the library, and these tests are built into it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures_channel::oneshot::{Receiver, Sender, channel};

use super::{Bug, bug};
use crate::decide::{self, Decision, Subject};
use crate::keeper::{LocalClock, ManualLocalClock, Moment};
use crate::{
    AcquisitionId, Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Clock, Description, Digest, Ended,
    Entry, Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, LedgerId, ManualClock, Mark, Note,
    Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position, RecordPage, RecordSlot,
    Released, Renewal, Result, Rewind, RolledBack, Standing, Ttl, judge,
};

/// What goes wrong with one call.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is done, and the answer is lost.
    ReplyLost,
    /// It is not done, and nobody knows.
    NotArrived,
    /// It is surely not done.
    NotWritten,
    /// It is not done, and there is never an answer.
    Silent,
    /// It is done when the gate is opened.
    Late(Receiver<()>),
    /// It is done at once, and answered when the gate is opened.
    LateReply(Receiver<()>),
    /// A claim is granted for another TTL than was asked for.
    Grants(Ttl),
    /// A renewal tells a head as if the store had lost what followed; before an append it loses all but the claim.
    WentBack,
    /// A ledger with a witness tells that the store went back; the call is done there or not.
    RolledBack { written: bool },
}

/// A fault that lasts until the gate is opened, by a value or by a drop.
pub(crate) fn gate(fault: fn(Receiver<()>) -> Fault) -> (Sender<()>, Fault) {
    let (open, gate) = channel();
    (open, fault(gate))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) what: &'static str,
    pub(crate) partition: PartitionId,
    /// When it was sent, by the keeper's clock.
    pub(crate) at: Moment,
}

#[derive(Debug)]
pub(crate) struct ScriptedLedger {
    id: LedgerId,
    clock: ManualClock,
    local: ManualLocalClock,
    state: Mutex<Stored>,
}

#[derive(Debug, Default)]
struct Stored {
    partitions: HashMap<PartitionId, (Standing, Vec<Arc<Entry>>)>,
    calls: Vec<Call>,
    faults: VecDeque<(&'static str, PartitionId, Fault)>,
}

impl ScriptedLedger {
    pub(crate) fn new(clock: ManualClock, local: ManualLocalClock) -> Self {
        Self { id: LedgerId::mint(), clock, local, state: Mutex::default() }
    }

    /// The next call of this kind on the partition, after those that have a fault already, meets this one.
    pub(crate) fn fault(&self, what: &'static str, partition: &PartitionId, fault: Fault) {
        self.lock().faults.push_back((what, partition.clone(), fault));
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// How often the store was asked this.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.lock().calls.iter().filter(|call| call.what == what).count()
    }

    /// The ids in the log of a partition.
    pub(crate) fn log(&self, partition: &PartitionId) -> Vec<Arc<Entry>> {
        self.lock().partitions.get(partition).map(|(_, log)| log.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.state.lock().expect("no test panics under this lock")
    }

    /// Notes the call, and does it as its fault says.
    async fn call<T: Send>(
        &self,
        what: &'static str,
        partition: &PartitionId,
        work: impl FnOnce(Option<&Fault>) -> Result<T> + Send,
    ) -> Result<T> {
        let fault = {
            let mut state = self.lock();
            state.calls.push(Call { what, partition: partition.clone(), at: self.local.now() });
            let place = state.faults.iter().position(|(of, on, _)| *of == what && on == partition);
            place.and_then(|place| state.faults.remove(place)).map(|(_, _, fault)| fault)
        };
        let failure = || Failure::new(FailureKind::Unavailable, "as the script says");
        match fault {
            None => work(None),
            Some(Fault::ReplyLost) => {
                let _ = work(None);
                Err(LedgerError::Unknown(failure()))
            }
            Some(Fault::NotArrived) => Err(LedgerError::Unknown(failure())),
            Some(Fault::NotWritten) => Err(LedgerError::NotWritten(failure())),
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::Late(gate)) => {
                let _ = gate.await;
                work(None)
            }
            Some(Fault::LateReply(gate)) => {
                let answer = work(None);
                let _ = gate.await;
                answer
            }
            Some(Fault::RolledBack { written }) => {
                if written {
                    let _ = work(None);
                }
                let mark = Mark::new(Generation::FIRST, Position::FIRST, Digest::new([0; 32]));
                let (partition, rewind) = (partition.clone(), Rewind::Behind);
                Err(RolledBack { partition, mark, seen: None, rewind, written }.into())
            }
            Some(fault @ (Fault::Grants(_) | Fault::WentBack)) => work(Some(&fault)),
        }
    }

    fn lose_all_but_the_claim(&self, partition: &PartitionId) {
        if let Some((standing, log)) = self.lock().partitions.get_mut(partition) {
            log.truncate(1);
            standing.tip = log.first().cloned();
        }
    }

    fn decide<A>(
        &self,
        partition: &PartitionId,
        id: Option<AppendId>,
        decide: impl FnOnce(Subject<'_>, Option<&Arc<Entry>>) -> Decision<A>,
    ) -> Result<A> {
        let mut state = self.lock();
        let found = state.partitions.get(partition);
        let earlier = found.and_then(|(_, log)| log.iter().find(|entry| entry.id.is_some() && entry.id == id));
        let subject = Subject::new(self.id, partition, found.map(|(standing, _)| standing), self.clock.now());
        let Decision { answer, write } = decide(subject, earlier);
        if let Some(lease) = write.lease {
            let tip = || write.entry.as_ref().map(|(entry, _)| entry.clone());
            let part = state.partitions.entry(partition.clone());
            let (standing, _) = part.or_insert_with(|| (Standing::new(lease.clone(), tip()), Vec::new()));
            standing.lease = lease;
        }
        if let (Some((entry, _)), Some((standing, log))) = (write.entry, state.partitions.get_mut(partition)) {
            standing.tip = Some(entry.clone());
            log.push(entry);
        }
        Ok(answer?)
    }
}

#[async_trait]
impl FencedLedger for ScriptedLedger {
    async fn describe(&self) -> Result<Description> {
        unimplemented_here()
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.call("observe", partition, |_| {
            let state = self.lock();
            let standing = state.partitions.get(partition).map(|(standing, _)| standing);
            let judged = judge::judged(standing, self.clock.now());
            let tenure = standing.map(|standing| standing.tenure(self.id, partition));
            Ok(PartitionState::new(self.id, partition.clone(), tenure, judged))
        })
        .await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.call("claim", &claim.partition, |fault| {
            let mut claim = claim.clone();
            if bug() == Some(Bug::NewAcquisitionOnTheSecondTry) && self.count("claim") > 1 {
                claim.acquisition = AcquisitionId::mint();
            }
            if let Some(Fault::Grants(ttl)) = fault {
                claim.ttl = *ttl;
            }
            let id = Some(claim.acquisition.into());
            self.decide(&claim.partition, id, |subject, earlier| decide::claim(subject, earlier, &claim))
        })
        .await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.call("renew", &lease.partition, |fault| {
            let mut renewal = self.decide(&lease.partition, None, |subject, _| decide::renew(subject, lease, ttl))?;
            if let Some(Fault::WentBack) = fault {
                let first = self.log(&lease.partition).first().map(|entry| (entry.last, entry.chain));
                (renewal.head, renewal.chain) = first.unwrap_or((renewal.head, renewal.chain));
            }
            Ok(renewal)
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.call("release", &lease.partition, |_| {
            self.decide(&lease.partition, None, |subject, _| decide::release(subject, None, lease))
        })
        .await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.decide(partition, None, |subject, _| decide::end_tenure(subject, observed, reason))
    }

    async fn advance(&self, _: &Advance) -> Result<Advanced> {
        unimplemented_here()
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        let mut append = append.clone();
        if bug() == Some(Bug::NewIdOnTheSecondTry) && self.count("append") > 0 {
            append = Append::new(append.events().clone())?;
        }
        self.call("append", &lease.partition, |fault| {
            let append = &append;
            if let Some(Fault::WentBack) = fault {
                self.lose_all_but_the_claim(&lease.partition);
            }
            let decide =
                |subject: Subject<'_>, earlier: Option<&Arc<Entry>>| decide::append(subject, earlier, lease, append);
            self.decide(&lease.partition, Some(append.id()), decide)
        })
        .await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.call("fate", partition, |_| {
            let state = self.lock();
            let Some((standing, log)) = state.partitions.get(partition) else { return Ok(Fate::Undecided) };
            Ok(match log.iter().find(|entry| entry.id == Some(id)) {
                Some(entry) => Fate::Recorded(entry.clone()),
                None if standing.has_visibly_ended(generation) || bug() == Some(Bug::UndecidedIsNever) => Fate::Never,
                None => Fate::Undecided,
            })
        })
        .await
    }

    async fn read(&self, _: &PartitionId, _: Position, _: PageSize) -> Result<Page> {
        unimplemented_here()
    }

    async fn read_back(&self, _: &PartitionId, _: Option<Position>, _: PageSize) -> Result<Page> {
        unimplemented_here()
    }

    async fn partitions(&self, _: Option<&PartitionId>, _: PageSize) -> Result<PartitionPage> {
        unimplemented_here()
    }

    async fn rejections(&self, _: Option<&PartitionId>, _: Option<RecordSlot>, _: PageSize) -> Result<RecordPage> {
        unimplemented_here()
    }
}

/// No keeper asks this.
fn unimplemented_here<T>() -> Result<T> {
    Err(LedgerError::NotWritten(Failure::new(FailureKind::Other, "no keeper asks this")))
}
