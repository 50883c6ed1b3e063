//! The ledger: calls made, answers read.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Basis, Capability, Claim, Claimed, Description, Durability, Ended,
    EventKind, Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, LedgerId, Mark, Note,
    Observation, Operation, OwnEvent, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position, Presented,
    Reason, RecordPage, RecordSlot, RecordState, Rejection, Released, Renewal, Result, TenureEnd, Ttl, Vacancy,
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgRow};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use crate::append;
use crate::call::{self, Call, Value};
use crate::coalesce::{self, Coalescer};
use crate::evidence::Evidence;
use crate::look::{self, Looks};
use crate::open::{self, Opened};
use crate::options::{Options, milliseconds};
use crate::page::{self, Wanted};
use crate::pool::Connections;
use crate::retry::Runner;
use crate::row::{self, Answer, State};

/// A ledger in a schema of a PostgreSQL database.
///
/// `Clone` is another handle on the same connections. The [crate's documentation](crate) says what they are and what
/// each call costs.
#[derive(Clone, Debug)]
pub struct PostgresLedger {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) runner: Runner,
    pub(crate) opened: Opened,
    /// The idle-in-transaction time-out of a caller's transaction.
    pub(crate) idle: i32,
    pub(crate) simple: bool,
    /// Whether appends travel together.
    pub(crate) coalesce: bool,
    pub(crate) coalescer: Coalescer,
    pub(crate) looks: Looks,
    pub(crate) evidence: Evidence,
}

impl PostgresLedger {
    /// Opens the ledger in the default schema of a database, on connections of the library's own. Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Options::new().connect(url).await
    }

    /// Opens the ledger in the default schema, on a pool that others use too.
    ///
    /// Whoever cancels a `pool.begin()` leaves the connection inside a transaction (sqlx 0.9.0), where the next
    /// statement is answered and then lost. Each write of this library over such a pool is therefore a procedure that
    /// ends in COMMIT, which fails there; the connection is closed and the write tried on another. And sqlx
    /// asks the server before it lends a connection and after it got it back: three round trips instead of one, or two
    /// with `test_before_acquire(false)`. One writer has 0.77 of the rate that [`connect`](Self::connect) gives it, which
    /// has neither cost (`docs/benchmarks.md`).
    ///
    /// A pool that leads through a transaction pooler can not be told from another when it is opened. Its calls are then
    /// [`NotWritten`](LedgerError::NotWritten) for the most part; open it with
    /// [`Options::transaction_pooler`](crate::Options::transaction_pooler), which calls the same procedures.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
    pub async fn new(pool: PgPool) -> Result<Self> {
        Options::new().open(pool).await
    }

    /// The ledger's id.
    pub fn id(&self) -> LedgerId {
        self.shared.opened.ledger
    }

    pub(crate) async fn open_own(options: Options, hosts: Vec<PgConnectOptions>) -> Result<Self> {
        let connections = Connections::own(&options, hosts);
        Self::open(options, connections, true).await
    }

    pub(crate) async fn open_theirs(options: Options, pool: PgPool) -> Result<Self> {
        let connections = Connections::theirs(&options, pool);
        Self::open(options, connections, false).await
    }

    async fn open(options: Options, connections: Connections, own: bool) -> Result<Self> {
        let runner = Runner::new(&options, connections);
        let mut lent = runner.lend().await?;
        let opened = open::open(lent.connection(), &options, own).await?;
        runner.is(opened.ledger);
        lent.give_back();
        let idle = milliseconds(options.idle_in_transaction);
        let simple = options.transaction_pooler;
        let coalesce = own && options.coalesces();
        let shared = Shared {
            runner,
            opened,
            idle,
            simple,
            coalesce,
            coalescer: Coalescer::default(),
            looks: Looks::default(),
            evidence: Evidence::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn answer(&self, partition: &PartitionId, call: Call<'_>) -> Result<Answer> {
        let renewal = std::ptr::eq(call.function, &call::RENEW);
        read_answer(partition, &self.shared.runner.run(&call, renewal).await?)
    }

    fn refused(
        &self,
        partition: &PartitionId,
        operation: Operation,
        presented: Presented,
        answer: Answer,
    ) -> LedgerError {
        refused(partition, operation, presented, answer, unsaid)
    }
}

impl Shared {
    async fn append(self: &Arc<Self>, lease: &Lease, append: &Append) -> Result<Appended> {
        let deadline = self.runner.deadline();
        let ended = self.evidence.has_ended(&lease.partition, lease.generation);
        if ended && let Some(refused) = look::refused(self, lease, append, deadline).await {
            return Err(refused);
        }
        // No group grants what has ended.
        let answer = if self.coalesce && !ended {
            coalesce::append(self, lease, append, deadline).await
        } else {
            self.append_alone(lease, append, deadline).await
        };
        if let Err(LedgerError::Rejected(rejection)) = &answer {
            self.evidence.learn(rejection);
        }
        answer
    }

    /// Appends by the single form: a call of its own.
    pub(crate) async fn append_alone(&self, lease: &Lease, append: &Append, deadline: Instant) -> Result<Appended> {
        let content = append.content();
        let call = append::call(lease, append, content.as_bytes(), None);
        let rows = self.runner.run_by(&call, false, deadline).await?;
        append::appended(&rows, lease, append, unsaid)
    }
}

fn unsaid(_: &Rejection) -> RecordState {
    RecordState::Missing { cause: "the store did not say what became of it".to_owned() }
}

/// Reads the one row of a judged call.
pub(crate) fn read_answer(partition: &PartitionId, rows: &[PgRow]) -> Result<Answer> {
    let row = rows.first().ok_or_else(|| LedgerError::corrupt(Some(partition), None, "a call answered no row"))?;
    row::answer(row).map_err(|bad| bad.at(Some(partition), None))
}

/// The rejection that an answer names. `unsaid` tells what became of a record of which the answer says nothing.
pub(crate) fn refused(
    partition: &PartitionId,
    operation: Operation,
    presented: Presented,
    answer: Answer,
    unsaid: impl FnOnce(&Rejection) -> RecordState,
) -> LedgerError {
    let Some(reason) = Reason::from_name(&answer.verdict) else {
        return LedgerError::corrupt(Some(partition), None, format!("no verdict is {:?}", answer.verdict));
    };
    let current = answer.state.as_ref().map(State::current);
    let rejection =
        Rejection::new(reason, operation, partition.clone(), presented, current, answer.entry, answer.judged);
    let record = match answer.record {
        Some(record) => record,
        None if rejection.is_evidence() => unsaid(&rejection),
        None => RecordState::NotEvidence,
    };
    rejection.with_record(record).into()
}

/// What is told where an answer is another session's: a pool that is given may lead through a transaction pooler, which
/// can not be seen when it is opened.
pub(crate) fn foreign() -> LedgerError {
    let detail = "the answer is another call's: behind a transaction pooler, open with `transaction_pooler`";
    LedgerError::Unknown(Failure::new(FailureKind::Other, detail))
}

pub(crate) fn tenure(lease: &Lease) -> Vec<Value<'_>> {
    vec![
        Value::Text(Some(lease.partition.as_str())),
        Value::Big(Some(lease.generation.get())),
        Value::Uuid(Some(lease.acquisition.as_uuid())),
        Value::Text(Some(lease.holder.as_str())),
    ]
}

