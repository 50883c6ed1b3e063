//! A [`FencedLedger`](ledger_core::FencedLedger) in PostgreSQL 15 and newer: the server judges every write inside the
//! call that makes it.
//!
//! ```no_run
//! use ledger_core::{Append, FencedLedger, FencedLedgerExt, Holder, NewEvent, PartitionId, Ttl};
//! use ledger_postgres::{PostgresLedger, Schema};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "postgres://worker@localhost/app";
//! Schema::default().migrate_url(url).await?; // once, by a role that may create a schema
//! let ledger = PostgresLedger::connect(url).await?;
//!
//! let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//! let lease = ledger.claim_when_free(&partition, &holder, Ttl::default(), Duration::from_secs(10)).await?.lease;
//! ledger.append(&lease, &Append::new([NewEvent::of("job-done", &1)?])?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How the rules are upheld
//!
//! Every call is one call of a function of the schema, in a transaction of its own: one round trip, one flush. The
//! function takes the partition's row lock, unless the presented tenure has visibly ended (E4); then reads the schema's
//! clock (T4); then everything that it judges by, in a fresh snapshot (A1); judges (J1); and writes the events or the
//! record of the refusal. The outcome is a row. The statements stand in `src/sql`, each with its rules in its header.
//!
//! Writers need EXECUTE and SELECT alone (S5): the functions run with the rights of their owner and a fixed search path.
//! [`Schema::grants`] prints the grants, [`Schema::sql`] the DDL.
//!
//! # Connections
//!
//! [`PostgresLedger::connect`] keeps connections of its own, and more for renewals alone. [`PostgresLedger::new`] takes
//! a pool, at a price that is named there. [`Options::transaction_pooler`] is for PgBouncer and its like in transaction
//! mode; opened without it, a ledger is refused behind such a pooler, or its calls are
//! [`NotWritten`](ledger_core::LedgerError::NotWritten).
//!
//! A URL with several hosts leads to the one that is the primary now, also after a failover: see [`Options::connect`].
//! [`PostgresReplica`] reads from a standby, and never judges.
//!
//! # Appends at the same moment
//!
//! Appends that wait at the same moment travel together, as one call with one flush, unless [`Options::coalesce`] turns
//! that off; over a pool that is given they never do. An append that finds no other on its way goes at once, by itself.
//! The call of a group grants what plainly holds and decides nothing else; a refusal, a replay or a conflict of positions
//! is answered by the append's own call, which follows. No group waits for a lock.
//!
//! # Refused again
//!
//! A refused append takes no lock of its partition where its tenure has visibly ended (E4), and each refusal is counted by
//! the server before it is answered, a repeat without a flush (E2, E3). A handle that was told that a tenure has ended looks
//! before it asks for a judgement of another append under it: one read without a lock, for all that wait at the same moment,
//! judged by what is stored. Those of them whose records it knows to be stored are counted by one call more, and then
//! answered; one that waits alone is judged and counted by its own call. Where the answer to that call is lost, the refusals stand and say that their record is
//! [`Missing`](ledger_core::RecordState::Missing); they are counted once or not at all.
//!
//! # Pages
//!
//! A page of events is one statement that needs SELECT alone, read in a task of its own: it ends whether its future is
//! polled or not, and keeps no connection for a stream whose consumer does something else (D6). Its rows are decoded as
//! they come. Where the events after the first ones are far larger than those, more may come than fit on the page; after
//! as many bytes again the connection is closed rather than read out.
//!
//! # TLS
//!
//! By the features `tls-native-tls`, `tls-rustls-ring` and `tls-rustls-aws-lc-rs`, which are sqlx's, and the URL's
//! `sslmode`.
//!
//! # Tracing
//!
//! Each call is a span at debug level: `fenced_ledger.append`, `.claim`, `.renew`, `.release`, `.end_tenure`, `.advance`, `.observe`,
//! `.fate`, `.read` (backwards too), `.partitions`, `.rejections`. Fields: `partition` where there is one; `holder` of a
//! claim; `generation` of a lease; `id` of an append and of `fate`; `events`, their number. Events:
//! `fenced_ledger.retry`, `fenced_ledger.migrated` and `fenced_ledger.migration_waits`. These names are stable. No payload and no
//! metadata is ever told;
//! on a pool that is given behind a pooler, that is up to the pool's owner, as sqlx logs statements.
//!
//! # In production
//!
//! `docs/production.md` in the repository: roles, poolers, standbys, time-outs, monitoring, restore, and what to do
//! about an unknown outcome.
//!
//! # Known limits
//!
//! - **Asynchronous replicas.** What is acknowledged is durable on the server that acknowledged it. Whether it survives
//!   the loss of that server is a matter of `synchronous_standby_names`.
//! - **A cancel during the wait for a standby looks like success.** While a commit waits for a synchronous standby,
//!   `pg_cancel_backend` or a `statement_timeout` ends the wait with a warning, and the server answers success: the
//!   event is on the primary and perhaps on no standby. The library never cancels at the server. A DBA should not
//!   either, and `statement_timeout` should be off for the ledger's role where standbys matter.
//! - **A clock that jumps ahead** expires leases; the way back is
//!   [`end_tenure`](ledger_core::FencedLedger::end_tenure).
//! - **A call that is dropped goes on at the server** until it ends, with its connection; its outcome is then unknown.

mod append;
mod call;
mod caller;
mod classify;
mod coalesce;
mod evidence;
mod group;
mod hosts;
mod lanes;
mod ledger;
mod look;
mod migrate;
mod open;
mod options;
mod page;
mod pool;
mod replica;
mod retry;
mod row;
mod schema;
mod statement;
mod url;

pub use ledger::PostgresLedger;
pub use options::Options;
pub use replica::{PostgresReplica, Replayed};
pub use schema::{SCHEMA_VERSION, Schema};

/// The Rust of that page compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/production.md")]
struct Production;
