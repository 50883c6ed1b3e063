//! Goal: the other ways in uphold the contract too: each append on its own, a pool that is given, over which each write
//! is a procedure that commits, and one simple query a call, as behind a transaction pooler, where a write is the same
//! procedure.

mod common;

mod through_a_given_pool {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::OLDEST, Door::Pool), without: {
        crash: "crashes are for the library's own connections, on a server of their own",
    });
}

mod by_simple_queries {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::NEWEST, Door::Simple), without: {
        crash: "crashes are for the library's own connections, on a server of their own",
    });
}

mod each_on_its_own {
    use super::common::Wanted;
    use super::common::harness::{Door, Postgres};

    conformance_tests::conformance_tests!(Postgres::shared(Wanted::NEWEST, Door::Singly), without: {
        crash: "crashes are for the library's own connections, on a server of their own",
    });
}
