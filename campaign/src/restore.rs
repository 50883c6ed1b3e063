//! Rounds in which the store is put back to an older copy of itself: what was acknowledged since is lost, and it must be
//! noticed, by the marks that holders keep and by the checker.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance_tests::history::{Answer, History};
use ledger_core::{FencedLedgerExt, Mark, PartitionId, Verification};

use crate::Result;
use crate::field::Field;
use crate::store::Store;

/// What came of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Restored {
    /// Partitions of which something acknowledged was lost.
    pub(crate) behind: u64,
    /// Those of them that `verify` with the mark of the last acknowledgement tells.
    pub(crate) noticed: u64,
}

/// Takes a copy of the store, as a backup does.
pub(crate) fn copy(field: &Field) -> Result<PathBuf> {
    match (&field.store, &field.server) {
        (Store::Sqlite { file, .. }, _) => {
            let copy = field.folder.join("older.db");
            let connection = rusqlite::Connection::open(file)?;
            connection.busy_timeout(std::time::Duration::from_secs(20))?;
            connection.execute("vacuum into ?1", [copy.to_str().ok_or("an odd path")?])?;
            Ok(copy)
        }
        (Store::Postgres { .. }, Some(server)) => {
            let copy = server.folder().join("older");
            server.stop()?;
            copy_folder(&server.data(), &copy)?;
            server.start()?;
            Ok(copy)
        }
        (Store::Postgres { .. }, None) => Err("a round on PostgreSQL has a server".into()),
    }
}

/// Kills all workers, puts the copy in place, and says who would notice; then the workers start again.
pub(crate) async fn put_back(field: &mut Field, copy: &Path) -> Result<Restored> {
    field.workers.iter_mut().for_each(crate::field::Worker::kill);
    let marks = last_acknowledged(&History::load(field.histories())?);
    match (&field.store, &field.server) {
        (Store::Sqlite { file, .. }, _) => {
            for ending in ["-wal", "-shm"] {
                let mut name = file.clone().into_os_string();
                name.push(ending);
                // It is gone already where the last process closed it well.
                let _ = fs::remove_file(name);
            }
            fs::copy(copy, file)?;
        }
        (Store::Postgres { .. }, Some(server)) => {
            server.stop()?;
            fs::remove_dir_all(server.data())?;
            fs::rename(copy, server.data())?;
            server.start()?;
            field.recorder.store_crashed()?;
        }
        (Store::Postgres { .. }, None) => {}
    }
    field.note("restored an older copy");
    let opened = field.store.open(true).await?;
    let ledger = opened.ledger();
    let mut restored = Restored::default();
    for (partition, mark) in marks {
        let head = ledger.observe(&partition).await?.tenure.map(|tenure| tenure.head);
        if head.is_none_or(|head| head < mark.position) {
            restored.behind += 1;
            let verified = ledger.verify(&partition, Some(mark)).await?;
            restored.noticed += u64::from(matches!(verified, Verification::Broken { .. }));
        }
    }
    drop(ledger);
    opened.close().await;
    for nth in 0..field.workers.len() {
        field.start_worker(nth)?;
    }
    Ok(restored)
}

/// The newest mark that anybody was given of each partition.
fn last_acknowledged(history: &History) -> BTreeMap<PartitionId, Mark> {
    let mut marks: BTreeMap<PartitionId, Mark> = BTreeMap::new();
    for call in &history.invocations {
        let Some((_, Answer::Appended { entry, .. })) = &call.answer else { continue };
        let mark = marks.entry(call.call.partition().clone()).or_insert_with(|| Mark::of(entry));
        if entry.last > mark.position {
            *mark = Mark::of(entry);
        }
    }
    marks
}

/// With owner and rights: the server's user is another one.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").args(["-R", "-p"]).arg(from).arg(to).status()?;
    if copied.success() { Ok(()) } else { Err(format!("copying {}: {copied}", from.display()).into()) }
}
