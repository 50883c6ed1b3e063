//! What the handle, the writer and the readers share.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger_core::{Clock, Durability, Generation, LedgerId, PartitionId};

use crate::evidence::Evidence;
use crate::file::Watch;

/// Shared by all clones of a handle and its threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ledger: LedgerId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    /// How long a call waits for the write lock.
    pub(crate) busy_timeout: Duration,
    pub(crate) watch: Watch,
    pub(crate) evidence: Evidence,
    pub(crate) ended: Ended,
    /// Set by `close`: no further call is taken.
    pub(crate) is_closed: AtomicBool,
}

/// So many partitions are remembered; then all are forgotten.
const MAX_ENDED: usize = 4_096;

/// Which tenures this handle was told have visibly ended. Their next appends and renewals are looked up by a reader,
/// so that a writer that was fenced off and goes on in a loop costs the others nothing (E4).
///
/// A hint: the reader judges by what is stored.
#[derive(Debug, Default)]
pub(crate) struct Ended(Mutex<HashMap<PartitionId, Generation>>);

impl Ended {
    /// Whether `generation` of the partition is known to have ended.
    pub(crate) fn knows(&self, partition: &PartitionId, generation: Generation) -> bool {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(partition).is_some_and(|ended| generation <= *ended)
    }

    /// Remembers that `generation` has ended, and with it all before.
    pub(crate) fn remember(&self, partition: &PartitionId, generation: Generation) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = map.get_mut(partition) {
            *known = generation.max(*known);
            return;
        }
        if map.len() >= MAX_ENDED {
            map.clear();
        }
        map.insert(partition.clone(), generation);
    }
}
