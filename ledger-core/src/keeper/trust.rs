//! Until when a grant is trusted (K1).

use std::time::Duration;

use super::clock::Moment;
use super::terms::Terms;

/// How long a writer trusts its lease, as of one moment. A belief, for early stopping; the store judges each append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// The moment at which the trust ends by the keeper's clock, unless a renewal is granted before; at equality it
    /// has ended, as a lease has (T3).
    pub until: Moment,
    /// What is left of it; zero where the writer's time has ended, for whatever reason.
    pub left: Duration,
}

/// The moment until which a grant is trusted: counted from before the request was sent, since the store's time began
/// to run somewhere between then and the answer; less the margin; and never for more than was granted.
pub(super) fn trusted_until(terms: &Terms, sent: Moment, answered: Moment, granted: Duration) -> Moment {
    let from = if bug!(terms, TrustFromTheReply) { answered } else { sent };
    let granted = if bug!(terms, TrustByTheTtl) { terms.ttl.as_duration() } else { granted };
    let margin = if bug!(terms, NoMargin) { Duration::ZERO } else { terms.margin };
    from.after(granted.saturating_sub(margin))
}

/// Whether a trust has ended.
pub(super) fn has_ended(terms: &Terms, until: Moment, now: Moment) -> bool {
    if bug!(terms, ValidAtTheEnd) {
        return now > until;
    }
    now >= until
}
