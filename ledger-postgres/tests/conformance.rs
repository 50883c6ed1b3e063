//! Goal: every case of the conformance suite holds, on the oldest and the newest major, on connections of the library's
//! own. `doors.rs` has the other ways in, `crash.rs` the restart by a crash.

mod common;

mod on_15 {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::OLDEST, Door::Own));
}

mod on_18 {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::NEWEST, Door::Own));
}
