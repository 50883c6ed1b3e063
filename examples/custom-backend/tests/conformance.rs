//! The whole suite: one test a case.

mod common;

use common::RedbHarness;

conformance_tests::conformance_tests!(RedbHarness, without: {
    fail_write: "redb closes a database after an I/O error, until it is opened again",
});
