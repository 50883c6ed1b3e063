//! Where the ledger is, and what is written to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger_core::{FencedLedger, Json, PartitionId};
use ledger_postgres::{Options, Schema};
use ledger_sqlite::SqliteLedger;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use test_postgres::{Shared, Wanted};

use crate::Result;

/// The kind of the events: one line of the input file.
pub(crate) const LINE: &str = "line";

/// Tells a worker where the ledger is. Not an argument: a URL may hold a password, and anyone may list arguments.
const VARIABLE: &str = "FENCED_LEDGER_ZOMBIE_STORE";

/// Where the ledger is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Store {
    Sqlite { file: PathBuf },
    Postgres { url: String, schema: String },
}

impl Store {
    /// A fresh schema on the server of this URL; without one, on a server of its own that ends with this process.
    pub(crate) fn on_postgres(url: Option<String>) -> Result<Self> {
        let url = match url {
            Some(url) => url,
            None => Shared::in_process(&test_postgres::Options::new(Wanted::Any)).map_err(or_a_server_of_yours)?.url(),
        };
        Ok(Self::Postgres { url, schema: format!("zombie_{}", uuid::Uuid::now_v7().simple()) })
    }

    /// The store that the parent told this worker.
    pub(crate) fn told() -> Result<Self> {
        let told = std::env::var(VARIABLE).map_err(|_| "a worker is started by its parent alone")?;
        Ok(serde_json::from_str(&told)?)
    }

    /// The variable that tells a worker.
    pub(crate) fn tell(&self) -> Result<(&'static str, String)> {
        Ok((VARIABLE, serde_json::to_string(self)?))
    }

    /// Makes what must be there before a ledger is opened.
    pub(crate) async fn install(&self) -> Result<()> {
        if let Self::Postgres { url, schema } = self {
            Schema::new(schema)?.migrate_url(url).await?;
        }
        Ok(())
    }

    /// Opens the ledger; each process opens its own.
    pub(crate) async fn open(&self) -> Result<Arc<dyn FencedLedger>> {
        Ok(match self {
            Self::Sqlite { file } => Arc::new(SqliteLedger::open(file)?),
            Self::Postgres { url, schema } => Arc::new(Options::new().schema(Schema::new(schema)?).connect(url).await?),
        })
    }

    /// Removes what [`install`](Self::install) has made. A file goes with its folder.
    pub(crate) async fn remove(&self) -> Result<()> {
        if let Self::Postgres { url, schema } = self {
            let mut connection = PgConnection::connect(url).await?;
            let drop = format!("drop schema if exists \"{}\" cascade", Schema::new(schema)?.name());
            connection.execute(AssertSqlSafe(drop)).await?;
            connection.close().await?;
        }
        Ok(())
    }
}

/// Where there is no server to start, one may run elsewhere.
fn or_a_server_of_yours(error: test_postgres::Error) -> String {
    format!("{error}\n  Or use one that runs:  cargo run -p zombie -- --postgres postgres://USER@HOST/DATABASE")
}

/// The partition of the import.
pub(crate) fn partition() -> Result<PartitionId> {
    Ok(PartitionId::new("import")?)
}

/// The input: one JSON value a line, kept byte for byte. Empty lines are left out.
pub(crate) fn lines(file: &Path) -> Result<Vec<Json>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines = numbered.map(|(number, line)| {
        Json::new(line).map_err(|error| format!("{}, line {}: {error}", file.display(), number + 1))
    });
    Ok(lines.collect::<std::result::Result<_, _>>()?)
}
