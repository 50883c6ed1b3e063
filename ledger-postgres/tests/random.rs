//! PostgreSQL against the model of the suite: every answer to operations at random is the model's.

mod common;

use common::harness::{Door, Postgres};
use common::{Wanted, scale};
use conformance_tests::random::differential;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_model() {
    for wanted in Wanted::BOTH {
        for seed in 1..=scale(1, 4) {
            let harness = Postgres::shared(wanted, Door::Own);
            if let Err(difference) = differential(&harness, u64::try_from(seed).expect("a small number"), 600).await {
                panic!("{wanted}: {difference}");
            }
        }
    }
}
