//! SQLite against the model of the suite: every answer to operations at random is the model's, restarts among them.

#[path = "common/harness.rs"]
mod harness;

use conformance_tests::Harness;
use conformance_tests::random::differential;
use harness::SqliteHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_as_the_model() {
    let seeds = if SqliteHarness.full() { 10 } else { 2 };
    for seed in 1..=seeds {
        if let Err(difference) = differential(&SqliteHarness, seed, 1_000).await {
            panic!("{difference}");
        }
    }
}
