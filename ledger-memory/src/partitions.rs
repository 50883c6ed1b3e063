//! All partitions, found by the digest of their name, and their names in order.

use std::collections::BTreeSet;
use std::ops::Bound;

use hashbrown::HashTable;
use ledger_core::PartitionId;

use crate::partition::Partition;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// In so many parts, each under a lock of its own: calls about different partitions seldom meet.
const SHARDS: usize = 64;

/// Locks are taken in this order: a shard, the names; or a shard, a partition.
#[derive(Debug)]
pub(crate) struct Partitions {
    shards: Box<[Shard]>,
    names: RwLock<BTreeSet<PartitionId>>,
}

/// On a line of the processor's cache of its own: readers count themselves in it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(RwLock<HashTable<Found>>);

type Found = (PartitionId, Arc<Mutex<Partition>>);

impl Partitions {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), names: RwLock::default() }
    }

    /// The partition, where it was claimed before. No lock is held afterwards.
    pub(crate) fn find(&self, name: &PartitionId) -> Option<Arc<Mutex<Partition>>> {
        let hash = hash(name);
        let found = read(&self.shard(hash).0).find(hash, |(known, _)| known == name)?.1.clone();
        Some(found)
    }

    /// Puts a partition there that `first` makes under the lock, if it makes one. `None` where one is there already.
    pub(crate) fn first<T>(&self, name: &PartitionId, first: impl FnOnce() -> (Option<Partition>, T)) -> Option<T> {
        let hash = hash(name);
        let mut shard = write(&self.shard(hash).0);
        if shard.find(hash, |(known, _)| known == name).is_some() {
            return None;
        }
        let (partition, made) = first();
        if let Some(partition) = partition {
            insert(&mut shard, hash, (name.clone(), Arc::new(Mutex::new(partition))));
            write(&self.names).insert(name.clone());
        }
        Some(made)
    }

    /// So many names after one, in order, and whether more follow.
    pub(crate) fn names(&self, after: Option<&PartitionId>, limit: usize) -> (Vec<PartitionId>, bool) {
        let names = read(&self.names);
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut names = names.range::<PartitionId, _>((start, Bound::Unbounded)).cloned();
        let page = names.by_ref().take(limit).collect();
        (page, names.next().is_some())
    }

    /// A copy of every partition, each at one moment.
    pub(crate) fn copy(&self) -> Vec<(PartitionId, Partition)> {
        let copy = |(name, partition): &Found| (name.clone(), lock(partition).clone());
        self.shards.iter().flat_map(|shard| read(&shard.0).iter().map(copy).collect::<Vec<_>>()).collect()
    }

    /// These in the place of all that are there.
    pub(crate) fn replace(&self, partitions: &[(PartitionId, Partition)]) {
        let mut shards: Vec<_> = self.shards.iter().map(|shard| write(&shard.0)).collect();
        shards.iter_mut().for_each(|shard| shard.clear());
        for (name, partition) in partitions {
            let hash = hash(name);
            insert(&mut shards[nth(hash)], hash, (name.clone(), Arc::new(Mutex::new(partition.clone()))));
        }
        *write(&self.names) = partitions.iter().map(|(name, _)| name.clone()).collect();
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[nth(hash)]
    }
}

fn insert(shard: &mut HashTable<Found>, hash: u64, found: Found) {
    shard.insert_unique(hash, found, |(name, _)| self::hash(name));
}

/// The name's digest is uniform, and known to whoever holds the name: nothing is left to hash.
fn hash(name: &PartitionId) -> u64 {
    let digest = name.digest();
    let bytes = digest.as_bytes().first_chunk().expect("a digest has 32 bytes");
    u64::from_ne_bytes(*bytes)
}

/// By bits in the middle: a table takes those at both ends.
fn nth(hash: u64) -> usize {
    usize::try_from(hash >> 32).unwrap_or(0) % SHARDS
}

/// A lock whose holder panicked is taken all the same, here and below: what it guards is changed in one step, after
/// every check.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
