//! The calls that are judged: what each reads beside the partition, and its decision.

use ledger_core::decide::{self, Decision, Subject};
use ledger_core::{
    Advance, Advanced, Append, Appended, Claim, Claimed, Clock, Ended, Generation, Lease, LedgerId, Note, Observation,
    PartitionId, Released, Renewal, Ttl,
};
use rusqlite::Connection;

use crate::classify::Trouble;
use crate::store::{self, Found};

/// What a call is judged by: the partition as it stands in the connection's transaction.
pub(crate) struct View<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) ledger: LedgerId,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) found: Option<&'a Found>,
}

impl<'a> View<'a> {
    /// Reads the clock: after everything else was read (T4).
    fn subject(&self, partition: &'a PartitionId) -> Subject<'a> {
        Subject::new(self.ledger, partition, self.found.map(|found| &found.standing), self.clock.now())
    }
}

/// A call that is judged.
pub(crate) trait Work: std::fmt::Debug + Send + Sync + 'static {
    /// What it is answered with when it is not refused.
    type Answer: Send + std::fmt::Debug + 'static;

    /// The partition that it is about.
    fn partition(&self) -> &PartitionId;

    /// The bytes that it would write.
    fn bytes(&self) -> usize {
        0
    }

    /// The generation that it presents, where a look without the lock may show that its tenure has ended (E4).
    fn presented(&self) -> Option<Generation> {
        None
    }

    /// Decides. Reads first what the decision rests on, and the clock last.
    fn decide(&self, view: &View<'_>) -> Result<Decision<Self::Answer>, Trouble>;

    /// Decides as if the call's id were a new one, where that is granted and the one row that it then writes shows
    /// whether the id is new (A4). To look for it first costs an append a sixth of its CPU.
    fn decide_as_new(&self, _: &View<'_>) -> Option<Decision<Self::Answer>> {
        None
    }
}

impl Work for Claim {
    type Answer = Claimed;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Claimed>, Trouble> {
        let earlier = match view.found {
            Some(found) => store::entry_by_id(view.connection, (&self.partition, found.key), self.acquisition.into())?,
            None => None,
        };
        Ok(decide::claim(view.subject(&self.partition), earlier.as_ref(), self))
    }
}

/// A renewal.
#[derive(Debug)]
pub(crate) struct Renew {
    pub(crate) lease: Lease,
    pub(crate) ttl: Option<Ttl>,
}

impl Work for Renew {
    type Answer = Renewal;

    fn partition(&self) -> &PartitionId {
        &self.lease.partition
    }

    fn presented(&self) -> Option<Generation> {
        Some(self.lease.generation)
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Renewal>, Trouble> {
        Ok(decide::renew(view.subject(&self.lease.partition), &self.lease, self.ttl))
    }
}

/// A release.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) lease: Lease,
}

impl Work for Release {
    type Answer = Released;

    fn partition(&self) -> &PartitionId {
        &self.lease.partition
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Released>, Trouble> {
        let partition = &self.lease.partition;
        let past = match view.found {
            Some(found) if self.lease.generation < found.standing.lease.generation => {
                store::past(view.connection, (partition, found), self.lease.generation)?
            }
            _ => None,
        };
        Ok(decide::release(view.subject(partition), past.as_ref(), &self.lease))
    }
}

/// An operator's end of a tenure.
#[derive(Debug)]
pub(crate) struct EndTenure {
    pub(crate) partition: PartitionId,
    pub(crate) observed: Observation,
    pub(crate) reason: Note,
}

impl Work for EndTenure {
    type Answer = Ended;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Ended>, Trouble> {
        Ok(decide::end_tenure(view.subject(&self.partition), self.observed, &self.reason))
    }
}

/// An operator's advance.
impl Work for Advance {
    type Answer = Advanced;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Advanced>, Trouble> {
        let (tail, taken, earlier) = match view.found {
            Some(found) => {
                let at = (&self.partition, found.key);
                (
                    store::tail(view.connection, at)?,
                    store::advance_taken(view.connection, at, self.acquisition)?,
                    store::entry_by_id(view.connection, at, self.acquisition.into())?,
                )
            }
            None => Default::default(),
        };
        let taken = taken.as_ref().map(|(entry, record)| (entry, record));
        Ok(decide::advance(view.subject(&self.partition), &tail, taken, earlier.as_deref(), self))
    }
}

/// An append under a lease.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) lease: Lease,
    pub(crate) append: Append,
}

impl Work for Write {
    type Answer = Appended;

    fn partition(&self) -> &PartitionId {
        &self.lease.partition
    }

    fn bytes(&self) -> usize {
        self.append.bytes()
    }

    fn presented(&self) -> Option<Generation> {
        Some(self.lease.generation)
    }

    fn decide(&self, view: &View<'_>) -> Result<Decision<Appended>, Trouble> {
        let partition = &self.lease.partition;
        let earlier = match view.found {
            Some(found) => store::entry_by_id(view.connection, (partition, found.key), self.append.id())?,
            None => None,
        };
        Ok(decide::append(view.subject(partition), earlier.as_ref(), &self.lease, &self.append))
    }

    fn decide_as_new(&self, view: &View<'_>) -> Option<Decision<Appended>> {
        // The id stands on the last row of several: those before it would be there when it is refused.
        if self.append.events().len() > 1 {
            return None;
        }
        let decision = decide::append(view.subject(&self.lease.partition), None, &self.lease, &self.append);
        decision.answer.is_ok().then_some(decision)
    }
}
