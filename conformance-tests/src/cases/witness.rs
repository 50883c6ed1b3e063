//! A store compared with marks that are kept outside of it (I3, I5).

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::prelude::*;
use ledger_core::keeper::{End, Keeper, Loss, ManualLocalClock, State, Terms, Wait as Waiting, WriteError};
use ledger_core::{
    Failure, FailureKind, LedgerId, LedgerWitness, Mark, Marking, Rewind, RolledBack, Verification, Witness, Witnessed,
};

/// Marks outside of every store, which can be out of reach.
#[derive(Debug, Default)]
struct Marks {
    kept: Mutex<HashMap<(LedgerId, PartitionId), Mark>>,
    unreadable: AtomicBool,
    unwritable: AtomicBool,
}

impl Marks {
    fn of(&self, ledger: LedgerId, partition: &PartitionId) -> Option<Mark> {
        self.kept.lock().ok()?.get(&(ledger, partition.clone())).copied()
    }
}

fn out_of_reach(is_so: &AtomicBool) -> Result<(), Failure> {
    let failure = || Failure::new(FailureKind::Unavailable, "the marks are out of reach");
    if is_so.load(Ordering::SeqCst) { Err(failure()) } else { Ok(()) }
}

#[async_trait]
impl Witness for Marks {
    async fn mark(&self, ledger: LedgerId, partition: &PartitionId) -> Result<Option<Mark>, Failure> {
        out_of_reach(&self.unreadable)?;
        Ok(self.of(ledger, partition))
    }

    async fn keep(&self, ledger: LedgerId, partition: &PartitionId, mark: Mark) -> Result<Mark, Failure> {
        out_of_reach(&self.unwritable)?;
        let mut all = self.kept.lock().map_err(|_| Failure::new(FailureKind::Other, "a panic under the lock"))?;
        let kept = all.entry((ledger, partition.clone())).or_insert(mark);
        if mark.is_later_than(kept) {
            *kept = mark;
        }
        Ok(*kept)
    }
}

#[track_caller]
fn expect_rolled_back<T: std::fmt::Debug>(
    what: &str,
    result: ledger_core::Result<T>,
    (mark, rewind, written): (Mark, Rewind, bool),
) -> Result<RolledBack, Violation> {
    let expected = format!("{what} is answered as RolledBack");
    match result {
        Err(LedgerError::RolledBack(back)) => {
            equal(&format!("what was known, as {what} tells it"), &back.mark, &mark)?;
            equal(&format!("how the store differs, as {what} tells it"), &back.rewind, &rewind)?;
            equal(&format!("whether {what} was written"), &back.written, &written)?;
            Ok(*back)
        }
        Err(other) => Err(Violation::new(expected, crate::case::told(&other))),
        Ok(granted) => Err(Violation::new(expected, format!("granted: {granted:?}"))),
    }
}

fn mark_of(claimed: &Claimed) -> Mark {
    Mark::new(claimed.lease.generation, claimed.head, claimed.chain)
}

async fn newest(ledger: &dyn FencedLedger, partition: &PartitionId) -> Result<Option<Mark>, Stop> {
    let tenure = ledger.observe(partition).await?.tenure;
    Ok(tenure.map(|tenure| Mark::new(tenure.lease.generation, tenure.head, tenure.chain)))
}

/// A tenure with an append, released.
async fn tenure(ledger: &dyn FencedLedger, partition: &PartitionId, name: &str) -> Result<Mark, Stop> {
    let lease = claim(ledger, partition, name, long_ttl()).await?.lease;
    let appended = ledger.append(&lease, &append("work")).await?;
    ledger.release(&lease).await?;
    Ok(Mark::of(&appended.entry))
}

