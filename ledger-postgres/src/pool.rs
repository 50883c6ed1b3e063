//! Connections: the library's own, or those of a pool that others use too.
//!
//! A connection that is lent and not given back is closed: a future that is dropped in the middle of a call leaves
//! nothing half-read behind (U3). The own ones are not an sqlx pool, because that one asks the server once more each
//! time that a connection is released: two round trips for an append instead of one.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::time::Instant;

use ledger_core::{Failure, FailureKind, LedgerError, LedgerId};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::classify::{self, Classified};
use crate::hosts::Hosts;
use crate::lanes::GROUPS;
use crate::options::{Options, milliseconds};

/// How long a connection may be idle beside others that are in use before it is closed.
const IDLE: Duration = Duration::from_secs(600);

/// Where connections come from.
#[derive(Debug)]
pub(crate) struct Connections {
    main: Source,
    /// For renewals alone.
    reserve: Option<Arc<Own>>,
    /// For groups of appends alone: they wait for no lock, and for no connection behind one that does.
    groups: Option<Arc<Own>>,
    /// Where the library's own are opened.
    hosts: Arc<Hosts>,
}

#[derive(Debug)]
enum Source {
    Own(Arc<Own>),
    Theirs(PgPool),
}

impl Connections {
    pub(crate) fn own(options: &Options, hosts: Vec<PgConnectOptions>) -> Self {
        let hosts = Self::hosts(options, hosts);
        Self {
            main: Source::Own(Own::new(&hosts, options.connections)),
            reserve: (options.reserve > 0).then(|| Own::new(&hosts, options.reserve)),
            groups: options.coalesces().then(|| Own::new(&hosts, GROUPS)),
            hosts,
        }
    }

    pub(crate) fn theirs(options: &Options, pool: PgPool) -> Self {
        let hosts = Self::hosts(options, vec![pool.connect_options().as_ref().clone()]);
        let reserve = (options.reserve > 0).then(|| Own::new(&hosts, options.reserve));
        Self { main: Source::Theirs(pool), reserve, groups: None, hosts }
    }

    fn hosts(options: &Options, hosts: Vec<PgConnectOptions>) -> Arc<Hosts> {
        let hosts = hosts.into_iter().map(|host| prepared(options, host)).collect();
        Arc::new(Hosts::new(hosts, &options.schema, options.replica))
    }

    /// What every connection of the library's own must have from here on.
    pub(crate) fn is(&self, ledger: LedgerId) {
        self.hosts.is(ledger);
    }

    /// A connection has failed: those that are idle now are asked before they are used.
    pub(crate) fn distrust(&self) {
        self.hosts.distrust();
    }

    /// A connection for a call, by `deadline`.
    pub(crate) async fn lend(&self, deadline: Instant) -> Result<Lent, Classified> {
        match tokio::time::timeout_at(deadline.into(), self.main.lend(deadline)).await {
            Ok(lent) => lent,
            Err(_) => Err(none_in_time()),
        }
    }

    /// A connection for a group of appends.
    pub(crate) async fn lend_for_group(&self, deadline: Instant) -> Result<Lent, Classified> {
        let Some(groups) = &self.groups else { return self.lend(deadline).await };
        match tokio::time::timeout_at(deadline.into(), groups.clone().lend(false, deadline)).await {
            Ok(lent) => lent,
            Err(_) => Err(none_in_time()),
        }
    }

    /// A connection for a renewal: the first that is free, of the reserve too.
    pub(crate) async fn lend_for_renewal(&self, deadline: Instant) -> Result<Lent, Classified> {
        let Some(reserve) = &self.reserve else { return self.lend(deadline).await };
        let either = async {
            let (mut main, mut spare) = (pin!(self.main.lend(deadline)), pin!(reserve.clone().lend(true, deadline)));
            // Where one of the two can give none now, the other still may.
            tokio::select! {
                biased;
                lent = &mut main => match lent {
                    Err(failed) if failed.again => spare.await,
                    lent => lent,
                },
                lent = &mut spare => match lent {
                    Err(_) => main.await,
                    lent => lent,
                },
            }
        };
        match tokio::time::timeout_at(deadline.into(), either).await {
            Ok(lent) => lent,
            Err(_) => Err(none_in_time()),
        }
    }
}

impl Source {
    async fn lend(&self, deadline: Instant) -> Result<Lent, Classified> {
        match self {
            Self::Own(own) => own.clone().lend(false, deadline).await,
            Self::Theirs(pool) => {
                let connection = pool.acquire().await.map_err(classify::connect)?;
                Ok(Lent { connection: Some(Either::Theirs(connection)), reserve: false })
            }
        }
    }
}

fn none_in_time() -> Classified {
    let failure = Failure::new(FailureKind::Busy, "no connection became free in time");
    Classified { error: LedgerError::NotWritten(failure), again: false, keep: false }
}

