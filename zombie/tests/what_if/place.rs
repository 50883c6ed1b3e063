//! A fresh ledger for one test, and the worker's process on it.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use test_postgres::Wanted;

use crate::Result;
use crate::store::Store;
use crate::worker::Step;

pub(crate) struct Place {
    pub(crate) store: Store,
    /// Gone with this.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) async fn on_sqlite() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = Store::Sqlite { file: folder.path().join("ledger.db") };
        Ok(Self { store, _folder: Some(folder) })
    }

    /// On the server that the tests of this process share.
    pub(crate) async fn on_postgres() -> Result<Self> {
        let server = test_postgres::Shared::in_process(&test_postgres::Options::new(Wanted::NEWEST))?;
        let store = Store::on_postgres(Some(server.url()))?;
        store.install().await?;
        Ok(Self { store, _folder: None })
    }

    /// Starts a worker that stands still at a step.
    pub(crate) fn start(&self, step: Step, bank: &str) -> Result<Worker> {
        self.run("worker::worker", &step.to_string(), bank)
    }

    /// Starts an ignored test of this binary as a process, which is told a step, and where the other system is to which
    /// it writes.
    pub(crate) fn run(&self, test: &str, step: &str, other: &str) -> Result<Worker> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
            .envs([self.store.tell()?])
            .env("STEP", step)
            .env("OTHER", other)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("a worker without standard output")?).lines();
        Ok(Worker { child, lines })
    }
}

pub(crate) struct Worker {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// The next line that has this word in it.
    pub(crate) fn line_with(&mut self, word: &str) -> Result<String> {
        for line in self.lines.by_ref() {
            let line = line?;
            if line.contains(word) {
                return Ok(line);
            }
        }
        Err(format!("the worker ended without {word:?}").into())
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// No worker outlives its test.
impl Drop for Worker {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
