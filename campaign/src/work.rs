//! What a worker does: it holds partitions and writes, and it does what nobody should: it writes on after a refusal, under
//! leases of long ago, and under forged ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance_tests::context::edited;
use fastrand::Rng;
use ledger_core::{
    AcquisitionId, Append, AppendId, Claim, FencedLedger, Generation, Holder, Lease, LedgerError, NewEvent, Note,
    Observation, PageSize, PartitionId, PartitionState, Position, Reason, Remark, Ttl,
};

use crate::Result;

/// So many leases and appends are remembered, to be used at the wrong time.
const REMEMBERED: usize = 32;

pub(crate) struct Work {
    ledger: Arc<dyn FencedLedger>,
    holder: Holder,
    ttl: Ttl,
    partitions: usize,
    rng: Rng,
    stop: Arc<AtomicBool>,
    leases: VecDeque<Lease>,
    appends: VecDeque<(PartitionId, Generation, AppendId)>,
}

/// How a call ended, as far as the worker goes on by it.
enum Told<T> {
    Granted(T),
    /// The right to write is gone.
    Fenced,
    /// Nothing is known.
    Unknown,
    /// It was refused for another reason, or could not be carried out.
    Not,
}

impl Work {
    pub(crate) fn new(
        ledger: Arc<dyn FencedLedger>,
        holder: Holder,
        ttl: Ttl,
        partitions: usize,
        seed: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let rng = Rng::with_seed(seed);
        Self { ledger, holder, ttl, partitions, rng, stop, leases: VecDeque::new(), appends: VecDeque::new() }
    }

