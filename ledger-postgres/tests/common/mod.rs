//! What the tests share: a server of each major, a fresh schema with a clock that a test can step, and short cuts.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it, and `pub` here is `pub` to it")]

pub mod faults;
pub mod harness;

use std::time::Duration;

use ledger_core::{
    Append, AppendId, Claim, Claimed, EventKind, FencedLedger, Holder, Json, NewEvent, PartitionId, Ttl,
};
use ledger_postgres::{Options, PostgresLedger, Schema};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
pub use test_postgres::{Shared, Wanted};

/// The server of a major that all tests of this process share.
pub fn server(wanted: Wanted) -> &'static Shared {
    Shared::in_process(&test_postgres::Options::new(wanted)).expect("a server")
}

/// A fresh schema on a server.
#[derive(Clone)]
pub struct Place {
    pub url: String,
    pub schema: Schema,
}

impl Place {
    /// A schema as a user installs it, on the real clock.
    pub async fn new(wanted: Wanted) -> Self {
        let server = server(wanted);
        Self::at(server.url(), &server.fresh_schema_name()).await
    }

    pub async fn at(url: String, name: &str) -> Self {
        let schema = Schema::new(name).expect("a plain name");
        schema.migrate_url(&url).await.expect("installed");
        Self { url, schema }
    }

    /// The same schema on a clock that stands still until a test steps it.
    pub async fn with_clock(self) -> Self {
        self.run(
            "create table fenced_ledger.test_clock (one boolean primary key, at bigint not null);
             insert into fenced_ledger.test_clock values (true, fenced_ledger.clock());
             create or replace function fenced_ledger.clock() returns bigint language sql volatile as
             $$ select t.at from fenced_ledger.test_clock t where t.one $$",
        )
        .await;
        self
    }

    pub fn options(&self) -> Options {
        Options::new().schema(self.schema.clone()).accept_other_clock(true)
    }

    pub async fn open(&self) -> PostgresLedger {
        self.options().connect(&self.url).await.expect("opened")
    }

    /// A session beside the ledger's.
    pub async fn shell(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("connected")
    }

    /// SQL with this schema's name in it.
    pub fn sql(&self, sql: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(sql.replace("fenced_ledger", self.schema.name()))
    }

    /// The text as it stands in a function of the schema.
    pub fn in_schema(&self, sql: &str) -> String {
        sql.replace("fenced_ledger", &format!("\"{}\"", self.schema.name()))
    }

    pub async fn run(&self, sql: &str) {
        self.shell().await.execute(sqlx::raw_sql(self.sql(sql))).await.expect(sql);
    }

    pub async fn value<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(self.sql(sql)).fetch_one(&mut self.shell().await).await.expect(sql)
    }

    pub async fn advance(&self, by: Duration) {
        let by = by.as_micros();
        self.run(&format!("update fenced_ledger.test_clock set at = at + {by}")).await;
    }

    pub async fn drop(&self) {
        self.run("drop schema fenced_ledger cascade").await;
    }
}

pub fn partition(name: &str) -> PartitionId {
    PartitionId::new(name).expect("a plain name")
}

pub fn holder(name: &str) -> Holder {
    Holder::new(name).expect("a plain name")
}

pub fn seconds(seconds: i64) -> Ttl {
    Ttl::from_millis(seconds * 1000).expect("a TTL")
}

pub fn event(text: &str) -> NewEvent {
    let kind = EventKind::new("noted").expect("a kind");
    NewEvent::new(kind, Json::new(serde_json::Value::from(text).to_string()).expect("JSON"))
}

/// Text that does not compress, so that it is stored as it is and fills a socket.
pub fn noise(bytes: usize) -> NewEvent {
    let ids = std::iter::repeat_with(|| AppendId::mint().as_uuid().simple().to_string());
    let mut text: String = ids.take(bytes / 32 + 1).collect();
    text.truncate(bytes);
    event(&text)
}

pub fn append(text: &str) -> Append {
    append_as(AppendId::mint(), text)
}

pub fn append_as(id: AppendId, text: &str) -> Append {
    Append::with_id(id, [event(text)]).expect("a small append")
}

pub async fn claim(ledger: &PostgresLedger, name: &str, by: &str, ttl: Ttl) -> Claimed {
    let partition = partition(name);
    let observed = ledger.observe(&partition).await.expect("observed").observation();
    ledger.claim(&Claim::new(partition, holder(by), ttl, observed)).await.expect("claimed")
}

/// Whether the full figures are asked for.
pub fn full() -> bool {
    std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

/// A smaller figure by day, the full one where it is asked for.
pub fn scale(by_day: usize, figure: usize) -> usize {
    if full() { figure } else { by_day }
}
