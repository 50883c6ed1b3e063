//! Recording: a file that is written before and after each call, and the ledger that does it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Fate, FencedLedger, Generation,
    Lease, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position, RecordPage,
    RecordSlot, Released, Renewal, Result, Ttl,
};

use super::facts::Tenure;
use super::record::{Answer, Call, FORMAT, Line};

/// Writes the history of one process.
///
/// Each line is one `write` of the operating system and nothing is buffered, so a kill loses no line that was written.
/// It does not survive a crash of the machine.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    calls: AtomicU64,
}

impl Recorder {
    /// Begins the history of a process in a new file. No other file of the same history may name the same process.
    ///
    /// # Errors
    ///
    /// Those of the file system; a file that is there already is not written over.
    pub fn create(file: impl AsRef<Path>, process: &str) -> io::Result<Self> {
        let recorder = Self { file: Mutex::new(File::create_new(file)?), calls: AtomicU64::new(0) };
        recorder.write(&Line::Opened { version: FORMAT, process: process.to_owned(), at: now() })?;
        Ok(recorder)
    }

    /// Notes a fault, or anything else that people will want to know.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn note(&self, note: impl Into<String>) -> io::Result<()> {
        self.write(&Line::Noted { at: now(), note: note.into() })
    }

    /// Notes that the store was ended by force and is back.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn store_crashed(&self) -> io::Result<()> {
        self.write(&Line::StoreCrashed { at: now() })
    }

    /// Notes that all faults are over: from now on every call that the history still has is answered within `bound`, and a
    /// partition that somebody wants is written to within that and the longest lease that any had. The checker demands it.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn healed(&self, bound: Duration) -> io::Result<()> {
        let within = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        self.write(&Line::Healed { at: now(), within })
    }

    /// Notes that the ledger was closed in good order. To be called after that.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn close(&self) -> io::Result<()> {
        self.write(&Line::Closed { at: now() })
    }

    fn called(&self, call: Call) -> u64 {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.write(&Line::Called { number, at: now(), call }).expect("the history can be written: see `Recorded`");
        number
    }

    fn answered(&self, number: u64, answer: Answer) {
        let at = now();
        self.write(&Line::Answered { number, at, answer }).expect("the history can be written: see `Recorded`");
    }

    fn write(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // A line is written in one call: whoever held the lock and panicked has left whole lines.
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)
    }
}

/// A ledger whose calls are recorded, over any other.
///
/// ```
/// # use std::sync::Arc;
/// # use conformance_tests::history::{Recorded, Recorder};
/// # use ledger_core::{FencedLedger, PartitionId};
/// # use ledger_memory::MemoryLedger;
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("worker-a.jsonl");
/// let recorder = Arc::new(Recorder::create(file, "worker-a")?);
/// let ledger = Recorded::new(Arc::new(MemoryLedger::new()), recorder);
/// ledger.observe(&PartitionId::new("jobs/7")?).await?; // two lines in the file
/// # Ok(())
/// # }
/// ```
///
/// Listings of partitions and of records are passed on and not recorded. A future that is dropped leaves a call
/// without an answer: its outcome counts as unknown.
///
/// # Panics
///
/// Every call does, where its line can not be written: a history with a hole would accuse a ledger that is right. So
/// keep histories on a disk that no fault of a test fills.
#[derive(Debug)]
pub struct Recorded<L: ?Sized> {
    ledger: Arc<L>,
    recorder: Arc<Recorder>,
}

impl<L: FencedLedger + ?Sized> Recorded<L> {
    /// Records the calls of `ledger`.
    pub fn new(ledger: Arc<L>, recorder: Arc<Recorder>) -> Self {
        Self { ledger, recorder }
    }

    async fn record<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T>> + Send,
        keep: impl FnOnce(&T) -> Answer + Send,
    ) -> Result<T> {
        let number = self.recorder.called(call);
        let answer = answer.await;
        self.recorder.answered(number, answer.as_ref().map_or_else(Answer::of_error, keep));
        answer
    }
}

#[async_trait]
impl<L: FencedLedger + ?Sized> FencedLedger for Recorded<L> {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.record(Call::Observe(partition.clone()), self.ledger.observe(partition), Answer::of_state).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.record(Call::Claim(claim.clone()), self.ledger.claim(claim), Answer::of_claimed).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        let call = Call::Renew { lease: lease.clone(), ttl };
        self.record(call, self.ledger.renew(lease, ttl), Answer::of_renewal).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.record(Call::Release(lease.clone()), self.ledger.release(lease), Answer::of_released).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let call = Call::EndTenure { partition: partition.clone(), observed, reason: reason.clone() };
        self.record(call, self.ledger.end_tenure(partition, observed, reason), Answer::of_ended).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.record(Call::Advance(advance.clone()), self.ledger.advance(advance), Answer::of_advanced).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.record(Call::append(lease, append), self.ledger.append(lease, append), Answer::of_appended).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let call = Call::Fate { partition: partition.clone(), id, generation };
        self.record(call, self.ledger.fate(partition, id, generation), Answer::of_fate).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        let call = Call::Read { partition: partition.clone(), from };
        self.record(call, self.ledger.read(partition, from, limit), Answer::of_page).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let call = Call::ReadBack { partition: partition.clone(), from };
        self.record(call, self.ledger.read_back(partition, from, limit), Answer::of_page).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.ledger.partitions(after, limit).await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.ledger.rejections(partition, after, limit).await
    }
}

impl Answer {
    /// What is kept of an append's answer.
    pub fn of_appended(appended: &Appended) -> Self {
        let Appended { entry, replayed, judged, .. } = appended.clone();
        Self::Appended { entry, replayed, judged }
    }

    /// What is kept of a claim's answer.
    pub fn of_claimed(claimed: &Claimed) -> Self {
        let Claimed { lease, head, chain, replayed, judged, .. } = claimed.clone();
        Self::Claimed { lease, head, chain, replayed, judged }
    }

    /// What is kept of a renewal's answer.
    pub fn of_renewal(renewal: &Renewal) -> Self {
        let Renewal { lease, head, chain, judged, .. } = renewal.clone();
        Self::Renewed { lease, head, chain, judged }
    }

    /// What is kept of a release's answer.
    pub fn of_released(released: &Released) -> Self {
        match released.clone() {
            Released::Now { position, judged } => Self::Released { position, judged },
            Released::AlreadyEnded { end, judged } => {
                Self::AlreadyEnded { basis: end.basis, successor: end.successor, judged }
            }
        }
    }

    /// What is kept of the answer to an operator's step.
    pub fn of_ended(ended: &Ended) -> Self {
        match ended.clone() {
            Ended::Now { position, judged } => Self::Ended { position, judged },
            Ended::AlreadyVacant { vacancy, judged } => Self::AlreadyVacant { vacancy, judged },
        }
    }

    /// What is kept of the answer to an advance.
    pub fn of_advanced(advanced: &Advanced) -> Self {
        Self::Advanced { mark: advanced.mark(), replayed: advanced.replayed, judged: advanced.judged }
    }

    /// What is kept of a look.
    pub fn of_state(state: &PartitionState) -> Self {
        Self::Observed { tenure: state.tenure.as_ref().map(Tenure::of), judged: state.judged }
    }
}

/// Nanoseconds of a clock that all processes of this machine share and that never goes back.
#[cfg(unix)]
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanoseconds = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanoseconds).unwrap_or_default()
}

/// Nanoseconds since this process first asked. Elsewhere than on Unix, a history is of one process alone.
#[cfg(not(unix))]
pub fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(std::time::Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
