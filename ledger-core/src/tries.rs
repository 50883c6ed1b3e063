//! What a claim that waits knows over its tries (C4, K9).

use crate::{AcquisitionId, Failure, LedgerError, Reason, Result};

/// The tries of one claim that waits: one acquisition over all of them, so that a grant whose answer was lost is asked for
/// again rather than a second tenure begun.
pub(crate) struct Tries {
    acquisition: AcquisitionId,
    /// The last try that may have been granted. Once there was one, no later error may claim that nothing was written.
    lost_answer: Option<Failure>,
}

impl Tries {
    pub(crate) fn new() -> Self {
        Self { acquisition: AcquisitionId::mint(), lost_answer: None }
    }

    /// The acquisition of the next try.
    pub(crate) fn acquisition(&self) -> AcquisitionId {
        self.acquisition
    }

    /// Takes in how a try failed.
    ///
    /// # Errors
    ///
    /// How the claim ends, where it was the last try or no other would mend it.
    pub(crate) fn failed(&mut self, error: LedgerError, is_last: bool) -> Result<()> {
        let goes_on = match &error {
            LedgerError::Unknown(failure) => {
                self.lost_answer = Some(failure.clone());
                true
            }
            LedgerError::NotWritten(_) => true,
            LedgerError::Rejected(rejection) => match rejection.reason {
                Reason::Held | Reason::ObservationOutdated => true,
                // An earlier try was granted, and its tenure has ended before the answer could be had.
                Reason::AcquisitionSpent | Reason::Expired | Reason::Released if self.lost_answer.is_some() => {
                    self.acquisition = AcquisitionId::mint();
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if goes_on && !is_last { Ok(()) } else { Err(self.end(error)) }
    }

    /// What the last error proves of all tries (U1).
    fn end(&self, error: LedgerError) -> LedgerError {
        match &self.lost_answer {
            Some(lost) if error.proves_not_written() => {
                let mut lost = lost.clone();
                lost.detail = format!("{}; the last try: {error}", lost.detail);
                LedgerError::Unknown(lost)
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_executor::block_on;
    use futures_util::future::join;

    use super::Tries;
    use crate::keeper::ManualLocalClock;
    use crate::keeper::tests::ledger::{Fault, ScriptedLedger};
    use crate::{
        Claim, Failure, FailureKind, FencedLedger, FencedLedgerExt, Holder, LedgerError, ManualClock, Observation,
        PartitionId, Ttl,
    };

    struct World {
        ledger: ScriptedLedger,
        clock: ManualClock,
        jobs: PartitionId,
        ttl: Ttl,
    }

    impl World {
        fn new() -> Self {
            let (clock, jobs) = (ManualClock::default(), PartitionId::new("jobs").expect("a name"));
            let ledger = ScriptedLedger::new(clock.clone(), ManualLocalClock::default());
            Self { ledger, clock, jobs, ttl: Ttl::default() }
        }

        /// Lets the lease of a claim that was granted now run out.
        fn expire(&self) {
            self.clock.advance(self.ttl.as_duration());
        }

        /// What a first claim is told that is sent again when its lease has run out: `Expired`.
        fn spent(&self) -> LedgerError {
            let claim = self.claim("a");
            block_on(self.ledger.claim(&claim)).expect("nobody holds it");
            self.expire();
            block_on(self.ledger.claim(&claim)).expect_err("it has run out")
        }

        /// What a claim is told while another holds the partition: `ObservationOutdated`.
        fn outdated(&self) -> LedgerError {
            block_on(self.ledger.claim(&self.claim("a"))).expect("nobody holds it");
            block_on(self.ledger.claim(&self.claim("b"))).expect_err("it is held")
        }

        fn claim(&self, name: &str) -> Claim {
            let holder = Holder::new(name).expect("a name");
            Claim::new(self.jobs.clone(), holder, self.ttl, Observation::NeverClaimed)
        }
    }

    fn lost() -> LedgerError {
        LedgerError::Unknown(Failure::new(FailureKind::Unavailable, "no answer"))
    }

    #[test]
    fn lost_grant_that_has_run_out_is_followed_by_another() {
        let world = World::new();
        world.ledger.fault("claim", &world.jobs, Fault::ReplyLost);
        let (holder, budget) = (Holder::new("a").expect("a name"), Duration::from_secs(60));
        let claiming = world.ledger.claim_when_free(&world.jobs, &holder, world.ttl, budget);
        // The store answers at once: the first try is over when the second future is polled.
        let (claimed, ()) = block_on(join(claiming, async { world.expire() }));
        assert_eq!(claimed.expect("the partition is free").lease.generation.get(), 2);
        assert_eq!(world.ledger.log(&world.jobs).len(), 2, "two tenures");
    }

    #[test]
    fn one_acquisition_is_kept_until_it_is_known_to_be_spent() {
        let mut tries = Tries::new();
        let first = tries.acquisition();
        tries.failed(lost(), false).expect("it is asked for again");
        tries.failed(World::new().outdated(), false).expect("somebody else was granted");
        assert_eq!(tries.acquisition(), first);
        tries.failed(World::new().spent(), false).expect("claimed anew");
        assert_ne!(tries.acquisition(), first);
        assert!(Tries::new().failed(World::new().spent(), false).is_err(), "nothing of it was ever granted");
    }

    #[test]
    fn after_a_lost_answer_no_error_proves_that_nothing_was_written() {
        let damaged = || LedgerError::corrupt(None, None, "damaged");
        for (error, is_last) in [(World::new().outdated(), true), (World::new().spent(), true), (damaged(), false)] {
            let mut tries = Tries::new();
            tries.failed(lost(), false).expect("it is asked for again");
            let said = format!("outcome unknown: no answer; the last try: {error}");
            let told = tries.failed(error, is_last).expect_err("it ends");
            assert!(!told.proves_not_written());
            assert_eq!(told.to_string(), said);
        }
        let told = Tries::new().failed(lost(), true).expect_err("it was the last try");
        assert_eq!(told.to_string(), "outcome unknown: no answer");
    }

    #[test]
    fn without_one_the_last_error_is_told_as_it_is() {
        let told = Tries::new().failed(World::new().outdated(), true).expect_err("it was the last try");
        assert!(told.rejection().is_some(), "{told}");
        let damaged = LedgerError::corrupt(None, None, "damaged");
        let told = Tries::new().failed(damaged, false).expect_err("waiting does not mend it");
        assert!(matches!(told, LedgerError::Corrupt { .. }), "{told}");
    }
}
