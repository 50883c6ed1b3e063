//! The hash that sends a partition to a cluster. It must never change: partitions are where it has sent them.

use sha2::{Digest as _, Sha256};

use ledger_core::PartitionId;

const DOMAIN: &[u8] = b"fenced-ledger/route/1";

/// Which of these clusters a partition is on: the one with the greatest weight (rendezvous hashing). The weight of a
/// cluster is
///
/// ```text
/// the first 8 bytes, as a big-endian number, of
/// SHA-256( "fenced-ledger/route/1" ‖ length of the cluster's name, 8 bytes big-endian ‖ the cluster's name ‖ the partition's name )
/// ```
///
/// with names as bytes of UTF-8. Of two equal weights the cluster counts whose name is smaller, byte for byte. The order of
/// the list does not matter. Rendezvous rather than a remainder: a cluster that is added takes its share from all others,
/// and nothing moves between those. `docs/route.py` of the project reproduces the vectors in `docs/route-vectors.json`,
/// and so does a test of this crate.
///
/// `None` of an empty list.
pub fn cluster_of<'a>(clusters: impl IntoIterator<Item = &'a str>, partition: &PartitionId) -> Option<&'a str> {
    let weighed = clusters.into_iter().map(|cluster| (weight(cluster, partition), std::cmp::Reverse(cluster)));
    weighed.max().map(|(_, std::cmp::Reverse(cluster))| cluster)
}

fn weight(cluster: &str, partition: &PartitionId) -> u64 {
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    hash.update((cluster.len() as u64).to_be_bytes());
    hash.update(cluster);
    hash.update(partition.as_str());
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Vector {
        clusters: Vec<String>,
        partition: String,
        weights: Vec<String>,
        cluster: String,
    }

    #[test]
    fn the_vectors_that_are_written_down_are_reproduced() {
        let text = include_str!("../../docs/route-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).expect("the vectors");
        assert!(vectors.len() >= 8);
        for Vector { clusters, partition, weights, cluster } in vectors {
            let partition = PartitionId::new(partition).expect("a name");
            let computed: Vec<String> =
                clusters.iter().map(|cluster| format!("{:016x}", weight(cluster, &partition))).collect();
            assert_eq!(computed, weights, "{partition}");
            assert_eq!(cluster_of(clusters.iter().map(String::as_str), &partition), Some(&*cluster), "{partition}");
            assert_eq!(cluster_of(clusters.iter().rev().map(String::as_str), &partition), Some(&*cluster), "any order");
        }
    }

    #[test]
    fn a_cluster_that_is_added_takes_its_share_and_nothing_moves_between_the_others() {
        let (old, new) = (["a", "b", "c"], ["a", "b", "c", "d"]);
        let partitions = (0..4_000).map(|nth| PartitionId::new(format!("jobs/{nth}")).expect("a name"));
        let moved: Vec<_> = partitions
            .filter_map(|partition| {
                let (before, after) = (cluster_of(old, &partition), cluster_of(new, &partition));
                (before != after).then_some(after)
            })
            .collect();
        assert!(moved.iter().all(|cluster| *cluster == Some("d")));
        assert!((900..1_100).contains(&moved.len()), "{} of 4,000, where a quarter is 1,000", moved.len());
    }
}