fn observation(observed: Observation) -> [Value<'static>; 2] {
    match observed {
        Observation::NeverClaimed => [Value::Big(Some(0)), Value::Uuid(None)],
        Observation::Tenure { generation, acquisition } => {
            [Value::Big(Some(generation.get())), Value::Uuid(Some(acquisition.as_uuid()))]
        }
    }
}

/// The newest tenure that is stored, as a caller observes it.
fn stored(state: &State) -> Observation {
    Observation::Tenure { generation: state.generation, acquisition: state.acquisition }
}

/// How a tenure ended, as the answer to its release tells (R3).
fn end(partition: &PartitionId, answer: &Answer, state: &State) -> Result<TenureEnd> {
    if let Some(payload) = &answer.successor {
        let kind = EventKind::stored(OwnEvent::CLAIMED).map_err(LedgerError::Invalid)?;
        return match OwnEvent::read(&kind, payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => Ok(TenureEnd::from(&succession)),
            _ => Err(LedgerError::corrupt(Some(partition), None, "a `$claimed` event holds no succession")),
        };
    }
    Ok(TenureEnd::new(match &state.vacancy {
        Some(vacancy) => vacancy.into(),
        None => Basis::Expired { expires_at: state.expires_at, judged_at: answer.judged.time },
    }))
}

