//! The ledger: calls made, answers read.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Basis, Capability, Claim, Claimed, Description, Durability, Ended,
    EventKind, Expected, Failure, FailureKind, Fate, FencedLedger, Generation, Lease, LedgerError, LedgerId, Mark,
    Note, Observation, Operation, OwnEvent, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position,
    Presented, Reason, RecordPage, RecordSlot, RecordState, Rejection, Released, Remark, Renewal, Result, TenureEnd,
    Ttl, Vacancy,
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgRow};
use tracing::Instrument as _;

use crate::call::{self, Call, Value};
use crate::coalesce::{self, Coalescer};
use crate::open::{self, Opened};
use crate::options::{Options, milliseconds};
use crate::pool::Connections;
use crate::retry::Runner;
use crate::row::{self, Answer, State};

/// A page of events ends early once it has so many bytes of payloads and metadata.
const PAGE_BYTES: i64 = 16 * 1024 * 1024;

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
}

impl PostgresLedger {
    /// Opens the ledger in the default schema of a database, on connections of the library's own.
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
    /// ends in COMMIT, which fails there; the connection is closed and the write tried on another. That costs 15 to 22 %
    /// of the server's rate of small appends, and sqlx asks the server before it lends a connection and after it got it
    /// back: three round trips instead of one, or two with `test_before_acquire(false)`. [`connect`](Self::connect) has
    /// neither cost.
    ///
    /// A pool that leads through a transaction pooler can not be told from another when it is opened. Its calls are then
    /// [`NotWritten`](LedgerError::NotWritten) for the most part; open it with
    /// [`Options::transaction_pooler`](crate::Options::transaction_pooler).
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

    pub(crate) async fn open_own(options: Options, connect: PgConnectOptions) -> Result<Self> {
        let connections = Connections::own(&options, connect);
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
        lent.give_back();
        let idle = milliseconds(options.idle_in_transaction);
        let simple = options.transaction_pooler;
        let coalesce = own && options.coalesces();
        let shared = Shared { runner, opened, idle, simple, coalesce, coalescer: Coalescer::default() };
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
    /// Appends by the single form: a call of its own.
    pub(crate) async fn append_alone(&self, lease: &Lease, append: &Append, deadline: Instant) -> Result<Appended> {
        let partition = &lease.partition;
        let content = append.content();
        let call = append_call(lease, append, content.as_bytes(), None);
        let answer = read_answer(partition, &self.runner.run_by(&call, false, deadline).await?)?;
        appended(&answer, append).unwrap_or_else(|| {
            let presented = Presented::lease(lease, Some(append));
            Err(refused(partition, Operation::Append, presented, answer, unsaid))
        })
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

/// What a call is about, as an append sends it.
pub(crate) fn append_call<'a>(
    lease: &'a Lease,
    append: &'a Append,
    content: &'a [u8],
    caller: Option<i32>,
) -> Call<'a> {
    let expected = match append.expected() {
        Expected::Any => None,
        Expected::Position(head) => Some(head.get()),
    };
    let texts = |of: fn(&ledger_core::NewEvent) -> &str| Value::Texts(append.events().iter().map(of).collect());
    let mut values = tenure(lease);
    values.extend([
        Value::Uuid(Some(append.id().as_uuid())),
        Value::Big(expected),
        Value::Bytes(content),
        texts(|event| event.kind.as_str()),
        texts(|event| event.payload.as_str()),
        texts(|event| event.metadata.as_str()),
        Value::Text(append.remark().map(Remark::as_str)),
        Value::Bool(caller.is_none()),
        Value::Small(caller),
    ]);
    Call { function: &call::APPEND, values }
}

/// The answer to an append that was granted, if it was.
pub(crate) fn appended(answer: &Answer, append: &Append) -> Option<Result<Appended>> {
    let replayed = match answer.verdict.as_str() {
        "Granted" => false,
        "Replay" => true,
        _ => return None,
    };
    let entry = answer.entry.clone()?;
    Some(if entry.id == Some(append.id()) { Ok(Appended::new(entry, replayed, answer.judged)) } else { Err(foreign()) })
}

/// What is told where an answer is another session's: a pool that is given may lead through a transaction pooler, which
/// can not be seen when it is opened.
fn foreign() -> LedgerError {
    let detail = "the answer is another call's: behind a transaction pooler, open with `transaction_pooler`";
    LedgerError::Unknown(Failure::new(FailureKind::Other, detail))
}

fn tenure(lease: &Lease) -> Vec<Value<'_>> {
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
        if self.shared.coalesce {
            coalesce::append(&self.shared, lease, append).instrument(span).await
        } else {
            self.shared.append_alone(lease, append, self.shared.runner.deadline()).instrument(span).await
        }
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
        let page = self.page(partition, Some(from), limit, false).await?;
        match page {
            Some(page) if page.head.is_some_and(|(head, _)| from.get() - 1 > head.get()) => {
                Err(LedgerError::AheadOfLog { from, head: page.head.map(|(head, _)| head) })
            }
            Some(page) => Ok(page),
            None if from > Position::FIRST => Err(LedgerError::AheadOfLog { from, head: None }),
            None => Ok(Page::forward(Vec::new(), None)),
        }
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        let page = self.page(partition, from, limit, true).await?;
        match (page, from) {
            (Some(page), Some(from)) if page.head.is_some_and(|(head, _)| from > head) => {
                Err(LedgerError::AheadOfLog { from, head: page.head.map(|(head, _)| head) })
            }
            (Some(page), _) => Ok(page),
            (None, Some(from)) => Err(LedgerError::AheadOfLog { from, head: None }),
            (None, None) => Ok(Page::backward(Vec::new(), None)),
        }
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
    /// A page of events, or `None` where the partition was never claimed.
    async fn page(
        &self,
        partition: &PartitionId,
        from: Option<Position>,
        limit: PageSize,
        backward: bool,
    ) -> Result<Option<Page>> {
        let values = vec![
            Value::Text(Some(partition.as_str())),
            Value::Big(from.map(Position::get)),
            Value::Small(Some(count(limit))),
            Value::Bool(backward),
            Value::Big(Some(PAGE_BYTES)),
        ];
        let span = tracing::debug_span!("fenced_ledger.read", %partition);
        let call = Call { function: &call::READ, values };
        let rows = self.shared.runner.run(&call, false).instrument(span).await?;
        let Some((header, rows)) = rows.split_first() else { return Ok(None) };
        let head = row::header(header).map_err(|bad| bad.at(Some(partition), None))?;
        let rows = rows.iter().map(|row| row::log_row(row, partition)).collect::<Result<_>>()?;
        let events = row::events(rows, partition, backward)?;
        let page = if backward { Page::backward(events, Some(head)) } else { Page::forward(events, Some(head)) };
        Ok(Some(page))
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
