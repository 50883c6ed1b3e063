//! The in-memory ledger against the model: every answer to operations at random is the model's.

#[path = "../../ledger-memory/tests/common/harness.rs"]
mod harness;

use conformance_tests::Harness;
use conformance_tests::random::{differentials, generate};
use harness::MemoryHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_answers_as_the_model() {
    let seeds = if MemoryHarness.full() { 100 } else { 5 };
    if let Err(difference) = differentials(&MemoryHarness, seeds, 3_000).await {
        panic!("{difference}");
    }
}

#[test]
fn same_seed_gives_the_same_operations() {
    assert_eq!(format!("{:?}", generate(7, 500)), format!("{:?}", generate(7, 500)));
    assert_ne!(format!("{:?}", generate(7, 500)), format!("{:?}", generate(8, 500)));
}
