//! Tries (U4): whole operations that surely were not written, within a count and one budget of time.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ledger_core::{Failure, LedgerError, LedgerId, Result};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::call::{Call, Statements, Way};
use crate::classify::{self, Classified};
use crate::options::{Options, milliseconds};
use crate::pool::{Connections, Lent};

/// A renewal on a connection of the reserve waits at most so long for a lock, because the others wait for it.
const RESERVE_WAIT: Duration = Duration::from_millis(500);

/// What is sent over a connection, and how its answer is read.
pub(crate) trait Ask: Sync {
    type Answer: Send;

    fn writes(&self) -> bool;

    /// Sends it and reads the answer. `wait` bounds its waits for locks, where the session does not.
    fn send(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        way: Way,
        wait: Option<i32>,
    ) -> impl Future<Output = sqlx::Result<Self::Answer>> + Send;

    /// Whether the answer was read to its end, so that the connection can be used again.
    fn is_read_out(_: &Self::Answer) -> bool {
        true
    }

    /// Whether the server that answered has not come as far as what this is about. Another connection may lead to one
    /// that has.
    fn is_behind(&self, _: &Self::Answer) -> bool {
        false
    }
}

impl Ask for Call<'_> {
    type Answer = Vec<PgRow>;

    fn writes(&self) -> bool {
        self.function.writes.is_some()
    }

    async fn send(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        way: Way,
        wait: Option<i32>,
    ) -> sqlx::Result<Vec<PgRow>> {
        self.run(connection, statements, way, wait).await
    }
}

/// What runs a call until it is answered or the budget is used up.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) statements: Statements,
    connections: Connections,
    budget: Duration,
    tries: u32,
    lock_wait: Duration,
    simple: bool,
}

impl Runner {
    pub(crate) fn new(options: &Options, connections: Connections) -> Self {
        Self {
            statements: Statements::new(options.schema.clone()),
            connections,
            budget: options.budget,
            tries: options.tries,
            lock_wait: options.lock_wait,
            simple: options.transaction_pooler,
        }
    }

    /// When the budget of an operation that begins now is used up.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.budget
    }

    /// Runs a call. `renewal`: on a connection of the reserve where no other is free.
    pub(crate) async fn run<A: Ask>(&self, call: &A, renewal: bool) -> Result<A::Answer> {
        self.run_by(call, renewal, self.deadline()).await
    }

    /// Runs a call within what is left of a budget.
    pub(crate) async fn run_by<A: Ask>(&self, call: &A, renewal: bool, deadline: Instant) -> Result<A::Answer> {
        for tries in 1.. {
            let failed = match self.attempt(call, renewal, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let pause = pause(tries);
            if !failed.again || tries >= self.tries || Instant::now() + pause >= deadline {
                return Err(with_tries(failed.error, tries));
            }
            tracing::debug!(tries, error = %failed.error, "fenced_ledger.retry");
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop ends by its bounds")
    }

    /// A connection for something else than a call.
    pub(crate) async fn lend(&self) -> Result<Lent> {
        self.connections.lend(Instant::now() + self.budget).await.map_err(|failed| failed.error)
    }

    /// The ledger that was opened: every connection must have it from here on.
    pub(crate) fn is(&self, ledger: LedgerId) {
        self.connections.is(ledger);
    }

    /// Runs a group's call, once: where it surely wrote nothing, its members go alone.
    pub(crate) async fn run_group(&self, call: &Call<'_>) -> Result<Vec<PgRow>> {
        let deadline = self.deadline();
        let sent = async { self.send(call, self.connections.lend_for_group(deadline).await?, deadline).await };
        sent.await.map_err(|failed: Classified| failed.error)
    }

    async fn attempt<A: Ask>(&self, call: &A, renewal: bool, deadline: Instant) -> Result<A::Answer, Classified> {
        let lent = if renewal {
            self.connections.lend_for_renewal(deadline).await?
        } else {
            self.connections.lend(deadline).await?
        };
        self.send(call, lent, deadline).await
    }

    async fn send<A: Ask>(&self, call: &A, mut lent: Lent, deadline: Instant) -> Result<A::Answer, Classified> {
        let writes = call.writes();
        // Over a session that others use too a write commits by itself.
        let way = Way::new(self.simple, writes && (self.simple || lent.is_theirs()));
        // The library's own sessions have the bound set, but for the reserve's.
        let wait = if lent.is_reserve() {
            Some(milliseconds(RESERVE_WAIT.min(self.lock_wait)))
        } else {
            (self.simple || lent.is_theirs()).then(|| milliseconds(self.lock_wait))
        };
        let answer = call.send(lent.connection(), &self.statements, way, wait);
        // The library never cancels at the server: a call whose time has run out keeps its connection, which is closed.
        let failed = match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(Ok(answer)) if call.is_behind(&answer) => classify::behind(),
            Ok(Ok(answer)) => {
                if A::is_read_out(&answer) {
                    lent.give_back();
                }
                return Ok(answer);
            }
            Ok(Err(error)) if writes => classify::write(error),
            Ok(Err(error)) => classify::read(error),
            Err(_) => classify::timed_out(writes),
        };
        if failed.keep {
            lent.give_back();
        } else {
            self.connections.distrust();
        }
        Err(failed)
    }
}

/// Random, so that those who collided do not collide again: up to 10 ms at first, doubled each time, up to 320 ms.
fn pause(tries: u32) -> Duration {
    let bound = 10_000_u64 << tries.min(6).saturating_sub(1);
    // Each RandomState has other keys, seeded by the operating system.
    Duration::from_micros(RandomState::new().hash_one(tries) % bound)
}

fn with_tries(error: LedgerError, tries: u32) -> LedgerError {
    match error {
        LedgerError::NotWritten(failure) => LedgerError::NotWritten(counted(failure, tries)),
        LedgerError::Unknown(failure) => LedgerError::Unknown(counted(failure, tries)),
        other => other,
    }
}

fn counted(failure: Failure, tries: u32) -> Failure {
    failure.with_tries(tries)
}
