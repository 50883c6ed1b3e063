//! The servers that a ledger may be on, and the one of them that takes writes now.
//!
//! The list is libpq's: `postgres://user@one:5432,two:5432/app`. A host is used if it is a primary that may be written,
//! as by `target_session_attrs=read-write`, and if it has the ledger that was opened. Which one that is may change at any
//! time: each new connection asks, and so does one that was idle for long, or was there when another one failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ledger_core::{Failure, FailureKind, LedgerError, LedgerId};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Schema;
use crate::classify::{self, Classified};
use crate::row::{Fields, Unreadable};
use crate::statement::{LEDGER_ID, PROBE};

/// How long a connection may have been idle before it is asked whether it still serves. A server that was restarted
/// would else answer the first append over each old connection with an unknown outcome.
const TRUSTED: Duration = Duration::from_secs(1);

/// How long one host of several may take to answer, before the next one is asked, and an idle connection, before it is
/// given up: a machine that is gone refuses nothing.
const EACH: Duration = Duration::from_secs(2);

/// Between two rounds over several hosts: a standby is promoted in its own time.
const ROUND: Duration = Duration::from_millis(100);

/// Where connections are opened.
pub(crate) struct Hosts {
    each: Vec<PgConnectOptions>,
    /// For reads alone: a standby first.
    replica: bool,
    ask_for_the_ledger: String,
    /// The host that served last.
    last: AtomicUsize,
    /// Known once the ledger was opened.
    ledger: OnceLock<LedgerId>,
    /// Connections that were idle then are asked before they are used.
    distrusted: Mutex<Option<Instant>>,
}

/// Without the options, which have passwords.
impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts").field("hosts", &self.each.len()).field("replica", &self.replica).finish_non_exhaustive()
    }
}

impl Hosts {
    pub(crate) fn new(each: Vec<PgConnectOptions>, schema: &Schema, replica: bool) -> Self {
        let ask_for_the_ledger = schema.fill(LEDGER_ID);
        let (last, ledger) = (AtomicUsize::new(0), OnceLock::new());
        Self { each, replica, ask_for_the_ledger, last, ledger, distrusted: Mutex::new(None) }
    }

    /// From here on every host must have this ledger.
    pub(crate) fn is(&self, ledger: LedgerId) {
        // It is opened once; a second answer would be the same.
        let _ = self.ledger.set(ledger);
    }

