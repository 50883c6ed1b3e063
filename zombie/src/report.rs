//! What a worker tells its parent, one JSON object a line on its standard output.

use ledger_core::{Generation, Position, RequestKey};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It holds the partition, and goes on behind so many lines that it found in the log.
    Claimed { generation: Generation, found: usize },
    /// It appended lines; so many are in the log now.
    Appended { lines: usize, imported: usize, head: Position },
    /// The store refused it.
    Refused { why: String },
    /// It has recorded a request to the bank, and sends it.
    Sends { key: RequestKey },
    /// It has found a request open that was sent under this generation, and looks it up at the bank.
    Found { key: RequestKey, generation: Generation },
    /// It has settled a request, by what the bank said.
    Settled { key: RequestKey, transaction: String },
    /// The request was made before, under this generation: it sends nothing.
    MadeBefore { key: RequestKey, generation: Generation },
    /// The store refused what it wanted to say of its request.
    AnswerRefused { key: RequestKey, why: String },
    /// All lines are in the log and the partition is released.
    Finished { imported: usize },
}

impl Report {
    /// Prints the report for the parent. Standard output is flushed at each line's end.
    pub(crate) fn send(&self) -> crate::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
