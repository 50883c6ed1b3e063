//! The conformance suite's view of PostgreSQL: a schema a storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use conformance_tests::{
    ClockControl, Edit, Harness, HarnessError, HeldCommit, HookError, Hooked, Line, LockGuard, Storage, StoreCopy,
};
use ledger_core::{Append, FencedLedger, Lease, PartitionId, Timestamp};
use ledger_postgres::Options;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use test_postgres::{Server, Wanted};

use super::Place;
use super::faults;

/// How the handles of a storage are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Connections of the library's own, over which appends travel together.
    Own,
    /// The same, with each append on its own.
    Singly,
    /// A pool that is given.
    Pool,
    /// As behind a transaction pooler.
    Simple,
}

/// Storages on a server of one major.
pub struct Postgres {
    pub wanted: Wanted,
    pub door: Door,
    /// A server of its own.
    pub server: Option<Arc<Server>>,
    /// Whether a restart crashes it.
    pub crashes: bool,
    /// Where the handles connect to, if not to the server itself.
    pub through: Option<String>,
    /// What is broken on purpose.
    pub replaced: &'static [Replaced],
}

/// A text in a function of the schema, and what takes its place.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    pub function: &'static str,
    pub text: &'static str,
    pub by: &'static str,
}

impl Postgres {
    pub fn shared(wanted: Wanted, door: Door) -> Self {
        Self { wanted, door, server: None, crashes: false, through: None, replaced: &[] }
    }

    pub fn of(server: Arc<Server>) -> Self {
        let (wanted, door) = (Wanted::Any, Door::Own);
        Self { wanted, door, server: Some(server), crashes: true, through: None, replaced: &[] }
    }
}

struct Fresh {
    place: Place,
    wanted: Wanted,
    door: Door,
    url: String,
    /// Whether there is something between the handles and the server.
    is_direct: bool,
    /// What a restart crashes.
    server: Option<Arc<Server>>,
}

#[async_trait]
impl Harness for Postgres {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        let place = match &self.server {
            Some(server) => Place::at(server.url(), &server.fresh_schema_name()).await,
            None => Place::new(self.wanted).await,
        };
        let place = place.with_clock().await;
        for Replaced { function, text, by } in self.replaced {
            let source = format!("select pg_get_functiondef('fenced_ledger.{function}'::regproc)");
            let source: String = place.value(&source).await;
            let (text, by) = (place.in_schema(text), place.in_schema(by));
            if !source.contains(&text) {
                return Err(format!("`{function}` has no `{text}`").into());
            }
            place.run(&source.replace(&text, &by)).await;
        }
        let url = self.through.clone().unwrap_or_else(|| place.url.clone());
        let (wanted, door, is_direct) = (self.wanted, self.door, self.through.is_none());
        let server = self.server.clone().filter(|_| self.crashes);
        Ok(Box::new(Fresh { place, wanted, door, url, is_direct, server }))
    }

    /// A server of its own, but for the ways in whose crash cases are left to the library's own connections.
    async fn provision_to_crash(&self) -> Result<Box<dyn Storage>, HarnessError> {
        if self.door != Door::Own || self.server.is_some() {
            return self.provision().await;
        }
        let server = Arc::new(test_postgres::Options::new(self.wanted).start()?);
        Self { wanted: self.wanted, replaced: self.replaced, ..Self::of(server) }.provision().await
    }

    /// The full figures are for the library's own connections, on the newest version. The other ways in call the same
    /// functions, and an older version runs the same SQL.
    fn full(&self) -> bool {
        self.door == Door::Own && self.wanted == Wanted::NEWEST && super::full()
    }
}

impl Fresh {
    async fn open_at(&self, url: &str) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        // A case may look at a call that waits for a lock for longer than a user would.
        let options: Options = self.place.options().lock_wait(Duration::from_secs(15)).budget(Duration::from_secs(30));
        Ok(Arc::new(match self.door {
            Door::Own => options.connect(url).await?,
            Door::Singly => options.coalesce(false).connect(url).await?,
            Door::Pool => options.open(PgPool::connect(url).await?).await?,
            Door::Simple => options.transaction_pooler(true).connect(url).await?,
        }))
    }
}

