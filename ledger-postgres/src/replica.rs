//! Reading from a standby.

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, EventKind, Fate, FencedLedger,
    Generation, Invalid, Lease, LedgerError, LedgerId, Note, Observation, Operation, Page, PageSize, PartitionId,
    PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Timestamp, Ttl,
};

use crate::row::Fields;
use crate::statement::REPLAYED;
use crate::{Options, PostgresLedger, classify};

/// A ledger that is read on a standby, so that reports and followers do not burden the primary.
///
/// **What it answers may be late, and is never wrong of its past.** Each answer is a state that the primary had committed
/// at one moment: every page says the head that it knew ([`Page::head`]), `observe` the head and the tenure, and
/// [`replayed`](Self::replayed) how far the standby has come. What `fate` calls `Recorded` or `Never` is final, as on the
/// primary and within one history (U2); `Undecided` may be late.
///
/// **Judgement never runs here.** `claim`, `renew`, `release`, `end_tenure`, `advance` and `append` are refused as
/// [`Invalid::ReadOnly`] before any server is asked, also where the server has become a primary since. Whether a lease
/// of what `observe` shows is still valid is for the primary to say.
///
/// Behind an address that leads to several standbys, a page whose entry ends beyond it may need a second look, over another
/// connection. Where that leads to a standby which is behind the first, others are asked, and then it is
/// [`NotWritten`](LedgerError::NotWritten).
///
/// After a failover that lost something, a standby may know more than the new primary, until it follows that one.
///
/// ```no_run
/// use futures_util::TryStreamExt as _;
/// use ledger_core::{FencedLedgerExt, PartitionId, Position};
/// use ledger_postgres::PostgresReplica;
///
/// # async fn example() -> ledger_core::Result<()> {
/// let replica = PostgresReplica::connect("postgres://reader@two,one/app").await?;
/// let jobs = PartitionId::new("jobs")?;
/// let mut events = replica.events(&jobs, Position::FIRST);
/// while let Some(event) = events.try_next().await? {
///     println!("{} {}", event.position, event.kind);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresReplica {
    ledger: PostgresLedger,
}

/// How far a server has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Whether it is a standby. A replica that was promoted has all that there is.
    pub standby: bool,
    /// The place in PostgreSQL's log up to which it shows everything, such as `0/3000148`: that of the replay on a
    /// standby, that of the last write on a primary.
    pub lsn: String,
    /// When the newest transaction that it shows was committed, by the primary's clock. `None` where there was none
    /// since the standby started, and on a primary. It stands still while nothing is written.
    pub committed_at: Option<Timestamp>,
}

impl PostgresReplica {
    /// Opens the ledger in the default schema of a database for reading, on connections of its own. Of several hosts a
    /// standby is taken where there is one. Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Options::new().connect_replica(url).await
    }

    pub(crate) fn of(ledger: PostgresLedger) -> Self {
        Self { ledger }
    }

    /// The ledger's id.
    pub fn id(&self) -> LedgerId {
        self.ledger.id()
    }

    /// How far the server has come that answers now. Of several connections each may have another server. Cancel safe.
    ///
    /// # Errors
    ///
    /// [`NotWritten`](LedgerError::NotWritten): nothing was read.
    pub async fn replayed(&self) -> Result<Replayed> {
        let mut lent = self.ledger.shared.runner.lend().await?;
        let answer = sqlx::raw_sql(REPLAYED).fetch_all(lent.connection()).await;
        let rows = answer.map_err(|error| classify::read(error).error)?;
        lent.give_back();
        let row =
            rows.first().ok_or_else(|| LedgerError::corrupt(None, None, "the server did not say how far it is"))?;
        let mut fields = Fields::of(row);
        let replayed = (|| {
            let (standby, lsn) = (fields.boolean()?, fields.text()?.to_owned());
            let committed_at = fields.optional_integer()?.map(Timestamp::from_micros);
            Ok(Replayed { standby, lsn, committed_at })
        })();
        replayed.map_err(|bad: crate::row::Unreadable| bad.at(None, None))
    }
}

fn refused<T>(operation: Operation) -> Result<T> {
    Err(LedgerError::Invalid(Invalid::ReadOnly { operation }))
}

#[async_trait]
impl FencedLedger for PostgresReplica {
    async fn describe(&self) -> Result<Description> {
        self.ledger.describe().await
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger.observe(partition).await
    }

    async fn claim(&self, _: &Claim) -> Result<Claimed> {
        refused(Operation::Claim)
    }

    async fn renew(&self, _: &Lease, _: Option<Ttl>) -> Result<Renewal> {
        refused(Operation::Renew)
    }

    async fn release(&self, _: &Lease) -> Result<Released> {
        refused(Operation::Release)
    }

    async fn end_tenure(&self, _: &PartitionId, _: Observation, _: &Note) -> Result<Ended> {
        refused(Operation::EndTenure)
    }

    async fn advance(&self, _: &Advance) -> Result<Advanced> {
        refused(Operation::Advance)
    }

    async fn append(&self, _: &Lease, _: &Append) -> Result<Appended> {
        refused(Operation::Append)
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger.read(partition, from, limit).await
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        self.ledger.read_kind(partition, kind, from, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.ledger.read_back(partition, from, limit).await
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
