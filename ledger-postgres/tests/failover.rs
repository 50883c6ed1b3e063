//! Goal: a failover that lost what had been acknowledged is noticed by everyone who comes upon it: the holder at its next
//! append or renewal, a follower by its cursor, a holder of a generation that was granted on both sides by the fence.
//!
//! Method: a real primary whose asynchronous standby has stopped to receive; the primary acknowledges more, is killed, and
//! the standby promoted. Failovers that lose nothing, with writers in processes of their own, are in the package
//! `failover`.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Place, append, claim, holder, partition, seconds};
use ledger_core::keeper::{End, Keeper, Loss, ManualLocalClock, State, Terms, Wait, WriteError, Writer};
use ledger_core::{
    Advance, Appended, Claim, Fate, Fault, FencedLedger, FencedLedgerExt, Lease, LedgerError, LedgerWitness, Mark,
    Marking, Note, PageSize, Position, Reason, Rewind, RolledBack, Verification, Witnessed,
};
use ledger_postgres::PostgresLedger;
use test_postgres::{Server, Wanted};

/// A primary and a standby that follows it, until it is told not to.
struct Pair {
    primary: Server,
    standby: Server,
    ledger: PostgresLedger,
}

impl Pair {
    async fn start() -> Self {
        let primary = test_postgres::Options::new(Wanted::OLDEST).start().expect("a server");
        let standby = primary.standby("behind").expect("a standby");
        let place = Place::at(primary.url(), "lossy").await;
        let hosts = [&primary, &standby].map(|server| server.socket_dir().display().to_string()).join(",");
        let url = format!("postgresql:///postgres?host={hosts}&user=postgres");
        let ledger = place.options().connect(&url).await.expect("opened");
        Self { primary, standby, ledger }
    }

