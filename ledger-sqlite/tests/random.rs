//! SQLite against the model of the suite: every answer to operations at random is the model's, restarts among them.

#[path = "common/harness.rs"]
mod harness;

use conformance_tests::Harness;
use conformance_tests::random::differentials;
use harness::SqliteHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_as_the_model() {
    let seeds = if SqliteHarness.full() { 10 } else { 2 };
    if let Err(difference) = differentials(&SqliteHarness, seeds, 1_000).await {
        panic!("{difference}");
    }
}
