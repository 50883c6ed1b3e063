//! A trial beside real processes: what they write where they write today, and what the ledger would have refused of it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ledger_core::keeper::{Keeper, Terms, Wait};
use ledger_core::shadow::{Limits, Shadow, ShadowCounts, ShadowReport, enforce};
use ledger_core::{Append, Basis, FencedLedger, Holder, NewEvent, Note, Operation, Reason, RequestBook, Ttl};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use test_postgres::Wanted;

use crate::Result;
use crate::place::Place;
use crate::store::Store;
use crate::worker::{TTL, partition};

/// A writer of today: it appends lines to a file, which takes them from whomever. Its shadow stands beside it.
struct Writer {
    file: PathBuf,
    shadow: Shadow,
}

impl Writer {
    fn begin(ledger: Arc<dyn FencedLedger>, name: &str, file: PathBuf) -> Result<Self> {
        // An age that a slow machine does not reach.
        let limits = Limits::new(Terms::new(Ttl::try_from(TTL)?)).with_oldest(Duration::from_secs(60));
        let (shadow, driver) = Shadow::new(ledger, partition()?, &Holder::new(name)?, limits)?;
        tokio::spawn(driver);
        Ok(Self { file, shadow })
    }

    /// Writes a line, and gives what the shadow has counted when that is judged.
    async fn write(&self, line: &str) -> Result<ShadowCounts> {
        writeln!(std::fs::OpenOptions::new().create(true).append(true).open(&self.file)?, "{line}")?;
        self.shadow.offer(&Append::new([NewEvent::of("line", line)?])?);
        while self.shadow.counts().waiting > 0 {
            // A pause between two looks: what is waited for is the condition.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(self.shadow.counts())
    }
}

/// Writes a line for each that its parent gives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts"]
async fn writer() -> Result<()> {
    let writer = Writer::begin(Store::told()?.open().await?, "a", std::env::var("OTHER")?.into())?;
    loop {
        // On a thread of its own, so that the shadow goes on meanwhile.
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        let counts = writer.write(line.await??.trim()).await?;
        println!("judged {}", serde_json::to_string(&counts)?);
    }
}

/// `a` is stopped past its lease while `b` goes on, wakes up and writes: its line is in the file, as today, and the
/// ledger has a record of what it would have refused. Then `c` enforces.
pub(crate) async fn paused_writer_is_told(place: Place) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, ledger, jobs) = (folder.path().join("results"), place.store.open().await?, partition()?);
    let mut a = place.run("shadow::writer", "", file.to_str().ok_or("a plain name")?)?;
    let mut stdin = a.child.stdin.take().ok_or("it is piped")?;
    writeln!(stdin, "first of a")?;
    a.line_with("\"granted\":1")?;
    let pid = Pid::from_child(&a.child);
    kill_process(pid, Signal::STOP)?;
    waitpid(Some(pid), WaitOptions::UNTRACED)?;
    while !ledger.observe(&jobs).await?.is_free() {
        // What is waited for is the expiry.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let b = Writer::begin(ledger.clone(), "b", file.clone())?;
    let counts = b.write("of b").await?;
    assert_eq!((counts.granted, counts.would_be_refusals()), (1, 0), "{counts:?}");
    writeln!(stdin, "late, of a")?;
    kill_process(pid, Signal::CONT)?;
    let told = a.line_with("judged")?;
    assert!(told.contains(r#""granted":1,"refused":{"StaleGeneration":1}"#), "{told}");
    assert_eq!(std::fs::read_to_string(&file)?, "first of a\nof b\nlate, of a\n", "all of it is written, as today");

    let keeper = Keeper::new(ledger.clone(), jobs.clone(), Holder::new("c")?, Terms::new(Ttl::from_millis(60_000)?))?;
    let reason = Note::new("the trial is over")?;
    let (writer, _driver) = enforce(&keeper, &reason, Wait::No).await?;
    let basis = ledger.handover(&jobs, writer.generation()).await?.ok_or("it was granted")?.succession.basis;
    // The shadow of `b` held it until then; on a slow machine it may just have lost it.
    assert!(matches!(&basis, Basis::Ended { .. } | Basis::Expired { .. }), "{basis:?}");
    let counts = b.write("of b, who was not switched").await?;
    let report = ShadowReport::read(&*ledger, &[jobs]).await?.with_counts(&counts);
    println!("{report}");
    for name in ["a", "b"] {
        let stale = |of: &&ledger_core::shadow::WouldBeRefusal| {
            of.writer == name && (of.operation, of.reason) == (Operation::Append, Reason::StaleGeneration)
        };
        assert_eq!(report.refusals.iter().filter(stale).map(|of| of.count).sum::<u64>(), 1, "{name}: {report}");
    }
    let writers: Vec<_> = report.writers.iter().map(|of| (of.writer.as_str(), of.enforces, of.appends)).collect();
    assert_eq!(writers, [("a", false, 1), ("b", false, 1), ("c", true, 0)], "{report}");
    drop((a, ledger, writer, keeper, b));
    place.store.remove().await
}

/// The server is killed under a shadow: the writes go on, and what was not judged is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_while_the_shadows_server_is_dead() -> Result<()> {
    let server = test_postgres::Options::new(Wanted::NEWEST).start()?;
    let store = Store::on_postgres(Some(server.url()))?;
    store.install().await?;
    let folder = tempfile::tempdir()?;
    let writer = Writer::begin(store.open().await?, "a", folder.path().join("results"))?;
    assert_eq!(writer.write("before").await?.granted, 1);
    server.crash()?;
    let append = Append::new([NewEvent::of("line", "while it is dead")?])?;
    for _ in 0..2_000 {
        writer.shadow.offer(&append);
    }
    let counts = writer.shadow.counts();
    assert_eq!(counts.offered, 2_001, "every offer has returned");
    assert!(counts.waiting <= 1_025 && counts.dropped_full >= 975, "{counts:?}");
    assert_eq!(counts.granted + counts.would_be_refusals() + counts.unknown + counts.dropped() + counts.waiting, 2_001);
    Ok(())
}
