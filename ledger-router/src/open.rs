//! Installing a layout, and opening a router on clusters that have recorded it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger_core::{Description, FencedLedger, Invalid, LedgerError, LedgerId, PageSize, PartitionId};

use crate::layout::Layout;
use crate::record::{self, LAYOUT_PARTITION, Record};
use crate::router::{Cluster, Router};

/// Why a router does not open, or a layout is not installed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A cluster of the layout was not given, or one was given that is not of the layout.
    #[error("the layout has the clusters {layout:?}, and {given:?} were given")]
    OtherClusters {
        /// The clusters of the layout.
        layout: Vec<String>,
        /// The clusters that were given.
        given: Vec<String>,
    },
    /// Two names lead to one ledger.
    #[error("{one:?} and {other:?} are one ledger: {ledger}")]
    SameLedger {
        /// One name.
        one: String,
        /// The other.
        other: String,
        /// The ledger.
        ledger: LedgerId,
    },
    /// A cluster has recorded no layout: nobody has installed it, or an installation has not come to its end.
    #[error("cluster {cluster:?} has recorded no layout: install it with `Router::install`")]
    Unknown {
        /// The cluster.
        cluster: String,
    },
    /// A cluster has recorded another layout, other ledgers, or that it is another cluster.
    #[error("cluster {cluster:?} has recorded another layout than the one given: {recorded}")]
    Changed {
        /// The cluster, as it was given.
        cluster: String,
        /// What it has recorded.
        recorded: String,
    },
    /// A cluster has a partition that the layout sends elsewhere, or nowhere.
    #[error("cluster {cluster:?} has the partition `{partition}`, which the layout sends to {to:?}")]
    Misplaced {
        /// The cluster.
        cluster: String,
        /// The partition.
        partition: PartitionId,
        /// Where it should be.
        to: Option<String>,
    },
    /// A cluster did not do what was asked.
    #[error("cluster {cluster:?}: {error}")]
    Ledger {
        /// The cluster.
        cluster: String,
        /// Its error.
        error: LedgerError,
    },
    /// A name of this crate's own is refused, which can not be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Clusters by name.
type Given<'a> = Vec<(&'a str, Arc<dyn FencedLedger>)>;

impl Router {
    /// Records a layout in each of its clusters: an operator's step, once for all. May be repeated, also by several at once
    /// and after a crash in the middle. So a dropped future is repeated.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Changed`] where another layout is recorded, and [`LayoutError::Misplaced`] where a cluster has a
    /// partition that is not there by the layout: nothing is recorded then, unless another installation came between. Else as
    /// [`open`](Self::open).
    pub async fn install(layout: Layout, clusters: Given<'_>) -> Result<(), LayoutError> {
        let clusters = ordered(&layout, clusters).await?;
        let ledgers = ledgers(&clusters);
        for cluster in &clusters {
            let ours = Record::new(&layout, &ledgers, &cluster.name);
            if let Some(recorded) = cluster.told(record::read(&*cluster.ledger).await)? {
                same(&cluster.name, &ours, &recorded)?;
            }
            nothing_misplaced(&layout, cluster).await?;
        }
        // In the order of names, so that of two that install different layouts one is refused by the first cluster.
        for cluster in &clusters {
            let ours = Record::new(&layout, &ledgers, &cluster.name);
            let recorded = cluster.told(record::write(&*cluster.ledger, &ours).await)?;
            same(&cluster.name, &ours, &recorded)?;
        }
        Ok(())
    }

    /// Opens a router on clusters that have recorded just this layout. The record is looked at once, here. Cancel safe.
    ///
    /// # Errors
    ///
    /// A [`LayoutError`] names the cluster and what is wrong. Nothing is written.
    pub async fn open(layout: Layout, clusters: Given<'_>) -> Result<Self, LayoutError> {
        let clusters = ordered(&layout, clusters).await?;
        let ledgers = ledgers(&clusters);
        for cluster in &clusters {
            let recorded = cluster.told(record::read(&*cluster.ledger).await)?;
            let recorded = recorded.ok_or_else(|| LayoutError::Unknown { cluster: cluster.name.clone() })?;
            same(&cluster.name, &Record::new(&layout, &ledgers, &cluster.name), &recorded)?;
        }
        let id = record::layout_id(layout.fingerprint(&ledgers))?;
        Ok(Self::of(layout, clusters, id))
    }
}

impl Cluster {
    fn told<T>(&self, answer: Result<T, LedgerError>) -> Result<T, LayoutError> {
        answer.map_err(|error| LayoutError::Ledger { cluster: self.name.clone(), error })
    }
}

/// The clusters in the order of their names, each with what it says of itself.
async fn ordered(layout: &Layout, given: Given<'_>) -> Result<Vec<Cluster>, LayoutError> {
    let mut by_name: BTreeMap<&str, _> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for (name, ledger) in given {
        names.push(name.to_owned());
        by_name.insert(name, ledger);
    }
    if names.len() != by_name.len() || !layout.clusters().eq(by_name.keys().copied()) {
        return Err(LayoutError::OtherClusters {
            layout: layout.clusters().map(str::to_owned).collect(),
            given: names,
        });
    }
    let mut clusters: Vec<Cluster> = Vec::new();
    for (name, ledger) in by_name {
        let described: Result<Description, _> = ledger.describe().await;
        let error = |error| LayoutError::Ledger { cluster: name.to_owned(), error };
        let cluster = Cluster { name: name.to_owned(), ledger, description: described.map_err(error)? };
        if let Some(other) = clusters.iter().find(|other| other.id() == cluster.id()) {
            let (one, ledger) = (other.name.clone(), cluster.id());
            return Err(LayoutError::SameLedger { one, other: cluster.name, ledger });
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn ledgers(clusters: &[Cluster]) -> Vec<LedgerId> {
    clusters.iter().map(Cluster::id).collect()
}

fn same(cluster: &str, ours: &Record, recorded: &Record) -> Result<(), LayoutError> {
    let is_same = recorded.version == ours.version
        && recorded.fingerprint == ours.fingerprint
        && recorded.cluster == ours.cluster;
    if is_same {
        return Ok(());
    }
    // It is made of texts and numbers alone.
    let recorded = serde_json::to_string(recorded).unwrap_or_default();
    Err(LayoutError::Changed { cluster: cluster.to_owned(), recorded })
}

async fn nothing_misplaced(layout: &Layout, cluster: &Cluster) -> Result<(), LayoutError> {
    let mut after: Option<PartitionId> = None;
    loop {
        let page = cluster.told(cluster.ledger.partitions(after.as_ref(), PageSize::MAX).await)?;
        for partition in page.partitions {
            let to = layout.cluster_of(&partition);
            if partition.as_str() != LAYOUT_PARTITION && to != Some(&*cluster.name) {
                let to = to.map(str::to_owned);
                return Err(LayoutError::Misplaced { cluster: cluster.name.clone(), partition, to });
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
