//! What opening a ledger asks of the server (S1), and what it is told (S4).

use ledger_core::{Invalid, LedgerError, LedgerId, Result};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::options::{Options, milliseconds};
use crate::row::{Fields, Unreadable};
use crate::{classify, schema, statement};

/// The oldest server: the first that is tested.
const OLDEST: i64 = 150_000;

/// What the server and the schema say of themselves.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) ledger: LedgerId,
    pub(crate) version: String,
}

/// Asks the server, and refuses it where it can not keep what it acknowledges. `own`: the session is the library's own,
/// so that its settings must have arrived.
pub(crate) async fn open(connection: &mut PgConnection, options: &Options, own: bool) -> Result<Opened> {
    // One simple query, which works behind every pooler. The name has no character that could end the literal.
    let name = format!("'{}'", options.schema.name());
    let text = options.schema.fill(statement::CHECK).replace("$1", &name);
    let rows =
        sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await.map_err(|error| refused(error, options))?;
    let row = rows.first().ok_or_else(|| LedgerError::corrupt(None, None, "the check answered no row"))?;
    let facts = facts(row).map_err(|bad| bad.at(None, None))?;
    facts.check(options, own)?;
    Ok(Opened { ledger: facts.ledger, version: facts.version })
}

fn refused(error: sqlx::Error, options: &Options) -> LedgerError {
    let missing = error.as_database_error().and_then(|found| found.code()).is_some_and(|code| {
        // No schema, no table.
        matches!(code.as_ref(), "3F000" | "42P01")
    });
    if missing {
        return schema::check_version(&options.schema, None).expect_err("no version is no version of ours");
    }
    classify::read(error).error
}

struct Facts {
    version: String,
    version_number: i64,
    encoding: String,
    isolation: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    in_recovery: bool,
    lock_timeout: i64,
    schema: i64,
    ledger: LedgerId,
    clock: String,
}

fn facts(row: &PgRow) -> Result<Facts, Unreadable> {
    let mut fields = Fields::of(row);
    Ok(Facts {
        version: fields.text()?.to_owned(),
        version_number: fields.integer()?,
        encoding: fields.text()?.to_owned(),
        isolation: fields.text()?.to_owned(),
        fsync: fields.text()?.to_owned(),
        full_page_writes: fields.text()?.to_owned(),
        synchronous_commit: fields.text()?.to_owned(),
        in_recovery: fields.boolean()?,
        lock_timeout: fields.integer()?,
        schema: fields.integer()?,
        ledger: fields.uuid()?,
        clock: fields.text()?.to_owned(),
    })
}

impl Facts {
    fn check(&self, options: &Options, own: bool) -> Result<()> {
        schema::check_version(&options.schema, i32::try_from(self.schema).ok())?;
        let set = i64::from(milliseconds(options.lock_wait));
        let problem = if self.version_number < OLDEST {
            format!("version {} is older than 15", self.version)
        } else if self.encoding != "UTF8" {
            format!("its encoding is {}, not UTF8", self.encoding)
        } else if self.isolation != "read committed" {
            format!("default_transaction_isolation is `{}`, not `read committed`", self.isolation)
        } else if self.fsync != "on" {
            "fsync is off: a crash loses what was acknowledged".to_owned()
        } else if self.full_page_writes != "on" {
            "full_page_writes is off: a crash can tear what was acknowledged".to_owned()
        } else if self.synchronous_commit == "off" {
            "synchronous_commit is off: a crash loses what was acknowledged".to_owned()
        } else if self.in_recovery && !options.replica {
            "it is in recovery: a standby can not append; `connect_replica` reads from one".to_owned()
        } else if own && !options.transaction_pooler && self.lock_timeout != set {
            "the settings of the session did not arrive, as behind a pooler: open with `transaction_pooler`".to_owned()
        } else if !options.accept_other_clock && self.clock.trim() != statement::body(statement::CLOCK).trim() {
            "the schema's function `clock()` is not the real one: was a test's clock left behind?".to_owned()
        } else {
            return Ok(());
        };
        Err(LedgerError::Invalid(Invalid::Unusable { what: "server", problem }))
    }
}
