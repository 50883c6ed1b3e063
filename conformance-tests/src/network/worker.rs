//! A writer of a simulation: claims, appends, sends requests, sleeps through its lease, and sends what is stale.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger_core::keeper::{Keeper, LocalClock, Settled, Terms, Wait, WriteError, Writer};
use ledger_core::{
    Append, AppendId, Asked, Evidence, Fate, FencedLedger, Generation, Json, Lease, LedgerError, NewEvent, Outcome,
    PartitionId, Position, RequestBook, RequestKey,
};

use super::{Habit, SimNetwork};

/// What all writers of a run were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Appends that are in the log, and where.
    pub(super) acknowledged: Vec<(PartitionId, AppendId, Position)>,
    /// Appends that are not there, and never will be under that generation.
    pub(super) never: Vec<(PartitionId, AppendId, Generation)>,
    /// Appends of which nobody could tell.
    pub(super) unknown: Vec<(PartitionId, AppendId, Generation)>,
    pub(super) settled_by_fate: u64,
    /// How often somebody got leave for the first sending of a request.
    pub(super) sendings: HashMap<(PartitionId, String), u32>,
}

impl Told {
    pub(super) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Worker {
    pub(super) network: SimNetwork,
    pub(super) ledger: Arc<dyn FencedLedger>,
    pub(super) partition: PartitionId,
    pub(super) name: String,
    pub(super) terms: Terms,
    pub(super) told: Told,
    pub(super) habit: Habit,
}

impl Worker {
    /// Goes on until the run is over.
    pub(super) async fn run(self) {
        let holder = ledger_core::Holder::new(&self.name).expect("a short name");
        let keeper = Keeper::new(self.ledger.clone(), self.partition.clone(), holder, self.terms);
        let keeper = keeper.expect("the usual terms").with_clock(self.network.clock());
        let mut old: Vec<Lease> = Vec::new();
        loop {
            let Ok((writer, driver)) = keeper.claim(Wait::AtMost(Duration::from_secs(20))).await else {
                self.sleep(Duration::from_secs(1)).await;
                continue;
            };
            self.network.spawn(async move { drop(driver.await) });
            for _ in 0..self.random(24) {
                self.act(&writer, &old).await;
                if writer.signal().is_ended() {
                    break;
                }
            }
            old.push(writer.lease());
            if old.len() > 4 {
                old.remove(0);
            }
            match self.random(3) {
                // Nobody gives it back: it runs out.
                0 => drop(writer),
                _ => drop(writer.release().await),
            }
            self.sleep(Duration::from_millis(self.random(4_000))).await;
        }
    }

    async fn act(&self, writer: &Writer, old: &[Lease]) {
        match self.random(20) {
            0..=8 => self.settle(writer).await,
            9..=12 => self.append(writer.lease(), Some(writer)).await,
            13..=14 => self.request(writer).await,
            // The lease of an earlier tenure, as a process has it that wakes up after a long time.
            15..=16 if !old.is_empty() => {
                let nth = usize::try_from(self.random(old.len() as u64)).unwrap_or(0);
                self.append(old[nth].clone(), None).await;
            }
            // This task hangs, while its driver renews.
            17 => self.sleep(Duration::from_millis(self.random(9_000))).await,
            _ => self.sleep(Duration::from_millis(self.random(600))).await,
        }
    }

    async fn settle(&self, writer: &Writer) {
        let append = self.make();
        let (id, lease) = (append.id(), writer.lease());
        let settled = writer.settle(&append, Duration::from_secs(4)).await;
        let mut told = self.told.lock();
        match settled {
            Ok(Settled::Appended { appended, .. }) => {
                told.acknowledged.push((lease.partition, id, appended.entry.last))
            }
            Ok(Settled::Landed { entry, .. }) => {
                told.settled_by_fate += 1;
                told.acknowledged.push((lease.partition, id, entry.last));
            }
            Ok(Settled::Never { .. }) => {
                told.settled_by_fate += 1;
                told.never.push((lease.partition, id, lease.generation));
            }
            Ok(Settled::Undecided { .. }) => told.unknown.push((lease.partition, id, lease.generation)),
            Err(error) if error.proves_not_written() => told.never.push((lease.partition, id, lease.generation)),
            Err(_) => told.unknown.push((lease.partition, id, lease.generation)),
        }
    }

