//! Goal: what a group can not carry from one append of a partition to the next, it leaves out: a clock that is set back
//! between two of its readings (T2), a lease that ends between them (T4), and appends of one slot that do not stand side
//! by side. The first of them are kept where they are judged before.
//!
//! Method: `append_group` is called by hand, beside clocks that go by one microsecond with each reading.

mod common;

use common::{Place, Wanted, claim, partition, seconds};
use ledger_core::{FencedLedgerExt, Verification};

#[tokio::test]
async fn a_group_that_can_not_be_followed_decides_nothing() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        for name in ["p", "q"] {
            claim(&ledger, name, "a", seconds(600)).await;
        }
        let mut shell = place.shell().await;
        let group = |slots: &str, names: &str| {
            place.sql(&format!(
                "select cardinality(array_remove(g.lasts, null)) from (select array_agg(x.name order by x.name) as names,
                    array_agg(x.acquisition order by x.name) as acquisitions from fenced_ledger.partition x
                    where x.name = any ({names})) l,
                 lateral fenced_ledger.append_group(l.names, array_fill(1::bigint, array[cardinality(l.names)]),
                    l.acquisitions, array_fill('a'::text, array[cardinality(l.names)]), {slots},
                    array[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], array[null, null, null]::bigint[],
                    array(select fenced_ledger.chain_content(array['k'], array[n::text], array['{{}}'])
                        from generate_series(1, 3) n), array[1, 1, 1], array['k', 'k', 'k'],
                    array['1', '2', '3'], array['{{}}', '{{}}', '{{}}'],
                    array_fill(0::bigint, array[cardinality(l.names)]), null) g"
            ))
        };
        for (slots, names, granted) in [
            ("array[1, 1, 1]", "array['p']", Some(3)),
            ("array[1, 2, 2]", "array['p', 'q']", Some(3)),
            ("array[1, 2, 1]", "array['p', 'q']", None),
        ] {
            let decided: Option<i32> =
                sqlx::query_scalar(group(slots, names)).fetch_one(&mut shell).await.expect("decided");
            assert_eq!(decided, granted, "{wanted}: {slots}");
        }
        // Each reading a microsecond before the one that came last.
        place
            .run(
                "create sequence fenced_ledger.back;
                 create or replace function fenced_ledger.clock() returns bigint language sql volatile as
                 $$ select (extract(epoch from clock_timestamp())::bigint + 60) * 1000000
                     - nextval('fenced_ledger.back') $$",
            )
            .await;
        let mut shell = place.shell().await;
        let decided: Option<i32> =
            sqlx::query_scalar(group("array[1, 1, 1]", "array['p']")).fetch_one(&mut shell).await.expect("decided");
        assert_eq!(decided, None, "{wanted}: the clock goes back");
        // The lease ends between the second and the third: each has a reading of its own (T4), and the first two are kept.
        place
            .run(
                "alter sequence fenced_ledger.back restart;
                 create or replace function fenced_ledger.clock() returns bigint language sql volatile as
                 $$ select (select x.expires_at from fenced_ledger.partition x where x.name = 'p') - 3
                     + nextval('fenced_ledger.back') $$",
            )
            .await;
        let mut shell = place.shell().await;
        let decided: Option<i32> =
            sqlx::query_scalar(group("array[1, 1, 1]", "array['p']")).fetch_one(&mut shell).await.expect("decided");
        assert_eq!(decided, Some(2), "{wanted}: the lease ends");
        let verified = ledger.verify(&partition("p"), None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { events: 7, .. }), "{verified:?}");
        place.drop().await;
    }
}
