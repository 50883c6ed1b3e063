//! PostgreSQL against the model of the suite: every answer to operations at random is the model's.

mod common;

use common::harness::{Door, Postgres};
use common::{Wanted, scale};
use conformance_tests::random::{differential, differentials};

/// Seeds that have shown a difference once: where the row says that it was changed last, after an expiry was stored.
const REGRESSIONS: [u64; 1] = [10_006];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_model() {
    for wanted in Wanted::BOTH {
        let harness = Postgres::shared(wanted, Door::Own);
        let seeds = u64::try_from(scale(1, 4)).expect("a small number");
        if let Err(difference) = differentials(&harness, seeds, 600).await {
            panic!("{wanted}: {difference}");
        }
        for seed in REGRESSIONS {
            if let Err(difference) = differential(&harness, seed, 600).await {
                panic!("{wanted}: {difference}");
            }
        }
    }
}