    /// One try, by the writer or past it.
    async fn append(&self, lease: Lease, writer: Option<&Writer>) {
        let append = self.make();
        let answer = match writer {
            Some(writer) => writer.append(&append).await,
            None => self.ledger.append(&lease, &append).await.map_err(WriteError::Ledger),
        };
        let fact = (lease.partition.clone(), append.id(), lease.generation);
        match answer {
            Ok(appended) => {
                let fact = (lease.partition.clone(), append.id(), appended.entry.last);
                self.told.lock().acknowledged.push(fact);
            }
            Err(_) if self.habit == Habit::TakesUnknownForFailure => self.told.lock().never.push(fact),
            // Of a doubled request one copy may fail and the other be written.
            Err(WriteError::Ledger(LedgerError::Unknown(_) | LedgerError::NotWritten(_))) => self.ask(fact).await,
            // It was written before this refusal, by the request's other copy (J3).
            Err(WriteError::Ledger(LedgerError::Rejected(refused))) if refused.earlier.is_some() => {
                let at = refused.earlier.map(|entry| entry.last);
                self.told.lock().acknowledged.extend(at.map(|at| (lease.partition, append.id(), at)));
            }
            // A refusal for want of the right to write is final: it meets every copy that comes later.
            Err(_) => self.told.lock().never.push(fact),
        }
    }

    /// Asks what became of an append. A copy of it may still be under way.
    async fn ask(&self, fact: (PartitionId, AppendId, Generation)) {
        let fate = self.ledger.fate(&fact.0, fact.1, fact.2).await;
        let mut told = self.told.lock();
        match fate {
            Ok(Fate::Recorded(entry)) => {
                told.settled_by_fate += 1;
                told.acknowledged.push((fact.0, fact.1, entry.last));
            }
            Ok(Fate::Never) => {
                told.settled_by_fate += 1;
                told.never.push(fact);
            }
            Ok(Fate::Undecided) | Err(_) => told.unknown.push(fact),
        }
    }

    async fn request(&self, writer: &Writer) {
        // Few keys, so that holders meet each other's requests.
        let key = RequestKey::new(format!("key-{}", self.random(40_000))).expect("a short key");
        let (lease, what) = (writer.lease(), Json::new("{\"pay\":120}").expect("JSON"));
        match self.ledger.request(&lease, &key, &what).await {
            Ok(Asked::Send(_)) => self.sends(&lease, &key),
            Ok(Asked::Known(_)) if self.habit == Habit::SendsWhatIsKnown => self.sends(&lease, &key),
            _ => {}
        }
        if self.random(2) == 0 {
            let evidence = Evidence::new("bank", format!("t-{}", self.random(1_000))).expect("short texts");
            drop(self.ledger.settle(&lease, &key, Outcome::Succeeded, &evidence).await);
        }
    }

    fn sends(&self, lease: &Lease, key: &RequestKey) {
        *self.told.lock().sendings.entry((lease.partition.clone(), key.to_string())).or_default() += 1;
    }

    fn make(&self) -> Append {
        let event = NewEvent::of("noted", &self.random(1_000)).expect("a number is JSON");
        Append::new([event]).expect("one small event")
    }

    fn random(&self, below: u64) -> u64 {
        self.network.lock().random.u64(0..below.max(1))
    }

    async fn sleep(&self, time: Duration) {
        let clock = self.network.clock();
        clock.sleep_until(clock.now().after(time)).await;
    }
}
