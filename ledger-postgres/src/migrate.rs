//! The migration of a schema (S3).

use std::time::{Duration, Instant};

use ledger_core::{Failure, FailureKind, LedgerError, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgTransaction, Row};

use crate::classify;
use crate::options::milliseconds;
use crate::schema::{SCHEMA_VERSION, Schema};
use crate::statement::{
    MIGRATION_HOLDERS, MIGRATION_INSERT, MIGRATION_LOCK, MIGRATION_TABLE, MIGRATION_VERSION, MIGRATION_WAIT, VERSIONS,
};

/// How long one wait for a table's lock may take: whoever asks for that table meanwhile, waits behind it.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// How long those who waited have the table to themselves, before the next try.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a migration tries, where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(60);

impl Schema {
    /// Installs the schema or brings it to [`SCHEMA_VERSION`]; does nothing where it is there. Safe with many processes
    /// at once and with writers running: one transaction under a lock that ends with it. The connection's role owns
    /// what is made, and needs the right to create a schema.
    ///
    /// Where a table is held, as by an open transaction that has read it (a `pg_dump`), a wait for it takes half a second
    /// at most, so that writers which queue up behind it are not kept from their partitions for longer. Then the
    /// transaction is tried again as a whole, for a minute in all. What a step locks, and for how long, stands in
    /// `docs/production.md`.
    ///
    /// Cancel safe: a dropped future leaves the whole step or none. The connection should then be closed.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotWritten`], which names what was waited for, or [`Unknown`](LedgerError::Unknown) where the
    /// connection was lost: run it again.
    pub async fn migrate(&self, connection: &mut PgConnection) -> Result<()> {
        self.migrate_within(connection, PATIENCE).await
    }

    /// [`migrate`](Self::migrate) on a connection of its own: to the server itself, not to a pooler. Cancel safe as that.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate).
    pub async fn migrate_url(&self, url: &str) -> Result<()> {
        let mut connection = PgConnection::connect(url).await.map_err(|error| classify::connect(error).error)?;
        let done = self.migrate(&mut connection).await;
        // The step is committed or not, whatever becomes of the farewell.
        let _ = connection.close().await;
        done
    }

    /// [`migrate`](Self::migrate), which begins no try that could end after `patience`, but for the first. Cancel safe as
    /// that.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate).
    pub async fn migrate_within(&self, connection: &mut PgConnection, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let mut transaction = begin(connection).await.map_err(|error| classify::write(error).error)?;
            let mut locked = false;
            let Err(error) = self.step_by_step(&mut transaction, &mut locked, deadline).await else {
                return transaction.commit().await.map_err(|error| classify::write(error).error);
            };
            let code = error.as_database_error().and_then(|found| found.code());
            if !matches!(code.as_deref(), Some("55P03" | "40P01")) {
                return Err(classify::write(error).error);
            }
            // Whoever waited behind the migration goes on from here.
            transaction.rollback().await.map_err(|error| classify::write(error).error)?;
            if !locked || Instant::now() + PAUSE + LOCK_WAIT > deadline {
                let holders =
                    if locked { self.holders(connection).await } else { "another migration of it".to_owned() };
                let detail = format!("the migration of `{self}` could not lock what it changes; held are: {holders}");
                return Err(LedgerError::NotWritten(Failure::new(FailureKind::Busy, detail).with_source(error)));
            }
            tracing::info!(schema = %self, "fenced_ledger.migration_waits");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes the steps that are missing. `locked`: whether this is the migration whose turn it is.
    async fn step_by_step(
        &self,
        transaction: &mut PgTransaction<'_>,
        locked: &mut bool,
        deadline: Instant,
    ) -> sqlx::Result<()> {
        // Nobody waits behind those who wait for their turn.
        wait(transaction, deadline.saturating_duration_since(Instant::now())).await?;
        sqlx::query(MIGRATION_LOCK).bind(self.name()).persistent(false).execute(&mut **transaction).await?;
        *locked = true;
        wait(transaction, LOCK_WAIT).await?;
        let table = format!("{}.migration", self.name());
        let row = sqlx::query(MIGRATION_TABLE).bind(table).persistent(false).fetch_one(&mut **transaction).await?;
        let mut version = 0;
        if row.try_get(0)? {
            let query = AssertSqlSafe(self.fill(MIGRATION_VERSION));
            let row = sqlx::query(query).persistent(false).fetch_one(&mut **transaction).await?;
            version = row.try_get::<Option<i32>, _>(0)?.unwrap_or(0);
        }
        for (to, step) in (1..).zip(VERSIONS).filter(|(to, _)| *to > version) {
            sqlx::raw_sql(AssertSqlSafe(self.step(step))).execute(&mut **transaction).await?;
            let insert = AssertSqlSafe(self.fill(MIGRATION_INSERT));
            let by = concat!("ledger-postgres ", env!("CARGO_PKG_VERSION"));
            sqlx::query(insert).bind(to).bind(by).persistent(false).execute(&mut **transaction).await?;
            tracing::info!(schema = %self, version = to, "fenced_ledger.migrated");
        }
        if version < SCHEMA_VERSION {
            sqlx::raw_sql(AssertSqlSafe(self.routines())).execute(&mut **transaction).await?;
        }
        Ok(())
    }

    /// Who holds the schema's tables.
    async fn holders(&self, connection: &mut PgConnection) -> String {
        let query = sqlx::query_scalar::<_, Option<String>>(MIGRATION_HOLDERS).bind(self.name()).persistent(false);
        query.fetch_one(connection).await.ok().flatten().unwrap_or_else(|| "nothing any more".to_owned())
    }
}

async fn begin(connection: &mut PgConnection) -> sqlx::Result<PgTransaction<'_>> {
    connection.begin_with("begin isolation level read committed").await
}

/// Bounds each wait for a lock from here on.
async fn wait(transaction: &mut PgTransaction<'_>, bound: Duration) -> sqlx::Result<()> {
    let bound = milliseconds(bound).to_string();
    sqlx::query(MIGRATION_WAIT).bind(bound).persistent(false).execute(&mut **transaction).await?;
    Ok(())
}
