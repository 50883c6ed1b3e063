//! The process that outlives the test process by a moment, to remove what it started.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::user::User;
use crate::{Error, Installation};

/// A folder and the `sh` that removes it; see `supervisor.sh`.
#[derive(Debug)]
pub(crate) struct Supervisor {
    folder: PathBuf,
    child: Child,
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    /// Where the server is shared among processes: what takes the place of `commands`.
    fifo: Option<File>,
}

impl Supervisor {
    /// Makes the folder. `None`: the server's user cannot.
    pub(crate) fn start(
        folder: &Path,
        installation: &Installation,
        user: &User,
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, Error> {
        let mut command = user.command("/bin/sh", folder);
        command.envs(environment);
        if let Some(libraries) = installation.libraries() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.arg("-c").arg(include_str!("supervisor.sh")).arg("test-postgres").arg(folder).arg(installation.bin());
        // A group of its own, so that a terminal's Ctrl-C reaches the test process alone. Standard error goes nowhere: a test runner
        // that captures output would wait for everyone who holds its pipe.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::io("starting /bin/sh"))?;
        let commands = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().expect("stdout is piped two lines above"));
        let mut supervisor = Self { folder: folder.to_owned(), child, commands, replies, fifo: None };
        match supervisor.reply() {
            Ok(_) => Ok(Some(supervisor)),
            Err(_) => Ok(None),
        }
    }

    /// Gives a command and waits for its answer.
    pub(crate) fn ask(&mut self, command: impl AsRef<[u8]>) -> Result<String, Error> {
        let mut line = command.as_ref().to_vec();
        line.push(b'\n');
        let written = match (&mut self.fifo, &mut self.commands) {
            (Some(fifo), _) => fifo.write_all(&line),
            (None, Some(commands)) => commands.write_all(&line),
            (None, None) => Ok(()),
        };
        written.map_err(Error::io("talking to the supervisor"))?;
        self.reply()
    }

    /// [`ask`](Self::ask) for commands that answer with an exit status.
    pub(crate) fn succeeds(&mut self, command: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.ask(command)? == "0")
    }

    /// `copy`, whose argument is a path.
    pub(crate) fn copy(&mut self, from: &Path) -> Result<bool, Error> {
        self.succeeds([b"copy ", from.as_os_str().as_bytes()].concat())
    }

    /// From now on other processes may hold the server too: with [`Membership`].
    pub(crate) fn share(&mut self) -> Result<(), Error> {
        if !self.succeeds("fifo")? {
            return Err(Error::Failed { what: "mkfifo".to_owned(), log: String::new() });
        }
        let fifo = OpenOptions::new().write(true).open(self.folder.join("fifo"));
        let fifo = fifo.map_err(Error::io("opening the supervisor's pipe"))?;
        self.ask("share")?;
        self.fifo = Some(fifo);
        self.commands = None;
        Ok(())
    }

    fn reply(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        let read = self.replies.read_line(&mut line).map_err(Error::io("listening to the supervisor"))?;
        if read == 0 {
            return Err(Error::Failed { what: "the server's supervisor".to_owned(), log: String::new() });
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Supervisor {
    /// Waits until the server and its folder are gone, unless others hold it too.
    fn drop(&mut self) {
        self.commands = None;
        if self.fifo.take().is_some() {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Holds a server that another process started.
#[derive(Debug)]
pub(crate) struct Membership {
    _fifo: File,
}

impl Membership {
    /// `None`: nobody serves that folder any more.
    pub(crate) fn join(folder: &Path) -> Option<Self> {
        // Not blocking: without a reader, opening fails at once.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let mut fifo = File::from(rustix::fs::open(folder.join("fifo"), flags, rustix::fs::Mode::empty()).ok()?);
        let name = crate::unique();
        fifo.write_all(format!("join {name}\n").as_bytes()).ok()?;
        // A supervisor that had already seen the end of its pipe does not answer, and its folder goes.
        let answer = folder.join(format!("joined.{name}"));
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if answer.exists() {
                let _ = std::fs::remove_file(&answer);
                return Some(Self { _fifo: fifo });
            }
            if !folder.exists() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}
