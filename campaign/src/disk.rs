//! A small file system of a round's own, which can be filled and emptied while everything runs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Result;

/// How large it is: enough for a round, and for a PostgreSQL cluster.
const SIZE: &str = "size=300m,mode=1777";

/// A mounted tmpfs, unmounted when dropped.
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts one. An error says why it can not be: mounting needs root, and a container may forbid it.
    pub(crate) fn mount(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let options = std::ffi::CString::new(SIZE)?;
        mount("tmpfs", folder, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))
            .map_err(|error| format!("a small file system can not be mounted: {error}"))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.ballast())?;
        let block = [0_u8; 65_536];
        // Until it is full, which is what an error means here.
        while file.write_all(&block).is_ok() {}
        Ok(())
    }

    /// Gives the room back.
    pub(crate) fn empty(&self) {
        // It may not be filled.
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Detached where somebody still has a file there: it goes with the last of them.
        if unmount(&self.folder, UnmountFlags::DETACH).is_ok() {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
