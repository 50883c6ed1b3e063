//! Seed after seed: a few of them, or as many as a figure asks for.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};

use super::{Difference, differential};
use crate::Harness;

/// The variable of the environment that asks for a long run: until so many answers have been compared.
pub const OPERATIONS_VARIABLE: &str = "FENCED_LEDGER_RANDOM_OPERATIONS";

/// The first seed of a long run. Those of every day are below it.
const FIRST: u64 = 10_001;

/// So many seeds of a long run are under way at once, each on a ledger of its own: most of a store's time is waiting.
const AT_ONCE: usize = 8;

/// Compares a ledger with the model over the seeds from 1 on, so many of them, with so many operations each.
///
/// Where the environment has [`OPERATIONS_VARIABLE`], over the seeds from 10,001 on instead, until so many answers have
/// been compared; it prints how far it is every ten seconds, and the figures at the end.
///
/// # Errors
///
/// The first difference, as [`differential`] tells it.
///
/// # Panics
///
/// Where the variable is no number.
pub async fn differentials(harness: &dyn Harness, seeds: u64, operations: usize) -> Result<(), Difference> {
    let Some(wanted) = std::env::var_os(OPERATIONS_VARIABLE) else {
        for seed in 1..=seeds {
            differential(harness, seed, operations).await?;
        }
        return Ok(());
    };
    let wanted = wanted.to_str().and_then(|text| text.parse::<usize>().ok());
    let wanted = wanted.unwrap_or_else(|| panic!("{OPERATIONS_VARIABLE} is a number of operations"));
    let (start, mut told, mut compared) = (Instant::now(), Instant::now(), 0);
    // In the order of the seeds, so that what was compared is said by the last of them.
    let runs = stream::iter(FIRST..).map(async |seed| (seed, differential(harness, seed, operations).await));
    let mut runs = pin!(runs.buffered(AT_ONCE));
    while let Some((seed, run)) = runs.next().await {
        compared += run?;
        let is_done = compared >= wanted;
        if is_done || told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            let seconds = start.elapsed().as_secs();
            println!("{compared} of {wanted} answers compared, none differs: seeds {FIRST} to {seed}, {seconds} s");
        }
        if is_done {
            break;
        }
    }
    Ok(())
}
