//! Goal: what docs/production.md shows is what there is. Its Rust is compiled as doctests; here its SQL is run, and its
//! grants compared with those that the library prints.

mod common;

use common::{Place, Wanted, append, claim, seconds};
use ledger_core::FencedLedger;
use ledger_postgres::Schema;

const PAGE: &str = include_str!("../../docs/production.md");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_queries_run() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&lease).await.expect("released");
        ledger.append(&lease, &append("late")).await.expect_err("refused");
        let queries = PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
        let mut rows = Vec::new();
        for query in queries {
            let found = sqlx::query(place.sql(query)).fetch_all(&mut place.shell().await).await.expect(query);
            rows.push(found.len());
        }
        assert!(rows.len() >= 4 && rows[0] == 1, "one refusal is shown first: {rows:?}");
        place.drop().await;
    }
}

#[test]
fn its_grants_are_the_ones_that_are_printed() {
    assert!(PAGE.contains(Schema::default().grants("worker").trim_end()), "{}", Schema::default().grants("worker"));
}
