//! Where a round's ledger is, and how each process opens it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ledger_core::FencedLedger;
use ledger_postgres::{Options, PostgresLedger, Schema};
use ledger_sqlite::SqliteLedger;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::clock::SteppedClock;

/// Where the ledger is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Store {
    Sqlite {
        file: PathBuf,
        /// Says how far the clock is ahead.
        clock: PathBuf,
        /// The database of the positive control.
        control: PathBuf,
    },
    Postgres {
        /// Through the proxy.
        url: String,
        /// Past the proxy.
        direct: String,
    },
}

/// A ledger that is open.
pub(crate) enum Opened {
    Sqlite(SqliteLedger),
    Postgres(PostgresLedger),
}

impl Store {
    /// Makes what must be there before a ledger is opened.
    pub(crate) async fn install(&self) -> Result<()> {
        match self {
            Self::Sqlite { clock, .. } => SteppedClock::set(clock, 0.0),
            Self::Postgres { direct, .. } => Ok(Schema::default().migrate_url(direct).await?),
        }
    }

    /// Opens the ledger as a worker does, or past the proxy.
    pub(crate) async fn open(&self, past_the_proxy: bool) -> Result<Opened> {
        Ok(match self {
            Self::Sqlite { file, clock, .. } => {
                let options = SqliteLedger::options().clock(SteppedClock::new(clock)).allow_network_file_system();
                Opened::Sqlite(options.busy_timeout(Duration::from_secs(5)).open(file)?)
            }
            Self::Postgres { url, direct } => {
                let options =
                    Options::new().connections(4).budget(Duration::from_secs(4)).lock_wait(Duration::from_secs(1));
                // A server whose clock is stepped by libfaketime has the schema's own clock all the same.
                Opened::Postgres(options.connect(if past_the_proxy { direct } else { url }).await?)
            }
        })
    }
}

impl Opened {
    pub(crate) fn ledger(&self) -> Arc<dyn FencedLedger> {
        match self {
            Self::Sqlite(ledger) => Arc::new(ledger.clone()),
            Self::Postgres(ledger) => Arc::new(ledger.clone()),
        }
    }

    /// Closes it in good order: what SQLite's handle counts in memory is written.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(ledger) => ledger.close().await,
            // It has counted each refusal that it has answered.
            Self::Postgres(_) => {}
        }
    }
}
