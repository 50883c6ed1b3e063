//! Goal: at whatever step of its life a worker dies, its successor sees what is in the ledger, knows what to do, and
//! nothing happens twice. docs/what-if.md has a line for each of these tests.
//!
//! Method: real processes on real stores. A worker stands still at the step that the test names, says so, and is killed
//! (SIGKILL) or stopped (SIGSTOP) there. Its successor claims, reads the handover, and finishes the work.

mod deaths;
mod place;
mod shadow;
mod stopped;
mod store_dead;
mod worker;

// The program's own: where the ledger is, and the bank.
#[path = "../../src/bank.rs"]
#[allow(dead_code, reason = "a test uses a part of it")]
mod bank;
#[path = "../../src/store.rs"]
#[allow(dead_code, reason = "a test uses a part of it")]
mod store;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The same tests on each store.
macro_rules! on_each_store {
    ($($name:ident => $run:expr;)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() -> super::Result<()> {
                $run(super::place::Place::on_sqlite().await?).await
            })*
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $name() -> super::Result<()> {
                $run(super::place::Place::on_postgres().await?).await
            })*
        }
    };
}

on_each_store! {
    killed_before_its_claim => crate::deaths::before_claim;
    killed_when_its_claim_was_granted_and_not_answered => crate::deaths::claim_answered;
    killed_between_claim_and_first_append => crate::deaths::claimed;
    killed_before_its_append_was_sent => crate::deaths::append_unsent;
    killed_when_its_append_was_committed_and_not_answered => crate::deaths::append_answered;
    killed_between_intent_and_sending => crate::deaths::intent_recorded;
    killed_when_its_request_was_sent_and_not_answered => crate::deaths::request_sent;
    killed_when_its_request_was_answered_and_not_settled => crate::deaths::answer_read;
    killed_when_its_settling_was_committed_and_not_answered => crate::deaths::settle_answered;
    killed_while_it_drains => crate::deaths::draining;
    killed_when_its_release_was_committed_and_not_answered => crate::deaths::release_answered;
    shadow_of_a_paused_writer_tells_what_would_have_been_refused => crate::shadow::paused_writer_is_told;
    stopped_past_its_lease_it_finds_its_trust_gone_and_asks_nothing => crate::stopped::finds_its_trust_gone;
}