#[async_trait]
impl Storage for Fresh {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        self.open_at(&self.url).await
    }

    fn clock(&self) -> Option<&dyn ClockControl> {
        Some(self)
    }

    async fn restart(&self) -> Hooked<()> {
        // No handle keeps in memory what the ledger needs. A server of its own crashes.
        if let Some(server) = &self.server {
            server.crash()?;
            server.start()?;
        }
        Ok(())
    }

    async fn hold_lock(&self, partition: &PartitionId) -> Hooked<Box<dyn LockGuard>> {
        let mut connection = self.place.shell().await;
        connection.execute("begin").await?;
        // A partition that was never claimed is held by a row that is never committed.
        let insert = "insert into fenced_ledger.partition
             (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger,
                 chain_partition, chain_tenure)
             select $1, 0, '', '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, '', g.id, '', ''
             from fenced_ledger.ledger g on conflict do nothing";
        sqlx::query(self.place.sql(insert)).bind(partition.as_str()).execute(&mut connection).await?;
        let lock = "select 1 from fenced_ledger.partition where name = $1 for no key update";
        sqlx::query(self.place.sql(lock)).bind(partition.as_str()).execute(&mut connection).await?;
        Ok(Box::new(Held(connection)))
    }

    async fn tamper(&self, partition: &PartitionId, edit: &Edit) -> Hooked<()> {
        let of = "partition = (select id from fenced_ledger.partition where name = $1)";
        let end = "position = (select min(position) from fenced_ledger.log l
             where l.partition = log.partition and l.position >= $2 and l.first is not null)";
        let text = |column: &str, as_type: &str, place: &str| {
            format!("update fenced_ledger.log log set {column} = $3::{as_type} where {of} and {place}")
        };
        let (sql, position, value) = match edit {
            Edit::Payload { position, text: new } => (text("payload", "json", "position = $2"), *position, new.clone()),
            Edit::Metadata { position, text: new } => {
                (text("metadata", "json", "position = $2"), *position, new.clone())
            }
            Edit::Kind { position, text: new } => (text("kind", "text", "position = $2"), *position, new.clone()),
            Edit::RecordedAt { position, time } => {
                (text("recorded_at", "bigint", end), *position, time.as_micros().to_string())
            }
            Edit::Holder { position, holder } => (text("holder", "text", end), *position, holder.to_string()),
            Edit::Remove { position } => (
                format!("delete from fenced_ledger.log where {of} and position = $2 and $3::text is not null"),
                *position,
                String::new(),
            ),
            Edit::Swap { one, other } => (
                format!(
                    "update fenced_ledger.log log set kind = o.kind, metadata = o.metadata, payload = o.payload
                     from fenced_ledger.log o where log.{of} and o.partition = log.partition
                     and (log.position, o.position) in (($2, $3::bigint), ($3::bigint, $2))"
                ),
                *one,
                other.to_string(),
            ),
            Edit::CutTail { after } => (
                format!("delete from fenced_ledger.log where {of} and position > $2 and $3::text is not null"),
                *after,
                String::new(),
            ),
            Edit::LeaseHolder { holder } => (
                "update fenced_ledger.partition set holder = $3::text where name = $1 and $2::bigint > 0".to_owned(),
                ledger_core::Position::FIRST,
                holder.to_string(),
            ),
            Edit::LeaseUnreleased => (
                "update fenced_ledger.partition set vacancy = null where name = $1 and $2::bigint > 0 and $3::text = ''"
                    .to_owned(),
                ledger_core::Position::FIRST,
                String::new(),
            ),
            Edit::Generation { position, generation } => {
                (text("generation", "bigint", end), *position, generation.to_string())
            }
            Edit::LeaseGeneration { generation } => (
                "update fenced_ledger.partition set generation = $3::bigint where name = $1 and $2::bigint > 0"
                    .to_owned(),
                ledger_core::Position::FIRST,
                generation.to_string(),
            ),
            _ => return Err(HookError::unsupported("the harness does not know this edit yet")),
        };
        let sql = sql.replace("$3::bigint", "$3::text::bigint").replace("$3::json", "$3::text::json");
        let done = sqlx::query(self.place.sql(&sql))
            .bind(partition.as_str())
            .bind(position.get())
            .bind(value)
            .execute(&mut self.place.shell().await)
            .await?;
        if done.rows_affected() == 0 { Err(HookError::Failed("nothing was edited".into())) } else { Ok(()) }
    }

    /// An immediate stop and a start: the handles find the server again.
    async fn crash(&self) -> Hooked<()> {
        let Some(server) = self.server.clone() else {
            return Err(HookError::unsupported(
                "crashes are for the library's own connections, on a server of their own",
            ));
        };
        Ok(tokio::task::spawn_blocking(move || server.crash().and_then(|()| server.start())).await??)
    }

    async fn line(&self) -> Hooked<Box<dyn Line>> {
        if !self.is_direct {
            return Err(HookError::unsupported("another proxy is in the way"));
        }
        let proxy = match &self.server {
            Some(server) => server.proxy()?,
            None => match super::server(self.wanted).proxy() {
                Some(proxy) => proxy?,
                None => return Err(HookError::unsupported("the server was given by a URL")),
            },
        };
        let ledger = self.open_at(&proxy.url()).await?;
        Ok(Box::new(faults::ProxyLine { ledger, proxy }))
    }

    async fn hold_commit(&self, lease: &Lease, append: &Append) -> Hooked<Box<dyn HeldCommit>> {
        Ok(Box::new(faults::hold_commit(&self.place, self.open().await?, lease, append).await?))
    }

    async fn fail_write(&self, nth: u32) -> Hooked<Box<dyn LockGuard>> {
        Ok(Box::new(faults::fail_write(&self.place, nth).await?))
    }

    /// The rows of every table, kept beside them: what a dump of the schema has. `restored.rs` does it with pg_dump.
    async fn snapshot(&self) -> Hooked<Box<dyn StoreCopy>> {
        let copy = format!("kept_{}", COPIES.fetch_add(1, Ordering::Relaxed));
        let list = "select t.tablename::text from pg_tables t where t.schemaname = 'fenced_ledger'
             and t.tablename not in ('ledger', 'migration', 'test_clock') and t.tablename not like 'kept%'";
        let tables: Vec<String> =
            sqlx::query_scalar(self.place.sql(list)).fetch_all(&mut self.place.shell().await).await?;
        let keep =
            |table: &String| format!("create table fenced_ledger.{copy}_{table} as table fenced_ledger.{table};");
        self.place.run(&tables.iter().map(keep).collect::<String>()).await;
        Ok(Box::new(Copied { place: self.place.clone(), tables, copy }))
    }
}

