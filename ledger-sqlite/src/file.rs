//! The file below the database: which one it is, and on what it lies.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger_core::{Failure, FailureKind, LedgerError};

/// Device and inode.
type Identity = (u64, u64);

/// Notices that the database file or its log was replaced or removed under the open handle.
///
/// SQLite goes on writing to the file that it opened, and answers that all is well. Compared are device and inode of
/// the file and of its `-wal` (Unix; elsewhere nothing is compared). Not noticed: other content copied *into* the file.
#[derive(Debug)]
pub(crate) struct Watch {
    database: PathBuf,
    log: PathBuf,
    opened: Option<Identity>,
    /// The `-wal`, from its first sight on: it is there from the first use to the last close, and a handle is open.
    log_opened: Mutex<Option<Identity>>,
    /// Once replaced, always: what was written in between is lost or mixed.
    replaced: AtomicBool,
}

impl Watch {
    /// Watches a file that was just opened.
    pub(crate) fn new(database: PathBuf) -> Self {
        // SQLite resolves links, and keeps its log beside the file itself.
        let mut log = std::fs::canonicalize(&database).unwrap_or_else(|_| database.clone()).into_os_string();
        log.push("-wal");
        let opened = identity(&database);
        Self { database, log: log.into(), opened, log_opened: Mutex::default(), replaced: AtomicBool::new(false) }
    }

    /// Whether `path` is the file that was opened.
    pub(crate) fn is(&self, path: &Path) -> bool {
        self.opened.is_none() || identity(path) == self.opened
    }

    /// The same file as when it was opened?
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        if self.replaced.load(Ordering::Acquire) || !self.is_intact() {
            self.replaced.store(true, Ordering::Release);
            return Err(LedgerError::NotWritten(self.failure()));
        }
        Ok(())
    }

    pub(crate) fn failure(&self) -> Failure {
        let detail =
            format!("the database file was replaced or removed under this handle (file=`{}`)", self.database.display());
        Failure::new(FailureKind::Replaced, detail)
    }

    fn is_intact(&self) -> bool {
        if !self.is(&self.database) {
            return false;
        }
        let now = identity(&self.log);
        let mut seen = self.log_opened.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some(_) => now == *seen,
            None => {
                *seen = now;
                true
            }
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<Identity> {
    None
}

/// Tells the file system under a path by its magic number, where it can.
pub(crate) type Probe = fn(&Path) -> Option<u32>;

/// The kernel's answer, on Linux.
#[cfg(target_os = "linux")]
pub(crate) fn probe(path: &Path) -> Option<u32> {
    // The numbers are 32 bits wide; the field's type differs between architectures.
    rustix::fs::statfs(path).ok().map(|found| u32::try_from(found.f_type & 0xFFFF_FFFF).unwrap_or_default())
}

/// Nothing is known elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn probe(_path: &Path) -> Option<u32> {
    None
}

/// The name of a file system on which several machines may meet, or whose locks and shared memory are not to be relied
/// on: SQLite's write-ahead log loses data there. The numbers are those of `linux/magic.h`.
pub(crate) fn network_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE (sshfs, virtiofs and others)",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x00C3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        0x7461_636F => "OCFS2",
        0x0116_1970 => "GFS2",
        0x0BD0_0BD0 => "Lustre",
        0x786F_4256 => "vboxsf",
        _ => return None,
    })
}

/// More links than this one after another are a loop, which is for the opening to tell.
const MAX_LINKS: usize = 40;

/// What is to be asked about the file system: the file or, where it is yet to be made, its directory.
pub(crate) fn probed(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        if path.exists() {
            return path;
        }
        // A link to a file that is yet to be made.
        let Ok(target) = path.read_link() else { break };
        path = directory(&path).join(target);
    }
    directory(&path)
}

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_not_taken_for_network_ones() {
        for (magic, name) in [(0xEF53, "ext4"), (0x0102_1994, "tmpfs"), (0x794C_7630, "overlay"), (0x5846_5342, "xfs")]
        {
            assert_eq!(network_file_system(magic), None, "{name}");
        }
        assert_eq!(network_file_system(0x6969), Some("NFS"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_is_asked() {
        assert!(probe(&std::env::temp_dir()).is_some());
        assert_eq!(probed(Path::new("no-such-file.db")), Path::new("."));
    }
}