pub(super) async fn wit01_store_behind_its_mark_is_not_claimed(cx: Context) -> Verdict {
    let marks = Arc::new(Marks::default());
    let (ledger, jobs, late) = (cx.witnessed(marks.clone()).await?, partition("jobs"), partition("late"));
    tenure(&*ledger, &jobs, "a").await?;
    let copy = cx.snapshot().await?;
    let known = tenure(&*ledger, &jobs, "b").await?;
    let known_late = tenure(&*ledger, &late, "b").await?;
    copy.restore().await?;

    for (handle, which) in
        [(ledger.clone(), "that wrote it"), (cx.witnessed(marks.clone()).await?, "of another process")]
    {
        let before = Snapshot::take(&*handle, &jobs).await?;
        let asked = prepare_claim(&*handle, &jobs, "c", long_ttl()).await?;
        let what = format!("a claim on the handle {which}");
        let back = expect_rolled_back(&what, handle.claim(&asked).await, (known, Rewind::Behind, false))?;
        equal("what was seen", &back.seen, &newest(&*handle, &jobs).await?)?;
        before.expect_unchanged(&what, &*handle, &jobs, false).await?;
        let first = first_claim(&late, "c", long_ttl());
        let back =
            expect_rolled_back("a first claim", handle.claim(&first).await, (known_late, Rewind::Behind, false))?;
        equal("what was seen of a partition that is not there", &back.seen, &None)?;
        let listed = handle.partitions(None, PageSize::MAX).await?.partitions;
        equal("the partitions", &listed, &vec![jobs.clone()])?;
    }
    // Without a witness it can not be seen: the generation is granted for a second time.
    let again = claim(&*cx.ledger(), &jobs, "c", long_ttl()).await?;
    equal("what a claim without a witness is granted", &again.lease.generation, &known.generation)?;
    Ok(())
}

pub(super) async fn wit02_other_history_is_told_apart(cx: Context) -> Verdict {
    let marks = Arc::new(Marks::default());
    let (plain, ledger, jobs) = (cx.ledger(), cx.witnessed(marks.clone()).await?, partition("jobs"));
    tenure(&*ledger, &jobs, "a").await?;
    let copy = cx.snapshot().await?;
    let known = tenure(&*ledger, &jobs, "b").await?;
    copy.restore().await?;
    // The same positions, written again by somebody without a witness.
    let lease = claim(&*plain, &jobs, "c", long_ttl()).await?.lease;
    plain.append(&lease, &append("other work")).await?;
    let seen = newest(&*plain, &jobs).await?;
    equal("where the other history stands", &seen.map(|seen| seen.position), &Some(known.position))?;
    let blind = Claim::new(jobs.clone(), holder("d"), long_ttl(), Observation::of(&lease));
    let told = (known, Rewind::OtherHistory, false);
    let back = expect_rolled_back("a claim at the same position", ledger.claim(&blind).await, told)?;
    equal("what was seen", &back.seen, &seen)?;
    plain.append(&lease, &batch(3)).await?;
    plain.release(&lease).await?;
    let before = Snapshot::take(&*plain, &jobs).await?;
    expect_rolled_back("a claim past the mark", ledger.claim(&blind).await, told)?;
    before.expect_unchanged("a claim past the mark", &*plain, &jobs, false).await?;
    let found = ledger.verify(&jobs, Some(known)).await?;
    ensure(matches!(found, Verification::Broken { .. }), "verify with the mark finds the same", &found)?;
    Ok(())
}

pub(super) async fn wit03_holder_notices_at_its_next_answer(cx: Context) -> Verdict {
    let (plain, jobs) = (cx.ledger(), ["renews", "appends", "releases", "before-the-claim", "beside"].map(partition));
    let ledger = cx.witnessed(Arc::new(Marks::default())).await?;
    let before_all = cx.snapshot().await?;
    let mut leases = Vec::new();
    for partition in &jobs {
        leases.push(claim(&*ledger, partition, "a", long_ttl()).await?.lease);
    }
    let copy = cx.snapshot().await?;
    let mut known = Vec::new();
    for lease in &leases {
        let appended = ledger.append(lease, &batch(3)).await?;
        known.push(Mark::of(&appended.entry));
    }
    copy.restore().await?;

    let behind = |nth: usize, written| (known[nth], Rewind::Behind, written);
    expect_rolled_back("a renewal", ledger.renew(&leases[0], None).await, behind(0, true))?;
    let late = append("late");
    expect_rolled_back("an append", ledger.append(&leases[1], &late).await, behind(1, true))?;
    expect_rolled_back("a release", ledger.release(&leases[2]).await, behind(2, true))?;
    let at_once = Snapshot::take(&*plain, &jobs[1]).await?;
    for what in ["the next append", "one after it"] {
        expect_rolled_back(what, ledger.append(&leases[1], &append("more")).await, behind(1, false))?;
    }
    at_once.expect_unchanged("what is not sent any more", &*plain, &jobs[1], false).await?;

    // Somebody who shares the lease and knows nothing writes the same positions again.
    plain.append(&leases[4], &append("other")).await?;
    plain.append(&leases[4], &batch(2)).await?;
    let other = (known[4], Rewind::OtherHistory, true);
    expect_rolled_back("a renewal beside another history", ledger.renew(&leases[4], None).await, other)?;

    // A copy that has never heard of the lease refuses it, for a reason that can not be.
    before_all.restore().await?;
    let back = expect_rolled_back(
        "a renewal of a lease that is gone",
        ledger.renew(&leases[3], None).await,
        behind(3, false),
    )?;
    equal("what was seen", &back.seen, &None)?;
    Ok(())
}

