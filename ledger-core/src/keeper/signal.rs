//! The signal that a writer's time has ended.

use std::sync::Arc;

use super::changes::State;
use super::end::End;
use super::tenure::Tenure;
use super::trust::Trust;

/// Tells when a writer's time has ended, and why: for work that should stop then. Cheap to clone, and no writer: it
/// keeps no lease alive.
#[derive(Clone, Debug)]
pub struct Signal(pub(super) Arc<Tenure>);

impl Signal {
    /// Whether the time has ended. Reads the clock, so that it is true right after a suspension (K6).
    pub fn is_ended(&self) -> bool {
        self.end().is_some()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<Arc<End>> {
        match self.0.state() {
            State::Ended(end) => Some(end),
            State::Held | State::Draining => None,
        }
    }

    /// Ends when the time has ended, and says how. It has a timer of its own, so it fires also where the driver is
    /// not polled.
    ///
    /// Cancel safe: it changes nothing.
    pub fn ended(&self) -> impl Future<Output = Arc<End>> + Send + use<> {
        let tenure = self.0.clone();
        async move { tenure.ended().await }
    }

    /// How long the lease is trusted.
    pub fn trust(&self) -> Trust {
        self.0.trust()
    }
}
