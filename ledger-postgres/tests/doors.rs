//! Goal: the other ways in uphold the contract too: each append on its own, a pool that is given, over which each write
//! is a procedure that commits, and one simple query a call, as behind a transaction pooler.

mod common;

mod through_a_given_pool {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::OLDEST, Door::Pool));
}

mod by_simple_queries {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::NEWEST, Door::Simple));
}

mod each_on_its_own {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::NEWEST, Door::Singly));
}
