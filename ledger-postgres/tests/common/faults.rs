//! What the conformance suite may do to a call: to its line, its commit and its writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use conformance_tests::{Gate, HarnessError, HeldCommit, Line, LockGuard};
use ledger_core::{Append, Appended, FencedLedger, Lease};
use sqlx::PgConnection;
use test_postgres::{Armed, Fault, Proxy, Trigger};
use tokio::task::JoinHandle;

use super::Place;

const PATIENCE: Duration = Duration::from_secs(10);

/// A handle that reaches the server through a proxy.
pub struct ProxyLine {
    pub ledger: Arc<dyn FencedLedger>,
    pub proxy: Proxy,
}

impl ProxyLine {
    /// Strikes the next call that may change something, by the function that it calls.
    fn arm(&self, fault: Fault) -> Armed {
        let calls = [".append", ".claim", ".renew", ".release", ".end_tenure"].map(str::to_owned);
        self.proxy.arm(Trigger::ContainingAny(calls.to_vec()), fault)
    }
}

#[async_trait]
impl Line for ProxyLine {
    fn ledger(&self) -> Arc<dyn FencedLedger> {
        self.ledger.clone()
    }

    async fn lose_reply(&self) -> Result<(), HarnessError> {
        drop(self.arm(Fault::DropReply));
        Ok(())
    }

    async fn lose_request(&self) -> Result<(), HarnessError> {
        drop(self.arm(Fault::DropRequest));
        Ok(())
    }

    async fn hold_request(&self) -> Result<Box<dyn Gate>, HarnessError> {
        Ok(Box::new(ProxyGate(Arc::new(self.arm(Fault::Hold)))))
    }
}

struct ProxyGate(Arc<Armed>);

#[async_trait]
impl Gate for ProxyGate {
    async fn reached(&mut self) -> Result<(), HarnessError> {
        let armed = self.0.clone();
        let struck = tokio::task::spawn_blocking(move || armed.wait_struck(PATIENCE)).await?;
        if struck { Ok(()) } else { Err("no call came to the proxy".into()) }
    }

    async fn open(self: Box<Self>) -> Result<(), HarnessError> {
        self.0.deliver();
        Ok(())
    }
}

/// An append whose commit waits, in a deferred trigger, for a lock that a session holds.
pub struct Waiting {
    session: PgConnection,
    append: JoinHandle<ledger_core::Result<Appended>>,
    clean_up: String,
}

pub async fn hold_commit(
    place: &Place,
    ledger: Arc<dyn FencedLedger>,
    lease: &Lease,
    append: &Append,
) -> Result<Waiting, HarnessError> {
    let (mut session, lock) = (place.shell().await, format!("hashtext('{}')", place.schema.name()));
    place
        .run(&format!(
            "create function fenced_ledger.hold() returns trigger language plpgsql as
                 $$ begin perform pg_advisory_xact_lock({lock}); return null; end $$;
             create constraint trigger hold after insert on fenced_ledger.log deferrable initially deferred
                 for each row execute function fenced_ledger.hold()"
        ))
        .await;
    sqlx::query(place.sql(&format!("select pg_advisory_lock({lock})"))).execute(&mut session).await?;
    let (lease, append) = (lease.clone(), append.clone());
    let append = tokio::spawn(async move { ledger.append(&lease, &append).await });
    let waits = format!(
        "select exists (select from pg_locks where locktype = 'advisory' and not granted
             and ((classid::bigint << 32) | objid::bigint) = {lock}::bigint)"
    );
    let start = Instant::now();
    while !sqlx::query_scalar(place.sql(&waits)).fetch_one(&mut session).await? {
        if append.is_finished() || start.elapsed() > PATIENCE {
            return Err("the append did not come to its commit".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let drop = "drop trigger hold on fenced_ledger.log; drop function fenced_ledger.hold()";
    let clean_up = format!("select pg_advisory_unlock({lock}); {drop}").replace("fenced_ledger", place.schema.name());
    Ok(Waiting { session, append, clean_up })
}

#[async_trait]
impl HeldCommit for Waiting {
    async fn commit(mut self: Box<Self>) -> ledger_core::Result<Appended> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(self.clean_up)).execute(&mut self.session).await.expect("the lock is let go");
        self.append.await.expect("no panic in an append")
    }
}

/// Triggers that count the writes of a transaction, and fail one.
pub struct Faults(PgConnection, String);

const WRITTEN: [&str; 4] = ["partition", "log", "rejection", "evidence_budget"];

pub async fn fail_write(place: &Place, nth: u32) -> Result<Faults, HarnessError> {
    place
        .run(&format!(
            "create table fenced_ledger.fault (left_over integer);
             insert into fenced_ledger.fault values ({nth});
             create function fenced_ledger.fail() returns trigger language plpgsql as $$
             begin
                 update fenced_ledger.fault set left_over = left_over - 1;
                 if exists (select from fenced_ledger.fault where left_over = 0) then
                     raise exception 'the disk is full' using errcode = '53100';
                 end if;
                 return new;
             end $$"
        ))
        .await;
    let mut clean_up = String::new();
    for table in WRITTEN {
        let trigger = "before insert or update";
        let on = format!("on fenced_ledger.{table}");
        place
            .run(&format!("create trigger fail {trigger} {on} for each row execute function fenced_ledger.fail()"))
            .await;
        clean_up.push_str(&format!("drop trigger fail {on}; "));
    }
    clean_up.push_str("drop function fenced_ledger.fail(); drop table fenced_ledger.fault");
    Ok(Faults(place.shell().await, clean_up.replace("fenced_ledger", place.schema.name())))
}

#[async_trait]
impl LockGuard for Faults {
    async fn release(mut self: Box<Self>) -> Result<(), HarnessError> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(self.1)).execute(&mut self.0).await?;
        Ok(())
    }
}
