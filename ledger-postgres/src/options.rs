//! How a ledger is opened.

use std::time::Duration;

use ledger_core::Result;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::url::{self, Wanted};
use crate::{PostgresLedger, PostgresReplica, Schema};

/// How a ledger is opened. The defaults fit a worker that appends, renews and takes over.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) schema: Schema,
    pub(crate) connections: usize,
    pub(crate) reserve: usize,
    pub(crate) lock_wait: Duration,
    pub(crate) idle_in_transaction: Duration,
    pub(crate) budget: Duration,
    pub(crate) tries: u32,
    pub(crate) coalesce: bool,
    pub(crate) transaction_pooler: bool,
    pub(crate) accept_other_clock: bool,
    /// Set by `connect_replica` alone.
    pub(crate) replica: bool,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            schema: Schema::default(),
            connections: 8,
            reserve: 1,
            lock_wait: Duration::from_secs(2),
            idle_in_transaction: Duration::from_secs(10),
            budget: Duration::from_secs(10),
            tries: 8,
            coalesce: true,
            transaction_pooler: false,
            accept_other_clock: false,
            replica: false,
        }
    }

    /// The schema of the ledger; `fenced_ledger` if not said otherwise.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// The most connections of the library's own: 8 if not said otherwise, at least 1. Without effect on a pool that is
    /// given.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How many connections more are kept for renewals alone, so that appends which wait for the lock of one partition
    /// can not cost another its lease: 1 if not said otherwise. They are opened at first need, also beside a pool that
    /// is given; 0 turns them off.
    #[must_use]
    pub fn reserve(mut self, connections: usize) -> Self {
        self.reserve = connections;
        self
    }

    /// How long one wait for a lock may take before the call is answered with
    /// [`NotWritten`](ledger_core::LedgerError::NotWritten): 2 seconds if not said otherwise. The server counts each
    /// wait, and there may be two: for the place in the queue, and for the lock.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// How long a caller's transaction with an append in it may be idle before the server ends it: 10 seconds if not
    /// said otherwise. Until then it holds its partition, and a takeover waits for it.
    #[must_use]
    pub fn idle_in_transaction(mut self, idle: Duration) -> Self {
        self.idle_in_transaction = idle;
        self
    }

    /// How long one operation may take, with waiting for a connection, all tries and the pauses between them (U4):
    /// 10 seconds if not said otherwise. What is on its way then is answered as
    /// [`Unknown`](ledger_core::LedgerError::Unknown).
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How often an operation is tried that surely was not written (U4): 8 times if not said otherwise.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// Whether appends that wait at the same moment travel together, as one call for many partitions and for several
    /// appends of each: on if not said otherwise. It has effect on connections of the library's own alone, and takes up
    /// to two more of them.
    ///
    /// There is no timer: an append that finds no other on its way goes at once, and a group forms while others are on
    /// their way. Each append is judged on its own, and keeps its own id, entry, answer and refusal; one that is refused
    /// or dropped takes no other with it, and a partition that another session holds keeps none but its own waiting.
    /// A group is driven by the runtime of one of its callers: where several runtimes share a handle, each has to go on
    /// being polled, as one of many threads is, or this be off.
    ///
    /// What it changes: where the connection of a group is lost, the outcome of all of its appends is
    /// [`Unknown`](ledger_core::LedgerError::Unknown); and the appends of one lease over one handle wait for each other
    /// in this process instead of at the server, within the same [`budget`](Self::budget).
    #[must_use]
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Whether groups can be sent: they need prepared statements in sessions that nobody else uses.
    pub(crate) fn coalesces(&self) -> bool {
        self.coalesce && !self.transaction_pooler
    }

    /// For connections through a pooler in transaction mode, such as PgBouncer: each call is one simple query, so
    /// nothing is prepared and nothing is set in a session. It costs a plan a call, about 0.2 ms.
    ///
    /// Each write is a procedure that ends in COMMIT, as over a pool that is given ([`PostgresLedger::new`]): the sessions
    /// behind a pooler are others' too. So this may be set on a pool that is given as well: a transaction that somebody
    /// left open there makes a write fail, and be tried on another connection, as without the pooler.
    #[must_use]
    pub fn transaction_pooler(mut self, pooler: bool) -> Self {
        self.transaction_pooler = pooler;
        self
    }

    /// For tests: accepts a schema whose function `clock()` is not the real one. A test's clock that was left behind is
    /// refused otherwise.
    #[must_use]
    pub fn accept_other_clock(mut self, accept: bool) -> Self {
        self.accept_other_clock = accept;
        self
    }

    /// Opens the ledger of a database, by URL, on connections of the library's own.
    ///
    /// The URL may have several hosts, as libpq's: `postgres://worker@one:5432,two:5432/app`, or `?host=/run/one,/run/two`. Each
    /// new connection goes to the one that is a primary and takes writes (`target_session_attrs=read-write`, which may
    /// stand in the URL and need not), and has the same ledger. While there is none, as during a failover, a call waits
    /// for one within its [`budget`](Self::budget); nothing of it has been sent then. A host with another ledger, or
    /// without one, is passed over, and told of where no other serves. A wrong role, password or database ends the call
    /// at once. A connection to a server that has
    /// become read-only is closed, and the call, which was surely not written, goes to the primary.
    ///
    /// Cancel safe: nothing is written, and a dropped future closes what it has opened.
    ///
    /// # Errors
    ///
    /// [`NotWritten`](ledger_core::LedgerError::NotWritten) where no server can be reached, and
    /// [`Invalid::Unusable`](ledger_core::Invalid::Unusable) where its settings or the schema can not carry a ledger.
    pub async fn connect(self, url: &str) -> Result<PostgresLedger> {
        self.connect_with_hosts(url::hosts(url, Wanted::Primary)?).await
    }

    /// As [`connect`](Self::connect), by sqlx's own options (certificates, sockets, passwords). Cancel safe as it.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(self, options: PgConnectOptions) -> Result<PostgresLedger> {
        self.connect_with_hosts([options]).await
    }

    /// As [`connect`](Self::connect) with several hosts, by sqlx's own options for each. Cancel safe as it.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); without any host, `NotWritten`.
    pub async fn connect_with_hosts(self, hosts: impl IntoIterator<Item = PgConnectOptions>) -> Result<PostgresLedger> {
        PostgresLedger::open_own(self, hosts.into_iter().collect()).await
    }

    /// Opens the ledger of a database for reading alone, on a standby where one of the hosts is one. See
    /// [`PostgresReplica`]. Cancel safe as [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_replica(mut self, url: &str) -> Result<PostgresReplica> {
        self.replica = true;
        let hosts = url::hosts(url, Wanted::Replica)?;
        Ok(PostgresReplica::of(PostgresLedger::open_own(self, hosts).await?))
    }

    /// Opens the ledger on a pool that others use too. See [`PostgresLedger::new`] for what that costs. Cancel safe as
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn open(self, pool: PgPool) -> Result<PostgresLedger> {
        PostgresLedger::open_theirs(self, pool).await
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Whole milliseconds as the server takes them: at least 1, since 0 turns a time-out off.
pub(crate) fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX).max(1)
}
