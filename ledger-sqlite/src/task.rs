//! A call on its way through the writer: waiting, judged, answered.

use std::time::{Duration, Instant};

use ledger_core::{
    Failure, FailureKind, Generation, LedgerError, PartitionId, RecordState, Refused, Rejection, Result, Timestamp,
};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::classify::Trouble;
use crate::group::{Group, look};
use crate::reader::{about, snapshot};
use crate::shared::Shared;
use crate::work::Work;

/// How long the first record of a refusal waits for the write lock, where the refusal itself needs none (E2, E4). It is
/// far longer than other writers of the ledger hold it, and far shorter than a stalled one may.
const RECORD_WAIT: Duration = Duration::from_millis(250);

/// A call in the writer's hands. Each is answered exactly once, by `answer`, `fail` or `give_up`.
pub(crate) trait Task: Send {
    /// The bytes that it would write.
    fn bytes(&self) -> usize;
    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool;
    /// Until when it waits for the lock.
    fn deadline(&self, busy_timeout: Duration) -> Instant;
    /// Looks without the lock whether it is to be refused; whether its answer is then complete (E4).
    fn look(&mut self, connection: &Connection, shared: &Shared) -> bool;
    /// Judges and writes; keeps the answer until the group is committed.
    fn judge(&mut self, group: &mut Group<'_>) -> Result<(), Trouble>;
    /// Whether what was judged is a refusal whose record is all that could not be written.
    fn forgo_record(&mut self, cause: &LedgerError) -> bool;
    /// Gives the answer that was kept.
    fn answer(self: Box<Self>);
    /// Answers that it went wrong.
    fn fail(self: Box<Self>, error: &LedgerError);
    /// Answers that the lock was not to be had.
    fn give_up(self: Box<Self>, shared: &Shared, tries: u32);
}

/// A judged call.
pub(crate) struct Judged<W: Work> {
    work: W,
    since: Instant,
    reply: oneshot::Sender<Result<W::Answer>>,
    kept: Option<Result<W::Answer, Box<Rejection>>>,
    /// A refusal that was found without the lock, whose record is to be written until the moment given.
    seen: Option<(Box<Rejection>, Instant)>,
    was_looked_up: bool,
    /// Why the record of a refusal is not written.
    forgone: Option<String>,
}

impl<W: Work> Judged<W> {
    pub(crate) fn new(work: W, reply: oneshot::Sender<Result<W::Answer>>) -> Self {
        Self { work, since: Instant::now(), reply, kept: None, seen: None, was_looked_up: false, forgone: None }
    }

    /// A call that a reader has refused, and whose record is to be written.
    pub(crate) fn refused(work: W, rejection: Box<Rejection>, reply: oneshot::Sender<Result<W::Answer>>) -> Self {
        let mut task = Self::new(work, reply);
        task.seen = Some((rejection, Instant::now() + RECORD_WAIT));
        task
    }

