//! The writer: one thread with one connection, which takes all that is queued into one transaction.
//!
//! ```text
//! queue -> BEGIN IMMEDIATE -> each member: read, clock, judge, write -> same file? -> COMMIT -> same file? -> answers
//! ```
//!
//! Judged first, and only what passes is written, so a group rarely fails. If it does before its COMMIT, it is rolled
//! back and its members are run one by one: each then has its own answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use ledger_core::{Failure, FailureKind, LedgerError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::classify::{self, Trouble};
use crate::evidence::FLUSH;
use crate::group::Group;
use crate::pace::Pace;
use crate::shared::Shared;
use crate::standings::Standings;
use crate::statement;
use crate::task::{Flush, Task};

/// A group has at most so many members. A cap of 64 would cost half of the throughput with 512 callers.
const MAX_GROUP: usize = 1_024;

/// A group ends after this many bytes.
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// A group ends after the lock was held for so long: others wait for it.
const MAX_HOLD: Duration = Duration::from_millis(20);

/// After so long a wait for the lock, the members are looked up without it (E4). Between the ledger's own writers the
/// lock is free sooner.
const LOOK_AFTER: Duration = Duration::from_millis(5);

/// How long counts of evidence wait for the lock, where no call does.
const FLUSH_WAIT: Duration = Duration::from_millis(100);

/// How long the last counts of evidence wait for the lock when the handle is closed.
const CLOSING_WAIT: Duration = Duration::from_secs(1);

/// How long the writer looks for the next call before it sleeps: after a call that was alone, where the last wait was a
/// short one. Who appends again and again sends within some 20 us of its answer, and to be woken takes as long again. Of
/// many callers the others would be left out of the group, so for them it sleeps at once.
const LOOK_OUT: Duration = Duration::from_micros(50);

/// What the writer is sent.
pub(crate) enum Job {
    /// A call.
    Task(Box<dyn Task>),
    /// There are counts to be written in a while.
    Wake,
    /// Finish what is queued, write the counts, close the connection, answer.
    Close(oneshot::Sender<()>),
}

pub(crate) struct Writer {
    connection: Connection,
    shared: Arc<Shared>,
    queue: Receiver<Job>,
    waiting: VecDeque<Box<dyn Task>>,
    /// Whether the last group was one call alone.
    was_alone: bool,
    /// Whether the last call that was waited for came soon.
    came_soon: bool,
    standings: Standings,
    flushed: Instant,
    is_flush_due: bool,
    /// Whether the last group wrote counts of evidence too.
    had_counts: bool,
    closing: Vec<oneshot::Sender<()>>,
    is_last: bool,
}

type Members = Vec<Box<dyn Task>>;

/// How a group went.
enum Outcome {
    Committed,
    /// It was rolled back, and nothing of it was written.
    RolledBack(LedgerError),
    /// What became of it is in the error, for every member.
    Failed(LedgerError),
}

impl Writer {
    pub(crate) fn new(connection: Connection, shared: Arc<Shared>, queue: Receiver<Job>) -> Self {
        Self {
            connection,
            shared,
            queue,
            waiting: VecDeque::new(),
            was_alone: false,
            came_soon: false,
            standings: Standings::default(),
            flushed: Instant::now(),
            is_flush_due: false,
            had_counts: false,
            closing: Vec::new(),
            is_last: false,
        }
    }

    /// Serves until the last handle is gone or one of them closes.
    pub(crate) fn run(mut self) {
        while !self.is_last || !self.waiting.is_empty() {
            if self.waiting.is_empty() {
                self.wait();
            }
            self.drain();
            self.serve(MAX_GROUP);
        }
        if self.shared.evidence.has_pending() {
            self.is_flush_due = true;
            self.waiting.push_back(Box::new(Flush { until: Instant::now() + CLOSING_WAIT }));
            self.serve(1);
        }
        drop(self.connection);
        self.queue.try_iter().for_each(refuse);
        for closing in self.closing {
            let _ = closing.send(());
        }
    }

    /// Waits for a call, or until counts are due.
    fn wait(&mut self) {
        let start = Instant::now();
        if !(self.was_alone && self.came_soon && self.look_out(start)) {
            self.sleep();
        }
        // Twice as long, because a sleep ends later than the call came.
        self.came_soon = start.elapsed() < 2 * LOOK_OUT;
    }

