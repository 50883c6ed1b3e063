//! The whole suite: one test a case.

mod common;

use common::RedbHarness;

conformance_tests::conformance_tests!(RedbHarness, without: {
    snapshot: "redb has no copy that is put back under open handles",
    fail_write: "redb closes a database after an I/O error, until it is opened again",
});