pub(super) async fn wit04_advance_lets_every_witness_go_on(cx: Context) -> Verdict {
    let (near, far) = (Arc::new(Marks::default()), Arc::new(Marks::default()));
    let (plain, jobs) = (cx.ledger(), partition("jobs"));
    let (one, other) = (cx.witnessed(near.clone()).await?, cx.witnessed(far.clone()).await?);
    tenure(&*one, &jobs, "a").await?;
    let copy = cx.snapshot().await?;
    let known_far = tenure(&*other, &jobs, "b").await?;
    let held = claim(&*one, &jobs, "c", long_ttl()).await?.lease;
    let known = Mark::of(&one.append(&held, &append("lost")).await?.entry);
    one.renew(&held, None).await?;
    copy.restore().await?;

    let reason = Note::new("restored from the copy of the hour before").expect("a valid note");
    let low = Advance::new(jobs.clone(), holder("operator"), Some(known_far.generation), reason.clone());
    let told =
        expect_rolled_back("an advance below the mark", one.advance(&low).await, (known, Rewind::Behind, false))?;
    let plainly = Advance::new(jobs.clone(), holder("operator"), None, reason.clone());
    let too_low = plain.advance(&plainly).await?;
    let asked = prepare_claim(&*one, &jobs, "d", long_ttl()).await?;
    // One above what the copy has: that is no more than what was granted before.
    ensure(too_low.generation <= known.generation, "an advance that does not go above the mark", &too_low)?;
    let result = one.claim(&asked).await;
    ensure(matches!(result, Err(LedgerError::RolledBack(_))), "an advance below the mark does not lift it", &result)?;

    let step = Advance::new(jobs.clone(), holder("operator"), Some(told.mark.generation), reason);
    let advanced = one.advance(&step).await?;
    equal("the generation", &Some(advanced.generation), &known.generation.next())?;
    ensure(one.advance(&step).await?.replayed, "a retry is answered as before", ())?;
    let late = plain.append(&held, &append("late")).await;
    expect_rejected("the lease of the lost time", late, Reason::StaleGeneration)?;
    for (handle, marks, name) in [(&other, &far, "e"), (&one, &near, "f")] {
        let claimed = claim(&**handle, &jobs, name, long_ttl()).await?;
        equal(&format!("the mark of `{name}`"), &marks.of(claimed.lease.ledger, &jobs), &Some(mark_of(&claimed)))?;
        handle.append(&claimed.lease, &append("goes on")).await?;
        handle.release(&claimed.lease).await?;
        ensure(handle.advance(&step).await?.replayed, "a retry long after is answered as before", ())?;
    }
    for mark in [known, known_far] {
        let found = plain.verify(&jobs, Some(mark)).await?;
        ensure(matches!(found, Verification::Clean { .. }), "verify is clean, also with a mark from before", &found)?;
    }
    Ok(())
}

