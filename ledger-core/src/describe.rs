//! What a store says of itself (S4).

use crate::LedgerId;

/// A store's description.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Description {
    /// The ledger that it keeps.
    pub ledger: LedgerId,
    /// The engine, such as `SQLite`.
    pub engine: String,
    /// The engine's version.
    pub version: String,
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// What it can do beyond the contract.
    pub capabilities: Vec<Capability>,
}

impl Description {
    /// For a backend.
    pub fn new(
        ledger: LedgerId,
        engine: impl Into<String>,
        version: impl Into<String>,
        durability: Durability,
        capabilities: Vec<Capability>,
    ) -> Self {
        Self { ledger, engine: engine.into(), version: version.into(), durability, capabilities }
    }
}

/// What an acknowledged append survives (S2), from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it is gone with the last handle.
    Volatile,
    /// A kill of every process, but not a crash of the machine.
    ProcessCrash,
    /// A kill of every process and a crash of the machine or of the store.
    MachineCrash,
}

/// What a store can do beyond the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[non_exhaustive]
pub enum Capability {
    /// Several processes may use it at once.
    ManyProcesses,
    /// Appends inside the caller's own transaction.
    CallerTransactions,
}
