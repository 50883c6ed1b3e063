//! PostgreSQL: one server with fsync on, on a disk, that all contestants of a run share.

mod costs;
mod facts;
mod load;
mod refusals;
mod takeover;
mod throughput;
mod write;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ledger_postgres::{Options, PostgresLedger, Schema};
use test_postgres::{Server, Wanted};

use crate::report::Report;
use crate::{Plan, Result};

/// The benchmarks on PostgreSQL.
#[derive(clap::Subcommand)]
pub(crate) enum Benchmark {
    /// Appends a second on PostgreSQL, against plain INSERTs through the same kind of pool.
    Postgres(Arguments),
    /// Round trips, flushes, bytes, CPU, growth by refusals and the wait for a stalled client on PostgreSQL.
    PostgresCosts(costs::Arguments),
    /// Appends on PostgreSQL beside stale writers, an old snapshot, a large log, many partitions and a standby.
    PostgresLoad(load::Arguments),
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The major version.
    #[arg(long, default_value_t = 18)]
    major: u32,
}

impl Benchmark {
    /// Runs it, prints its tables, and writes them as JSON where asked to.
    pub(crate) async fn run(self, plan: &Plan, json: Option<PathBuf>) -> Result<()> {
        let text = match self {
            Self::Postgres(arguments) => {
                let reports = throughput::run(plan, &arguments).await?;
                reports.iter().for_each(|report| println!("{report}\n"));
                serde_json::to_string_pretty(&reports)?
            }
            Self::PostgresCosts(arguments) => {
                let facts = costs::run(plan, &arguments).await?;
                serde_json::to_string_pretty(&facts)?
            }
            Self::PostgresLoad(arguments) => serde_json::to_string_pretty(&load::run(plan, &arguments).await?)?,
        };
        if let Some(file) = json {
            std::fs::write(file, text)?;
        }
        Ok(())
    }
}

/// Appends a second.
pub(crate) async fn throughput(plan: &Plan, arguments: &Arguments) -> Result<Vec<Report>> {
    throughput::run(plan, arguments).await
}

/// Starts the server in the plan's folder. Its settings are PostgreSQL's own.
pub(crate) fn start(plan: &Plan, arguments: &Arguments) -> Result<Server> {
    // Started by root, the server runs as another user, who must be able to make its folder there.
    let folder = std::fs::canonicalize(&plan.folder)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777))?;
    let wanted = Wanted::Major(arguments.major);
    let server = test_postgres::Options::new(wanted).folder(folder).start()?;
    let version = server.installation().version();
    println!("PostgreSQL {version}, its own settings (fsync on), on a Unix socket\n");
    if server.is_in_memory() {
        println!("The folder is on a file system in memory, where a flush costs nothing: name another by --folder.\n");
    }
    Ok(server)
}

/// Installs a schema of this name and returns how to open it, with so many connections and none beside them.
async fn install(server: &Server, name: &str, connections: usize) -> Result<Options> {
    let schema = Schema::new(name)?;
    schema.migrate_url(&server.url()).await?;
    Ok(Options::new().schema(schema).connections(connections).reserve(0))
}

/// Installs a schema and opens it on connections of the library's own.
async fn open(server: &Server, name: &str, connections: usize) -> Result<PostgresLedger> {
    Ok(install(server, name, connections).await?.connect(&server.url()).await?)
}
