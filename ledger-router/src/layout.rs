//! Which partition is on which cluster.

use std::collections::{BTreeMap, BTreeSet};

use ledger_core::{Digest, Invalid, LedgerId, PartitionId};
use sha2::{Digest as _, Sha256};

use crate::hash::cluster_of;

/// The most clusters of a layout: so many budgets of evidence fit into the slots of `rejections(None)`.
pub const MAX_CLUSTERS: usize = 255;

const DOMAIN: &[u8] = b"fenced-ledger/layout/1";

/// Which partition is on which cluster. A value that is the same in every process; what it says is recorded in each
/// cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    clusters: BTreeSet<String>,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    Hashed,
    Mapped { partitions: BTreeMap<String, String>, others: Option<String> },
}

impl Layout {
    /// Every partition by the [hash](cluster_of) of its name and the clusters'. The order of the names does not matter.
    ///
    /// # Errors
    ///
    /// A cluster's name is 1 to 63 lower-case letters, digits, hyphens and underscores, and each is there once; there
    /// are 1 to [`MAX_CLUSTERS`].
    pub fn hashed<'a>(clusters: impl IntoIterator<Item = &'a str>) -> Result<Self, Invalid> {
        let mut names = BTreeSet::new();
        for cluster in clusters {
            if !names.insert(checked(cluster)?) {
                return Err(unusable(format!("the cluster {cluster:?} is named twice")));
            }
        }
        counted(&names)?;
        Ok(Self { clusters: names, rule: Rule::Hashed })
    }

    /// Every partition where the map says. One that is not in the map is refused, unless
    /// [`others`](Self::others) says where all of these are.
    ///
    /// # Errors
    ///
    /// As [`hashed`](Self::hashed); a cluster may be named as often as it has partitions.
    pub fn mapped<'a>(partitions: impl IntoIterator<Item = (PartitionId, &'a str)>) -> Result<Self, Invalid> {
        let (mut names, mut map) = (BTreeSet::new(), BTreeMap::new());
        for (partition, cluster) in partitions {
            names.insert(checked(cluster)?);
            if let Some(before) = map.insert(partition.as_str().to_owned(), cluster.to_owned())
                && before != cluster
            {
                return Err(unusable(format!("the partition `{partition}` is on {before:?} and on {cluster:?}")));
            }
        }
        counted(&names)?;
        Ok(Self { clusters: names, rule: Rule::Mapped { partitions: map, others: None } })
    }

    /// The same map, with every other partition on this cluster. Without effect on a layout by hash, which knows a place
    /// for each.
    ///
    /// # Errors
    ///
    /// As [`hashed`](Self::hashed).
    pub fn others(mut self, cluster: &str) -> Result<Self, Invalid> {
        if let Rule::Mapped { others, .. } = &mut self.rule {
            self.clusters.insert(checked(cluster)?);
            *others = Some(cluster.to_owned());
        }
        counted(&self.clusters)?;
        Ok(self)
    }

    /// The clusters, in the order of their names' bytes.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().map(String::as_str)
    }

    /// The cluster of a partition, or `None` where a map does not know it.
    pub fn cluster_of(&self, partition: &PartitionId) -> Option<&str> {
        match &self.rule {
            Rule::Hashed => cluster_of(self.clusters(), partition),
            Rule::Mapped { partitions, others } => {
                partitions.get(partition.as_str()).or(others.as_ref()).map(String::as_str)
            }
        }
    }

    /// A digest of everything that the layout says, and of the ledgers that its clusters have, in the order of their
    /// names. With `text(x)` for its length, 8 bytes big-endian, and its bytes:
    ///
    /// ```text
    /// SHA-256( "fenced-ledger/layout/1" ‖ number of clusters, 8 bytes ‖ for each: text(name) ‖ ledger id, 16 bytes
    ///          ‖ 0x00, of a hash
    ///          | 0x01 ‖ number of partitions, 8 bytes ‖ for each, in the order of bytes: text(partition) ‖ text(cluster)
    ///                 ‖ text(cluster of all others, or empty) )
    /// ```
    pub(crate) fn fingerprint(&self, ledgers: &[LedgerId]) -> Digest {
        let mut hash = Sha256::new();
        let number = |number: usize| (number as u64).to_be_bytes();
        hash.update(DOMAIN);
        hash.update(number(self.clusters.len()));
        let text = |hash: &mut Sha256, text: &str| {
            hash.update(number(text.len()));
            hash.update(text);
        };
        for (cluster, ledger) in self.clusters.iter().zip(ledgers) {
            text(&mut hash, cluster);
            hash.update(ledger.as_uuid().as_bytes());
        }
        match &self.rule {
            Rule::Hashed => hash.update([0]),
            Rule::Mapped { partitions, others } => {
                hash.update([1]);
                hash.update(number(partitions.len()));
                for (partition, cluster) in partitions {
                    text(&mut hash, partition);
                    text(&mut hash, cluster);
                }
                text(&mut hash, others.as_deref().unwrap_or_default());
            }
        }
        Digest::new(hash.finalize().into())
    }

    /// The rule, for people who read the record. What counts is the fingerprint.
    pub(crate) fn rule(&self) -> impl serde::Serialize + '_ {
        &self.rule
    }
}

