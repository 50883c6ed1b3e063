//! The router: each call goes to the cluster of its partition.

use std::sync::Arc;

use async_trait::async_trait;
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Capability, Claim, Claimed, Description, Durability, Ended,
    EventKind, Fate, FencedLedger, Generation, Invalid, LazyPage, Lease, LedgerId, Note, Observation, Page, PageSize,
    PartitionId, PartitionPage, PartitionState, Position, RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};

use crate::layout::Layout;
use crate::record::LAYOUT_PARTITION;

/// How many slots a budget of evidence has, the overflow record among them.
const SLOTS: u16 = RecordSlot::OVERFLOW;

/// Several ledgers as one: see the [crate's documentation](crate).
///
/// Cheap to clone. Each method is cancel safe as its cluster's is.
#[derive(Clone, Debug)]
pub struct Router {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    layout: Layout,
    /// In the order of their names.
    clusters: Vec<Cluster>,
    id: LedgerId,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) ledger: Arc<dyn FencedLedger>,
    pub(crate) description: Description,
}

impl Cluster {
    pub(crate) fn id(&self) -> LedgerId {
        self.description.ledger
    }
}

impl Router {
    pub(crate) fn of(layout: Layout, clusters: Vec<Cluster>, id: LedgerId) -> Self {
        Self { shared: Arc::new(Shared { layout, clusters, id }) }
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// The ledger on which a partition is.
    ///
    /// # Errors
    ///
    /// [`Invalid::Unusable`] where the layout has no place for it, or it is the router's own.
    pub fn ledger_of(&self, partition: &PartitionId) -> Result<&dyn FencedLedger, Invalid> {
        self.cluster(partition).map(|cluster| &*cluster.ledger)
    }

    fn cluster(&self, partition: &PartitionId) -> Result<&Cluster, Invalid> {
        let unusable = |problem| Invalid::Unusable { what: "partition", problem };
        if partition.as_str() == LAYOUT_PARTITION {
            return Err(unusable(format!("`{partition}` is the router's own")));
        }
        let name = self.shared.layout.cluster_of(partition);
        let found = name.and_then(|name| self.shared.clusters.iter().find(|cluster| cluster.name == name));
        found.ok_or_else(|| unusable(format!("the layout has no cluster for `{partition}`")))
    }

    /// The names on one cluster after `after` that are there by the layout, and as many as `wanted` if there are.
    async fn names(&self, cluster: &Cluster, after: Option<&PartitionId>, wanted: usize) -> Result<Vec<PartitionId>> {
        let (mut names, mut after) = (Vec::new(), after.cloned());
        let size = PageSize::new(u32::try_from(wanted).unwrap_or(u32::MAX).min(PageSize::MAX.get()))?;
        loop {
            let page = cluster.ledger.partitions(after.as_ref(), size).await?;
            let here = |partition: &PartitionId| self.cluster(partition).is_ok_and(|there| there.name == cluster.name);
            names.extend(page.partitions.into_iter().filter(here));
            after = page.next;
            if after.is_none() || names.len() >= wanted {
                return Ok(names);
            }
        }
    }
}

#[async_trait]
impl FencedLedger for Router {
    /// The id is the layout's; leases and states name the ledger of their cluster.
    async fn describe(&self) -> Result<Description> {
        let clusters = &self.shared.clusters;
        let told: Vec<String> = clusters
            .iter()
            .map(|Cluster { name, description, .. }| format!("{name}: {} {}", description.engine, description.version))
            .collect();
        let weakest = clusters.iter().map(|cluster| cluster.description.durability).min();
        let many = clusters.iter().all(|cluster| cluster.description.capabilities.contains(&Capability::ManyProcesses));
        let capabilities = many.then_some(Capability::ManyProcesses).into_iter().collect();
        let durability = weakest.unwrap_or(Durability::Volatile);
        Ok(Description::new(self.shared.id, "router", told.join("; "), durability, capabilities))
    }

    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.ledger_of(partition)?.observe(partition).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.ledger_of(&claim.partition)?.claim(claim).await
    }

    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.ledger_of(&lease.partition)?.renew(lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.ledger_of(&lease.partition)?.release(lease).await
    }

    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.ledger_of(partition)?.end_tenure(partition, observed, reason).await
    }

    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.ledger_of(&advance.partition)?.advance(advance).await
    }

    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.ledger_of(&lease.partition)?.append(lease, append).await
    }

    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.ledger_of(partition)?.fate(partition, id, generation).await
    }

    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.ledger_of(partition)?.read(partition, from, limit).await
    }

    async fn read_lazily(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<LazyPage> {
        self.ledger_of(partition)?.read_lazily(partition, from, limit).await
    }

    async fn read_kind(
        &self,
        partition: &PartitionId,
        kind: &EventKind,
        from: Position,
        limit: PageSize,
    ) -> Result<Page> {
        self.ledger_of(partition)?.read_kind(partition, kind, from, limit).await
    }

    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.ledger_of(partition)?.read_back(partition, from, limit).await
    }

    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        let size = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let mut names = Vec::new();
        for cluster in &self.shared.clusters {
            // One more than the page has, to see whether another follows.
            names.extend(self.names(cluster, after, size.saturating_add(1)).await?);
        }
        names.sort_unstable_by(|one, other| one.as_str().as_bytes().cmp(other.as_str().as_bytes()));
        let more = names.len() > size;
        names.truncate(size);
        Ok(PartitionPage::new(names, more))
    }

    /// Of never-claimed partitions: those of the first cluster by name in the slots 1 to 257, those of the second in 258
    /// to 514, and so on.
    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        if let Some(partition) = partition {
            return self.ledger_of(partition)?.rejections(Some(partition), after, limit).await;
        }
        let number = after.map_or(0, |slot| slot.number);
        let size = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let mut records = Vec::new();
        for (cluster, nth) in self.shared.clusters.iter().zip(0..) {
            let first = nth * SLOTS;
            if number >= first + SLOTS {
                continue;
            }
            let mut after = (number > first).then(|| RecordSlot::new(None, number - first));
            while records.len() <= size {
                let page = cluster.ledger.rejections(None, after, limit).await?;
                records.extend(page.records.into_iter().map(|mut record| {
                    record.slot.number += first;
                    record
                }));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        let more = records.len() > size;
        records.truncate(size);
        Ok(RecordPage::new(records, more))
    }
}
