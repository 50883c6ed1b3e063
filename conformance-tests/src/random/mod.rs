//! The most general client against a model: operations at random, also with forged leases, and every answer compared.
//!
//! [`differential`] makes operations from a seed, gives each to a fresh ledger and to the [`Model`], which is
//! [`ledger_core::decide`] over plain maps, and compares the answers, their times, chain values and evidence
//! included. Where two answers differ it drops operations as long as they still differ, and reports what is left.
//!
//! The clients are not honest: leases are presented with another holder, generation, acquisition, partition or ledger, ids
//! are used twice, times are steered to the microsecond around an expiry, also back. Honest clients can not test a fence.
//! One call follows the other, over one of two handles; there is no fault, and everything is small.

mod generate;
mod look;
mod many;
mod model;
mod operation;
mod world;

use crate::{Harness, HarnessError, HookError, Storage};

pub use generate::generate;
pub use many::{OPERATIONS_VARIABLE, differentials};
pub use model::Model;
pub use operation::{Above, AcquisitionPick, Change, ClockMove, IdPick, Observed, Operation, Size, Token, Way};

use world::World;

/// How many operations share partitions. Then come fresh ones.
pub const EPISODE: usize = 60;

/// Two answers that differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The seed of the run.
    pub seed: u64,
    /// The operations that lead to it, the last being the one whose answers differ, if it is not what they leave.
    pub operations: Vec<Operation>,
    /// Whether every answer was right, and what is left at the end differs: a log, or a record's count.
    pub is_at_end: bool,
    /// The model's answer.
    pub expected: String,
    /// The ledger's answer.
    pub seen: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The answers first: of a long text, what is kept is the beginning.
        let what = if self.is_at_end { "what they leave differs" } else { "the answers to the last one differ" };
        writeln!(f, "seed {}, {} operations: {what}", self.seed, self.operations.len())?;
        writeln!(f, "expected: {}\n    seen: {}\nthe operations:", self.expected, self.seen)?;
        for operation in &self.operations {
            writeln!(f, "    {operation:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Difference {}

/// Compares a ledger with the model over so many operations of a seed, and says how many answers it compared: moving
/// the clock and restarting have none. Needs a harness with a clock; restarts where it can.
///
/// # Errors
///
/// The difference, with as few operations as dropping one after the other leaves. A harness that fails counts as a
/// difference too.
pub async fn differential(harness: &dyn Harness, seed: u64, operations: usize) -> Result<usize, Difference> {
    let all = generate(seed, operations);
    let (at, answers) = match run(harness, &all).await {
        Ok(compared) => return Ok(compared),
        Err(differing) => differing,
    };
    if at == all.len() {
        // What differs is what was left at the end; each shorter run would have to wait for its counts again.
        let [expected, seen] = answers;
        return Err(Difference { seed, operations: all, is_at_end: true, expected, seen });
    }
    // The episode alone, as far as the difference; if it does not show so, everything up to it.
    let start = at - at % EPISODE;
    let mut shortest = all[start..=at].to_vec();
    let mut answers = match run(harness, &shortest).await {
        Err((last, answers)) => {
            shortest.truncate(last + 1);
            answers
        }
        Ok(_) => {
            let [expected, seen] = answers;
            return Err(Difference { seed, operations: all[..=at].to_vec(), is_at_end: false, expected, seen });
        }
    };
    let mut chunk = shortest.len() / 2;
    while chunk > 0 {
        let mut from = 0;
        // The last operation is the one that differs, and stays.
        while from + chunk < shortest.len() {
            let mut shorter = shortest.clone();
            shorter.drain(from..from + chunk);
            match run(harness, &shorter).await {
                Err((last, differing)) => {
                    shorter.truncate(last + 1);
                    (shortest, answers) = (shorter, differing);
                }
                Ok(_) => from += chunk,
            }
        }
        chunk /= 2;
    }
    let [expected, seen] = answers;
    Err(Difference { seed, operations: shortest, is_at_end: false, expected, seen })
}

/// How many answers were compared; or the first operation whose answers differ, and the two: the model's and the
/// ledger's. Beyond the last operation where the ledger as it is left differs.
async fn run(harness: &dyn Harness, operations: &[Operation]) -> Result<usize, (usize, [String; 2])> {
    let failed =
        |at: usize, error: HarnessError| Err((at, ["the harness does its part".to_owned(), error.to_string()]));
    let storage = match harness.provision().await {
        Ok(storage) => storage,
        Err(error) => return failed(0, error),
    };
    let mut world = match World::new(&*storage).await {
        Ok(world) => world,
        Err(error) => return failed(0, error),
    };
    let mut compared = 0;
    for (at, operation) in operations.iter().enumerate() {
        match world.step(&*storage, operation).await {
            // Where nothing was asked, there are no answers.
            Ok([expected, seen]) if expected == seen => compared += usize::from(!expected.is_empty()),
            Ok(answers) => return Err((at, answers)),
            Err(error) => return failed(at, error),
        }
    }
    match world.settled().await {
        Ok([expected, seen]) if expected == seen => Ok(compared),
        Ok(answers) => Err((operations.len(), answers)),
        Err(error) => failed(operations.len(), error),
    }
}

/// Restarts a storage, where it can.
async fn restart(storage: &dyn Storage) -> Result<(), HarnessError> {
    match storage.restart().await {
        Ok(()) | Err(HookError::Unsupported { .. }) => Ok(()),
        Err(HookError::Failed(error)) => Err(error),
    }
}