/// The settings of the library's own sessions. A pooler in transaction mode keeps none, and refuses most.
fn prepared(options: &Options, connect: PgConnectOptions) -> PgConnectOptions {
    if options.transaction_pooler {
        // The text of a simple query has its values in it: sqlx would log payloads.
        return connect.extra_float_digits(None).statement_cache_capacity(0).disable_statement_logging();
    }
    connect.options([
        ("lock_timeout", milliseconds(options.lock_wait).to_string()),
        ("idle_in_transaction_session_timeout", milliseconds(options.idle_in_transaction).to_string()),
        // Nothing else runs here: see lone.sql.
        ("fenced.own", "on".to_owned()),
    ])
}

/// A bounded number of connections that nobody else uses.
struct Own {
    hosts: Arc<Hosts>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<(PgConnection, Instant)>>,
}

/// Without the connections, which have no use here.
impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").field("free", &self.permits.available_permits()).finish_non_exhaustive()
    }
}

impl Own {
    fn new(hosts: &Arc<Hosts>, connections: usize) -> Arc<Self> {
        Arc::new(Self { hosts: hosts.clone(), permits: Arc::new(Semaphore::new(connections)), idle: Mutex::default() })
    }

    async fn lend(self: Arc<Self>, reserve: bool, deadline: Instant) -> Result<Lent, Classified> {
        let permit =
            self.permits.clone().acquire_owned().await.map_err(|_| classify::connect(sqlx::Error::PoolClosed))?;
        // The newest first: those that are not needed grow old.
        while let Some((mut connection, since)) = self.pop() {
            if self.hosts.still_serves(&mut connection, since).await {
                return Ok(self.lent(connection, permit, reserve));
            }
            // The others lead to the same server, and each might take as long to show it.
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        let connection = self.hosts.connect(deadline).await?;
        Ok(self.lent(connection, permit, reserve))
    }

    fn lent(self: Arc<Self>, connection: PgConnection, permit: OwnedSemaphorePermit, reserve: bool) -> Lent {
        Lent { connection: Some(Either::Own(connection, self, permit)), reserve }
    }

    fn pop(&self) -> Option<(PgConnection, Instant)> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// A connection that is lent: closed when it is dropped, unless it is [given back](Self::give_back).
#[derive(Debug)]
pub(crate) struct Lent {
    /// Always there until it is dropped or given back.
    connection: Option<Either>,
    reserve: bool,
}

enum Either {
    Own(PgConnection, Arc<Own>, OwnedSemaphorePermit),
    Theirs(PoolConnection<Postgres>),
}

impl std::fmt::Debug for Either {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own(..) => "Own",
            Self::Theirs(_) => "Theirs",
        })
    }
}

impl Lent {
    /// The connection, and whether others may have left it inside a transaction.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        match self.connection.as_mut().expect("only `give_back` and `drop` take it, and both end the loan") {
            Either::Own(connection, ..) => connection,
            Either::Theirs(connection) => connection,
        }
    }

    /// Whether it is of a pool that others use too.
    pub(crate) fn is_theirs(&self) -> bool {
        matches!(self.connection, Some(Either::Theirs(_)))
    }

    /// Whether it is of the reserve.
    pub(crate) fn is_reserve(&self) -> bool {
        self.reserve
    }

    /// Gives it back for the next call: only where the answer was read to its end.
    pub(crate) fn give_back(mut self) {
        match self.connection.take() {
            Some(Either::Own(connection, own, permit)) => {
                let mut idle = own.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push((connection, Instant::now()));
                // The newest is lent first, so a lone writer keeps its own, and what a rush of calls needed grows old.
                let old = idle.iter().take_while(|(_, since)| since.elapsed() > IDLE).count();
                let old: Vec<_> = idle.drain(..old).collect();
                drop(idle);
                drop((old, permit));
            }
            // Its drop gives it back.
            Some(Either::Theirs(connection)) => drop(connection),
            None => {}
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(Either::Theirs(connection)) = self.connection.as_mut() {
            connection.close_on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    fn own(hosts: Vec<PgConnectOptions>) -> Arc<Own> {
        Own::new(&Arc::new(Hosts::new(hosts, &Schema::default(), false)), 1)
    }

    /// No server: the reserve's host refuses, and what has no host at all says so.
    #[tokio::test]
    async fn a_renewal_waits_for_the_others_where_the_reserve_can_have_no_connection() {
        let nobody = PgConnectOptions::new_without_pgpass().socket("/nowhere").username("nobody");
        let (main, reserve) = (own(Vec::new()), own(vec![nobody]));
        let hosts = main.hosts.clone();
        let connections =
            Connections { main: Source::Own(main.clone()), reserve: Some(reserve.clone()), groups: None, hosts };
        let busy = main.permits.clone().acquire_owned().await.expect("it is open");
        let mut lent = pin!(connections.lend_for_renewal(Instant::now() + Duration::from_secs(60)));
        loop {
            // Polled at least once.
            assert!(tokio::time::timeout(Duration::ZERO, lent.as_mut()).await.is_err(), "the reserve's error is told");
            if reserve.permits.available_permits() > 0 {
                break;
            }
        }
        drop(busy);
        let failed = lent.await.expect_err("there is no server");
        assert!(failed.error.to_string().contains("there is no host"), "not of the main ones: {}", failed.error);
    }
}
