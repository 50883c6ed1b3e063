//! A clock that a test can step under a server: libfaketime, loaded into it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Options};

/// The clock of a server, in a file that libfaketime reads at each call.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// A clock that is right, in a file of this folder, which the server's user must be able to read.
    ///
    /// [`Error::Command`] where libfaketime is not installed: [`FETCH_COMMAND`](crate::FETCH_COMMAND) brings it.
    pub fn new(folder: &Path) -> Result<Self, Error> {
        let library = library().ok_or_else(|| Error::Command {
            command: "looking for libfaketime".to_owned(),
            output: format!("there is none in /usr/lib/*/faketime; get it with `{}`", crate::FETCH_COMMAND),
        })?;
        let clock = Self { library, file: folder.join("clock") };
        clock.set(0.0)?;
        Ok(clock)
    }

    /// The same options, for a server that goes by this clock.
    #[must_use]
    pub fn under(&self, options: Options) -> Options {
        options
            .env("LD_PRELOAD", &self.library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file.display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            // Waits and time-outs stay real, and so do the times of files.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1")
    }

    /// Sets the clock so many seconds ahead of the real one, or behind it. Running servers see it at once.
    pub fn set(&self, ahead: f64) -> Result<(), Error> {
        // In one move: a reader finds the whole text.
        let new = self.file.with_extension("new");
        let written = fs::write(&new, format!("{ahead:+.3}\n")).and_then(|()| fs::rename(&new, &self.file));
        written.map_err(Error::io("setting the clock"))
    }
}

/// To be dropped after the server: libfaketime leaves shared memory behind, by the number of a process that was killed.
impl Drop for Clock {
    fn drop(&mut self) {
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let prefixes = ["faketime_shm_", "sem.faketime_sem_"];
            let process = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another campaign may have removed it just now.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Brings libfaketime, unless it is there: Debian's package, as root. Needs a network.
pub fn fetch_faketime() -> Result<String, Error> {
    match library() {
        Some(library) => Ok(format!("there already: {}", library.display())),
        None => crate::fetch::from_apt("libfaketime"),
    }
}

fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.exists())
}