    /// Looks for a call without falling asleep; whether one came. Others may have the processor meanwhile.
    fn look_out(&mut self, start: Instant) -> bool {
        while start.elapsed() < LOOK_OUT {
            match self.queue.try_recv() {
                Ok(job) => {
                    self.take(job);
                    return true;
                }
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        false
    }

    fn sleep(&mut self) {
        if !self.shared.evidence.has_pending() {
            match self.queue.recv() {
                Ok(job) => self.take(job),
                Err(_) => self.is_last = true,
            }
            return;
        }
        let due = (self.flushed + FLUSH).saturating_duration_since(Instant::now());
        match self.queue.recv_timeout(due) {
            Ok(job) => self.take(job),
            Err(RecvTimeoutError::Timeout) => {
                // Where the lock can not be had now, the next try comes with the next interval.
                self.flushed = Instant::now();
                self.is_flush_due = true;
                self.waiting.push_back(Box::new(Flush { until: self.flushed + FLUSH_WAIT }));
            }
            Err(RecvTimeoutError::Disconnected) => self.is_last = true,
        }
    }

    fn drain(&mut self) {
        while self.waiting.len() < 4 * MAX_GROUP
            && let Ok(job) = self.queue.try_recv()
        {
            self.take(job);
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Task(task) => self.waiting.push_back(task),
            Job::Wake => {}
            Job::Close(answer) => {
                self.closing.push(answer);
                self.is_last = true;
            }
        }
    }

    /// Serves one group of what waits, of at most `max` members.
    fn serve(&mut self, max: usize) {
        self.waiting.retain(|task| !task.is_abandoned());
        if self.waiting.is_empty() || !self.lock() {
            return;
        }
        let mut members = self.next_members(max);
        self.was_alone = members.len() == 1;
        match self.run_group(&mut members) {
            Outcome::Committed => members.into_iter().for_each(|task| task.answer()),
            Outcome::Failed(error) => members.into_iter().for_each(|task| task.fail(&error)),
            Outcome::RolledBack(error) => self.run_again(members, &error),
        }
        self.standings.tidy();
    }

    /// What was rolled back is run member by member. A lone one has failed; but where counts were written beside it, it
    /// is run without them first, and a refusal stands without its record (E2).
    fn run_again(&mut self, mut members: Members, error: &LedgerError) {
        if let [_] = members[..]
            && let Some(mut task) = members.pop()
        {
            if std::mem::take(&mut self.had_counts) || task.forgo_record(error) {
                self.waiting.push_front(task);
                self.serve(1);
            } else {
                task.fail(error);
            }
            return;
        }
        let count = members.len();
        members.into_iter().rev().for_each(|task| self.waiting.push_front(task));
        for _ in 0..count {
            self.serve(1);
        }
    }

    fn next_members(&mut self, max: usize) -> Members {
        let (mut members, mut bytes) = (Vec::new(), 0);
        while members.len() < max
            && bytes < MAX_GROUP_BYTES
            && let Some(task) = self.waiting.pop_front()
        {
            // Its caller may have gone while the lock was waited for.
            if !task.is_abandoned() {
                bytes += task.bytes();
                members.push(task);
            }
        }
        members
    }

    /// Judges, writes and commits under the lock. Members that the hold's bound leaves out wait on.
    fn run_group(&mut self, members: &mut Members) -> Outcome {
        let start = Instant::now();
        let is_flush_due = self.is_flush_due || start.duration_since(self.flushed) >= FLUSH;
        self.had_counts = is_flush_due && self.shared.evidence.has_pending();
        let Self { connection, shared, standings, .. } = self;
        let mut group = Group::new(connection, shared, standings);
        let mut served = 0;
        let judged = judge(&mut group, members, start, &mut served)
            .and_then(|()| if is_flush_due { write_evidence(&mut group) } else { Ok(false) });
        let left_out = members.split_off(served);
        let outcome = match judged {
            Ok(has_counts) => match shared.watch.check() {
                Ok(()) => commit(group, has_counts),
                Err(replaced) => abandon(group, replaced),
            },
            Err(trouble) => abandon(group, trouble.before_commit()),
        };
        if !matches!(outcome, Outcome::Committed) {
            self.standings.forget();
        }
        if is_flush_due {
            self.flushed = Instant::now();
            self.is_flush_due = false;
        }
        for task in left_out.into_iter().rev() {
            self.waiting.push_front(task);
        }
        outcome
    }

    /// Takes the write lock; `false` where nobody waits for it any more.
    fn lock(&mut self) -> bool {
        let mut pace = Pace::new();
        loop {
            let begun = self.connection.prepare_cached(statement::BEGIN).and_then(|mut begin| begin.execute([]));
            let refreshed = match begun {
                Ok(_) => self.standings.refresh(&self.connection),
                Err(error) => Err(Trouble::Engine(error)),
            };
            match refreshed {
                Ok(()) => return true,
                Err(Trouble::Engine(error)) if classify::is_busy(&error) => {}
                Err(other) => {
                    rollback(&self.connection);
                    self.standings.forget();
                    let error = other.before_commit();
                    self.waiting.drain(..).for_each(|task| task.fail(&error));
                    return false;
                }
            }
            rollback(&self.connection);
            self.drain();
            if pace.waited() >= LOOK_AFTER {
                self.look();
            }
            self.give_up(pace.tries());
            if self.waiting.is_empty() {
                return false;
            }
            pace.pause();
        }
    }

    /// Refuses without the lock those whose tenure has visibly ended (E4).
    fn look(&mut self) {
        for mut task in std::mem::take(&mut self.waiting) {
            if task.look(&self.connection, &self.shared) {
                task.answer();
            } else {
                self.waiting.push_back(task);
            }
        }
    }

    fn give_up(&mut self, tries: u32) {
        let now = Instant::now();
        let busy_timeout = self.shared.busy_timeout;
        for task in std::mem::take(&mut self.waiting) {
            if task.is_abandoned() {
                continue;
            }
            if task.deadline(busy_timeout) <= now {
                task.give_up(&self.shared, tries);
            } else {
                self.waiting.push_back(task);
            }
        }
    }
}

fn judge(group: &mut Group<'_>, members: &mut Members, start: Instant, served: &mut usize) -> Result<(), Trouble> {
    for task in members.iter_mut() {
        if *served > 0 && start.elapsed() > MAX_HOLD {
            break;
        }
        *served += 1;
        task.judge(group)?;
    }
    Ok(())
}

/// Writes the counts of repeats and what is owed. Whether there were counts.
fn write_evidence(group: &mut Group<'_>) -> Result<bool, Trouble> {
    let evidence = &group.shared.evidence;
    if !evidence.has_pending() {
        return Ok(false);
    }
    group.record_owed()?;
    evidence.write_counts(group.connection)?;
    Ok(true)
}

fn commit(group: Group<'_>, has_counts: bool) -> Outcome {
    let (connection, shared) = (group.connection, group.shared);
    let committed = connection.prepare_cached(statement::COMMIT).and_then(|mut commit| commit.execute([]));
    if has_counts {
        shared.evidence.moved(committed.is_ok());
    }
    match committed {
        Ok(_) => match shared.watch.check() {
            Ok(()) => {
                group.committed();
                Outcome::Committed
            }
            // It may have gone into the file that was taken away.
            Err(_) => Outcome::Failed(LedgerError::Unknown(shared.watch.failure())),
        },
        Err(error) => {
            rollback(connection);
            group.rolled_back();
            match classify::at_commit(error) {
                unknown @ LedgerError::Unknown(_) => Outcome::Failed(unknown),
                proven => Outcome::RolledBack(proven),
            }
        }
    }
}

/// Rolls a group back that has not come to its COMMIT.
fn abandon(group: Group<'_>, error: LedgerError) -> Outcome {
    rollback(group.connection);
    group.shared.evidence.moved(false);
    group.rolled_back();
    Outcome::RolledBack(error)
}

/// After some errors, `FULL` among them, SQLite has rolled back by itself.
fn rollback(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("ROLLBACK") {
        tracing::warn!(%error, "a transaction could not be rolled back");
    }
}

/// Answers what came after the handle was closed.
fn refuse(job: Job) {
    match job {
        Job::Task(task) => task.fail(&closed()),
        Job::Wake => {}
        Job::Close(answer) => {
            let _ = answer.send(());
        }
    }
}

/// The answer to a call on a closed handle.
pub(crate) fn closed() -> LedgerError {
    LedgerError::NotWritten(Failure::new(FailureKind::Closed, "the handle was closed"))
}
