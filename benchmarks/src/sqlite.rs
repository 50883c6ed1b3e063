//! Appends a second: SQLite with full durability, against plain rusqlite.

use std::sync::Arc;

use ledger_core::FencedLedger;
use ledger_sqlite::SqliteLedger;

use crate::report::{Report, Row};
use crate::{Plan, Result, fenced, plain};

const PLAIN_1: &str = "plain, 1 insert a transaction";
const PLAIN_64: &str = "plain, 64 inserts a transaction";

pub(crate) async fn run(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir_in(&plan.folder)?;
    let plain_file = folder.path().join("plain.db");
    let sqlite: Arc<dyn FencedLedger> = Arc::new(SqliteLedger::open(folder.path().join("ledger.db"))?);
    let on_sqlite = fenced::claim_all(&*sqlite).await?;

    let mut rows = [
        Row::new(PLAIN_1, None),
        Row::new(PLAIN_64, None),
        Row::new("SQLite, 1 caller", Some(PLAIN_1)).goal(1.0),
        Row::new("SQLite, 64 callers", Some(PLAIN_64)).goal(0.8),
        Row::new("SQLite, 512 callers", Some(PLAIN_64)),
    ];
    for _ in 0..plan.rounds {
        rows[0].rounds.push(plain::inserts(&plain_file, 1, plan.time)?);
        rows[1].rounds.push(plain::inserts(&plain_file, 64, plan.time)?);
        for (row, callers) in [(2, 1), (3, 64), (4, 512)] {
            rows[row].rounds.push(fenced::appends(&sqlite, &on_sqlite, callers, plan.time).await?);
        }
    }
    Ok(Report { title: "SQLite FULL, 1 event an append".to_owned(), unit: "a second", rows: rows.into() })
}
