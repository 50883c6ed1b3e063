//! Goal: a layout that is unknown, changed, or not that of the clusters that are given is refused, before anything is
//! written; each partition is on its cluster alone; lists are merged.

use std::sync::Arc;

use ledger_core::{
    Append, Claim, FencedLedger, FencedLedgerExt, Holder, Invalid, LedgerError, LedgerWitness, Marking, NewEvent,
    Observation, PageSize, PartitionId, Ttl, Witnessed,
};
use ledger_memory::MemoryLedger;
use ledger_router::{LAYOUT_PARTITION, Layout, LayoutError, Router};

fn partition(name: &str) -> PartitionId {
    PartitionId::new(name).expect("a name")
}

struct Two {
    east: MemoryLedger,
    west: MemoryLedger,
}

impl Two {
    fn new() -> Self {
        Self { east: MemoryLedger::new(), west: MemoryLedger::new() }
    }

    fn given(&self) -> Vec<(&'static str, Arc<dyn FencedLedger>)> {
        vec![("west", Arc::new(self.west.clone())), ("east", Arc::new(self.east.clone()))]
    }

    fn swapped(&self) -> Vec<(&'static str, Arc<dyn FencedLedger>)> {
        vec![("east", Arc::new(self.west.clone())), ("west", Arc::new(self.east.clone()))]
    }
}

fn hashed() -> Layout {
    Layout::hashed(["east", "west"]).expect("a layout")
}

async fn claim(ledger: &dyn FencedLedger, name: &str) -> ledger_core::Result<ledger_core::Lease> {
    let holder = Holder::new("a").expect("a name");
    let ttl = Ttl::from_millis(60_000).expect("a TTL");
    Ok(ledger.claim(&Claim::new(partition(name), holder, ttl, Observation::NeverClaimed)).await?.lease)
}

#[tokio::test]
async fn a_layout_that_nobody_has_installed_is_refused() {
    let two = Two::new();
    let error = Router::open(hashed(), two.given()).await.expect_err("unknown");
    assert!(matches!(&error, LayoutError::Unknown { cluster } if cluster == "east"), "{error}");
    assert!(error.to_string().contains("Router::install"), "{error}");
    let listed = two.east.partitions(None, PageSize::MAX).await.expect("listed");
    assert!(listed.partitions.is_empty(), "a router that does not open writes nothing");
}

#[tokio::test]
async fn an_installation_that_stopped_half_way_is_refused_until_it_is_repeated() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    // As if it had come to the first cluster alone: another second one, in which nothing is recorded.
    let half = Two { east: two.east.clone(), west: MemoryLedger::new() };
    let error = Router::open(hashed(), half.given()).await.expect_err("another ledger in the place of `west`");
    assert!(matches!(&error, LayoutError::Changed { cluster, .. } if cluster == "east"), "{error}");

    let fresh = Two::new();
    let alone = Layout::hashed(["east"]).expect("a layout");
    Router::install(alone, vec![("east", Arc::new(fresh.east.clone()))]).await.expect("installed");
    let error = Router::install(hashed(), fresh.given()).await.expect_err("one cluster has another layout");
    assert!(matches!(error, LayoutError::Changed { .. }), "{error}");
    let listed = fresh.west.partitions(None, PageSize::MAX).await.expect("listed");
    assert!(listed.partitions.is_empty(), "nothing was recorded in the other");
}

#[tokio::test]
async fn it_may_be_installed_again_and_by_several_at_once() {
    let two = Two::new();
    let all = (0..4).map(|_| {
        let given = two.given();
        tokio::spawn(async move { Router::install(hashed(), given).await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.expect("no panic").expect("installed");
    }
    let own = partition(LAYOUT_PARTITION);
    let events = two.east.fold(&own, 0, |count, event| count + usize::from(!event.kind.is_own()));
    assert_eq!(events.await.expect("read"), 1, "recorded once");
    Router::open(hashed(), two.given()).await.expect("opened");
}

#[tokio::test]
async fn a_changed_layout_is_refused() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    let others = [
        Layout::mapped([(partition("x"), "east")]).and_then(|layout| layout.others("west")).expect("a layout"),
        Layout::mapped([(partition("x"), "east"), (partition("y"), "west")]).expect("a layout"),
    ];
    for layout in others {
        let error = Router::open(layout.clone(), two.given()).await.expect_err("changed");
        assert!(matches!(&error, LayoutError::Changed { recorded, .. } if recorded.contains("hashed")), "{error}");
        let error = Router::install(layout, two.given()).await.expect_err("changed");
        assert!(matches!(error, LayoutError::Changed { .. }), "{error}");
    }
}

#[tokio::test]
async fn clusters_that_are_exchanged_missing_or_the_same_are_refused() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    let error = Router::open(hashed(), two.swapped()).await.expect_err("exchanged");
    assert!(matches!(error, LayoutError::Changed { .. }), "{error}");
    let error = Router::open(hashed(), two.given().split_off(1)).await.expect_err("one is missing");
    assert!(matches!(error, LayoutError::OtherClusters { .. }), "{error}");
    let same = Two { east: two.east.clone(), west: two.east.clone() };
    let error = Router::open(hashed(), same.given()).await.expect_err("one ledger under two names");
    assert!(matches!(error, LayoutError::SameLedger { .. }), "{error}");
}

#[tokio::test]
async fn a_cluster_with_a_partition_that_belongs_elsewhere_is_not_taken() {
    let two = Two::new();
    let layout = Layout::mapped([(partition("x"), "east"), (partition("y"), "west")]).expect("a layout");
    claim(&two.west, "x").await.expect("claimed");
    let error = Router::install(layout, two.given()).await.expect_err("misplaced");
    let LayoutError::Misplaced { cluster, partition: found, to } = &error else { panic!("{error}") };
    assert_eq!((&**cluster, found.as_str(), to.as_deref()), ("west", "x", Some("east")));
}

#[tokio::test]
async fn each_partition_is_on_its_cluster_alone_and_the_lists_are_merged() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    let router = Router::open(hashed(), two.given()).await.expect("opened");
    let names: Vec<String> = (0..40).map(|nth| format!("jobs/{nth:02}")).collect();
    for name in &names {
        let lease = claim(&router, name).await.expect("claimed");
        let append = Append::new([NewEvent::of("noted", &name).expect("an event")]).expect("an append");
        router.append(&lease, &append).await.expect("appended");
        let (here, there) = match router.layout().cluster_of(&lease.partition) {
            Some("east") => (&two.east, &two.west),
            _ => (&two.west, &two.east),
        };
        assert_eq!(
            lease.ledger,
            here.describe().await.expect("described").ledger,
            "the lease names its cluster's ledger"
        );
        assert!(there.observe(&lease.partition).await.expect("observed").tenure.is_none());
        // On the other cluster it is refused as another ledger's.
        let refused = there.append(&lease, &append).await.expect_err("refused");
        assert!(matches!(refused, LedgerError::Invalid(Invalid::WrongLedger { .. })), "{refused}");
    }
    for cluster in [&two.east, &two.west] {
        let count = cluster.partitions(None, PageSize::MAX).await.expect("listed").partitions.len();
        assert!((10..=31).contains(&count), "both have a share: {count}");
    }
    for size in [1, 7, 40, 100] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = router.partitions(after.as_ref(), PageSize::new(size).expect("a size")).await.expect("listed");
            listed.extend(page.partitions.iter().map(|name| name.as_str().to_owned()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed, names, "in the order of bytes, without the router's own, in pages of {size}");
    }
}