#[async_trait]
impl FencedLedger for PostgresLedger {
    async fn describe(&self) -> Result<Description> {
        let Opened { ledger, version } = &self.shared.opened;
        let capabilities = vec![Capability::ManyProcesses, Capability::CallerTransactions];
        Ok(Description::new(*ledger, "PostgreSQL", version, Durability::MachineCrash, capabilities))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        let values = vec![Value::Text(Some(partition.as_str()))];
        let span = tracing::debug_span!("fenced_ledger.observe", %partition);
        let answer = self.answer(partition, Call { function: &call::OBSERVE, values }).instrument(span).await?;
        let tenure = answer.state.as_ref().map(|state| state.tenure(self.id(), partition));
        Ok(PartitionState::new(self.id(), partition.clone(), tenure, answer.judged))
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let partition = &claim.partition;
        let [observed, observed_acquisition] = observation(claim.observed);
        let values = vec![
            Value::Text(Some(partition.as_str())),
            Value::Uuid(Some(claim.acquisition.as_uuid())),
            Value::Text(Some(claim.holder.as_str())),
            Value::Big(Some(claim.ttl.as_micros())),
            observed,
            observed_acquisition,
            Value::Bool(true),
        ];
        let span = tracing::debug_span!("fenced_ledger.claim", %partition, holder = %claim.holder);
        let answer = self.answer(partition, Call { function: &call::CLAIM, values }).instrument(span).await?;
        match (answer.verdict.as_str(), &answer.state) {
            ("Granted" | "Replay", Some(state)) if state.acquisition != claim.acquisition => Err(foreign()),
            ("Granted" | "Replay", Some(state)) => {
                let lease = state.lease(self.id(), partition);
                let replayed = answer.verdict == "Replay";
                Ok(Claimed::new(lease, state.head, state.chain, replayed, answer.judged))
            }
            _ => Err(self.refused(partition, Operation::Claim, Presented::claim(claim), answer)),
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        lease.check_ledger(self.id())?;
        let partition = &lease.partition;
        let mut values = tenure(lease);
        values.extend([Value::Big(ttl.map(Ttl::as_micros)), Value::Bool(true)]);
        let span = tracing::debug_span!("fenced_ledger.renew", %partition, generation = lease.generation.get());
        let answer = self.answer(partition, Call { function: &call::RENEW, values }).instrument(span).await?;
        match (answer.verdict.as_str(), &answer.state) {
            ("Granted", Some(state)) if state.acquisition != lease.acquisition => Err(foreign()),
            ("Granted", Some(state)) => {
                Ok(Renewal::new(state.lease(self.id(), partition), state.head, state.chain, answer.judged))
            }
            _ => Err(self.refused(partition, Operation::Renew, Presented::lease(lease, None), answer)),
        }
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        lease.check_ledger(self.id())?;
        let partition = &lease.partition;
        let mut values = tenure(lease);
        values.push(Value::Bool(true));
        let span = tracing::debug_span!("fenced_ledger.release", %partition, generation = lease.generation.get());
        let answer = self.answer(partition, Call { function: &call::RELEASE, values }).instrument(span).await?;
        match (answer.verdict.as_str(), &answer.state) {
            // An append under the same lease is granted too, and ends nothing.
            ("Granted", Some(state))
                if state.acquisition != lease.acquisition || state.vacancy != Some(Vacancy::Released) =>
            {
                Err(foreign())
            }
            ("Granted", Some(state)) => Ok(Released::Now { position: state.head, judged: answer.judged }),
            // What is stored then is this tenure, or a later one.
            ("AlreadyEnded", Some(state))
                if state.generation < lease.generation
                    || state.generation == lease.generation && state.acquisition != lease.acquisition =>
            {
                Err(foreign())
            }
            ("AlreadyEnded", Some(state)) => {
                Ok(Released::AlreadyEnded { end: end(partition, &answer, state)?, judged: answer.judged })
            }
            _ => Err(self.refused(partition, Operation::Release, Presented::lease(lease, None), answer)),
        }
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        let [generation, acquisition] = observation(observed);
        let name = Value::Text(Some(partition.as_str()));
        let values = vec![name, generation, acquisition, Value::Text(Some(reason.as_str()))];
        let span = tracing::debug_span!("fenced_ledger.end_tenure", %partition);
        let answer = self.answer(partition, Call { function: &call::END_TENURE, values }).instrument(span).await?;
        match (answer.verdict.as_str(), &answer.state) {
            ("Granted" | "AlreadyVacant", Some(state)) if state.vacancy.is_none() || observed != stored(state) => {
                Err(foreign())
            }
            ("Granted", Some(state)) => Ok(Ended::Now { position: state.head, judged: answer.judged }),
            ("AlreadyVacant", Some(State { vacancy: Some(vacancy), .. })) => {
                Ok(Ended::AlreadyVacant { vacancy: vacancy.clone(), judged: answer.judged })
            }
            _ => Err(self.refused(partition, Operation::EndTenure, Presented::observation(observed), answer)),
        }
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        let partition = &advance.partition;
        let values = vec![
            Value::Text(Some(partition.as_str())),
            Value::Uuid(Some(advance.acquisition.as_uuid())),
            Value::Text(Some(advance.operator.as_str())),
            Value::Big(advance.above.map(Generation::get)),
            Value::Text(Some(advance.reason.as_str())),
        ];
        let span = tracing::debug_span!("fenced_ledger.advance", %partition, operator = %advance.operator);
        let answer = self.answer(partition, Call { function: &call::ADVANCE, values }).instrument(span).await?;
        match (answer.verdict.as_str(), &answer.state, &answer.entry) {
            ("Granted", Some(state), _) if state.acquisition != advance.acquisition => Err(foreign()),
            ("Granted", Some(state), _) => {
                Ok(Advanced::new(Mark::new(state.generation, state.head, state.chain), false, answer.judged))
            }
            ("Replay", _, Some(entry)) if entry.acquisition != advance.acquisition => Err(foreign()),
            ("Replay", _, Some(entry)) => Ok(Advanced::new(Mark::of(entry), true, answer.judged)),
            _ => Err(self.refused(partition, Operation::Advance, Presented::advance(advance), answer)),
        }
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        lease.check_ledger(self.id())?;
        let partition = &lease.partition;
        let span = tracing::debug_span!(
            "fenced_ledger.append",
            %partition,
            generation = lease.generation.get(),
            id = %append.id(),
            events = append.events().len()
        );
        self.shared.append(lease, append).instrument(span).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        let values = vec![
            Value::Text(Some(partition.as_str())),
            Value::Uuid(Some(id.as_uuid())),
            Value::Big(Some(generation.get())),
        ];
        let span = tracing::debug_span!("fenced_ledger.fate", %partition, %id);
        let answer = self.answer(partition, Call { function: &call::FATE, values }).instrument(span).await?;
        match (answer.verdict.as_str(), answer.entry) {
            ("Recorded", Some(entry)) => Ok(Fate::Recorded(entry)),
            ("Never", None) => Ok(Fate::Never),
            ("Undecided", None) => Ok(Fate::Undecided),
            (verdict, _) => Err(LedgerError::corrupt(Some(partition), None, format!("no fate is {verdict:?}"))),
        }
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.page(partition, Wanted::Forward { from, kind: None }, limit).await
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        self.page(partition, Wanted::Forward { from, kind: Some(kind.clone()) }, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.page(partition, Wanted::Back { from }, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        // One more than the page has, to see whether another follows.
        let values = vec![Value::Text(after.map(PartitionId::as_str)), Value::Small(Some(count(limit) + 1))];
        let span = tracing::debug_span!("fenced_ledger.partitions");
        let call = Call { function: &call::PARTITIONS, values };
        let mut rows = self.shared.runner.run(&call, false).instrument(span).await?;
        let more = cut(&mut rows, limit);
        let name = |row: &PgRow| {
            let name = row::Fields::of(row).text().map_err(|bad| bad.at(None, None))?;
            PartitionId::new(name).map_err(|bad| LedgerError::corrupt(None, None, bad.to_string()))
        };
        Ok(PartitionPage::new(rows.iter().map(name).collect::<Result<_>>()?, more))
    }

    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        // No slot stands before the generation -1; never claimed is the generation 0.
        let (generation, slot) =
            after.map_or((-1, 0), |slot| (slot.generation.map_or(0, Generation::get), i32::from(slot.number)));
        let values = vec![
            Value::Text(partition.map(PartitionId::as_str)),
            Value::Big(Some(generation)),
            Value::Small(Some(slot)),
            Value::Small(Some(count(limit) + 1)),
        ];
        let span = tracing::debug_span!("fenced_ledger.rejections");
        let call = Call { function: &call::REJECTIONS, values };
        let mut rows = self.shared.runner.run(&call, false).instrument(span).await?;
        let more = cut(&mut rows, limit);
        let record = |row: &PgRow| row::record(row).map_err(|bad| bad.at(partition, None));
        Ok(RecordPage::new(rows.iter().map(record).collect::<Result<_>>()?, more))
    }
}

impl PostgresLedger {
    /// Reads a page in a task of its own. It ends whether this future is polled or not, so a stream that reads ahead
    /// keeps no connection and no snapshot while its consumer does something else (D6).
    async fn page(&self, partition: &PartitionId, wanted: Wanted, limit: PageSize) -> Result<Page> {
        let (shared, name) = (self.shared.clone(), partition.clone());
        let span = tracing::debug_span!("fenced_ledger.read", %partition);
        let read = async move { page::read(&shared.runner, &name, wanted, limit).await };
        // Its drop ends the task, and with it the connection of a read that was not read out (U3).
        let mut reading = JoinSet::new();
        reading.spawn(read.instrument(span).with_current_subscriber());
        match reading.join_next().await {
            Some(Ok(page)) => page,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => {
                let failure = Failure::new(FailureKind::Closed, "the runtime ends");
                Err(LedgerError::NotWritten(failure))
            }
        }
    }
}

fn count(limit: PageSize) -> i32 {
    i32::try_from(limit.get()).unwrap_or(i32::MAX - 1)
}

/// Cuts a page to its size, and says whether more rows had come.
fn cut(rows: &mut Vec<PgRow>, limit: PageSize) -> bool {
    let size = usize::try_from(limit.get()).unwrap_or(usize::MAX);
    let more = rows.len() > size;
    rows.truncate(size);
    more
}
