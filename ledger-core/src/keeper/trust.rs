//! Until when a grant is trusted (K1).

use std::time::Duration;

use super::clock::Moment;

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
