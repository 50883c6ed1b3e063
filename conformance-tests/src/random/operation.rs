//! Operations, and what becomes of one: the same call to the ledger and to the model.
//!
//! An operation names leases, ids and times by what happened before ("the newest lease but one, with another holder"),
//! so that it still means something when others before it are dropped.

use std::sync::Arc;
use std::time::Duration;

use ledger_core::{
    AcquisitionId, Append, AppendId, Claim, Event, FencedLedger, Generation, Lease, Note, Observation, PartitionId,
    Position, RejectionRecord, Result, Timestamp, Ttl,
};
use uuid::Uuid;

use super::{Model, restart};
use crate::context::{event, holder, read_all, records};
use crate::{ClockControl, HarnessError, Storage};

/// A partition: of an episode, the first or the second.
type Name = (u32, u8);

/// One step of a client, or of the world.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the calls, picked as the types of the fields say")]
#[non_exhaustive]
pub enum Operation {
    /// Claims.
    Claim { partition: Name, holder: u8, ttl: u32, observed: Observed, acquisition: AcquisitionPick },
    /// Renews.
    Renew { token: Token, ttl: Option<u32> },
    /// Releases.
    Release { token: Token },
    /// Ends a tenure as an operator.
    EndTenure { partition: Name, observed: Observed },
    /// Appends so many events; `expected` is relative to the head.
    Append { token: Token, id: IdPick, other_content: bool, events: u8, expected: Option<i8> },
    /// Asks for the fate of an id that was used, under a generation relative to the current one.
    Fate { partition: Name, id: u8, generation: i8 },
    /// Observes.
    Observe { partition: Name },
    /// Reads from a position.
    Read { partition: Name, from: u8, backward: bool },
    /// Lists the rejection records.
    Records { partition: Name },
    /// Moves the store's clock.
    Clock(ClockMove),
    /// Restarts the store, where it can.
    Restart,
}

/// A lease that was granted before: the newest but so many, with a change in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Token {
    /// How many leases were granted later.
    pub back: u8,
    /// What is forged.
    pub change: Change,
}

/// What is forged in a lease.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Nothing.
    None,
    /// Another holder.
    Holder(u8),
    /// Another generation.
    Generation(i8),
    /// Another acquisition: that of another lease, or none that ever was.
    Acquisition(Option<u8>),
    /// The other partition.
    Partition,
    /// An expiry far away, which no store may believe.
    Expiry,
}

/// What a claimant has seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed {
    /// The state as it is.
    Current,
    /// Nobody.
    Never,
    /// A generation beside the current one.
    Generation(i8),
    /// The current generation with another acquisition.
    Acquisition,
}

/// An acquisition.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AcquisitionPick {
    /// One that nobody used.
    Fresh(u128),
    /// One that a lease has.
    Known(u8),
}

/// An append's id.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum IdPick {
    /// One that nobody used.
    Fresh(u128),
    /// One that was sent before.
    Known(u8),
}

/// A move of the clock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ClockMove {
    /// To a partition's expiry, or a microsecond beside it.
    #[allow(missing_docs, reason = "the partition, and the microseconds")]
    Expiry { partition: Name, by: i8 },
    /// By so many microseconds.
    By(i32),
}

/// A ledger and a model of it, and what both have granted.
pub(crate) struct World {
    ledger: Option<Arc<dyn FencedLedger>>,
    model: Model,
    leases: Vec<Lease>,
    sent: Vec<AppendId>,
    partitions: Vec<PartitionId>,
}

impl World {
    pub(crate) async fn new(storage: &dyn Storage) -> Result<Self, HarnessError> {
        let ledger = storage.open().await?;
        let clock = storage.clock().ok_or("a differential run needs the hook `clock`")?;
        let model = Model::new(ledger.describe().await?.ledger, clock.now().await);
        Ok(Self { ledger: Some(ledger), model, leases: Vec::new(), sent: Vec::new(), partitions: Vec::new() })
    }

    fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.ledger.clone().expect("a restart puts another in its place")
    }

    /// Gives an operation to both: the model's answer, and the ledger's.
    pub(crate) async fn step(
        &mut self,
        storage: &dyn Storage,
        operation: &Operation,
    ) -> Result<[String; 2], HarnessError> {
        let ledger = self.ledger();
        Ok(match operation {
            Operation::Claim { partition, holder: by, ttl: of, observed, acquisition } => {
                let name = self.name(*partition);
                let acquisition = match acquisition {
                    AcquisitionPick::Fresh(id) => AcquisitionId::from_uuid(Uuid::from_u128(*id))?,
                    AcquisitionPick::Known(nth) => match pick(&self.leases, *nth) {
                        Some(lease) => lease.acquisition,
                        None => return Ok(nothing()),
                    },
                };
                let observed = self.observed(&name, *observed)?;
                // Claims and appends have ids of one scope, so each may be asked for, or sent, as the other.
                self.sent.push(acquisition.into());
                let claim = Claim::new(name, holder_of(*by), ttl(*of)?, observed).with_acquisition(acquisition);
                let expected = self.model.claim(&claim);
                if let Ok(claimed) = &expected {
                    self.leases.push(claimed.lease.clone());
                }
                [told(&expected), told(&ledger.claim(&claim).await)]
            }
            Operation::Renew { token, ttl: of } => {
                let Some(lease) = self.lease(*token) else { return Ok(nothing()) };
                let of = of.map(ttl).transpose()?;
                [told(&self.model.renew(&lease, of)), told(&ledger.renew(&lease, of).await)]
            }
            Operation::Release { token } => {
                let Some(lease) = self.lease(*token) else { return Ok(nothing()) };
                [told(&self.model.release(&lease)), told(&ledger.release(&lease).await)]
            }
            Operation::EndTenure { partition, observed } => {
                let name = self.name(*partition);
                let (observed, note) = (self.observed(&name, *observed)?, Note::new("at random")?);
                let expected = self.model.end_tenure(&name, observed, &note);
                [told(&expected), told(&ledger.end_tenure(&name, observed, &note).await)]
            }
            Operation::Append { token, id, other_content, events, expected } => {
                let Some(lease) = self.lease(*token) else { return Ok(nothing()) };
                let Some(append) = self.append(&lease, *id, *other_content, *events, *expected)? else {
                    return Ok(nothing());
                };
                [told(&self.model.append(&lease, &append)), told(&ledger.append(&lease, &append).await)]
            }
            Operation::Fate { partition, id, generation } => {
                let name = self.name(*partition);
                let Some(id) = pick(&self.sent, *id).copied() else { return Ok(nothing()) };
                let generation = self.generation(&name, *generation);
                let expected = Result::Ok(self.model.fate(&name, id, generation));
                [told(&expected), told(&ledger.fate(&name, id, generation).await)]
            }
            Operation::Observe { partition } => {
                let name = self.name(*partition);
                [told(&Result::Ok(self.model.observe(&name))), told(&ledger.observe(&name).await)]
            }
            Operation::Read { partition, from, backward } => self.read(*partition, *from, *backward).await,
            Operation::Records { partition } => {
                let name = self.name(*partition);
                let seen = records(&*ledger, Some(&name)).await.map_err(|stop| stop.to_string())?;
                // Counts may lag by a second (E3): they are compared at the end.
                [keys(&self.model.records(&name)), keys(&seen)]
            }
            Operation::Clock(to) => {
                let clock = storage.clock().ok_or("the clock has gone")?;
                self.move_clock(clock, *to).await;
                nothing()
            }
            Operation::Restart => {
                drop(ledger);
                self.ledger = None;
                let restarted = restart(storage).await;
                self.ledger = Some(storage.open().await?);
                restarted?;
                nothing()
            }
        })
    }

    /// The whole of every partition, at the end: logs, and records with their counts.
    pub(crate) async fn settled(&self) -> Result<[String; 2], HarnessError> {
        let ledger = self.ledger();
        for name in &self.partitions {
            let expected = self.model.read(name, Position::FIRST);
            let seen = read_all(&*ledger, name).await.map_err(|stop| stop.to_string())?;
            let (expected, seen) = (told(&expected), told(&Result::Ok(seen)));
            if expected != seen {
                return Ok([expected, seen]);
            }
            let expected = format!("{:?}", self.model.records(name));
            for look in 0.. {
                let seen = records(&*ledger, Some(name)).await.map_err(|stop| stop.to_string())?;
                let seen = format!("{seen:?}");
                if expected == seen {
                    break;
                }
                if look == 300 {
                    return Ok([expected, seen]);
                }
                // Counts are brought together within a second: a look until they are, for fifteen where a disk is slow.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(nothing())
    }

    fn name(&mut self, (episode, second): Name) -> PartitionId {
        let name = PartitionId::new(format!("p{episode}-{second}")).expect("a plain name");
        if !self.partitions.contains(&name) {
            // A new episode: what was granted in the one before is forgotten.
            if self.partitions.iter().all(|known| !known.as_str().starts_with(&format!("p{episode}-"))) {
                self.leases.clear();
                self.sent.clear();
            }
            self.partitions.push(name.clone());
        }
        name
    }

    fn lease(&self, token: Token) -> Option<Lease> {
        let nth = self.leases.len().checked_sub(1 + usize::from(token.back))?;
        let mut lease = self.leases[nth].clone();
        match token.change {
            Change::None => {}
            Change::Holder(by) => lease.holder = holder_of(by),
            Change::Generation(by) => lease.generation = beside(lease.generation, by),
            Change::Acquisition(Some(other)) => lease.acquisition = pick(&self.leases, other)?.acquisition,
            Change::Acquisition(None) => lease.acquisition = AcquisitionId::from_uuid(Uuid::max()).ok()?,
            Change::Partition => {
                let (start, end) = lease.partition.as_str().split_at(lease.partition.as_str().len() - 1);
                let other = if end == "0" { "1" } else { "0" };
                lease.partition = PartitionId::new(format!("{start}{other}")).ok()?;
            }
            Change::Expiry => lease.expires_at = Timestamp::from_micros(i64::MAX),
        }
        Some(lease)
    }

    fn observed(&self, name: &PartitionId, observed: Observed) -> Result<Observation, HarnessError> {
        let Some(standing) = self.model.standing(name) else {
            return Ok(match (observed, self.leases.last()) {
                (Observed::Acquisition, Some(lease)) => Observation::of(lease),
                _ => Observation::NeverClaimed,
            });
        };
        let (generation, acquisition) = (standing.lease.generation, standing.lease.acquisition);
        Ok(match observed {
            Observed::Never => Observation::NeverClaimed,
            Observed::Current => Observation::Tenure { generation, acquisition },
            Observed::Generation(by) => Observation::Tenure { generation: beside(generation, by), acquisition },
            Observed::Acquisition => {
                Observation::Tenure { generation, acquisition: AcquisitionId::from_uuid(Uuid::max())? }
            }
        })
    }

    fn generation(&self, name: &PartitionId, by: i8) -> Generation {
        self.model.standing(name).map_or(Generation::FIRST, |standing| beside(standing.lease.generation, by))
    }

    fn append(
        &mut self,
        lease: &Lease,
        id: IdPick,
        other_content: bool,
        events: u8,
        expected: Option<i8>,
    ) -> Result<Option<Append>, HarnessError> {
        let id = match id {
            IdPick::Fresh(id) => AppendId::from_uuid(Uuid::from_u128(id))?,
            IdPick::Known(nth) => match pick(&self.sent, nth) {
                Some(id) => *id,
                None => return Ok(None),
            },
        };
        self.sent.push(id);
        // The content follows from the id, so that the same id mostly comes with the same content.
        let (word, count) =
            if other_content { ("other", events) } else { ("same", 1 + id.as_uuid().as_bytes()[0] % 3) };
        let events = (0..count).map(|nth| event(&format!("{word} {nth}")));
        let append = Append::with_id(id, events.collect::<Vec<_>>())?;
        let head = self.model.standing(&lease.partition).map_or(1, |standing| standing.head().get());
        Ok(Some(match expected {
            Some(by) => append.expecting(Position::new((head + i64::from(by)).max(1))?),
            None => append,
        }))
    }

    async fn read(&mut self, partition: Name, from: u8, backward: bool) -> [String; 2] {
        let (ledger, name) = (self.ledger(), self.name(partition));
        let from = Position::new(i64::from(from).max(1)).expect("1 at least");
        let limit = ledger_core::PageSize::MAX;
        if !backward {
            let seen = ledger.read(&name, from, limit).await.map(|page| page.events);
            return [told(&self.model.read(&name, from)), told(&seen)];
        }
        let seen = ledger.read_back(&name, None, limit).await.map(|page| page.events);
        let expected = self.model.read(&name, Position::FIRST).map(|mut events: Vec<Event>| {
            events.reverse();
            events
        });
        [told(&expected), told(&seen)]
    }

    async fn move_clock(&mut self, clock: &dyn ClockControl, to: ClockMove) {
        let now = self.model.clock.as_micros();
        let to = match to {
            ClockMove::By(by) => now + i64::from(by),
            ClockMove::Expiry { partition, by } => {
                let name = self.name(partition);
                let expiry = self.model.standing(&name).map_or(now, |standing| standing.lease.expires_at.as_micros());
                expiry + i64::from(by)
            }
        };
        self.model.clock = Timestamp::from_micros(to);
        clock.set(self.model.clock).await;
    }
}

fn told<T: std::fmt::Debug>(answer: &Result<T>) -> String {
    format!("{answer:?}")
}

fn nothing() -> [String; 2] {
    [String::new(), String::new()]
}

fn keys(records: &[RejectionRecord]) -> String {
    let key = |record: &RejectionRecord| {
        let of = record.refused.as_ref();
        let of = of.map(|of| format!("{:?} {:?} {:?} {:?}", of.operation, of.reason, of.holder, of.generation));
        format!("{:?} {:?} {of:?}", record.slot, record.partition)
    };
    records.iter().map(key).collect::<Vec<_>>().join("; ")
}

fn holder_of(nth: u8) -> ledger_core::Holder {
    holder(["a", "b", "c"][usize::from(nth % 3)])
}

fn ttl(micros: u32) -> Result<Ttl, HarnessError> {
    Ok(Ttl::from_micros(i64::from(micros))?)
}

fn beside(generation: Generation, by: i8) -> Generation {
    Generation::new((generation.get() + i64::from(by)).max(1)).unwrap_or(Generation::MAX)
}

fn pick<T>(all: &[T], nth: u8) -> Option<&T> {
    if all.is_empty() { None } else { all.get(usize::from(nth) % all.len()) }
}
