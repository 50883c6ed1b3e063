//! The calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::decide::{self, Decision, Subject};
use ledger_core::{
    AcquisitionId, Advance, AdvanceRecord, Advanced, Append, AppendId, Appended, Claim, Claimed, Clock, Description,
    Durability, Ended, Entry, Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, LedgerId, Note,
    Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, PastTenure, Position, RecordPage,
    RecordSlot, Rejection, Released, Renewal, Result, Standing, SystemClock, Tail, Ttl, judge,
};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, WriteTransaction};

use crate::evidence::Evidence;
use crate::store::{self, View};

/// A ledger in a redb file. `Clone` is a second handle: redb lets one process open a file, once.
#[derive(Clone, Debug)]
pub struct RedbLedger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: LedgerId,
    clock: Arc<dyn Clock>,
    database: Database,
    evidence: Evidence,
}

/// Writes the last counts.
impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.write_counts());
    }
}

impl Shared {
    fn write_counts(&self) -> Result<()> {
        if self.evidence.has_counts() {
            let writer = self.database.begin_write().map_err(not_written)?;
            self.evidence.write_counts(&writer)?;
            writer.commit().map_err(unknown)?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<ReadTransaction> {
        self.database.begin_read().map_err(not_written)
    }
}

/// A judgement: a decision from what it needs to have read.
type Judge<'a, A> = dyn Fn(Subject<'_>, &Facts) -> Decision<A> + Send + 'a;

/// What a call is judged by, beside the partition as it stands.
#[derive(Default)]
struct Facts {
    earlier: Option<Arc<Entry>>,
    past: Option<PastTenure>,
    taken: Option<(Arc<Entry>, AdvanceRecord)>,
}

/// Which facts a call needs.
#[derive(Clone, Copy)]
struct Needs {
    /// The entry of this id.
    id: Option<AppendId>,
    /// The generation that is presented.
    presented: Option<Generation>,
    /// The advance that may have been made by this acquisition.
    advance: Option<AcquisitionId>,
}

impl RedbLedger {
    /// Opens a ledger, and makes it where there is none.
    ///
    /// # Errors
    ///
    /// redb's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with_clock(path, SystemClock)
    }

    /// The same, on a clock of the caller's.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with_clock(path: impl AsRef<Path>, clock: impl Clock + 'static) -> Result<Self> {
        let database = Database::create(path).map_err(not_written)?;
        let writer = database.begin_write().map_err(not_written)?;
        let id = {
            let mut meta = writer.open_table(store::META).map_err(not_written)?;
            let known = meta.get("id").map_err(not_written)?.map(|id| id.value().to_owned());
            let id = known.unwrap_or_else(|| LedgerId::mint().to_string());
            meta.insert("id", id.as_str()).map_err(not_written)?;
            serde_json::from_value(id.into()).map_err(|error| LedgerError::corrupt(None, None, error.to_string()))?
        };
        let all: [fn(&WriteTransaction) -> Result<()>; 6] = [
            |writer| writer.leases().map(drop),
            |writer| writer.entries().map(drop),
            |writer| writer.events().map(drop),
            |writer| writer.ids().map(drop),
            |writer| writer.claims().map(drop),
            |writer| writer.open_table(store::RECORDS).map(drop).map_err(not_written),
        ];
        all.iter().try_for_each(|make| make(&writer))?;
        writer.commit().map_err(unknown)?;
        let shared = Arc::new(Shared { id, clock: Arc::new(clock), database, evidence: Evidence::default() });
        let weak = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            // Twice a second: of the counts a crash may lose the last second.
            std::thread::sleep(Duration::from_millis(500));
            while let Some(shared) = weak.upgrade() {
                drop(shared.write_counts());
                drop(shared);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Ok(Self(shared))
    }

