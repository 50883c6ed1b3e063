//! Goal: a mistake in how the file's lock is taken is found by the suite. Method: the sources of this crate are compiled a
//! second time, with one statement replaced, and a named case must fail on that ledger, with words that its message must
//! contain; a family that has nothing to do with it stays green, and the ledger as it is shipped passes both.
//!
//! What is shipped has no switch for this. The judgement itself is the core's: what is wrong in it is shown on a reference,
//! in `conformance-tests/tests/broken`. (As this is a test, the unit tests of the sources come along.)

#![allow(
    dead_code,
    rustdoc::private_intra_doc_links,
    unreachable_pub,
    unused_imports,
    reason = "sources of the crate, of which a part is used here; their own build looks at that"
)]

#[path = "../src/caller.rs"]
mod caller;
#[path = "../src/classify.rs"]
mod classify;
#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/evidence.rs"]
mod evidence;
#[path = "../src/file.rs"]
mod file;
#[path = "../src/group.rs"]
mod group;
#[path = "../src/ledger.rs"]
mod ledger;
#[path = "../src/open.rs"]
mod open;
#[path = "../src/open_error.rs"]
mod open_error;
#[path = "../src/options.rs"]
mod options;
#[path = "../src/pace.rs"]
mod pace;
#[path = "../src/page.rs"]
mod page;
#[path = "../src/reader.rs"]
mod reader;
#[path = "../src/records.rs"]
mod records;
#[path = "../src/row.rs"]
mod row;
#[path = "../src/schema.rs"]
mod schema;
#[path = "../src/shared.rs"]
mod shared;
#[path = "../src/statement.rs"]
mod shipped;
#[path = "../src/store.rs"]
mod store;
#[path = "../src/task.rs"]
mod task;
#[path = "../src/work.rs"]
mod work;
#[path = "../src/writer.rs"]
mod writer;

/// The statements as they are shipped, but for one: the transaction reads before it has the lock.
mod statement {
    pub(crate) use crate::shipped::*;

    pub(crate) const BEGIN: &str = "BEGIN DEFERRED";
}

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use conformance_tests::{ClockControl, Harness, HarnessError, Outcome, Storage, Suite};
use ledger_core::{FencedLedger, ManualClock};

// The sources name them as their own crate's.
pub use ledger::SqliteLedger;
pub use open_error::OpenError;
pub use options::SqliteOptions;

type Open = fn(&Path, &ManualClock) -> Result<Arc<dyn FencedLedger>, HarnessError>;

/// Files, opened as the shipped ledger does it or as the broken one does.
struct Files(Open);

struct File {
    folder: tempfile::TempDir,
    clock: ManualClock,
    open: Open,
}

#[async_trait]
impl Harness for Files {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        Ok(Box::new(File { folder: tempfile::tempdir()?, clock: ManualClock::default(), open: self.0 }))
    }
}

#[async_trait]
impl Storage for File {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        (self.open)(&self.folder.path().join("ledger.db"), &self.clock)
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(&self.clock)
    }
}

fn as_shipped(file: &Path, clock: &ManualClock) -> Result<Arc<dyn FencedLedger>, HarnessError> {
    Ok(Arc::new(ledger_sqlite::SqliteLedger::options().clock(clock.clone()).open(file)?))
}

fn deferred(file: &Path, clock: &ManualClock) -> Result<Arc<dyn FencedLedger>, HarnessError> {
    Ok(Arc::new(SqliteLedger::options().clock(clock.clone()).open(file)?))
}

/// The cases that must fail, and what their violations say.
const CASES: [(&str, &str); 3] = [
    ("app04_tasks_without_expectation_all_land", "the call succeeds"),
    ("idm08_eight_tasks_with_one_id", "the call succeeds"),
    ("tko07_two_handles_race_for_every_generation", "is refused as ObservationOutdated"),
];

/// Has nothing to do with it.
const GREEN: &str = "payload";

/// It takes two handles that meet, which is left to the schedule: of so many runs, one must show it.
const RUNS: usize = 3;

async fn run(open: Open) -> conformance_tests::Report {
    let asked = |known: &conformance_tests::Case| known.family == GREEN || CASES.iter().any(|(id, _)| known.id == *id);
    Suite::new().full(false).only(asked).run(&Files(open)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_transaction_is_found_by_its_cases() {
    let mut missing: Vec<&str> = CASES.iter().map(|(id, _)| *id).collect();
    for _ in 0..RUNS {
        for result in run(deferred).await.cases {
            match &result.outcome {
                Outcome::Failed { violation } => {
                    let says = CASES.iter().find(|(id, _)| *id == result.id).map(|(_, says)| *says);
                    assert!(
                        says.is_some_and(|says| violation.to_string().contains(says)),
                        "{}: {violation}",
                        result.id
                    );
                    missing.retain(|id| *id != result.id);
                }
                Outcome::Passed => {}
                other => panic!("{}: {other:?}", result.id),
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("not found by {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_cases_pass_as_it_is_shipped() {
    let report = run(as_shipped).await;
    assert_eq!(report.counts().1, 0, "{report}");
}
