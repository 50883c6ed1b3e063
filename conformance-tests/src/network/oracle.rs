//! Looks at every answer of the ledger in the order in which it gave them, and knows the leases by that alone.

use std::collections::HashMap;

use ledger_core::{AppendId, Appended, Claimed, Generation, Lease, PartitionId, Released, Renewal, Timestamp};

use crate::Violation;

/// What was granted, by partition.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    partitions: HashMap<PartitionId, Known>,
}

#[derive(Debug)]
struct Known {
    generation: Generation,
    expires_at: Timestamp,
    is_released: bool,
    /// Appends that were written, with the position of each.
    written: HashMap<AppendId, ledger_core::Position>,
}

impl Oracle {
    /// Whether a generation is not the newest that was granted.
    pub(super) fn is_stale(&self, lease: &Lease) -> bool {
        self.partitions.get(&lease.partition).is_some_and(|known| lease.generation < known.generation)
    }

    /// A granted claim. Says whether it is a takeover.
    pub(super) fn claimed(&mut self, claimed: &Claimed) -> Result<bool, Violation> {
        let lease = &claimed.lease;
        if claimed.judged.time >= lease.expires_at {
            return Err(Violation::new("a granted lease is valid (C4)", format!("{claimed:?}")));
        }
        if claimed.replayed {
            return Ok(false);
        }
        let known = self.partitions.get(&lease.partition);
        if let Some(known) = known {
            let next = known.generation.next();
            let over = known.is_released || claimed.judged.time >= known.expires_at;
            if next != Some(lease.generation) || !over {
                let expected = format!("a takeover of {known:?}, when it is over, to the next generation (C1, G1)");
                return Err(Violation::new(expected, format!("{claimed:?}")));
            }
        }
        let is_takeover = known.is_some();
        let known = self.partitions.entry(lease.partition.clone()).or_insert_with(|| Known {
            generation: lease.generation,
            expires_at: lease.expires_at,
            is_released: false,
            written: HashMap::new(),
        });
        (known.generation, known.expires_at, known.is_released) = (lease.generation, lease.expires_at, false);
        Ok(is_takeover)
    }

    pub(super) fn renewed(&mut self, lease: &Lease, renewal: &Renewal) -> Result<(), Violation> {
        let known = self.valid(lease, renewal.judged.time)?;
        known.expires_at = renewal.lease.expires_at;
        Ok(())
    }

    pub(super) fn released(&mut self, lease: &Lease, released: &Released) -> Result<(), Violation> {
        if let Released::Now { judged, .. } = released {
            self.valid(lease, judged.time)?.is_released = true;
        }
        Ok(())
    }

    /// An append that was granted. Says whether it wrote something.
    pub(super) fn appended(&mut self, lease: &Lease, appended: &Appended) -> Result<bool, Violation> {
        let known = self.valid(lease, appended.judged.time)?;
        let entry = &appended.entry;
        let Some(id) = entry.id else {
            return Err(Violation::new("an append's entry has its id", format!("{appended:?}")));
        };
        match known.written.insert(id, entry.last) {
            None if !appended.replayed => Ok(true),
            Some(position) if appended.replayed && position == entry.last => Ok(false),
            before => {
                let seen = format!("{appended:?}, and before {before:?}");
                Err(Violation::new("one write for each id, and replays of just that (A4)", seen))
            }
        }
    }

    fn valid(&mut self, lease: &Lease, time: Timestamp) -> Result<&mut Known, Violation> {
        let known = self.partitions.get_mut(&lease.partition);
        let expected = "only the newest tenure may write, while it lasts (A1)";
        let Some(known) = known else { return Err(Violation::new(expected, "a partition that nobody has claimed")) };
        if known.generation != lease.generation || known.is_released || time >= known.expires_at {
            let (generation, expires_at, released) = (known.generation, known.expires_at, known.is_released);
            let current = format!("generation {generation}, released: {released}, expires {expires_at}");
            return Err(Violation::new(expected, format!("{lease:?} was accepted at {time}; current is {current}")));
        }
        Ok(known)
    }
}
