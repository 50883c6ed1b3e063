//! K11: what a subscriber of `tracing` sees of a keeper. A process of its own, since what is subscribed to is the
//! process's.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ledger_core::keeper::{Keeper, ManualLocalClock, Terms, Wait};
use ledger_core::{Append, Holder, NewEvent, PartitionId};
use ledger_memory::MemoryLedger;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down spans and events with their fields.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(metadata.name().to_owned());
        record(&mut line);
        self.0.lock().expect("no panic under this lock").push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").expect("a string can be written to");
    }
}

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "current_thread")]
async fn spans_tell_the_time_left_and_events_renewals_and_losses() -> Result<(), Box<dyn std::error::Error>> {
    let (notes, clock) = (Notes::default(), ManualLocalClock::default());
    tracing::subscriber::set_global_default(notes.clone())?;
    let (jobs, holder) = (PartitionId::new("jobs")?, Holder::new("a")?);
    let keeper = Keeper::new(Arc::new(MemoryLedger::new()), jobs, holder, Terms::default())?;
    let keeper = keeper.with_clock(clock.clone());
    let (writer, driver) = keeper.claim(Wait::No).await?;
    let driver = tokio::spawn(driver);
    clock.advance(Duration::from_millis(500));
    writer.append(&Append::new([NewEvent::of("noted", &1)?])?).await?;
    while keeper.counts().renewals == 0 {
        // By hand, so that no real time is waited for.
        clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(10));
    driver.await?;
    let notes = notes.0.lock().expect("no panic under this lock").clone();
    for words in [
        &["keeper.append", "operation=\"append\"", "partition=jobs", "generation=1", "left_us=2"][..],
        &["message=claimed", "partition=jobs"],
        &["message=renewed", "left="],
        &["message=lost", "reason=\"expired\""],
    ] {
        assert!(notes.iter().any(|note| words.iter().all(|word| note.contains(word))), "{words:?} in {notes:#?}");
    }
    Ok(())
}