fn checked(cluster: &str) -> Result<String, Invalid> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if (1..=63).contains(&cluster.len()) && cluster.bytes().all(plain) {
        return Ok(cluster.to_owned());
    }
    Err(unusable(format!(
        "{cluster:?}: a cluster's name is 1 to 63 lower-case letters, digits, hyphens and underscores"
    )))
}

fn counted(clusters: &BTreeSet<String>) -> Result<(), Invalid> {
    let count = clusters.len();
    if (1..=MAX_CLUSTERS).contains(&count) {
        return Ok(());
    }
    Err(Invalid::OutOfRange { what: "number of clusters", min: 1, max: MAX_CLUSTERS as i128, actual: count as i128 })
}

fn unusable(problem: String) -> Invalid {
    Invalid::Unusable { what: "layout", problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str) -> PartitionId {
        PartitionId::new(name).expect("a name")
    }

    fn ledgers(count: u128) -> Vec<LedgerId> {
        (1..=count).map(|nth| LedgerId::from_uuid(uuid::Uuid::from_u128(nth)).expect("not nil")).collect()
    }

    #[test]
    fn each_difference_is_another_fingerprint() {
        let hashed = Layout::hashed(["b", "a"]).expect("a layout");
        let mapped = Layout::mapped([(partition("x"), "a"), (partition("y"), "b")]).expect("a layout");
        let (swapped, one) = (ledgers(2).into_iter().rev().collect::<Vec<_>>(), ledgers(2));
        let all = [
            hashed.fingerprint(&one),
            hashed.fingerprint(&swapped),
            Layout::hashed(["a", "c"]).expect("a layout").fingerprint(&one),
            Layout::hashed(["a", "b", "c"]).expect("a layout").fingerprint(&ledgers(3)),
            mapped.fingerprint(&one),
            Layout::mapped([(partition("x"), "b"), (partition("y"), "a")]).expect("a layout").fingerprint(&one),
            mapped.clone().others("a").expect("a layout").fingerprint(&one),
            mapped.others("b").expect("a layout").fingerprint(&one),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(
            all[0],
            Layout::hashed(["a", "b"]).expect("a layout").fingerprint(&one),
            "the order does not matter"
        );
        // Written down, so that it can not change unnoticed: clusters would refuse every router.
        assert_eq!(all[0].to_string(), include_str!("../../docs/layout-fingerprint.txt").trim());
    }

    #[test]
    fn a_map_knows_its_partitions_and_no_other_unless_it_is_told() {
        let layout = Layout::mapped([(partition("x"), "a"), (partition("y"), "b")]).expect("a layout");
        assert_eq!(layout.cluster_of(&partition("y")), Some("b"));
        assert_eq!(layout.cluster_of(&partition("z")), None);
        assert_eq!(layout.others("c").expect("a layout").cluster_of(&partition("z")), Some("c"));
    }

    #[test]
    fn what_can_not_be_meant_is_refused_and_named() {
        for (layout, word) in [
            (Layout::hashed([]), "number of clusters is 0"),
            (Layout::hashed(["a", "a"]), "twice"),
            (Layout::hashed(["A"]), "lower-case"),
            (Layout::hashed([""]), "1 to 63"),
            (Layout::mapped([(partition("x"), "a"), (partition("x"), "b")]), "is on \"a\" and on \"b\""),
        ] {
            let error = layout.expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
        let names: Vec<String> = (0..=MAX_CLUSTERS).map(|nth| format!("c{nth}")).collect();
        let error = Layout::hashed(names.iter().map(String::as_str)).expect_err("256").to_string();
        assert!(error.contains("256") && error.contains("255"), "{error}");
    }
}