    /// The database under the ledger: for whoever has tables of their own in it, and for tests.
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// Judges an append and writes it into a transaction of the caller's, who commits it.
    ///
    /// # Errors
    ///
    /// As [`append`](FencedLedger::append). A refusal leaves no record.
    pub fn append_in(&self, writer: &WriteTransaction, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.0.id)?;
        let needs = Needs { id: Some(append.id()), presented: Some(lease.generation), advance: None };
        let decide =
            |subject: Subject<'_>, facts: &Facts| decide::append(subject, facts.earlier.as_ref(), lease, append);
        let decision = self.judge(&writer, &lease.partition, needs, &decide)?;
        store::write(writer, &lease.partition, &decision.write)?;
        Ok(decision.answer?)
    }

    /// Judges a call by what a view shows.
    fn judge<A>(
        &self,
        view: &impl View,
        name: &PartitionId,
        needs: Needs,
        decide: &Judge<'_, A>,
    ) -> Result<Decision<A>> {
        let standing = view.standing(name)?;
        let current = standing.as_ref().map(|standing| standing.lease.generation);
        let facts = Facts {
            earlier: needs.id.map(|id| view.entry(name, id)).transpose()?.flatten(),
            past: match needs.presented.filter(|presented| Some(*presented) < current) {
                Some(generation) => view.past(name, generation)?,
                None => None,
            },
            taken: needs.advance.map(|acquisition| view.advance(name, acquisition)).transpose()?.flatten(),
        };
        // The clock last (T4).
        let subject = Subject::new(self.0.id, name, standing.as_ref(), self.0.clock.now());
        Ok(decide(subject, &facts))
    }

    /// Judges a call and does what was decided: in redb's one write transaction, but for a tenure that has visibly
    /// ended (E4).
    fn call<A>(&self, name: &PartitionId, needs: Needs, decide: &Judge<'_, A>) -> Result<A> {
        let shared = &*self.0;
        if let Some(generation) = needs.presented {
            let reader = shared.reader()?;
            let standing: Option<Standing> = (&reader).standing(name)?;
            if standing.is_some_and(|standing| standing.has_visibly_ended(generation)) {
                let decision = self.judge(&&reader, name, needs, decide)?;
                if !decision.write.is_empty() {
                    return Err(LedgerError::corrupt(Some(name), None, "a tenure that has ended would be written to"));
                }
                match decision.answer {
                    Ok(answer) => return Ok(answer),
                    Err(rejection) => {
                        if let Some(counted) = shared.evidence.count(&reader, &rejection)? {
                            return Err(counted.into());
                        }
                    }
                }
            }
        }
        let writer = shared.database.begin_write().map_err(not_written)?;
        let decision = self.judge(&&writer, name, needs, decide)?;
        store::write(&writer, name, &decision.write)?;
        match decision.answer {
            Ok(answer) => {
                if !decision.write.is_empty() {
                    writer.commit().map_err(unknown)?;
                }
                Ok(answer)
            }
            Err(rejection) => Err(self.refuse(writer, *rejection).into()),
        }
    }

    /// Commits the record of a refusal, with what else was decided. The refusal stands whatever becomes of it (E2).
    fn refuse(&self, writer: WriteTransaction, rejection: Rejection) -> Rejection {
        let evidence = &self.0.evidence;
        let kept = self.0.reader().and_then(|reader| evidence.keep(&reader, &writer, rejection.clone()));
        match kept.and_then(|kept| writer.commit().map(|()| kept).map_err(unknown)) {
            Ok(kept) => kept,
            Err(error) => {
                evidence.forget(&rejection);
                rejection.with_record(ledger_core::RecordState::Missing { cause: error.to_string() })
            }
        }
    }

    /// Runs a call where blocking is allowed. A caller who goes away leaves it to end by itself (U3).
    async fn blocking<A: Send + 'static>(&self, call: impl FnOnce(Self) -> Result<A> + Send + 'static) -> Result<A> {
        let ledger = self.clone();
        match tokio::task::spawn_blocking(move || call(ledger)).await {
            Ok(answer) => answer,
            Err(error) => Err(LedgerError::Unknown(Failure::new(FailureKind::Other, error.to_string()))),
        }
    }
}

