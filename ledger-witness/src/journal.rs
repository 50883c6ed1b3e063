//! The file: its lines read, appended and written anew. Everything here blocks, and is called under the lock.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ledger_core::{LedgerId, Mark, PartitionId};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

const MAGIC: &str = "fenced-ledger-witness 1 ";

/// So many lines more than four for each partition, and the file is written anew.
const SLACK: usize = 256;

/// A mark as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Kept {
    /// The ledger.
    pub ledger: LedgerId,
    /// The partition.
    pub partition: PartitionId,
    /// The newest mark.
    #[serde(flatten)]
    pub mark: Mark,
}

/// Why a witness's file can not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum WitnessError {
    /// The operating system's error.
    Io {
        /// What was being done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is no witness's file, or one of a later version.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is not as it was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, or 0 where it is the file as a whole.
        line: usize,
        /// What is wrong.
        detail: String,
    },
}

impl std::fmt::Display for WitnessError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { what, path, .. } => write!(f, "the witness's file {} could not be {what}", path.display()),
            Self::Foreign { path } => {
                write!(f, "{} is no witness's file, or one of a later version: it begins otherwise", path.display())
            }
            Self::Damaged { path, line: 0, detail } => write!(f, "the witness's file {}: {detail}", path.display()),
            Self::Damaged { path, line, detail } => {
                write!(f, "the witness's file {}, line {line}: {detail}", path.display())
            }
        }
    }
}

impl std::error::Error for WitnessError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Foreign { .. } | Self::Damaged { .. } => None,
        }
    }
}

type Result<T> = std::result::Result<T, WitnessError>;

/// The file as far as this handle has read it.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    lock: File,
    body: Uuid,
    /// The end of the last whole line that was read.
    end: u64,
    lines: usize,
    marks: HashMap<(LedgerId, PartitionId), Mark>,
    /// How many lines it has when it is next written anew.
    limit: usize,
    /// Whether it may have lines that are not durable: of others, who may have been killed before they had synced them.
    is_in_doubt: bool,
    /// Whether it may have come by a rename that is not durable, of another's likewise.
    is_moved: bool,
    disk: Disk,
}

/// How it is made durable.
#[derive(Debug)]
struct Disk {
    sync: fn(&File) -> io::Result<()>,
    sync_folder: fn(&Path) -> io::Result<()>,
}