    /// What is acknowledged from here on is on the primary alone.
    async fn stop_the_receiver(&self) {
        self.standby.catch_up_with(&self.primary).expect("replayed");
        self.standby.set("primary_conninfo", "").expect("set");
        self.standby.reload().expect("loaded");
        while self.standby.value("select count(*) from pg_stat_wal_receiver").expect("asked") != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn fail_over(&self) {
        self.primary.kill().expect("killed");
        self.standby.promote().expect("promoted");
        // Old connections are lost with the old server, and an append over one would be unknown.
        self.ledger.observe(&partition("p")).await.expect("answered by the new primary");
    }

    async fn append(&self, lease: &Lease, text: &str) -> Appended {
        self.ledger.append(lease, &append(text)).await.expect("appended")
    }

    /// A holder with its keeper, and time that passes when the test says so.
    async fn keep(&self) -> (Writer, ManualLocalClock) {
        let clock = ManualLocalClock::default();
        let terms = Terms::new(seconds(600));
        let keeper = Keeper::new(Arc::new(self.ledger.clone()), partition("p"), holder("a"), terms).expect("terms");
        let (writer, driver) = keeper.with_clock(clock.clone()).claim(Wait::No).await.expect("claimed");
        tokio::spawn(driver);
        (writer, clock)
    }
}

async fn keeps(writer: &Writer, text: &str) -> Appended {
    writer.append(&append(text)).await.expect("appended")
}

/// That the writer's trust has ended because the store went back, from here to there, and that nothing is sent any more.
async fn assert_went_back(writer: &Writer, from: Position, to: Position) {
    let State::Ended(end) = writer.state() else { panic!("it goes on: {:?}", writer.state()) };
    let End::Lost(Loss::WentBack { acknowledged, head }) = &*end else { panic!("another end: {end}") };
    assert_eq!((acknowledged.0, head.0), (from, to));
    let refused = writer.append(&append("after the end")).await;
    assert!(matches!(refused, Err(WriteError::Ended(_))), "{refused:?}");
}

fn at(position: i64) -> Position {
    Position::new(position).expect("a position")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_notices_at_its_next_append() {
    let pair = Pair::start().await;
    let (writer, _clock) = pair.keep().await;
    keeps(&writer, "2").await;
    pair.stop_the_receiver().await;
    for text in ["3", "4", "5"] {
        keeps(&writer, text).await;
    }
    pair.fail_over().await;
    let written = keeps(&writer, "3 again").await;
    assert_eq!(written.entry.first, at(3), "it is written where another was acknowledged");
    assert_went_back(&writer, at(5), at(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_notices_at_its_next_renewal() {
    let pair = Pair::start().await;
    let (writer, clock) = pair.keep().await;
    keeps(&writer, "2").await;
    pair.stop_the_receiver().await;
    keeps(&writer, "3").await;
    pair.fail_over().await;
    assert!(matches!(writer.state(), State::Held), "nobody has told it yet");
    clock.advance(Duration::from_secs(200));
    writer.signal().ended().await;
    assert_went_back(&writer, at(3), at(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_notices_a_store_that_is_level_again_with_another_chain() {
    let pair = Pair::start().await;
    let (writer, clock) = pair.keep().await;
    keeps(&writer, "2").await;
    pair.stop_the_receiver().await;
    keeps(&writer, "3").await;
    let last = keeps(&writer, "4").await;
    pair.fail_over().await;
    // The same lease in other hands, as after a restart of the holder's process that had kept it.
    for text in ["3", "4"] {
        pair.append(&writer.lease(), text).await;
    }
    let renewal = pair.ledger.renew(&writer.lease(), None).await.expect("the lease is valid, by the store's clock");
    assert_eq!((renewal.head, renewal.chain == last.entry.chain), (at(4), false), "level, and another history (R2)");
    clock.advance(Duration::from_secs(200));
    writer.signal().ended().await;
    assert_went_back(&writer, at(4), at(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_notices_by_its_cursor_and_by_the_chain_where_the_log_is_level_again() {
    let pair = Pair::start().await;
    let lease = claim(&pair.ledger, "p", "a", seconds(600)).await.lease;
    pair.append(&lease, "2").await;
    pair.stop_the_receiver().await;
    pair.append(&lease, "3").await;
    let last = pair.append(&lease, "4").await.entry;
    let read = pair.ledger.read(&lease.partition, at(1), PageSize::MAX).await.expect("read");
    let cursor = read.events.last().and_then(|event| event.position.next()).expect("four events");
    pair.fail_over().await;
    let ahead = pair.ledger.read(&lease.partition, cursor, PageSize::MAX).await.expect_err("it is ahead");
    assert!(
        matches!(ahead, LedgerError::AheadOfLog { from, head: Some(head) } if from == at(5) && head == at(2)),
        "{ahead}"
    );

    // Level again: a position alone shows nothing, as it is the next one of either history.
    for text in ["3'", "4'"] {
        pair.append(&lease, text).await;
    }
    let page = pair.ledger.read(&lease.partition, cursor, PageSize::MAX).await.expect("nothing is ahead");
    assert!(page.events.is_empty());
    // With the last entry that it has seen it sees that too: there stands another one now.
    let mark = Mark::of(&last);
    let there = pair.ledger.read(&lease.partition, mark.position, PageSize::MAX).await.expect("read");
    assert_eq!(there.events.first().map(|event| Mark::of(&event.entry) == mark), Some(false));
    let verified = pair.ledger.verify(&lease.partition, Some(mark)).await.expect("read");
    assert_eq!(verified, Verification::Broken { position: at(4), fault: Fault::OtherHistory });
    let alone = pair.ledger.verify(&lease.partition, None).await.expect("read");
    assert!(matches!(alone, Verification::Clean { .. }), "without a mark it is a whole log: {alone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_holders_of_one_generation_are_told_apart_by_acquisition_and_chain() {
    let pair = Pair::start().await;
    let first = claim(&pair.ledger, "p", "a", seconds(600)).await.lease;
    pair.ledger.release(&first).await.expect("released");
    pair.stop_the_receiver().await;
    let lost = claim(&pair.ledger, "p", "b", seconds(600)).await;
    let sent = append("on the side that is gone");
    let gone = pair.ledger.append(&lost.lease, &sent).await.expect("appended").entry;
    pair.fail_over().await;

    // Nobody has claimed here: the generation was never granted.
    let reason = |error: LedgerError| error.rejection().map(|rejection| rejection.reason);
    let refused = pair.ledger.append(&lost.lease, &append("late")).await.expect_err("never granted here");
    assert_eq!(reason(refused), Some(Reason::UnknownGeneration));

    let now = claim(&pair.ledger, "p", "c", seconds(600)).await;
    assert_eq!(now.lease.generation, lost.lease.generation, "granted twice");
    assert_ne!(now.lease.acquisition, lost.lease.acquisition);
    assert_ne!(now.chain, lost.chain);
    let ours = pair.append(&now.lease, "on the side that is left").await.entry;
    assert_eq!((ours.generation, ours.last), (gone.generation, gone.last), "one generation and one position, twice");
    assert_ne!(ours.chain, gone.chain);

    // Whoever holds the other lease is refused in everything, whatever its name.
    let mut forged = lost.lease.clone();
    forged.holder = holder("c");
    for late in [lost.lease.clone(), forged] {
        let append = pair.ledger.append(&late, &append("late")).await.expect_err("refused");
        assert_eq!(reason(append), Some(Reason::WrongAcquisition));
        let renew = pair.ledger.renew(&late, None).await.expect_err("refused");
        assert_eq!(reason(renew), Some(Reason::WrongAcquisition));
        let release = pair.ledger.release(&late).await.expect_err("refused");
        assert_eq!(reason(release), Some(Reason::WrongAcquisition));
    }
    // Its own append is not here, and its own mark says why.
    let fate = pair.ledger.fate(&now.lease.partition, sent.id(), lost.lease.generation).await.expect("asked");
    assert_eq!(fate, Fate::Undecided, "the tenure of that number goes on");
    let verified = pair.ledger.verify(&now.lease.partition, Some(Mark::of(&gone))).await.expect("read");
    assert_eq!(verified, Verification::Broken { position: gone.last, fault: Fault::OtherHistory });
    let records = pair.ledger.rejections(Some(&now.lease.partition), None, PageSize::MAX).await.expect("listed");
    assert!(records.records.len() >= 4, "each is evidence: {records:?}");
}

/// That a store went back, as a call is told that had, or had not, been written.
fn rolled_back(error: LedgerError, rewind: Rewind, written: bool) -> RolledBack {
    let LedgerError::RolledBack(found) = error else { panic!("another error: {error}") };
    assert_eq!((found.rewind, found.written), (rewind, written), "{found}");
    *found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimant_with_a_witness_notices_at_its_claim_and_an_operator_lets_it_go_on() {
    let pair = Pair::start().await;
    // The marks are on a server of their own, which fails over with nobody.
    let marks = Place::new(Wanted::OLDEST).await;
    let witness = Arc::new(LedgerWitness::new(Arc::new(marks.open().await), holder("witness")));
    let witnessed = || Witnessed::new(Arc::new(pair.ledger.clone()), witness.clone()).marking(Marking::Appends);
    let holder_there = witnessed();
    let observed = pair.ledger.observe(&partition("p")).await.expect("observed").observation();
    let first = Claim::new(partition("p"), holder("a"), seconds(600), observed);
    let lease = holder_there.claim(&first).await.expect("claimed").lease;
    holder_there.append(&lease, &append("2")).await.expect("appended");
    pair.stop_the_receiver().await;
    holder_there.append(&lease, &append("3")).await.expect("appended and marked");
    holder_there.append(&lease, &append("4")).await.expect("appended and marked");
    holder_there.release(&lease).await.expect("released");
    let lost = claim(&pair.ledger, "p", "b", seconds(600)).await.lease;
    pair.fail_over().await;

    // Behind the mark: the claim is refused, and nothing is written.
    let claimant = witnessed();
    let observed = pair.ledger.observe(&partition("p")).await.expect("observed").observation();
    let second = Claim::new(partition("p"), holder("c"), seconds(600), observed);
    let found = rolled_back(claimant.claim(&second).await.expect_err("noticed"), Rewind::Behind, false);
    assert_eq!((found.mark.position, found.seen.map(|seen| seen.position)), (at(4), Some(at(2))));
    assert_eq!(pair.ledger.observe(&partition("p")).await.expect("observed").observation(), observed);

    // Level again, and beyond, by somebody who looks at no witness: another history.
    for text in ["3'", "4'", "5'"] {
        pair.append(&lease, text).await;
    }
    let found = rolled_back(claimant.claim(&second).await.expect_err("noticed"), Rewind::OtherHistory, false);
    assert_eq!(found.seen.map(|seen| seen.position), Some(at(5)));

    // Only an operator's step above every generation ever seen lets it go on, and no lost lease comes to life again.
    let note = Note::new("failed over to a standby that was behind").expect("a note");
    let advance = Advance::new(partition("p"), holder("operator"), Some(lost.generation), note);
    let advanced = claimant.advance(&advance).await.expect("advanced");
    assert!(advanced.generation > lost.generation);
    let observed = pair.ledger.observe(&partition("p")).await.expect("observed").observation();
    let third = Claim::new(partition("p"), holder("c"), seconds(600), observed);
    let now = claimant.claim(&third).await.expect("claimed").lease;
    claimant.append(&now, &append("goes on")).await.expect("appended");
    let late = pair.ledger.append(&lost, &append("late")).await.expect_err("refused");
    assert_eq!(late.rejection().map(|rejection| rejection.reason), Some(Reason::StaleGeneration));
    let verified = pair.ledger.verify(&partition("p"), None).await.expect("read");
    assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
    marks.drop().await;
}