static COPIES: AtomicUsize = AtomicUsize::new(0);

struct Copied {
    place: Place,
    tables: Vec<String>,
    copy: String,
}

#[async_trait]
impl StoreCopy for Copied {
    async fn restore(&self) -> Result<(), HarnessError> {
        let copy = &self.copy;
        // Whoever writes just then is waited for, and goes on over the copy afterwards.
        let lock = |table: &String| format!("lock table fenced_ledger.{table} in access exclusive mode;");
        let back = |table: &String| {
            let insert = format!("insert into fenced_ledger.{table} overriding system value");
            format!("delete from fenced_ledger.{table}; {insert} table fenced_ledger.{copy}_{table};")
        };
        let (locks, backs): (String, String) =
            (self.tables.iter().map(lock).collect(), self.tables.iter().map(back).collect());
        self.place.run(&format!("begin; {locks} {backs} commit;")).await;
        Ok(())
    }
}

#[async_trait]
impl ClockControl for Fresh {
    async fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.place.value("select fenced_ledger.clock()").await)
    }

    async fn set(&self, time: Timestamp) {
        self.place.run(&format!("update fenced_ledger.test_clock set at = {}", time.as_micros())).await;
    }
}

struct Held(PgConnection);

#[async_trait]
impl LockGuard for Held {
    async fn release(self: Box<Self>) -> Result<(), HarnessError> {
        let mut connection = self.0;
        connection.execute("rollback").await?;
        Ok(connection.close().await?)
    }
}