#[tokio::test]
async fn a_partition_without_a_place_and_the_routers_own_are_refused_before_a_cluster_is_asked() {
    let two = Two::new();
    let layout = || Layout::mapped([(partition("x"), "east"), (partition("y"), "west")]).expect("a layout");
    Router::install(layout(), two.given()).await.expect("installed");
    let router = Router::open(layout(), two.given()).await.expect("opened");
    claim(&router, "x").await.expect("claimed");
    for (name, word) in [("z", "no cluster"), (LAYOUT_PARTITION, "router's own")] {
        let error = claim(&router, name).await.expect_err(name);
        assert!(matches!(error, LedgerError::Invalid(_)) && error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn records_of_never_claimed_partitions_are_listed_over_all_clusters_in_pages() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    let router = Router::open(hashed(), two.given()).await.expect("opened");
    let leases = {
        let (one, other) =
            (claim(&router, "jobs/0").await.expect("claimed"), claim(&router, "jobs/1").await.expect("claimed"));
        assert_ne!(one.ledger, other.ledger, "chosen to be on two clusters");
        [one, other]
    };
    let append = Append::new([NewEvent::of("noted", &1).expect("an event")]).expect("an append");
    for lease in &leases {
        for nth in 0..3 {
            // Names on the lease's own cluster, which nobody has claimed.
            let name = (0..).map(|n| partition(&format!("free/{nth}/{n}")));
            let cluster = router.layout().cluster_of(&lease.partition);
            let mut lease = lease.clone();
            lease.partition = name.into_iter().find(|name| router.layout().cluster_of(name) == cluster).expect("one");
            router.append(&lease, &append).await.expect_err("never claimed");
        }
    }
    for size in [1, 2, 4, 100] {
        let (mut slots, mut after) = (Vec::new(), None);
        loop {
            let page = router.rejections(None, after, PageSize::new(size).expect("a size")).await.expect("listed");
            slots.extend(page.records.iter().map(|record| record.slot.number));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(slots, [1, 2, 3, 258, 259, 260], "in pages of {size}");
    }
}

#[tokio::test]
async fn a_witness_over_a_router_notices_a_cluster_that_went_back() {
    let two = Two::new();
    Router::install(hashed(), two.given()).await.expect("installed");
    let router = || Router::open(hashed(), two.given());
    let marks: Arc<dyn FencedLedger> = Arc::new(MemoryLedger::new());
    let witness = Arc::new(LedgerWitness::new(marks, Holder::new("witness").expect("a name")));
    let witnessed = |router: Router| Witnessed::new(Arc::new(router), witness.clone()).marking(Marking::Appends);
    let ledger = witnessed(router().await.expect("opened"));
    let lease = claim(&ledger, "jobs/0").await.expect("claimed");
    let cluster = if router().await.expect("opened").layout().cluster_of(&lease.partition) == Some("east") {
        &two.east
    } else {
        &two.west
    };
    let copy = cluster.copy();
    // Marked by the append alone, and read by the next claim: both must mean the same ledger.
    let append = Append::new([NewEvent::of("noted", &1).expect("an event")]).expect("an append");
    ledger.append(&lease, &append).await.expect("appended");
    cluster.restore(&copy);
    let claimant = witnessed(router().await.expect("the layout is in the copy too"));
    let observed = claimant.observe(&lease.partition).await.expect("observed").observation();
    let holder = Holder::new("b").expect("a name");
    let claim = Claim::new(lease.partition.clone(), holder, Ttl::default(), observed);
    let error = claimant.claim(&claim).await.expect_err("it went back");
    assert!(matches!(error, LedgerError::RolledBack(_)), "{error}");
}
