//! Several ledgers as one [`FencedLedger`](ledger_core::FencedLedger), for more partitions than one primary can carry.
//!
//! ```
//! use std::sync::Arc;
//! use ledger_core::{FencedLedger, FencedLedgerExt, Holder, LedgerError, PartitionId, Ttl};
//! use ledger_memory::MemoryLedger; // in production: PostgresLedger, one a cluster
//! use ledger_router::{Layout, Router};
//! use std::time::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clusters = || -> Vec<(&str, Arc<dyn FencedLedger>)> {
//! #     use std::sync::LazyLock;
//! #     static BOTH: LazyLock<[MemoryLedger; 2]> = LazyLock::new(Default::default);
//! #     let [one, two] = &*BOTH;
//! #     let (one, two) = (one.clone(), two.clone());
//!     vec![("east", Arc::new(one)), ("west", Arc::new(two))]
//! };
//! let layout = Layout::hashed(["east", "west"])?;
//! Router::install(layout.clone(), clusters()).await?; // once, by an operator
//!
//! let ledger = Router::open(layout, clusters()).await?; // refused where the layout is another
//! let (partition, holder) = (PartitionId::new("jobs/7")?, Holder::new("worker-a")?);
//! let lease = ledger.claim_when_free(&partition, &holder, Ttl::default(), Duration::from_secs(1)).await?.lease;
//! ledger.release(&lease).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it is
//!
//! A partition lives on one cluster, with its lease, its log and its evidence; every call about it goes there and is
//! judged there, in one step. Nothing spans two clusters, so the router adds no state and no failure of its own: where one
//! cluster does not answer, its partitions wait, and the others go on.
//!
//! Which cluster that is, the [`Layout`] says: by an explicit map, or by a hash that is written down in [`cluster_of`],
//! with vectors. The layout is recorded in each cluster, as an event of the partition [`LAYOUT_PARTITION`]; a router opens
//! only where every cluster has recorded the layout that it was given, under the name that it was given. So two processes
//! can not send one partition to two clusters, and a URL that was mistaken for another is refused.
//!
//! # What is different from one ledger
//!
//! - There are as many ledger ids as clusters. Leases, states and chains carry that of their cluster;
//!   [`describe`](ledger_core::FencedLedger::describe) names the layout, by an id derived from its fingerprint; a
//!   [`Witnessed`](ledger_core::Witnessed) over a router keeps its marks under that.
//! - Never-claimed partitions share one budget of evidence a *cluster* (E3). `rejections(None)` lists those of all
//!   clusters, in the order of the clusters' names; the slots count on from one to the next.
//! - What is on a cluster and not there by the layout is not shown. [`Router::install`] refuses such a cluster.
//!
//! Moving a partition, and so changing a layout, is not there yet.

mod hash;
mod layout;
mod open;
mod record;
mod router;

pub use hash::cluster_of;
pub use layout::{Layout, MAX_CLUSTERS};
pub use open::LayoutError;
pub use record::LAYOUT_PARTITION;
pub use router::Router;
