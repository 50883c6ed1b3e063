//! From trying to enforcing: a takeover like every other (W7).

use super::mark::is_shadow;
use crate::keeper::{ClaimError, Driver, Keeper, Wait, Writer};
use crate::{Ended, FencedLedger, LedgerError, Note, PartitionId, Reason, Result};

/// How often shadows may come between before [`enforce`] gives up. Each has to be refused an append first.
const ROUNDS: usize = 64;

/// Claims a partition for a holder that enforces. A shadow's tenure does not stand in its way: it is ended as an
/// operator's step, for `reason`, and the `$claimed` of the new tenure names both. A tenure of another holder that
/// enforces is waited for, as [`Keeper::claim`] does.
///
/// Where the store gives the right to end tenures to operators alone (PostgreSQL: the grants for them), and this
/// connection has it not, let [`make_way`] be called by who has, or let the shadow be released.
///
/// Not cancel safe in the respect of [`Keeper::claim`].
///
/// # Errors
///
/// Those of [`make_way`] and of [`Keeper::claim`].
pub async fn enforce(keeper: &Keeper, reason: &Note, wait: Wait) -> Result<(Writer, Driver), ClaimError> {
    for _ in 0..ROUNDS {
        make_way(keeper.ledger(), keeper.partition(), reason).await?;
        match keeper.claim(Wait::No).await {
            Err(ClaimError::Ledger(LedgerError::Rejected(rejection)))
                if matches!(rejection.reason, Reason::Held | Reason::ObservationOutdated)
                    && rejection.current.as_ref().is_some_and(|current| is_shadow(&current.holder)) => {}
            Err(ClaimError::Ledger(LedgerError::Rejected(rejection))) if rejection.reason == Reason::Held => break,
            answer => return answer,
        }
    }
    keeper.claim(wait).await
}

/// Ends the tenure of the shadow that holds a partition, as an operator's step for `reason`; `None` where none does. The
/// tenure of a holder that enforces is left alone.
///
/// Cancel safe as [`FencedLedger::end_tenure`].
///
/// # Errors
///
/// The store's; a shadow that claims at the same moment is ended too.
pub async fn make_way(ledger: &dyn FencedLedger, partition: &PartitionId, reason: &Note) -> Result<Option<Ended>> {
    let mut round = 0;
    loop {
        let state = ledger.observe(partition).await?;
        if state.is_free() || !state.tenure.as_ref().is_some_and(|tenure| is_shadow(&tenure.lease.holder)) {
            return Ok(None);
        }
        round += 1;
        match ledger.end_tenure(partition, state.observation(), reason).await {
            Ok(ended) => return Ok(Some(ended)),
            Err(LedgerError::Rejected(rejection))
                if rejection.reason == Reason::ObservationOutdated && round < ROUNDS => {}
            Err(error) => return Err(error),
        }
    }
}
