//! Partitions as the writer's connection last saw or left them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ledger_core::PartitionId;
use rusqlite::Connection;

use crate::classify::Trouble;
use crate::store::{self, Found};

/// Half of the partitions that are kept, of about half a kilobyte each.
const HALF: usize = 65_536;

/// What is known of partitions without asking SQLite. A look into the tables is three pages, of a large ledger for the
/// most part not in its cache.
///
/// It outlives a group, because `PRAGMA data_version`, read under the lock, shows whether another connection has
/// committed since. It does not outlive a transaction that was rolled back.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    recent: HashMap<PartitionId, Option<Found>>,
    /// What was recent before. Who is not asked for until the next turn is forgotten.
    earlier: HashMap<PartitionId, Option<Found>>,
    /// Forgotten, and to be freed when nobody waits for the lock: 100,000 partitions take some 10 ms.
    forgotten: Vec<HashMap<PartitionId, Option<Found>>>,
    data_version: Option<i64>,
}

impl Standings {
    /// Forgets what another connection may have changed. Called under the lock, before anything is read.
    pub(crate) fn refresh(&mut self, connection: &Connection) -> Result<(), Trouble> {
        let mut statement = connection.prepare_cached("PRAGMA data_version")?;
        let now: i64 = statement.query_row([], |row| row.get(0))?;
        if self.data_version != Some(now) {
            self.forget();
            self.data_version = Some(now);
        }
        Ok(())
    }

    /// Forgets everything: the transaction that changed it was rolled back, or may have been.
    pub(crate) fn forget(&mut self) {
        self.forgotten.extend([std::mem::take(&mut self.recent), std::mem::take(&mut self.earlier)]);
        self.data_version = None;
    }

    /// Makes room, and frees what was forgotten. Called without the lock.
    pub(crate) fn tidy(&mut self) {
        if self.recent.len() >= HALF {
            self.turn();
        }
        self.forgotten.clear();
    }

    fn turn(&mut self) {
        let recent = std::mem::take(&mut self.recent);
        self.forgotten.push(std::mem::replace(&mut self.earlier, recent));
    }

    /// The partition as it stands in the connection's transaction. What is written to it is to be changed here too.
    pub(crate) fn of(
        &mut self,
        connection: &Connection,
        partition: &PartitionId,
    ) -> Result<&mut Option<Found>, Trouble> {
        match self.recent.entry(partition.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let found = match self.earlier.remove(partition) {
                    Some(found) => found,
                    None => store::find(connection, partition)?,
                };
                Ok(place.insert(found))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger_core::{AcquisitionId, Digest, Generation, Holder, Position, Standing, StoredLease, Timestamp, Ttl};

    use super::*;
    use crate::statement;

    fn found() -> Found {
        let at = Timestamp::from_micros(1);
        let holder = Holder::new("a").expect("a holder");
        let lease = StoredLease::new(
            (Generation::FIRST, holder, AcquisitionId::mint()),
            (Ttl::default(), at),
            None,
            0,
            at,
            (Position::FIRST, Digest::new([0; 32])),
        );
        Found { key: 1, standing: Standing::new(lease, None) }
    }

    #[test]
    fn what_is_asked_for_is_kept_and_what_is_not_is_read_again() {
        let connection = Connection::open_in_memory().expect("a database");
        for step in statement::VERSIONS {
            connection.execute_batch(step).expect("a table");
        }
        let jobs = PartitionId::new("jobs").expect("a partition");
        let mut standings = Standings::default();
        standings.refresh(&connection).expect("refreshed");
        // The table knows no partition, so who is known was kept.
        *standings.of(&connection, &jobs).expect("read") = Some(found());
        for _ in 0..3 {
            standings.turn();
            standings.tidy();
            assert!(standings.of(&connection, &jobs).expect("kept").is_some());
        }
        standings.turn();
        standings.turn();
        assert!(standings.of(&connection, &jobs).expect("read").is_none());
        *standings.of(&connection, &jobs).expect("read") = Some(found());
        standings.refresh(&connection).expect("refreshed");
        assert!(standings.of(&connection, &jobs).expect("kept").is_some(), "nobody else has committed");
        standings.turn();
        standings.forget();
        assert!(standings.of(&connection, &jobs).expect("read").is_none());
    }
}
