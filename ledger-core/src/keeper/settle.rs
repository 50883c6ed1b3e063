//! Settling an append whose answer stays out (K8).

use std::sync::Arc;
use std::time::Duration;

use super::changes::State;
use super::clock::within;
use super::end::WriteError;
use super::rules::{is_fencing, may_be_written};
use super::tenure::{Permit, Tenure, no_answer};
use crate::{Append, Appended, Entry, Fate, LedgerError, Result};

/// How an append ended that the writer was asked to settle.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "closed: K8 lists the answers")]
pub enum Settled {
    /// The store answered the append itself: it is in the log, once. [`replayed`](Appended::replayed) says whether an
    /// earlier try had brought it there.
    Appended {
        /// The answer.
        appended: Appended,
        /// How often it was sent.
        tries: u32,
    },
    /// It is in the log: told by [`fate`](crate::FencedLedger::fate), or by the refusal of a later try. The writer's
    /// time has ended.
    Landed {
        /// Where it stands.
        entry: Arc<Entry>,
        /// How often it was sent.
        tries: u32,
    },
    /// It is not in the log and can never come there under this generation: the tenure has visibly ended (U2).
    Never {
        /// How often it was sent.
        tries: u32,
    },
    /// The budget is used up and nobody knows yet, or the store went back in time and may have the append: then
    /// [`last`](Self::Undecided::last) tells so, and nothing is final before an operator has looked. Ask [`fate`](crate::FencedLedger::fate) later, or claim: then it
    /// is final. Never send the events under another id before that.
    Undecided {
        /// The last try that may have been written.
        last: LedgerError,
        /// How often it was sent.
        tries: u32,
    },
}

pub(super) async fn settle(
    tenure: &Arc<Tenure>,
    permit: Permit,
    append: &Append,
    budget: Duration,
) -> Result<Settled, WriteError> {
    let ground = &tenure.ground;
    let deadline = ground.clock.now().after(budget);
    let mut tries = 0;
    // The last try that may have been written; once there was one, no later refusal proves that it was not.
    let mut unknown: Option<LedgerError> = None;
    loop {
        let mut last = None;
        if permit.may_send() {
            tries += 1;
            let until = ground.clock.now().after(ground.terms.try_for).min(deadline);
            match within(&*ground.clock, until, permit.send(append)).await {
                Some(Ok(appended)) => return Ok(Settled::Appended { appended, tries }),
                Some(Err(error @ LedgerError::Unknown(_))) => unknown = Some(error),
                Some(Err(LedgerError::Rejected(refused))) if is_fencing(refused.reason) => match &refused.earlier {
                    Some(entry) => return Ok(Settled::Landed { entry: entry.clone(), tries }),
                    // Whether an earlier try can still land is not the refusal's to say (J3).
                    None if unknown.is_some() => {}
                    None => return Err(WriteError::Ledger(LedgerError::Rejected(refused))),
                },
                // A conflict and a used id stay: positions only rise and ids are kept, so no earlier try can land
                // after this, and had one landed, the answer would be its replay (J1).
                Some(Err(error @ (LedgerError::Rejected(_) | LedgerError::Invalid(_)))) => {
                    return Err(WriteError::Ledger(error));
                }
                // Nothing that is asked of this store proves anything any more.
                Some(Err(error @ LedgerError::RolledBack(_))) => {
                    let last = if may_be_written(&error) { Some(error.clone()) } else { unknown };
                    return match last {
                        Some(last) => Ok(Settled::Undecided { last, tries }),
                        None => Err(WriteError::Ledger(error)),
                    };
                }
                Some(Err(error)) => last = Some(error),
                None => unknown = Some(no_answer("an append was not answered in its time")),
            }
        } else if unknown.is_none() {
            let State::Ended(end) = tenure.state() else { continue };
            return Err(WriteError::Ended(end));
        }
        if !permit.may_send() && unknown.is_some() {
            let lease = tenure.lease();
            let asked = ground.ledger.fate(&lease.partition, append.id(), lease.generation);
            match within(&*ground.clock, deadline, asked).await {
                Some(Ok(Fate::Recorded(entry))) => return Ok(Settled::Landed { entry, tries }),
                Some(Ok(Fate::Never)) => return Ok(Settled::Never { tries }),
                Some(Ok(Fate::Undecided) | Err(_)) | None => {}
            }
        }
        let now = ground.clock.now();
        if now >= deadline {
            if let Some(last) = unknown {
                return Ok(Settled::Undecided { last, tries });
            }
            if let Some(error) = last {
                return Err(WriteError::Ledger(error));
            }
        }
        ground.clock.sleep_until(now.after(ground.terms.pause()).min(deadline)).await;
    }
}
