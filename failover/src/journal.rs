//! What a writer was told, a line each: time in microseconds, word, partition, generation, id, and what belongs to the
//! word. Each line is written by one call, so that a kill leaves whole lines.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ledger_core::{AcquisitionId, AppendId, Digest, Generation, PartitionId, Position};

use crate::Result;

/// What a writer notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A claim was granted.
    Granted(AcquisitionId),
    /// An append was acknowledged, at this position and with this chain value.
    Stored(AppendId, Position, Digest),
    /// An append was refused.
    Refused(AppendId, String),
    /// An append was surely not written.
    NotWritten(AppendId),
    /// Nobody knows what became of an append.
    Unknown(AppendId),
    /// `fate` has told: it is in the log, or it is not and never will be.
    Settled(AppendId, bool),
    /// The keeper's trust ended, for this reason.
    Lost(String),
}

/// A line of a journal.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) partition: PartitionId,
    pub(crate) generation: Generation,
    pub(crate) word: Word,
}

/// A journal that is being written.
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn create(file: &Path) -> Result<Self> {
        Ok(Self(File::create(file).map_err(|error| format!("{}: {error}", file.display()))?))
    }

    pub(crate) fn note(&mut self, partition: &PartitionId, generation: Generation, word: &Word) -> Result<()> {
        let at = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
        let start = |word| format!("{at} {word} {partition} {generation}");
        let line = match word {
            Word::Granted(acquisition) => format!("{} {acquisition}", start("granted")),
            Word::Stored(id, first, chain) => format!("{} {id} {first} {chain}", start("stored")),
            Word::Refused(id, reason) => format!("{} {id} {reason}", start("refused")),
            Word::NotWritten(id) => format!("{} {id}", start("not-written")),
            Word::Unknown(id) => format!("{} {id}", start("unknown")),
            Word::Settled(id, recorded) => format!("{} {id} {recorded}", start("settled")),
            Word::Lost(reason) => format!("{} {reason}", start("lost")),
        };
        Ok(self.0.write_all(format!("{line}\n").as_bytes())?)
    }
}

/// All journals of a folder, a list of lines each.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Vec<Line>>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "journal"));
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// One journal. A line that a kill has cut short is left out: nobody was told more.
pub(crate) fn read(file: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(file)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| parse(line).ok_or_else(|| format!("{}: {line:?}", file.display()).into())).collect()
}

fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let [at, word, partition, generation, rest @ ..] = words.as_slice() else { return None };
    let id = || AppendId::from_uuid(uuid::Uuid::parse_str(rest.first()?).ok()?).ok();
    let rest_of = |nth: usize| rest.get(nth..).map(|words| words.join(" "));
    let word = match *word {
        "granted" => Word::Granted(AcquisitionId::from_uuid(uuid::Uuid::parse_str(rest.first()?).ok()?).ok()?),
        "stored" => {
            let first = Position::new(rest.get(1)?.parse().ok()?).ok()?;
            Word::Stored(id()?, first, Digest::try_from(rest_of(2)?).ok()?)
        }
        "refused" => Word::Refused(id()?, rest_of(1)?),
        "not-written" => Word::NotWritten(id()?),
        "unknown" => Word::Unknown(id()?),
        "settled" => Word::Settled(id()?, rest.get(1)?.parse().ok()?),
        "lost" => Word::Lost(rest_of(0)?),
        _ => return None,
    };
    let (partition, generation) = (PartitionId::new(partition).ok()?, Generation::new(generation.parse().ok()?).ok()?);
    Some(Line { at: at.parse().ok()?, partition, generation, word })
}