impl Journal {
    /// Opens the file, and makes it where there is none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let lock_path = beside(path, ".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed("locked", &lock_path))?;
        let mut journal = Self {
            path: path.to_owned(),
            lock,
            body: Uuid::nil(),
            end: 0,
            lines: 0,
            marks: HashMap::new(),
            limit: 0,
            is_in_doubt: false,
            is_moved: false,
            disk: Disk { sync: File::sync_data, sync_folder },
        };
        journal.lock.lock().map_err(failed("locked", &lock_path))?;
        let opened = match path.try_exists() {
            Ok(true) => journal.refresh().map(drop),
            Ok(false) => journal.rewrite(),
            Err(error) => Err(failed("found", path)(error)),
        };
        journal.unlock();
        opened.map(|()| journal)
    }

    /// The newest mark of a partition.
    pub(crate) fn mark(&mut self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>> {
        self.under(false, |journal| {
            journal.refresh()?;
            Ok(journal.marks.get(&(ledger, partition.clone())).copied())
        })
    }

    /// All marks, in no order.
    pub(crate) fn all(&mut self) -> Result<Vec<Kept>> {
        self.under(false, |journal| {
            journal.refresh()?;
            Ok(journal.kept().collect())
        })
    }

    /// Keeps those that are later than what is kept, durably, and gives for each what is kept then: durable too, whoever
    /// wrote it.
    pub(crate) fn keep(&mut self, new: &[Kept]) -> Result<Vec<Mark>> {
        self.under(true, |journal| {
            let mut file = journal.refresh()?;
            let (mut text, mut lines, mut answers) = (Vec::new(), 0, Vec::new());
            let mut later: HashMap<(LedgerId, PartitionId), Mark> = HashMap::new();
            for kept in new {
                let key = (kept.ledger, kept.partition.clone());
                let known = later.get(&key).or_else(|| journal.marks.get(&key)).copied();
                if let Some(known) = known.filter(|known| !kept.mark.is_later_than(known)) {
                    answers.push(known);
                    continue;
                }
                text.extend(line(kept));
                lines += 1;
                answers.push(kept.mark);
                later.insert(key, kept.mark);
            }
            if journal.is_moved {
                (journal.disk.sync_folder)(&journal.path).map_err(failed("written", &journal.path))?;
                journal.is_moved = false;
            }
            if lines > 0 {
                journal.append(&mut file, &text)?;
                journal.end += text.len() as u64;
                journal.lines += lines;
                journal.marks.extend(later);
            } else if journal.is_in_doubt {
                (journal.disk.sync)(&file).map_err(failed("written", &journal.path))?;
            }
            journal.is_in_doubt = false;
            if journal.lines > journal.limit.max(SLACK + 4 * journal.marks.len()) {
                journal.shorten();
            }
            Ok(answers)
        })
    }

    fn under<T>(&mut self, alone: bool, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let locked = if alone { self.lock.lock() } else { self.lock.lock_shared() };
        locked.map_err(failed("locked", &self.path))?;
        let done = run(self);
        self.unlock();
        done
    }

    fn unlock(&self) {
        // Closing the file would do it too; an error here leaves others waiting until then.
        let _ = self.lock.unlock();
    }

    /// Reads what was appended since, by whomever.
    fn refresh(&mut self) -> Result<File> {
        let path = self.path.clone();
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed("opened", &path))?;
        let read = failed("read", &path);
        let mut header = vec![0; MAGIC.len() + 37];
        if file.read_exact(&mut header).is_err() {
            return Err(WitnessError::Foreign { path });
        }
        let body = std::str::from_utf8(&header).ok().and_then(|text| text.strip_prefix(MAGIC)?.strip_suffix('\n'));
        let Some(body) = body.and_then(|text| Uuid::parse_str(text).ok()) else {
            return Err(WitnessError::Foreign { path });
        };
        if body != self.body {
            (self.body, self.end, self.lines, self.limit) = (body, header.len() as u64, 0, 0);
            self.marks.clear();
            self.is_moved = true;
        }
        let length = file.metadata().map_err(&read)?.len();
        if length < self.end {
            let detail = format!("it has {length} bytes, and {} were read of it before", self.end);
            return Err(WitnessError::Damaged { path, line: 0, detail });
        }
        file.seek(SeekFrom::Start(self.end)).map_err(&read)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(&read)?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // The last one, without its end, was never answered.
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            let number = self.lines + 2;
            let damaged = |detail| WitnessError::Damaged { path: path.clone(), line: number, detail };
            let Kept { ledger, partition, mark } = parse(whole).map_err(damaged)?;
            let known = self.marks.entry((ledger, partition)).or_insert(mark);
            if mark.is_later_than(known) {
                *known = mark;
            }
            self.end += line.len() as u64;
            self.lines += 1;
            self.is_in_doubt = true;
        }
        Ok(file)
    }

    /// Writes behind the last whole line. What a crash left there is cut off first.
    fn append(&self, file: &mut File, text: &[u8]) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut file = &*file;
            file.set_len(self.end)?;
            file.seek(SeekFrom::Start(self.end))?;
            file.write_all(text)?;
            // The whole file's, so that of others' lines too.
            (self.disk.sync)(file)
        };
        write().map_err(|error| {
            // What may not be durable must not be read by another as if it were.
            let _ = file.set_len(self.end);
            failed("written", &self.path)(error)
        })
    }

    /// Writes the file anew where that can be done. It is as right without, only longer, and is tried again later.
    fn shorten(&mut self) {
        if let Err(error) = self.rewrite() {
            let (file, source) = (self.path.display(), std::error::Error::source(&error));
            tracing::warn!(%file, lines = self.lines, %error, source, "a witness's file could not be shortened");
            self.limit = self.lines + SLACK;
        }
    }

    /// Writes the file anew, with one line a partition, in one step.
    fn rewrite(&mut self) -> Result<()> {
        let body = Uuid::now_v7();
        let mut text = format!("{MAGIC}{body}\n").into_bytes();
        self.kept().for_each(|kept| text.extend(line(&kept)));
        let new = beside(&self.path, ".new");
        let write = || -> io::Result<()> {
            // What a crash left there. It may be another user's.
            let _ = std::fs::remove_file(&new);
            let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
            match self.path.metadata() {
                Ok(old) => open_to_the_same(&file, &old)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            (self.disk.sync_folder)(&self.path)
        };
        write().map_err(|error| {
            // It would take room for nothing.
            let _ = std::fs::remove_file(&new);
            failed("written", &self.path)(error)
        })?;
        (self.body, self.end, self.lines, self.limit) = (body, text.len() as u64, self.marks.len(), 0);
        (self.is_in_doubt, self.is_moved) = (false, false);
        Ok(())
    }

    fn kept(&self) -> impl Iterator<Item = Kept> + '_ {
        let kept = |((ledger, partition), mark): (&(LedgerId, PartitionId), &Mark)| Kept {
            ledger: *ledger,
            partition: partition.clone(),
            mark: *mark,
        };
        self.marks.iter().map(kept)
    }
}

