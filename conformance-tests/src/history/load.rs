//! Reading histories back.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger_core::PartitionId;

use super::invocation::Invocation;
use super::record::{FORMAT, Line};

/// What all processes recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// The calls, in no particular order.
    pub invocations: Vec<Invocation>,
    /// The processes that closed their ledger in good order.
    pub closed: Vec<Arc<str>>,
    /// When the store had been ended by force and was back.
    pub crashes: Vec<u64>,
    /// When all faults were over, and within how many nanoseconds what was asked from then on was to be answered.
    pub healed: Option<(u64, u64)>,
}

/// Why a history can not be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; 0 where the file itself can not be read.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, line {}: {}", self.file.display(), self.line, self.problem)
    }
}

impl std::error::Error for LoadError {}

impl History {
    /// A history of calls that were recorded by other means. Counts of repeats are demanded of no process in it.
    pub fn new(invocations: Vec<Invocation>) -> Self {
        Self { invocations, ..Self::default() }
    }

    /// The partitions that any call was about, each once.
    pub fn partitions(&self) -> Vec<PartitionId> {
        let all: BTreeSet<&PartitionId> = self.invocations.iter().map(|call| call.call.partition()).collect();
        all.into_iter().cloned().collect()
    }

    /// Reads every file of a folder whose name ends in `.jsonl`.
    ///
    /// # Errors
    ///
    /// [`LoadError`] names file and line.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let unreadable = |error: io::Error| LoadError { file: folder.into(), line: 0, problem: error.to_string() };
        let mut history = Self::default();
        let mut files: Vec<PathBuf> = Vec::new();
        for found in fs::read_dir(folder).map_err(unreadable)? {
            files.push(found.map_err(unreadable)?.path());
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        for file in files {
            history.add_file(&file)?;
        }
        Ok(history)
    }

    /// Adds the history of one process.
    ///
    /// # Errors
    ///
    /// [`LoadError`] names the line. A last line without its end is what a kill has left: it is passed over.
    pub fn add_file(&mut self, file: impl AsRef<Path>) -> Result<(), LoadError> {
        let file = file.as_ref();
        let at = |line: usize, problem: String| LoadError { file: file.into(), line, problem };
        let text = fs::read_to_string(file).map_err(|error| at(0, error.to_string()))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut process: Option<Arc<str>> = None;
        let mut open: HashMap<u64, usize> = HashMap::new();
        for (number, line) in whole.lines().enumerate() {
            let number = number + 1;
            let line: Line = serde_json::from_str(line).map_err(|error| at(number, error.to_string()))?;
            let Some(process) = &process else {
                match line {
                    Line::Opened { version: 1..=FORMAT, process: name, .. } => process = Some(name.into()),
                    Line::Opened { version, .. } => {
                        return Err(at(number, format!("the format is {version}, and this reads 1 to {FORMAT}")));
                    }
                    _ => return Err(at(number, "the first line is no `opened`".to_owned())),
                }
                continue;
            };
            match line {
                Line::Opened { .. } => return Err(at(number, "a second `opened`".to_owned())),
                Line::Called { number, at, call } => {
                    open.insert(number, self.invocations.len());
                    self.invocations.push(Invocation::new(process.clone(), number, at, call, None));
                }
                Line::Answered { number: call, at: answered, answer } => {
                    let place = open.remove(&call).ok_or_else(|| at(number, format!("no open call {call}")))?;
                    self.invocations[place].answer = Some((answered, answer));
                }
                Line::Closed { .. } => self.closed.push(process.clone()),
                Line::StoreCrashed { at } => self.crashes.push(at),
                Line::Healed { at, within } => self.healed = Some((at, within)),
                Line::Noted { .. } => {}
            }
        }
        Ok(())
    }
}
