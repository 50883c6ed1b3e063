//! Copies of a ledger, to go back to.

use ledger_core::PartitionId;

use crate::partition::Partition;
use ledger_core::RecordBudget;

/// A ledger as it stood when [`MemoryLedger::copy`](crate::MemoryLedger::copy) was called.
///
/// With [`MemoryLedger::restore`](crate::MemoryLedger::restore) it is to a test what a backup is to a store on disk: a way
/// to see what your code does when its store goes back in time (I3).
#[derive(Clone, Debug)]
pub struct MemoryCopy {
    pub(crate) partitions: Vec<(PartitionId, Partition)>,
    pub(crate) never_claimed: RecordBudget,
}