    fn send(self, answer: Result<W::Answer>) {
        // A caller that is gone needs no answer.
        let _ = self.reply.send(answer);
    }
}

impl<W: Work> Task for Judged<W> {
    fn bytes(&self) -> usize {
        self.work.bytes()
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn deadline(&self, busy_timeout: Duration) -> Instant {
        self.seen.as_ref().map_or(self.since + busy_timeout, |(_, until)| *until)
    }

    fn look(&mut self, connection: &Connection, shared: &Shared) -> bool {
        if std::mem::replace(&mut self.was_looked_up, true) || self.seen.is_some() {
            return false;
        }
        // What the look can not read is left to the judgement under the lock.
        let looked = snapshot(connection, |connection| look(connection, shared, &self.work));
        let Ok(Some(rejection)) = looked else { return false };
        if let Some(refused) = Refused::of(&rejection)
            && let Some(place) = shared.evidence.place(&rejection, &refused)
        {
            shared.evidence.count(place, &rejection);
            self.kept = Some(Err(Box::new(rejection.with_record(RecordState::Counted))));
            return true;
        }
        self.seen = Some((rejection, Instant::now() + RECORD_WAIT));
        false
    }

    fn judge(&mut self, group: &mut Group<'_>) -> Result<(), Trouble> {
        let judged = match &self.seen {
            Some((rejection, _)) => Err(rejection.clone()),
            None => group.judge(&self.work)?,
        };
        self.kept = Some(match judged {
            Ok(answer) => Ok(answer),
            Err(rejection) => {
                let state = match &self.forgone {
                    Some(cause) if rejection.is_evidence() => RecordState::Missing { cause: cause.clone() },
                    _ => {
                        self.kept = Some(Err(rejection.clone()));
                        group.record(&rejection)?
                    }
                };
                Err(Box::new(rejection.with_record(state)))
            }
        });
        Ok(())
    }

    fn forgo_record(&mut self, cause: &LedgerError) -> bool {
        let is_refused = matches!(&self.kept, Some(Err(rejection)) if rejection.is_evidence());
        if self.forgone.is_some() || !is_refused {
            return false;
        }
        self.forgone = Some(cause.to_string());
        true
    }

    fn answer(mut self: Box<Self>) {
        let Some(answer) = self.kept.take() else {
            return self.send(Err(never_judged()));
        };
        self.send(answer.map_err(LedgerError::Rejected));
    }

    fn fail(self: Box<Self>, error: &LedgerError) {
        let error = about(self.work.partition())(error.clone());
        self.send(Err(error));
    }

    fn give_up(mut self: Box<Self>, shared: &Shared, tries: u32) {
        match self.seen.take() {
            Some((rejection, _)) => {
                let cause = format!("the database stayed locked by another (tries=`{tries}`)");
                shared.evidence.owe((*rejection).clone(), 1);
                let rejection = rejection.with_record(RecordState::Missing { cause });
                self.send(Err(rejection.into()));
            }
            None => self.send(Err(busy(tries))),
        }
    }
}

/// The record of a refusal whose transaction was rolled back.
pub(crate) struct Record {
    pub(crate) rejection: Rejection,
    pub(crate) since: Instant,
    pub(crate) reply: oneshot::Sender<Result<RecordState>>,
    pub(crate) kept: Option<RecordState>,
}

impl Task for Record {
    fn bytes(&self) -> usize {
        0
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn deadline(&self, busy_timeout: Duration) -> Instant {
        self.since + busy_timeout
    }

    fn look(&mut self, _: &Connection, _: &Shared) -> bool {
        false
    }

    fn judge(&mut self, group: &mut Group<'_>) -> Result<(), Trouble> {
        self.kept = Some(group.record(&self.rejection)?);
        Ok(())
    }

    fn forgo_record(&mut self, _: &LedgerError) -> bool {
        false
    }

    fn answer(self: Box<Self>) {
        let _ = self.reply.send(self.kept.ok_or_else(never_judged));
    }

    fn fail(self: Box<Self>, error: &LedgerError) {
        let _ = self.reply.send(Err(error.clone()));
    }

    fn give_up(self: Box<Self>, _: &Shared, tries: u32) {
        let _ = self.reply.send(Err(busy(tries)));
    }
}

/// An expiry that was seen inside a caller's transaction, to be stored whatever becomes of that (T2).
pub(crate) struct ObserveExpiry {
    pub(crate) partition: PartitionId,
    pub(crate) generation: Generation,
    pub(crate) at: Timestamp,
    pub(crate) since: Instant,
}

impl Task for ObserveExpiry {
    fn bytes(&self) -> usize {
        0
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn deadline(&self, busy_timeout: Duration) -> Instant {
        self.since + busy_timeout
    }

    fn look(&mut self, _: &Connection, _: &Shared) -> bool {
        false
    }

    fn judge(&mut self, group: &mut Group<'_>) -> Result<(), Trouble> {
        group.observe_expiry(&self.partition, self.generation, self.at)
    }

    fn forgo_record(&mut self, _: &LedgerError) -> bool {
        false
    }

    fn answer(self: Box<Self>) {}

    fn fail(self: Box<Self>, error: &LedgerError) {
        tracing::warn!(partition = %self.partition, %error, "an expiry that was seen could not be stored");
    }

    fn give_up(self: Box<Self>, _: &Shared, tries: u32) {
        tracing::warn!(partition = %self.partition, tries, "an expiry that was seen could not be stored: the database stayed locked");
    }
}

/// Counts of repeats that are due. They are written at the end of every group that is due; this makes one, where no
/// other call does.
pub(crate) struct Flush {
    pub(crate) until: Instant,
}

impl Task for Flush {
    fn bytes(&self) -> usize {
        0
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn deadline(&self, _: Duration) -> Instant {
        self.until
    }

    fn look(&mut self, _: &Connection, _: &Shared) -> bool {
        false
    }

    fn judge(&mut self, _: &mut Group<'_>) -> Result<(), Trouble> {
        Ok(())
    }

    fn forgo_record(&mut self, _: &LedgerError) -> bool {
        false
    }

    fn answer(self: Box<Self>) {}

    fn fail(self: Box<Self>, _: &LedgerError) {}

    fn give_up(self: Box<Self>, _: &Shared, _: u32) {}
}

fn busy(tries: u32) -> LedgerError {
    let detail = "the database stayed locked by another for as long as the call may wait";
    LedgerError::NotWritten(Failure::new(FailureKind::Busy, detail).with_tries(tries))
}

fn never_judged() -> LedgerError {
    let detail = "the writer answered a call that it had not judged: a bug of ledger-sqlite";
    LedgerError::Unknown(Failure::new(FailureKind::Other, detail))
}