pub(super) async fn wit05_marks_in_a_ledger_never_go_back(cx: Context) -> Verdict {
    let (ledger, jobs, others) = (LedgerId::mint(), partition("jobs"), partition("others"));
    let mark = |generation: i64, position: i64| {
        let number = u8::try_from(position % 256).expect("it is below 256");
        Mark::new(shifted(Generation::FIRST, generation - 1), at(position), ledger_core::Digest::new([number; 32]))
    };
    let (one, other) = (cx.witness(cx.ledger()), cx.witness(cx.open().await?));
    let read = |what: &'static str, read: Result<Option<Mark>, Failure>| {
        read.map_err(|failure| Violation::new(format!("{what} is read"), failure.to_string()))
    };
    let kept = |what: &'static str, kept: Result<Mark, Failure>| {
        kept.map_err(|failure| Violation::new(format!("{what} is kept"), failure.to_string()))
    };
    equal("what was never kept", &read("nothing", one.mark(ledger, &jobs).await)?, &None)?;
    for (what, new, then) in [
        ("the first mark", mark(1, 10), mark(1, 10)),
        ("a later position", mark(1, 12), mark(1, 12)),
        ("an earlier position", mark(1, 11), mark(1, 12)),
        ("a later generation at a smaller position", mark(4, 5), mark(4, 5)),
        ("an earlier generation at a greater position", mark(3, 90), mark(4, 5)),
        ("the same again", mark(4, 5), mark(4, 5)),
    ] {
        equal(what, &kept(what, one.keep(ledger, &jobs, new).await)?, &then)?;
        equal(&format!("{what}, read by another"), &read(what, other.mark(ledger, &jobs).await)?, &Some(then))?;
    }
    equal("the mark of another partition", &read("others", one.mark(ledger, &others).await)?, &None)?;
    equal("the mark of another ledger", &read("others", one.mark(LedgerId::mint(), &jobs).await)?, &None)?;

    let count = i64::try_from(cx.scale(6, 16)).expect("a small number");
    let mut tasks = Vec::new();
    for nth in 0..count {
        let witness = cx.witness(cx.open().await?);
        let new = mark(4, 10 + (nth * 7) % count);
        let jobs = jobs.clone();
        tasks.push(tokio::spawn(async move { (new, witness.keep(ledger, &jobs, new).await) }));
    }
    for task in tasks {
        let (new, answer) = task.await.map_err(|error| Violation::new("no panic", error.to_string()))?;
        let answer = kept("a mark beside others", answer)?;
        ensure(!new.is_later_than(&answer), "the answer is the mark that was kept, or a later one", (new, answer))?;
    }
    let last = mark(4, 10 + count - 1);
    equal("the latest of all", &read("the latest", one.mark(ledger, &jobs).await)?, &Some(last))?;
    let log = LedgerWitness::partition(ledger, &jobs);
    let found = cx.ledger().verify(&log, None).await?;
    ensure(matches!(found, Verification::Clean { .. }), "the log of the marks is clean", &found)?;
    Ok(())
}

pub(super) async fn wit06_witness_that_fails_stops_its_holder(cx: Context) -> Verdict {
    let marks = Arc::new(Marks::default());
    let (plain, ledger, jobs) = (cx.ledger(), cx.witnessed(marks.clone()).await?, partition("jobs"));
    let asked = first_claim(&jobs, "a", long_ttl());
    marks.unreadable.store(true, Ordering::SeqCst);
    let refused = ledger.claim(&asked).await;
    let proves = |error: &LedgerError| matches!(error, LedgerError::NotWritten(_)) && error.proves_not_written();
    ensure(refused.as_ref().is_err_and(proves), "a claim without a look at the marks is NotWritten", &refused)?;
    let reason = Note::new("restored").expect("a valid note");
    let refused = ledger.advance(&Advance::new(jobs.clone(), holder("operator"), None, reason)).await;
    ensure(refused.as_ref().is_err_and(proves), "so is an advance", &refused)?;
    ensure(newest(&*plain, &jobs).await?.is_none(), "the store was not asked", ())?;

    marks.unreadable.store(false, Ordering::SeqCst);
    marks.unwritable.store(true, Ordering::SeqCst);
    let unknown = |error: &LedgerError| matches!(error, LedgerError::Unknown(_));
    let lost = ledger.claim(&asked).await;
    ensure(lost.as_ref().is_err_and(unknown), "a grant that is not marked is Unknown", &lost)?;
    equal("the claim stands", &newest(&*plain, &jobs).await?.map(|mark| mark.generation), &Some(Generation::FIRST))?;
    marks.unwritable.store(false, Ordering::SeqCst);
    let claimed = ledger.claim(&asked).await?;
    ensure(claimed.replayed, "the same claim again is answered, and marked", &claimed)?;
    equal("the mark", &marks.of(claimed.lease.ledger, &jobs), &Some(mark_of(&claimed)))?;

    let appended = ledger.append(&claimed.lease, &append("work")).await?;
    marks.unwritable.store(true, Ordering::SeqCst);
    let renewed = ledger.renew(&claimed.lease, None).await;
    ensure(renewed.as_ref().is_err_and(unknown), "a renewal that is not marked is Unknown", &renewed)?;
    let released = ledger.release(&claimed.lease).await;
    ensure(released.as_ref().is_err_and(proves), "a release is not sent before its mark is kept", &released)?;
    ensure(ledger.observe(&jobs).await?.tenure.is_some_and(|tenure| tenure.vacancy.is_none()), "it is still held", ())?;
    marks.unwritable.store(false, Ordering::SeqCst);
    ledger.renew(&claimed.lease, None).await?;
    equal("the mark", &marks.of(claimed.lease.ledger, &jobs), &Some(Mark::of(&appended.entry)))?;
    Ok(())
}