/// Gives the new file to whom the old one was open: group and mode, and where it may, the owner.
#[cfg(unix)]
fn open_to_the_same(new: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    if new.metadata()?.gid() != old.gid() {
        fchown(new, None, Some(old.gid()))?;
    }
    new.set_permissions(old.permissions())?;
    // For root alone. Other users share a file by its group or its mode.
    let _ = fchown(new, Some(old.uid()), None);
    Ok(())
}

/// Rights are the folder's there.
#[cfg(not(unix))]
fn open_to_the_same(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// A rename is durable once its folder is.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// A folder can not be opened there; the rename is written through.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> WitnessError + use<> {
    let path = path.to_owned();
    move |source| WitnessError::Io { what, path: path.clone(), source }
}

fn check(json: &[u8]) -> String {
    Sha256::digest(json).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn line(kept: &Kept) -> Vec<u8> {
    let json = serde_json::to_string(kept).expect("names, numbers and digests are JSON");
    format!("{} {json}\n", check(json.as_bytes())).into_bytes()
}

fn parse(line: &[u8]) -> std::result::Result<Kept, String> {
    let (found, json) = line.split_at_checked(17).ok_or("it is too short")?;
    if found != format!("{} ", check(json)).as_bytes() {
        return Err("its check does not fit".to_owned());
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static FILE_FAILS: Cell<bool> = const { Cell::new(false) };
        static FOLDER_FAILS: Cell<bool> = const { Cell::new(false) };
    }

    fn fail(fails: bool) -> io::Result<()> {
        if fails { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    fn opened(path: &Path) -> Journal {
        let mut journal = Journal::open(path).expect("opened");
        journal.disk = Disk {
            sync: |file| fail(FILE_FAILS.get()).and_then(|()| file.sync_data()),
            sync_folder: |path| fail(FOLDER_FAILS.get()).and_then(|()| sync_folder(path)),
        };
        journal
    }

    fn at(position: i64) -> Kept {
        let position = ledger_core::Position::new(position).expect("positive");
        let chain = ledger_core::Digest::new([7; 32]);
        let mark = Mark::new(ledger_core::Generation::FIRST, position, chain);
        Kept {
            ledger: LedgerId::from_uuid(Uuid::from_u128(1)).expect("not nil"),
            partition: PartitionId::new("jobs").expect("a name"),
            mark,
        }
    }

    /// As a process leaves the file that is killed before it has synced what it wrote.
    fn killed_in_between(path: &Path, kept: &Kept) {
        let mut file = OpenOptions::new().append(true).open(path).expect("opened");
        file.write_all(&line(kept)).expect("written");
    }

    #[test]
    fn what_another_has_written_is_made_durable_before_it_is_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks");
        let mut journal = opened(&path);
        journal.keep(&[at(1)]).expect("kept");
        killed_in_between(&path, &at(2));
        // It may have been read before.
        journal.mark(at(1).ledger, &at(1).partition).expect("read");
        FILE_FAILS.set(true);
        for _ in 0..2 {
            journal.keep(&[at(2)]).expect_err("it is there, and may be gone after a loss of power");
        }
        journal.keep(&[at(1)]).expect_err("so is what is later than this");
        FILE_FAILS.set(false);
        assert_eq!(journal.keep(&[at(2)]).expect("kept"), [at(2).mark]);
        // From now on it is known to be durable, whatever the disk does.
        FILE_FAILS.set(true);
        assert_eq!(journal.keep(&[at(1)]).expect("nothing is to be written"), [at(2).mark]);
        FILE_FAILS.set(false);
    }

    #[test]
    fn a_file_that_another_has_renamed_is_made_durable_before_it_is_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks");
        let (mut journal, mut other) = (opened(&path), opened(&path));
        journal.keep(&[at(1)]).expect("kept");
        other.keep(&[at(1)]).expect("kept");
        other.rewrite().expect("renamed");
        FOLDER_FAILS.set(true);
        assert_eq!(other.keep(&[at(1)]).expect("it has done it itself"), [at(1).mark]);
        journal.keep(&[at(1)]).expect_err("the rename may be gone after a loss of power");
        FOLDER_FAILS.set(false);
        assert_eq!(journal.keep(&[at(1)]).expect("kept"), [at(1).mark]);
    }

    #[test]
    fn a_line_is_as_it_is_written_down() {
        let json = r#"{"ledger":"00000000-0000-0000-0000-000000000001","partition":"jobs \"7\"","generation":3,"position":9,"chain":"0707070707070707070707070707070707070707070707070707070707070707"}"#;
        let text = format!("13ad768297d10812 {json}\n");
        let kept: Kept = serde_json::from_str(json).expect("a mark");
        assert_eq!(String::from_utf8(line(&kept)).expect("text"), text);
        assert_eq!(parse(text.trim_end().as_bytes()), Ok(kept));
        for wrong in ["", "13ad768297d10812", "13ad768297d10812 {}", &text.trim_end().replace(":9,", ":8,")] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
