//! Where the ledger is.

use ledger_postgres::{Options, PostgresLedger, Schema};

use crate::Result;

/// Where the ledger is.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Place {
    /// The URL of the cluster, with one host or several. May stand in the environment, where no other user reads it.
    #[arg(long, env = "FENCED_LEDGER_FAILOVER_URL", hide_env_values = true)]
    pub(crate) url: String,
    /// The schema of the ledger.
    #[arg(long, default_value = "failover")]
    pub(crate) schema: String,
}

impl Place {
    pub(crate) async fn install(&self) -> Result<()> {
        Ok(Schema::new(&self.schema)?.migrate_url(&self.url).await?)
    }

    pub(crate) async fn open(&self) -> Result<PostgresLedger> {
        Ok(Options::new().schema(Schema::new(&self.schema)?).connect(&self.url).await?)
    }
}
