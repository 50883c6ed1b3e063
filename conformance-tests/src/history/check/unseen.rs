//! Renewals that were granted and whose answers nobody got: who may have sent them, and what others saw of them.

use std::collections::HashMap;

use ledger_core::{AcquisitionId, Generation, Holder, Succession, Timestamp, Ttl};

use super::told::{expiry_told, generation_told, head_told};
use crate::history::invocation::Invocation;
use crate::history::record::Call;

/// Open renewals of one lease.
#[derive(Default)]
pub(super) struct OpenCalls {
    pub(super) left: usize,
    pub(super) least: Option<Ttl>,
    pub(super) most: Option<Ttl>,
    /// Where one asked for the lease's own TTL.
    pub(super) own: Option<()>,
}

pub(super) type OpenRenewals = HashMap<(Generation, AcquisitionId, Holder), OpenCalls>;

pub(super) fn open_renewals(calls: &[&Invocation]) -> OpenRenewals {
    let mut open: OpenRenewals = HashMap::new();
    for call in calls.iter().filter(|call| call.is_open()) {
        if let Call::Renew { lease, ttl } = &call.call {
            let of_lease = open.entry((lease.generation, lease.acquisition, lease.holder.clone())).or_default();
            of_lease.left += 1;
            match ttl {
                None => of_lease.own = Some(()),
                Some(ttl) => {
                    of_lease.least = Some(of_lease.least.map_or(*ttl, |least| least.min(*ttl)));
                    of_lease.most = Some(of_lease.most.map_or(*ttl, |most| most.max(*ttl)));
                }
            }
        }
    }
    open
}

/// The longest TTL that an open renewal of a lease may have asked for; `None` where there is no such call.
pub(super) fn longest(open: &OpenRenewals, claimed: &Succession) -> Option<Ttl> {
    let calls = open.get(&(claimed.generation, claimed.acquisition, claimed.holder.clone()))?;
    let own = calls.own.map(|()| claimed.ttl);
    calls.most.max(own)
}

/// By the count of renewals and the generation.
pub(super) type SeenExpiries = HashMap<(u64, Generation), Timestamp>;

/// The expiries that observers saw after renewals whose answers nobody got.
pub(super) fn expiries_seen(calls: &[&Invocation], known: &[Option<&Invocation>]) -> SeenExpiries {
    let mut seen = HashMap::new();
    if known.iter().all(Option::is_some) {
        return seen;
    }
    for call in calls {
        let (Some((head, judged)), Some((_, answer))) = (head_told(call), &call.answer) else { continue };
        let Some(number) = judged.revision.get().checked_sub(head.get().unsigned_abs()) else { continue };
        let before = number.checked_sub(1).and_then(|before| usize::try_from(before).ok());
        if before.and_then(|before| known.get(before)).is_some_and(Option::is_none)
            && let (Some(expires_at), Some(generation)) = (expiry_told(answer), generation_told(answer))
        {
            seen.entry((number, generation)).or_insert(expires_at);
        }
    }
    seen
}