    pub(crate) async fn run(mut self) {
        while self.goes_on() {
            // The store may be down, or full: what it says is in the history, and the next try comes soon.
            if self.step().await.is_err() {
                tokio::time::sleep(Duration::from_millis(self.rng.u64(5..30))).await;
            }
            tokio::time::sleep(Duration::from_micros(self.rng.u64(..3_000))).await;
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn step(&mut self) -> Result<()> {
        let partition = PartitionId::new(format!("p{}", self.rng.usize(..self.partitions)))?;
        let state = self.ledger.observe(&partition).await?;
        if let Some(tenure) = &state.tenure {
            remember(&mut self.leases, tenure.lease.clone());
        }
        if state.is_free() || self.rng.u8(..20) == 0 {
            if let Some(lease) = self.claim(&state).await? {
                self.hold(lease).await?;
            }
            return Ok(());
        }
        match self.rng.u8(..10) {
            0..6 => self.write_late(&state).await,
            6 => self.ask_fate().await,
            7 => self.read(&partition, state.tenure.map(|tenure| tenure.head)).await,
            8 if self.rng.u8(..24) == 0 => {
                let (observed, reason) = (state.observation(), Note::new("operator")?);
                Ok(self.ledger.end_tenure(&partition, observed, &reason).await.map(|_| ())?)
            }
            _ => Ok(()),
        }
    }

    /// Claims, and again under the same acquisition where the answer was lost.
    async fn claim(&mut self, state: &PartitionState) -> Result<Option<Lease>> {
        let observed = state.observation();
        let claim = Claim::new(state.partition.clone(), self.holder.clone(), self.ttl, observed);
        for _ in 0..self.rng.usize(1..4) {
            let ledger = self.ledger.clone();
            let answer = {
                let claim = claim.clone();
                async move { ledger.claim(&claim).await }
            };
            match self.call(answer).await {
                Told::Granted(claimed) => return Ok(Some(claimed.lease)),
                Told::Unknown => {}
                Told::Fenced | Told::Not => break,
            }
        }
        let generation = observed.generation().unwrap_or(Generation::FIRST);
        remember(&mut self.appends, (state.partition.clone(), generation, claim.acquisition.into()));
        Ok(None)
    }

    /// Holds a partition for a while.
    async fn hold(&mut self, mut lease: Lease) -> Result<()> {
        for _ in 0..self.rng.usize(1..60) {
            if !self.goes_on() {
                break;
            }
            let told = match self.rng.u8(..100) {
                0..70 => self.append(&lease).await?,
                70..88 => self.renew(&mut lease).await,
                88..92 => {
                    self.read(&lease.partition.clone(), None).await?;
                    Told::Granted(())
                }
                92..94 => {
                    // Sleeps past its lease, as a process does that was paused.
                    let sleep = self.ttl.as_duration().mul_f64(1.0 + self.rng.f64());
                    tokio::time::sleep(sleep).await;
                    Told::Granted(())
                }
                _ => {
                    tokio::time::sleep(Duration::from_micros(self.rng.u64(..20_000))).await;
                    Told::Granted(())
                }
            };
            if matches!(told, Told::Fenced) {
                // A stubborn one: it does not believe it.
                for _ in 0..self.rng.usize(..24) {
                    self.try_late(&lease).await?;
                }
                remember(&mut self.leases, lease);
                return Ok(());
            }
        }
        if self.rng.u8(..4) > 0 {
            let (ledger, released) = (self.ledger.clone(), lease.clone());
            self.call(async move { ledger.release(&released).await }).await;
        }
        remember(&mut self.leases, lease);
        Ok(())
    }

    async fn append(&mut self, lease: &Lease) -> Result<Told<()>> {
        let append = self.new_append()?;
        let mut sent = false;
        loop {
            let (ledger, lease, append) = (self.ledger.clone(), lease.clone(), append.clone());
            let (partition, generation, id) = (lease.partition.clone(), lease.generation, append.id());
            let told = self.call(async move { ledger.append(&lease, &append).await }).await;
            if !sent {
                remember(&mut self.appends, (partition, generation, id));
                sent = true;
            }
            match told {
                Told::Unknown if self.goes_on() && self.rng.bool() => {}
                Told::Granted(_) => return Ok(Told::Granted(())),
                Told::Fenced => return Ok(Told::Fenced),
                Told::Unknown => return Ok(Told::Unknown),
                Told::Not => return Ok(Told::Not),
            }
        }
    }

    async fn renew(&mut self, lease: &mut Lease) -> Told<()> {
        let (ledger, presented) = (self.ledger.clone(), lease.clone());
        match self.call(async move { ledger.renew(&presented, None).await }).await {
            Told::Granted(renewal) => {
                *lease = renewal.lease;
                Told::Granted(())
            }
            Told::Fenced => Told::Fenced,
            Told::Unknown => Told::Unknown,
            Told::Not => Told::Not,
        }
    }

    fn new_append(&mut self) -> Result<Append> {
        let count = self.rng.usize(1..4);
        let events: Vec<NewEvent> = (0..count)
            .map(|nth| NewEvent::of("noted", &(self.rng.u64(..), nth)))
            .collect::<std::result::Result<_, _>>()?;
        let id = match self.rng.choice(&self.appends) {
            // Somebody uses an id again.
            Some((_, _, id)) if self.rng.u8(..60) == 0 => *id,
            _ => AppendId::mint(),
        };
        let append = Append::with_id(id, events)?;
        Ok(match self.rng.u8(..30) {
            0 => append.expecting(Position::new(self.rng.i64(1..2_000))?),
            1 => append.remarking(Remark::new(format!("late {}", self.rng.u8(..3)))?),
            _ => append,
        })
    }

    /// Writes under a lease that is over, or was never given out.
    async fn write_late(&mut self, state: &PartitionState) -> Result<()> {
        let of_partition: Vec<Lease> =
            self.leases.iter().filter(|lease| lease.partition == state.partition).cloned().collect();
        let Some(lease) = self.rng.choice(&of_partition).cloned() else { return Ok(()) };
        let forged = match self.rng.u8(..12) {
            0 => {
                let nobody = Holder::new("nobody")?;
                edited(&lease, |lease| lease.holder = nobody)
            }
            1 => edited(&lease, |lease| lease.acquisition = AcquisitionId::mint()),
            2 => edited(&lease, |lease| lease.generation = lease.generation.next().unwrap_or(Generation::MAX)),
            _ => lease,
        };
        // The lease in force is another one's: to use it is no mistake of the store's, and makes two writers of one.
        for _ in 0..self.rng.usize(1..12) {
            self.try_late(&forged).await?;
        }
        Ok(())
    }

    async fn try_late(&mut self, lease: &Lease) -> Result<()> {
        let (ledger, lease) = (self.ledger.clone(), lease.clone());
        match self.rng.u8(..10) {
            0 => drop(self.call(async move { ledger.renew(&lease, None).await }).await),
            1 => drop(self.call(async move { ledger.release(&lease).await }).await),
            2 => {
                let (holder, observed) = (self.holder.clone(), Observation::of(&lease));
                let claim = Claim::new(lease.partition, holder, self.ttl, observed).with_acquisition(lease.acquisition);
                drop(self.call(async move { ledger.claim(&claim).await }).await);
            }
            _ => {
                let append = self.new_append()?;
                remember(&mut self.appends, (lease.partition.clone(), lease.generation, append.id()));
                drop(self.call(async move { ledger.append(&lease, &append).await }).await);
            }
        }
        Ok(())
    }

    async fn ask_fate(&mut self) -> Result<()> {
        let Some((partition, generation, id)) = self.rng.choice(&self.appends).cloned() else { return Ok(()) };
        Ok(self.ledger.fate(&partition, id, generation).await.map(|_| ())?)
    }

    async fn read(&mut self, partition: &PartitionId, head: Option<Position>) -> Result<()> {
        let limit = PageSize::new(self.rng.u32(1..30))?;
        let answer = match head {
            Some(head) if self.rng.bool() => {
                let from = Position::new(self.rng.i64(1..=head.get()))?;
                self.ledger.read(partition, from, limit).await
            }
            _ => self.ledger.read_back(partition, None, limit).await,
        };
        Ok(answer.map(|_| ())?)
    }

    /// Makes a call, and now and then does not wait for its end.
    async fn call<T: Send>(&mut self, answer: impl Future<Output = Result<T, LedgerError>> + Send) -> Told<T> {
        let answer = if self.rng.u8(..40) == 0 {
            let patience = Duration::from_micros(self.rng.u64(..6_000));
            match tokio::time::timeout(patience, answer).await {
                Ok(answer) => answer,
                Err(_) => return Told::Unknown,
            }
        } else {
            answer.await
        };
        match answer {
            Ok(granted) => Told::Granted(granted),
            Err(LedgerError::Unknown(_)) => Told::Unknown,
            Err(LedgerError::Rejected(rejection)) if rejection.reason <= Reason::Expired => Told::Fenced,
            Err(_) => Told::Not,
        }
    }
}

fn remember<T>(things: &mut VecDeque<T>, thing: T) {
    if things.len() == REMEMBERED {
        things.pop_front();
    }
    things.push_back(thing);
}
