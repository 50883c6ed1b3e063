//! What becomes of an operation: the same call to the ledger and to the model, and the two answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ledger_core::{
    AcquisitionId, Advance, Append, AppendId, Claim, EventKind, FencedLedger, Generation, Json, Lease, LedgerId,
    NewEvent, Note, Observation, PartitionId, Position, Remark, Result, Timestamp, Ttl,
};
use uuid::Uuid;

use super::look::{self, counted, keys};
use super::operation::{Above, AcquisitionPick, Change, ClockMove, IdPick, Name, Observed, Operation, Token};
use super::{Model, restart};
use crate::context::{holder, read_all, records};
use crate::{ClockControl, HarnessError, Storage};

/// How many handles there are. A restart takes them all.
const HANDLES: usize = 2;

/// A ledger and a model of it, and what both have granted.
pub(crate) struct World {
    handles: Vec<Arc<dyn FencedLedger>>,
    /// Which of them is called.
    handle: usize,
    model: Model,
    leases: Vec<Lease>,
    sent: Vec<AppendId>,
    advances: Vec<Advance>,
    /// With the episode of each.
    partitions: Vec<(PartitionId, u32)>,
    /// The episodes in which more than one handle was called.
    mixed: BTreeSet<u32>,
}

impl World {
    pub(crate) async fn new(storage: &dyn Storage) -> Result<Self, HarnessError> {
        let handles = open(storage).await?;
        let clock = storage.clock().ok_or("a differential run needs the hook `clock`")?;
        let model = Model::new(handles[0].describe().await?.ledger, clock.now().await);
        let (leases, sent, advances, partitions, mixed) = Default::default();
        Ok(Self { handles, handle: 0, model, leases, sent, advances, partitions, mixed })
    }

    fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.handles[self.handle].clone()
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
                let Some(acquisition) = self.acquisition(*acquisition)? else { return Ok(nothing()) };
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
            Operation::Advance { partition, operator, above, acquisition } => {
                let name = self.name(*partition);
                let Some(acquisition) = self.acquisition(*acquisition)? else { return Ok(nothing()) };
                let above = match above {
                    Above::None => None,
                    Above::Beside(by) => Some(self.generation(&name, *by)),
                    Above::LastButOne => Some(beside(Generation::MAX, -1)),
                };
                let advance = Advance::new(name, holder_of(*operator), above, Note::new("at random")?);
                let advance = advance.with_acquisition(acquisition);
                self.advances.push(advance.clone());
                [told(&self.model.advance(&advance)), told(&ledger.advance(&advance).await)]
            }
            Operation::AdvanceAgain { back, other } => {
                let nth = self.advances.len().checked_sub(1 + usize::from(*back));
                let Some(mut advance) = nth.map(|nth| self.advances[nth].clone()) else { return Ok(nothing()) };
                if *other {
                    advance.reason = Note::new("for another reason")?;
                }
                [told(&self.model.advance(&advance)), told(&ledger.advance(&advance).await)]
            }
            Operation::Append { token, id, other_content, events, expected, remark } => {
                let Some(lease) = self.lease(*token) else { return Ok(nothing()) };
                let Some(mut append) = self.append(&lease, *id, *other_content, *events, *expected)? else {
                    return Ok(nothing());
                };
                if let Some(remark) = remark {
                    append = append.remarking(Remark::new(format!("remark {remark}"))?);
                }
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
            Operation::Read { partition, from, way, size } => {
                let name = self.name(*partition);
                look::read((&self.model, &*ledger), &name, *from, *way, *size).await?
            }
            Operation::Partitions { after, limit } => {
                let after = after.map(|after| self.name(after));
                look::partitions((&self.model, &*ledger), after, *limit).await?
            }
            Operation::Records { partition } => {
                let name = self.name(*partition);
                let seen = records(&*ledger, Some(&name)).await.map_err(|stop| stop.to_string())?;
                // Counts may lag by a second (E3): they are compared at the end.
                [keys(&self.model.records(&name)), keys(&seen)]
            }
            Operation::OtherHandle => {
                self.handle = (self.handle + 1) % HANDLES;
                self.mixed.extend(self.partitions.last().map(|(_, episode)| *episode));
                nothing()
            }
            Operation::Clock(to) => {
                let clock = storage.clock().ok_or("the clock has gone")?;
                self.move_clock(clock, *to).await;
                nothing()
            }
            Operation::Restart => {
                drop(ledger);
                self.handles.clear();
                let restarted = restart(storage).await;
                self.handles = open(storage).await?;
                restarted?;
                nothing()
            }
        })
    }

    /// The whole of every partition, at the end: logs, and records with their counts.
    pub(crate) async fn settled(&self) -> Result<[String; 2], HarnessError> {
        let ledger = self.ledger();
        for (name, episode) in &self.partitions {
            let is_mixed = self.mixed.contains(episode);
            let expected = self.model.read(name, Position::FIRST);
            let seen = read_all(&*ledger, name).await.map_err(|stop| stop.to_string())?;
            let (expected, seen) = (told(&expected), told(&Result::Ok(seen)));
            if expected != seen {
                return Ok([expected, seen]);
            }
            let expected = counted(self.model.records(name), is_mixed);
            for look in 0.. {
                let seen = records(&*ledger, Some(name)).await.map_err(|stop| stop.to_string())?;
                let seen = counted(seen, is_mixed);
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
        let letter = if second == 0 { 'a' } else { 'A' };
        let name = PartitionId::new(format!("p{episode}-{letter}")).expect("a plain name");
        if self.partitions.iter().all(|(known, _)| *known != name) {
            // A new episode: what was granted in the one before is forgotten.
            if self.partitions.iter().all(|(_, known)| *known != episode) {
                self.leases.clear();
                self.sent.clear();
                self.advances.clear();
            }
            self.partitions.push((name.clone(), episode));
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
                let other = if end == "a" { "A" } else { "a" };
                lease.partition = PartitionId::new(format!("{start}{other}")).ok()?;
            }
            Change::Ledger => lease.ledger = LedgerId::from_uuid(Uuid::max()).ok()?,
            Change::Expiry => lease.expires_at = Timestamp::from_micros(i64::MAX),
        }
        Some(lease)
    }

    fn acquisition(&self, which: AcquisitionPick) -> Result<Option<AcquisitionId>, HarnessError> {
        Ok(match which {
            AcquisitionPick::Fresh(id) => Some(AcquisitionId::from_uuid(Uuid::from_u128(id))?),
            AcquisitionPick::Known(nth) => pick(&self.leases, nth).map(|lease| lease.acquisition),
        })
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
        let byte = id.as_uuid().as_bytes()[0];
        let (word, count) = if other_content { ("other", events) } else { ("same", 1 + byte % 3) };
        let events: Result<Vec<NewEvent>, HarnessError> =
            (0..count).map(|nth| Ok(event(&format!("{word} {nth}"), byte / 3 + nth)?)).collect();
        let append = Append::with_id(id, events?)?;
        let head = self.model.standing(&lease.partition).map_or(1, |standing| standing.head().get());
        Ok(Some(match expected {
            Some(by) => append.expecting(Position::new((head + i64::from(by)).max(1))?),
            None => append,
        }))
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

async fn open(storage: &dyn Storage) -> Result<Vec<Arc<dyn FencedLedger>>, HarnessError> {
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(storage.open().await?);
    }
    Ok(handles)
}

/// An event of one of the kinds, with metadata now and then.
fn event(note: &str, number: u8) -> Result<NewEvent, ledger_core::Invalid> {
    let event = NewEvent::new(kind(number), Json::of(note)?);
    Ok(if number.is_multiple_of(5) { event.with_metadata(Json::of(&[number])?) } else { event })
}

/// One of the kinds: the rarer one differs in the case of a letter.
pub(super) fn kind(number: u8) -> EventKind {
    EventKind::new(if number.is_multiple_of(6) { "Noted" } else { "noted" }).expect("plain words are kinds")
}

pub(super) fn told<T: std::fmt::Debug>(answer: &Result<T>) -> String {
    format!("{answer:?}")
}

pub(super) fn nothing() -> [String; 2] {
    [String::new(), String::new()]
}

fn holder_of(nth: u8) -> ledger_core::Holder {
    holder(["a", "b", "c"][usize::from(nth % 3)])
}

fn ttl(micros: u32) -> Result<Ttl, HarnessError> {
    Ok(Ttl::from_micros(i64::from(micros))?)
}

fn beside(generation: Generation, by: i8) -> Generation {
    Generation::new(generation.get().saturating_add(i64::from(by)).max(1)).unwrap_or(Generation::MAX)
}

fn pick<T>(all: &[T], nth: u8) -> Option<&T> {
    if all.is_empty() { None } else { all.get(usize::from(nth) % all.len()) }
}