#[async_trait]
impl FencedLedger for RedbLedger {
    async fn describe(&self) -> Result<Description> {
        Ok(Description::new(self.0.id, "redb", "4", Durability::MachineCrash, Vec::new()))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let name = partition.clone();
        self.blocking(move |ledger| {
            let standing = (&ledger.0.reader()?).standing(&name)?;
            let judged = judge::judged(standing.as_ref(), ledger.0.clock.now());
            let tenure = standing.map(|standing| standing.tenure(ledger.0.id, &name));
            Ok(PartitionState::new(ledger.0.id, name, tenure, judged))
        })
        .await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let claim = claim.clone();
        self.blocking(move |ledger| {
            let needs = Needs { id: Some(claim.acquisition.into()), presented: None, advance: None };
            let asked = claim.clone();
            ledger.call(&claim.partition, needs, &move |subject, facts| {
                decide::claim(subject, facts.earlier.as_ref(), &asked)
            })
        })
        .await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        lease.check_ledger(self.0.id)?;
        let lease = lease.clone();
        self.blocking(move |ledger| {
            let needs = Needs { id: None, presented: Some(lease.generation), advance: None };
            let held = lease.clone();
            ledger.call(&lease.partition, needs, &move |subject, _| decide::renew(subject, &held, ttl))
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        lease.check_ledger(self.0.id)?;
        let lease = lease.clone();
        self.blocking(move |ledger| {
            let needs = Needs { id: None, presented: Some(lease.generation), advance: None };
            let held = lease.clone();
            ledger.call(&lease.partition, needs, &move |subject, facts| {
                decide::release(subject, facts.past.as_ref(), &held)
            })
        })
        .await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let (name, reason) = (partition.clone(), reason.clone());
        self.blocking(move |ledger| {
            let needs = Needs { id: None, presented: None, advance: None };
            ledger.call(&name, needs, &move |subject, _| decide::end_tenure(subject, observed, &reason))
        })
        .await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let advance = advance.clone();
        self.blocking(move |ledger| {
            let acquisition = advance.acquisition;
            let needs = Needs { id: Some(acquisition.into()), presented: None, advance: Some(acquisition) };
            let step = advance.clone();
            ledger.call(&advance.partition, needs, &move |subject, facts| {
                let taken = facts.taken.as_ref().map(|(entry, record)| (&**entry, record));
                decide::advance(subject, &Tail::of(subject.standing), taken, facts.earlier.as_deref(), &step)
            })
        })
        .await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.0.id)?;
        let (lease, append) = (lease.clone(), append.clone());
        self.blocking(move |ledger| {
            let needs = Needs { id: Some(append.id()), presented: Some(lease.generation), advance: None };
            let held = lease.clone();
            ledger.call(&lease.partition, needs, &move |subject, facts| {
                decide::append(subject, facts.earlier.as_ref(), &held, &append)
            })
        })
        .await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let name = partition.clone();
        self.blocking(move |ledger| {
            let reader = ledger.0.reader()?;
            if let Some(entry) = (&reader).entry(&name, id)? {
                return Ok(Fate::Recorded(entry));
            }
            let ended = (&reader).standing(&name)?.is_some_and(|standing| standing.has_visibly_ended(generation));
            Ok(if ended { Fate::Never } else { Fate::Undecided })
        })
        .await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        let name = partition.clone();
        self.blocking(move |ledger| {
            let reader = ledger.0.reader()?;
            let standing = (&reader).standing(&name)?;
            let head = standing.as_ref().map(Standing::head);
            if from.get() - 1 > head.map_or(0, Position::get) {
                return Err(LedgerError::AheadOfLog { from, head });
            }
            let events = (&reader).page(&name, from.get(), i64::MAX, false, Some(limit))?;
            Ok(Page::forward(events, standing.map(|standing| (standing.head(), standing.lease.generation))))
        })
        .await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let name = partition.clone();
        self.blocking(move |ledger| {
            let reader = ledger.0.reader()?;
            let standing = (&reader).standing(&name)?;
            let head = standing.as_ref().map(Standing::head);
            if let Some(from) = from.filter(|from| Some(*from) > head) {
                return Err(LedgerError::AheadOfLog { from, head });
            }
            let to = from.map_or(i64::MAX, Position::get);
            let events = (&reader).page(&name, 0, to, true, Some(limit))?;
            Ok(Page::backward(events, standing.map(|standing| (standing.head(), standing.lease.generation))))
        })
        .await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let after = after.cloned();
        self.blocking(move |ledger| {
            let leases = (&ledger.0.reader()?).leases()?;
            let from = after.as_ref().map_or("", PartitionId::as_str);
            let mut names = Vec::new();
            for row in leases.range(from..).map_err(not_written)? {
                let name = row.map_err(not_written)?.0.value().to_owned();
                if after.as_ref().is_some_and(|after| after.as_str() == name) {
                    continue;
                }
                if names.len() == size(limit) {
                    return Ok(PartitionPage::new(names, true));
                }
                names.push(PartitionId::new(name)?);
            }
            Ok(PartitionPage::new(names, false))
        })
        .await
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        let name = partition.cloned();
        self.blocking(move |ledger| ledger.0.evidence.page(&ledger.0.reader()?, name.as_ref(), after, size(limit)))
            .await
    }
}

/// An error before the commit: surely nothing was written.
pub(crate) fn not_written(error: impl Into<redb::Error>) -> LedgerError {
    match error.into() {
        redb::Error::Corrupted(detail) => LedgerError::corrupt(None, None, detail),
        error => LedgerError::NotWritten(Failure::new(FailureKind::Other, error.to_string())),
    }
}

/// An error of the commit itself.
fn unknown(error: redb::CommitError) -> LedgerError {
    LedgerError::Unknown(Failure::new(FailureKind::Other, error.to_string()))
}

pub(crate) fn corrupt(name: &PartitionId, error: impl ToString) -> LedgerError {
    LedgerError::corrupt(Some(name), None, error.to_string())
}

fn size(limit: PageSize) -> usize {
    usize::try_from(limit.get()).unwrap_or(usize::MAX)
}