    /// A new connection, by `deadline`. Of several hosts the first that serves, from the one that served last on, and
    /// round after round: nothing is sent meanwhile, so these are no tries of an operation.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<PgConnection, Classified> {
        if self.each.len() == 1 {
            let mut connection = PgConnection::connect_with(&self.each[0]).await.map_err(classify::connect)?;
            // There is no other: reads go on where nothing can be written. The check at open says more of what is wrong.
            if self.ledger.get().is_some() {
                self.ask(&mut connection, true).await?;
            }
            return Ok(connection);
        }
        // A little before the caller gives up, so that it is told why.
        let deadline = deadline.checked_sub(ROUND / 2).unwrap_or(deadline);
        let mut told = Told::default();
        loop {
            told.waits = false;
            // A replica that is none serves too, where there is no other.
            for any in if self.replica { &[false, true][..] } else { &[false] } {
                for nth in self.order() {
                    match self.try_one(nth, *any, deadline).await {
                        Ok(connection) => {
                            self.last.store(nth, Ordering::Relaxed);
                            return Ok(connection);
                        }
                        // A wrong password or database: as libpq does, no other host is asked.
                        Err(Passed::Unusable(error)) => return Err(error),
                        // Another ledger, or none: a host that was initialised anew says nothing of the others.
                        Err(Passed::Other(error)) => told.add(error),
                    }
                }
            }
            if !told.waits || Instant::now() + ROUND >= deadline {
                return Err(told.most.map_or_else(none_serves, |failed| self.none_of_them(failed)));
            }
            tokio::time::sleep(ROUND).await;
        }
    }

    /// Whether an idle connection can be used: asked, unless it was used a moment ago and no other has failed since.
    pub(crate) async fn still_serves(&self, connection: &mut PgConnection, idle_since: Instant) -> bool {
        let distrusted = *self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        let trusted = idle_since.elapsed() < TRUSTED && distrusted.is_none_or(|at| at < idle_since);
        trusted || matches!(tokio::time::timeout(EACH, self.ask(connection, self.replica)).await, Ok(Ok(())))
    }

    /// Makes every connection that is idle now be asked before it is used: another one has failed.
    pub(crate) fn distrust(&self) {
        *self.distrusted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// All hosts once, the one that served last first.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.each.len());
        (0..count).map(move |nth| (first + nth) % count)
    }

    async fn try_one(&self, nth: usize, any: bool, deadline: Instant) -> Result<PgConnection, Passed> {
        let until = deadline.min(Instant::now() + EACH);
        let tried = async {
            let connected = PgConnection::connect_with(&self.each[nth]).await.map_err(classify::connect);
            let mut connection = connected.map_err(|error| match error.again {
                true => Passed::Other(error),
                false => Passed::Unusable(error),
            })?;
            self.ask(&mut connection, any).await.map_err(Passed::Other)?;
            Ok(connection)
        };
        tokio::time::timeout_at(until.into(), tried).await.unwrap_or_else(|_| Err(Passed::Other(silent())))
    }

    /// Asks the server what it is. `any`: where it can not be chosen.
    async fn ask(&self, connection: &mut PgConnection, any: bool) -> Result<(), Classified> {
        // Simple queries, which work behind every pooler.
        let row = one(sqlx::raw_sql(PROBE).fetch_all(&mut *connection).await)?;
        let mut fields = Fields::of(&row);
        let (in_recovery, read_only) =
            boolean(fields.boolean()).and_then(|one| Ok((one, boolean(fields.boolean())?)))?;
        match (self.replica, any) {
            (true, false) if !in_recovery => return Err(other("it is no standby")),
            (false, false) if read_only => return Err(read_only_server()),
            _ => {}
        }
        let Some(ledger) = self.ledger.get() else { return Ok(()) };
        let ask = AssertSqlSafe(self.ask_for_the_ledger.clone());
        let row = one(sqlx::raw_sql(ask).fetch_all(connection).await)?;
        let found = Fields::of(&row).uuid::<LedgerId>().map_err(|bad| corrupt(&bad))?;
        if found == *ledger { Ok(()) } else { Err(another_ledger(*ledger, found)) }
    }

    fn none_of_them(&self, told: Classified) -> Classified {
        // What waiting does not mend is told although others came after it.
        let which = if told.again { "the last" } else { "one of them" };
        let (kind, what, source) = match told.error {
            LedgerError::NotWritten(failure) => (failure.kind, failure.detail, failure.source),
            other => (FailureKind::Unavailable, other.to_string(), None),
        };
        let wanted = if self.replica { "can be read" } else { "is a primary that takes writes" };
        let mut failure = Failure::new(kind, format!("none of {} hosts {wanted}; {which}: {what}", self.each.len()));
        failure.source = source;
        Classified { error: LedgerError::NotWritten(failure), again: told.again, keep: false }
    }
}

/// Why a host of several is not used.
enum Passed {
    /// What is wrong with what was asked for, and would be with the others.
    Unusable(Classified),
    /// What is wrong with this host.
    Other(Classified),
}

/// What the hosts have told: the last of them may only have been cut short by the deadline.
#[derive(Default)]
struct Told {
    /// The last of what waiting does not mend, or else the last of all.
    most: Option<Classified>,
    /// Whether waiting may mend something that this round has met.
    waits: bool,
}

impl Told {
    fn add(&mut self, error: Classified) {
        self.waits |= error.again;
        if !error.again || self.most.as_ref().is_none_or(|most| most.again) {
            self.most = Some(error);
        }
    }
}

fn one(rows: sqlx::Result<Vec<PgRow>>) -> Result<PgRow, Classified> {
    let rows = rows.map_err(classify::read)?;
    rows.into_iter().next().ok_or_else(|| other("it did not say what it is"))
}

fn boolean(field: Result<bool, Unreadable>) -> Result<bool, Classified> {
    field.map_err(|bad| corrupt(&bad))
}

fn corrupt(bad: &Unreadable) -> Classified {
    other(&format!("it did not say what it is: {bad:?}"))
}

fn other(detail: &str) -> Classified {
    not_used(FailureKind::Unavailable, detail.to_owned(), true)
}

fn silent() -> Classified {
    not_used(FailureKind::Unavailable, "it does not answer".to_owned(), true)
}

fn none_serves() -> Classified {
    not_used(FailureKind::Unavailable, "there is no host".to_owned(), false)
}

fn read_only_server() -> Classified {
    not_used(FailureKind::ReadOnly, "the server may only be read: a standby, or set so".to_owned(), true)
}

fn another_ledger(wanted: LedgerId, found: LedgerId) -> Classified {
    let detail = format!("the host has the ledger {found}, and {wanted} was opened: it is of another cluster");
    not_used(FailureKind::Other, detail, false)
}

/// Nothing of an operation was sent.
fn not_used(kind: FailureKind, detail: String, again: bool) -> Classified {
    Classified { error: LedgerError::NotWritten(Failure::new(kind, detail)), again, keep: false }
}
