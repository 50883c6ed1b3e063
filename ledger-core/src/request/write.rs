//! What the holder writes: the request before it is sent, and each change of it.

use crate::{FencedLedger, Json, Lease, LedgerError, Reason};

use super::{Asked, Request, RequestError, RequestEvent, RequestKey, RequestStep, Sending, find, late};

/// How often a change looks again when another change of the same request came first. The holder's own tasks alone can
/// race here, and each round lets one of them through.
const ROUNDS: usize = 64;

pub(super) async fn request<L: FencedLedger + ?Sized>(
    ledger: &L,
    lease: &Lease,
    key: &RequestKey,
    what: &Json,
) -> Result<Asked, RequestError> {
    let made = RequestEvent { key: key.clone(), number: 0, step: RequestStep::Made { what: what.clone() } };
    match ledger.append(lease, &made.to_append().map_err(LedgerError::from)?).await {
        Ok(appended) if appended.replayed => Ok(Asked::Known(known(ledger, lease, key).await?)),
        Ok(appended) => Ok(Asked::Send(Sending::of(Request::made(key.clone(), what.clone(), appended.entry)))),
        Err(error) if is_reused(&error) => Err(RequestError::KeyReused(known(ledger, lease, key).await?)),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn send_again<L: FencedLedger + ?Sized>(
    ledger: &L,
    lease: &Lease,
    key: &RequestKey,
) -> Result<Asked, RequestError> {
    let (request, replayed) = change(ledger, lease, key, RequestStep::SentAgain).await?;
    // A replay is another task's sending, which has its own leave to send.
    Ok(if replayed { Asked::Known(Box::new(request)) } else { Asked::Send(Sending::of(request)) })
}

/// Writes a change, and gives the request after it and whether it had been written before.
///
/// The change has the number after the newest one, and its id with it: of two that race, one is written (A4). A request
/// that is settled has no next number. What comes then is sent under the settling's own id all the same: it is the
/// store that judges, so that a stale answer is refused as such and leaves its record (Q6).
pub(super) async fn change<L: FencedLedger + ?Sized>(
    ledger: &L,
    lease: &Lease,
    key: &RequestKey,
    step: RequestStep,
) -> Result<(Request, bool), RequestError> {
    let mut round = 0;
    loop {
        let mut request = *known(ledger, lease, key).await?;
        let number = request.number_for(&step);
        let event = RequestEvent { key: key.clone(), number, step: step.clone() };
        let mut append = event.to_append().map_err(LedgerError::from)?;
        if let Some(remark) = late::remark(key, &step) {
            append = append.remarking(remark);
        }
        round += 1;
        match ledger.append(lease, &append).await {
            Ok(appended) => {
                if number > request.changes {
                    request.apply(step, appended.entry);
                }
                return Ok((request, appended.replayed));
            }
            Err(error) if is_reused(&error) && !request.is_open() => {
                return Err(RequestError::Settled(Box::new(request)));
            }
            Err(error) if is_reused(&error) && round < ROUNDS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn known<L: FencedLedger + ?Sized>(
    ledger: &L,
    lease: &Lease,
    key: &RequestKey,
) -> Result<Box<Request>, RequestError> {
    let found = find::look_up(ledger, &lease.partition, key).await?;
    found.map(Box::new).ok_or_else(|| RequestError::NotMade { key: key.clone() })
}

fn is_reused(error: &LedgerError) -> bool {
    error.rejection().is_some_and(|rejection| rejection.reason == Reason::AppendIdReused)
}
