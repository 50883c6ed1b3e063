//! The check bites: each kind of contradiction between a journal and a log is found.

use std::sync::Arc;

use ledger_core::{
    AcquisitionId, Append, AppendId, Appended, Claim, Clock, FencedLedger, Generation, Holder, Lease, ManualClock,
    NewEvent, Observation, PartitionId, Position, Ttl,
};
use ledger_memory::MemoryLedger;

use super::{Found, compare};
use crate::journal::{Journal, Word};

/// A ledger with one partition, a holder of it, and a folder for journals.
struct World {
    ledger: Arc<MemoryLedger>,
    clock: ManualClock,
    lease: Lease,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let clock = ManualClock::default();
        let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
        let (partition, holder) = (PartitionId::new("p0").expect("a name"), Holder::new("w").expect("a name"));
        let claim = Claim::new(partition, holder, Ttl::default(), Observation::NeverClaimed);
        let lease = ledger.claim(&claim).await.expect("claimed").lease;
        Self { ledger, clock, lease, folder: tempfile::tempdir().expect("a folder") }
    }

    async fn append(&self) -> Appended {
        let append = Append::new([NewEvent::of("entry", &1).expect("an event")]).expect("an append");
        self.ledger.append(&self.lease, &append).await.expect("appended")
    }

    /// What the check says to a journal of these words under the holder's generation.
    async fn check(&self, words: &[Word]) -> Found {
        let mut journal = Journal::create(&self.folder.path().join("w.journal")).expect("a journal");
        journal.note(&self.lease.partition, self.lease.generation, &self.granted()).expect("noted");
        for word in words {
            journal.note(&self.lease.partition, self.lease.generation, word).expect("noted");
        }
        // The check waits until it is free.
        self.clock.set(self.lease.expires_at.max(Clock::now(&self.clock)));
        compare(&*self.ledger, self.folder.path()).await.expect("compared")
    }

    fn granted(&self) -> Word {
        Word::Granted(self.lease.acquisition)
    }
}

fn stored(appended: &Appended) -> Word {
    let entry = &appended.entry;
    Word::Stored(entry.id.expect("an append has an id"), entry.first, entry.chain)
}

fn assert_violates(found: &Found, word: &str) {
    assert!(found.must_be_whole().is_err() && found.must_be_consistent().is_err(), "{found:?}");
    assert!(found.violations.iter().any(|violation| violation.contains(word)), "{word}: {found:?}");
}

#[tokio::test]
async fn a_true_journal_is_whole() {
    let world = World::new().await;
    let (one, never) = (world.append().await, AppendId::mint());
    let landed = world.append().await.entry.id.expect("an id");
    let words = [
        stored(&one),
        Word::Unknown(landed),
        Word::Settled(landed, true),
        Word::Unknown(never),
        Word::Settled(never, false),
        Word::Refused(AppendId::mint(), "Released".to_owned()),
        Word::NotWritten(AppendId::mint()),
        Word::Lost("went_back".to_owned()),
    ];
    let found = world.check(&words).await;
    found.must_be_whole().expect("nothing is wrong");
    let counted = (found.acknowledged, found.lost, found.unknown, found.landed, found.refused, found.refused_found);
    assert_eq!(counted, (1, 0, 2, 1, 1, 0));
    assert_eq!(found.losses.get("went_back"), Some(&1));
}

#[tokio::test]
async fn what_was_acknowledged_and_is_not_there_or_elsewhere_is_lost() {
    let world = World::new().await;
    let (one, other) = (world.append().await, world.append().await);
    let Word::Stored(id, first, chain) = stored(&one) else { unreachable!("made one line above") };
    let found = world.check(&[stored(&one), stored(&other), Word::Stored(AppendId::mint(), first, chain)]).await;
    assert_eq!((found.acknowledged, found.lost), (3, 1));
    found.must_be_whole().expect_err("one is lost");
    found.must_be_consistent().expect("a loss alone contradicts nothing");
    let elsewhere = Position::new(first.get() + 5).expect("a position");
    assert_eq!(world.check(&[Word::Stored(id, elsewhere, chain)]).await.lost, 1, "another position");
    let found = world.check(&[stored(&other), Word::Stored(id, first, other.entry.chain)]).await;
    assert_eq!(found.lost, 1, "another chain");
}

#[tokio::test]
async fn what_was_refused_or_not_written_and_is_there_is_found() {
    let world = World::new().await;
    let (one, id) = (world.append().await, world.append().await.entry.id.expect("an id"));
    let found = world.check(&[stored(&one), Word::Refused(id, "Expired".to_owned())]).await;
    assert_eq!(found.refused_found, 1);
    assert_violates(&found, "is in the log");
    assert_violates(&world.check(&[stored(&one), Word::NotWritten(id)]).await, "is in the log");
}

#[tokio::test]
async fn what_nobody_was_told_of_is_found() {
    let world = World::new().await;
    let one = world.append().await;
    world.append().await;
    assert_violates(&world.check(&[stored(&one)]).await, "no writer was told");
}

#[tokio::test]
async fn a_wrong_fate_is_found() {
    let world = World::new().await;
    let (one, id) = (world.append().await, world.append().await.entry.id.expect("an id"));
    let found = world.check(&[stored(&one), Word::Unknown(id), Word::Settled(id, false)]).await;
    assert!(found.contradictions.iter().any(|text| text.contains("settled as")), "{found:?}");
    found.must_be_whole().expect_err("it had landed");
}

#[tokio::test]
async fn a_grant_that_the_log_does_not_know_and_a_generation_that_falls_are_found() {
    let world = World::new().await;
    let one = world.append().await;
    let found = world.check(&[stored(&one), Word::Granted(AcquisitionId::mint())]).await;
    assert_eq!(found.grants_lost, 1);
    assert!(found.contradictions.iter().any(|text| text.contains("after generation")), "{found:?}");
    assert_eq!(world.lease.generation, Generation::FIRST);
    found.must_be_whole().expect_err("a grant is lost");
}

#[tokio::test]
async fn a_writer_that_goes_on_in_silence_after_a_loss_is_found() {
    let world = World::new().await;
    let (one, two) = (world.append().await, world.append().await);
    let gone = Word::Stored(AppendId::mint(), one.entry.first, one.entry.chain);
    let noticed = [gone.clone(), stored(&one), Word::Lost("went_back".to_owned()), stored(&two)];
    world.check(&noticed).await.must_be_consistent().expect("it was told by the first that was written");
    assert_violates(&world.check(&[gone, stored(&one), stored(&two)]).await, "in silence");
}
