//! What a round draws from the seed.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::nemesis::Fault;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Sqlite { "SQLite" } else { "PostgreSQL" })
    }
}

/// What a round is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) engine: Engine,
    /// How long faults strike.
    pub(crate) time: Duration,
    pub(crate) ttl: Duration,
    pub(crate) workers: usize,
    pub(crate) partitions: usize,
    /// Between two faults, on average.
    pub(crate) pace: Duration,
    pub(crate) faults: Vec<Fault>,
    /// Whether the store is put back to an older copy in the middle.
    pub(crate) restore: bool,
    /// Whether the store is on a small file system, which can be filled.
    pub(crate) small_disk: bool,
}

impl Plan {
    /// The plan of a round: the same for the same seed and number.
    pub(crate) fn draw(seed: u64, number: u64, engine: Engine, campaign: Duration) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        // Of each store's rounds every fourth puts an older copy in the place of the newest.
        let restore = (number / 2) % 4 == 2;
        let small_disk = !restore && rng.u8(..3) == 0;
        let mut faults: Vec<Fault> = Fault::of(engine).iter().copied().filter(|_| rng.u8(..5) < 3).collect();
        faults.retain(|fault| !matches!(fault, Fault::DiskFull));
        if small_disk {
            faults.push(Fault::DiskFull);
        }
        if restore {
            faults.retain(|fault| matches!(fault, Fault::Pause | Fault::Kill));
        }
        if !faults.contains(&Fault::Kill) && rng.bool() {
            faults.push(Fault::Kill);
        }
        if faults.is_empty() {
            faults.push(Fault::Pause);
        }
        let time = Duration::from_secs_f64((campaign.as_secs_f64() / 24.0).clamp(5.0, 16.0));
        Self {
            seed,
            number,
            engine,
            time: if restore { time / 2 } else { time },
            ttl: Duration::from_millis(rng.u64(150..700)),
            workers: rng.usize(4..7),
            partitions: rng.usize(2..9),
            pace: Duration::from_millis(rng.u64(80..250)),
            faults,
            restore,
            small_disk,
        }
    }
}