pub(super) async fn wit07_answers_are_marked_before_they_are_given(cx: Context) -> Verdict {
    let marks = Arc::new(Marks::default());
    let (ledger, jobs) = (cx.witnessed(marks.clone()).await?, partition("jobs"));
    let claimed = claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let (lease, id) = (&claimed.lease, claimed.lease.ledger);
    equal("at a claim", &marks.of(id, &jobs), &Some(mark_of(&claimed)))?;
    let appended = ledger.append(lease, &batch(3)).await?;
    equal("at an append", &marks.of(id, &jobs), &Some(mark_of(&claimed)))?;
    ledger.renew(lease, None).await?;
    equal("at a renewal", &marks.of(id, &jobs), &Some(Mark::of(&appended.entry)))?;
    let appended = ledger.append(lease, &append("last")).await?;
    ledger.release(lease).await?;
    equal("at a release", &marks.of(id, &jobs), &Some(Mark::of(&appended.entry)))?;

    let each = Witnessed::new(cx.open().await?, marks.clone()).marking(Marking::Appends);
    let lease = claim(&each, &jobs, "b", long_ttl()).await?.lease;
    let mut last = None;
    for answer in
        futures_util::future::join_all((0..8).map(|_| async { each.append(&lease, &append("x")).await })).await
    {
        let appended = answer?;
        last = last.max(Some(appended.entry.last));
    }
    equal("with a mark for each append", &marks.of(id, &jobs).map(|mark| mark.position), &last)?;
    each.release(&lease).await?;
    let reason = Note::new("a drill").expect("a valid note");
    let advanced = ledger.advance(&Advance::new(jobs.clone(), holder("operator"), None, reason)).await?;
    equal("at an advance", &marks.of(id, &jobs), &Some(advanced.mark()))?;
    Ok(())
}

pub(super) async fn wit08_keeper_stops_over_a_store_that_went_back(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.witnessed(Arc::new(Marks::default())).await?, partition("jobs"));
    let keeper = Keeper::new(ledger.clone(), jobs.clone(), holder("a"), Terms::new(long_ttl()))?
        .with_clock(ManualLocalClock::default());
    let (writer, driver) =
        keeper.claim(Waiting::No).await.map_err(|error| Violation::new("it claims", error.to_string()))?;
    let driving = tokio::spawn(driver);
    let copy = cx.snapshot().await?;
    let writes = |error: WriteError| Violation::new("it appends", error.to_string());
    writer.append(&batch(3)).await.map_err(writes)?;
    copy.restore().await?;
    match writer.append(&append("late")).await {
        Err(WriteError::Ledger(LedgerError::RolledBack(back))) => {
            ensure(back.written && back.rewind == Rewind::Behind, "it says that it was written, behind", &back)?;
        }
        other => return Err(Violation::new("the append tells that the store went back", format!("{other:?}")).into()),
    }
    let state = writer.state();
    let says_why = matches!(&state, State::Ended(end) if matches!(&**end, End::Lost(Loss::RolledBack(_))));
    ensure(says_why, "the writer has ended, and says why", &state)?;
    match writer.append(&append("more")).await {
        Err(WriteError::Ended(_)) => {}
        other => return Err(Violation::new("nothing more is sent", format!("{other:?}")).into()),
    }
    driving.await.map_err(|error| Violation::new("no panic", error.to_string()))?;
    let again = keeper.claim(Waiting::No).await;
    ensure(again.is_err(), "nothing is claimed", ())?;
    Ok(())
}
