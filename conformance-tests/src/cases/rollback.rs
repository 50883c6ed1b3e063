//! A store that went back in time, and how a partition goes on (I4).

use super::prelude::*;
use crate::Edit;
use ledger_core::{AdvanceRecord, Advanced, FoundLease, Mark, Verification};

fn note(text: &str) -> Note {
    Note::new(text).expect("a valid note")
}

fn generation(number: i64) -> Generation {
    Generation::new(number).expect("positive")
}

fn step(partition: &PartitionId, above: Option<i64>) -> Advance {
    Advance::new(partition.clone(), holder("operator"), above.map(generation), note("restored from \"monday\""))
}

async fn record_at(ledger: &dyn FencedLedger, partition: &PartitionId, at: Position) -> Result<AdvanceRecord, Stop> {
    let page = ledger.read(partition, at, PageSize::default()).await?;
    let event = page.events.first().filter(|event| event.position == at);
    match event.map(|event| OwnEvent::read(&event.kind, &event.payload)) {
        Some(Ok(Some(OwnEvent::Advanced(record)))) => Ok(record),
        other => Err(Violation::new(format!("an `$advanced` event stands at {at}"), format!("{other:?}")).into()),
    }
}

async fn expect_clean(ledger: &dyn FencedLedger, partition: &PartitionId) -> Verdict {
    let found = ledger.verify(partition, None).await?;
    Ok(ensure(matches!(found, Verification::Clean { .. }), "the log is clean", &found)?)
}

/// Claims the advanced partition and looks at what the claim says.
async fn claim_after(ledger: &dyn FencedLedger, advanced: &Advanced, step: &Advance) -> Result<Claimed, Stop> {
    let partition = &step.partition;
    let claimed = claim(ledger, partition, "next", long_ttl()).await?;
    let next = advanced.generation.next();
    equal("the generation of the next claim", &Some(claimed.lease.generation), &next)?;
    equal("where it stands", &Some(claimed.head), &advanced.position.next())?;
    // One event alone: an older one may be missing.
    let page = ledger.read_back(partition, None, PageSize::new(1)?).await?;
    match page.events.first().map(|event| OwnEvent::read(&event.kind, &event.payload)) {
        Some(Ok(Some(OwnEvent::Claimed(succession)))) => {
            equal("the basis of the next claim", &succession.basis, &Basis::Advanced { reason: step.reason.clone() })?;
            let previous = succession
                .previous
                .map(|previous| (previous.holder, previous.generation, previous.acquisition, previous.last_position));
            let own = (step.operator.clone(), advanced.generation, step.acquisition, advanced.position);
            equal("whom the next claim follows", &previous, &Some(own))?;
        }
        other => return Err(Violation::new("the newest event is `$claimed`", format!("{other:?}")).into()),
    }
    ledger.append(&claimed.lease, &append("after the advance")).await?;
    Ok(claimed)
}

pub(super) async fn rbk01_advance_goes_on_above_every_generation(cx: Context) -> Verdict {
    for (name, above, expected) in [("above", Some(41), 42), ("below", Some(1), 3), ("unknown", None, 3)] {
        let (ledger, jobs) = (cx.ledger(), partition(name));
        let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        ledger.release(&first).await?;
        let second = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
        ledger.append(&second, &append("of the live lease")).await?;
        let renewed = ledger.renew(&second, None).await?;
        let before = ledger.observe(&jobs).await?;
        let step = step(&jobs, above);
        let advanced = ledger.advance(&step).await?;
        equal("the generation", &advanced.generation, &generation(expected))?;
        equal("the position", &Some(advanced.position), &renewed.head.next())?;
        ensure(!advanced.replayed, "the first time", &advanced)?;
        equal("the revision", &advanced.judged.revision.get(), &(before.judged.revision.get() + 1))?;

        let state = ledger.observe(&jobs).await?;
        let tenure = state.tenure.clone().ok_or_else(|| Violation::new("a tenure", format!("{state:?}")))?;
        let vacancy = Vacancy::Advanced { reason: step.reason.clone() };
        equal("why it is vacant", &tenure.vacancy, &Some(vacancy))?;
        let own = (tenure.lease.generation, tenure.lease.holder.clone(), tenure.lease.acquisition);
        equal("what it is vacant at", &own, &(generation(expected), step.operator.clone(), step.acquisition))?;
        equal("the head", &Mark::new(own.0, tenure.head, tenure.chain), &advanced.mark())?;

        let record = record_at(&*ledger, &jobs, advanced.position).await?;
        let found = FoundLease::from(&ledger_core::StoredLease::new(
            (second.generation, second.holder.clone(), second.acquisition),
            (second.ttl, renewed.lease.expires_at),
            None,
            1,
            renewed.judged.time,
            (renewed.head, renewed.chain),
        ));
        equal("the lease that was found", &record.lease, &Some(found))?;
        let tail = Mark::new(second.generation, renewed.head, renewed.chain);
        equal("the log that was found", &record.log, &Some(tail))?;
        equal("why, and above what", &(record.reason, record.above), &(step.reason.clone(), step.above))?;

        for (what, lease) in [("the live lease", &second), ("an older lease", &first)] {
            let late = ledger.append(lease, &append("late")).await;
            expect_rejected(&format!("an append under {what}"), late, Reason::StaleGeneration)?;
            let late = ledger.renew(lease, None).await;
            expect_rejected(&format!("a renewal of {what}"), late, Reason::StaleGeneration)?;
        }
        match ledger.release(&second).await? {
            Released::AlreadyEnded { end, .. } => {
                let basis = Basis::Advanced { reason: step.reason.clone() };
                equal("how the live tenure ended", &(end.basis, end.successor), &(basis, None))?;
            }
            now => return Err(Violation::new("a late release is answered as ended", format!("{now:?}")).into()),
        }
        let forged = edited(&second, |lease| {
            (lease.generation, lease.holder, lease.acquisition) = own;
        });
        expect_rejected("a lease of the step itself", ledger.append(&forged, &append("x")).await, Reason::Released)?;
        let claimed = claim_after(&*ledger, &advanced, &step).await?;
        match ledger.release(&second).await? {
            Released::AlreadyEnded { end, .. } => {
                let successor = Some((claimed.lease.holder.clone(), claimed.lease.generation));
                equal("who followed", &end.successor, &successor)?;
            }
            now => return Err(Violation::new("a late release is answered as ended", format!("{now:?}")).into()),
        }
        expect_clean(&*ledger, &jobs).await?;
        let lost = Mark::new(generation(expected - 1), at(4000), advanced.chain);
        let found = ledger.verify(&jobs, Some(lost)).await?;
        ensure(matches!(found, Verification::Clean { .. }), "an advance lifts the marks below it", &found)?;
        let above = Mark::new(generation(expected + 5), at(4000), advanced.chain);
        let found = ledger.verify(&jobs, Some(above)).await?;
        ensure(matches!(found, Verification::Broken { .. }), "a mark above an advance still counts", &found)?;
    }
    Ok(())
}

pub(super) async fn rbk02_advance_is_safe_to_retry(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let appended = append("an id");
    ledger.append(&first, &appended).await?;
    let taken = step(&jobs, Some(7));
    let advanced = ledger.advance(&taken).await?;
    let retry = |what: &str, again: &Advanced| -> Verdict {
        ensure(again.replayed, &format!("{what} is answered as before"), again)?;
        Ok(equal(&format!("what {what} is answered with"), &again.mark(), &advanced.mark())?)
    };
    let before = Snapshot::take(&*ledger, &jobs).await?;
    retry("a retry on another handle", &cx.open().await?.advance(&taken).await?)?;
    before.expect_unchanged("a retry", &*ledger, &jobs, false).await?;

    let claimed = claim_after(&*ledger, &advanced, &taken).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    retry("a retry after the next claim", &ledger.advance(&taken).await?)?;
    let second = step(&jobs, None).with_acquisition(AcquisitionId::from_uuid(appended.id().as_uuid())?);
    expect_rejected("an append's id", ledger.advance(&second).await, Reason::AcquisitionSpent)?;
    let second = step(&jobs, None).with_acquisition(claimed.lease.acquisition);
    expect_rejected("a claim's acquisition", ledger.advance(&second).await, Reason::AcquisitionSpent)?;
    let mut changed = [taken.clone(), taken.clone(), taken.clone()];
    changed[0].above = Some(generation(8));
    changed[1].reason = note("another reason");
    changed[2].operator = holder("another operator");
    for other in changed {
        expect_rejected("another step under a used id", ledger.advance(&other).await, Reason::AcquisitionSpent)?;
    }
    before.expect_unchanged("retries and refusals", &*ledger, &jobs, false).await?;
    ledger.append(&claimed.lease, &append("still held")).await?;

    let again = ledger.advance(&step(&jobs, None)).await?;
    equal("a second step", &Some(again.generation), &claimed.lease.generation.next())?;
    retry("a retry after a second step", &ledger.advance(&taken).await?)?;
    equal("records of an operator's refused steps", &records(&*ledger, Some(&jobs)).await?.len(), &0)?;
    expect_clean(&*ledger, &jobs).await
}

pub(super) async fn rbk03_advance_creates_what_this_copy_never_had(cx: Context) -> Verdict {
    for (name, above, expected) in [("seen", Some(9), 10), ("unseen", None, 1)] {
        let (ledger, jobs) = (cx.ledger(), partition(name));
        let step = step(&jobs, above);
        let advanced = ledger.advance(&step).await?;
        equal("the generation", &advanced.generation, &generation(expected))?;
        equal("the position", &advanced.position, &Position::FIRST)?;
        equal("the revision", &advanced.judged.revision.get(), &1)?;
        let record = record_at(&*ledger, &jobs, advanced.position).await?;
        equal("what was found", &(record.lease, record.log), &(None, None))?;
        let listed = ledger.partitions(None, PageSize::MAX).await?.partitions;
        ensure(listed.contains(&jobs), "the partition is there", &listed)?;
        let blind = first_claim(&jobs, "blind", long_ttl());
        expect_rejected("a first claim", ledger.claim(&blind).await, Reason::ObservationOutdated)?;
        ensure(cx.open().await?.advance(&step).await?.replayed, "a retry is answered as before", ())?;
        claim_after(&*ledger, &advanced, &step).await?;
        expect_clean(&*ledger, &jobs).await?;
    }
    // Of an advance and the first claims that race, each has its place.
    let (ledger, race) = (cx.ledger(), partition("race"));
    let claims = (0..4).map(|n| first_claim(&race, &format!("racer-{n}"), long_ttl()));
    let mut calls = Vec::new();
    for claim in claims {
        let handle = cx.open().await?;
        calls.push(tokio::spawn(async move { handle.claim(&claim).await.is_ok() }));
    }
    let advanced = ledger.advance(&step(&race, Some(3))).await?;
    equal("the generation of the advance", &advanced.generation, &generation(4))?;
    let mut granted = 0;
    for call in calls {
        granted += usize::from(call.await.map_err(|error| Violation::new("no panic", error.to_string()))?);
    }
    equal("where the advance stands", &advanced.position.get(), &i64::try_from(granted + 1).unwrap_or(0))?;
    expect_clean(&*ledger, &race).await
}

pub(super) async fn rbk04_no_generation_above_the_ceiling(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let never = partition("never-claimed");
    let refused = ledger.advance(&step(&never, Some(i64::MAX))).await;
    let refused = expect_rejected("an advance above the ceiling", refused, Reason::GenerationExhausted)?;
    equal("the operation", &refused.operation, &Operation::Advance)?;
    equal("who and above what", &refused.presented.generation, &Some(Generation::MAX))?;
    let listed = ledger.partitions(None, PageSize::MAX).await?.partitions;
    ensure(!listed.contains(&never), "a refused advance creates none", &listed)?;
    claim(&*ledger, &never, "a", long_ttl()).await?;

    let jobs = partition("jobs");
    claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let last = ledger.advance(&step(&jobs, Some(i64::MAX - 1))).await?;
    equal("the last generation", &last.generation, &Generation::MAX)?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let refused = ledger.advance(&step(&jobs, None)).await;
    expect_rejected("an advance at the ceiling", refused, Reason::GenerationExhausted)?;
    let asked = prepare_claim(&*ledger, &jobs, "b", long_ttl()).await?;
    expect_rejected("a claim at the ceiling", ledger.claim(&asked).await, Reason::GenerationExhausted)?;
    before.expect_unchanged("what is refused at the ceiling", &*ledger, &jobs, false).await?;
    expect_clean(&*ledger, &jobs).await
}

/// 1 `$claimed` of `a`, 2 and 3 to 5 appends, 6 `$released`, 7 `$claimed` of `b`, 8 append, and two renewals. Gives the
/// newest lease, which is valid.
async fn write_log(ledger: &dyn FencedLedger, jobs: &PartitionId) -> Result<Lease, Stop> {
    let first = claim(ledger, jobs, "a", long_ttl()).await?.lease;
    ledger.append(&first, &append("first")).await?;
    ledger.append(&first, &batch(3)).await?;
    ledger.release(&first).await?;
    let second = claim(ledger, jobs, "b", long_ttl()).await?.lease;
    ledger.append(&second, &append("second")).await?;
    ledger.renew(&second, None).await?;
    ledger.renew(&second, None).await?;
    Ok(second)
}

/// What is edited; the generation that an advance must reach then; the position where the log goes on; where verify still
/// finds a fault, if it does.
type Edited<'a> = (&'a str, &'a [Edit], i64, i64, Option<i64>);

pub(super) async fn rbk05_advance_ends_what_has_diverged(cx: Context) -> Verdict {
    let edits: [Edited<'_>; 8] = [
        ("a holder", &[Edit::LeaseHolder { holder: holder("c") }], 3, 9, None),
        ("a generation", &[Edit::LeaseGeneration { generation: generation(7) }], 8, 9, None),
        ("an older generation", &[Edit::LeaseGeneration { generation: generation(1) }], 3, 9, None),
        ("a tail that was cut", &[Edit::CutTail { after: at(6) }], 3, 7, None),
        ("a log that was cut short", &[Edit::CutTail { after: at(2) }], 3, 3, None),
        ("no log at all", &[Edit::Remove { position: at(1) }, Edit::CutTail { after: at(1) }], 3, 1, None),
        ("the newest `$claimed`", &[Edit::Remove { position: at(8) }, Edit::Remove { position: at(7) }], 3, 7, None),
        (
            "both `$claimed`",
            &[
                Edit::Remove { position: at(1) },
                Edit::Remove { position: at(7) },
                Edit::LeaseHolder { holder: holder("c") },
            ],
            3,
            9,
            Some(1),
        ),
    ];
    for (nth, (what, edits, reached, position, fault)) in edits.into_iter().enumerate() {
        let (ledger, jobs) = (cx.ledger(), partition(&format!("jobs-{nth}")));
        let lease = write_log(&*ledger, &jobs).await?;
        let before = ledger.observe(&jobs).await?.judged.revision;
        for edit in edits {
            cx.tamper(&jobs, edit.clone()).await?;
        }
        let handle = cx.open().await?;
        let asked = prepare_claim(&*handle, &jobs, "d", long_ttl()).await?;
        expect_rejected(&format!("a claim, with {what} edited"), handle.claim(&asked).await, Reason::Diverged)?;
        let step = step(&jobs, None);
        let advanced = handle.advance(&step).await?;
        let reached_at = (advanced.generation.get(), advanced.position.get());
        equal(&format!("generation and position, with {what} edited"), &reached_at, &(reached, position))?;
        ensure(advanced.judged.revision > before, "the revision goes on", (before, advanced.judged))?;
        let record = record_at(&*handle, &jobs, advanced.position).await?;
        let log = record.log.map_or(0, |mark| mark.position.get());
        equal("where the log was found to end", &log, &(position - 1))?;
        ensure(record.lease.is_some(), "the lease that was found is kept", &record)?;
        expect_rejected("the old lease", ledger.append(&lease, &append("late")).await, Reason::StaleGeneration)?;
        claim_after(&*ledger, &advanced, &step).await?;
        match (ledger.verify(&jobs, None).await?, fault) {
            (Verification::Clean { .. }, None) => {}
            (Verification::Broken { position, .. }, Some(fault)) if position == at(fault) => {}
            (found, _) => {
                return Err(Violation::new(format!("{fault:?} is all that is broken"), format!("{found:?}")).into());
            }
        }
    }
    Ok(())
}

pub(super) async fn rbk06_handover_tells_of_the_advance(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &append("work")).await?;
    let steps = [step(&jobs, Some(4)), step(&jobs, Some(8))];
    let one = ledger.advance(&steps[0]).await?;
    let two = ledger.advance(&steps[1]).await?;
    expect_rejected("a late append", ledger.append(&lease, &append("late")).await, Reason::StaleGeneration)?;
    let claimed = claim_after(&*ledger, &two, &steps[1]).await?;
    let told = cx.book().handover(&jobs, claimed.lease.generation).await?;
    let told = told.ok_or_else(|| Violation::new("a handover of the claim", "none"))?;
    equal("the basis", &told.succession.basis, &Basis::Advanced { reason: steps[1].reason.clone() })?;
    let marks: Vec<Mark> = told.advances.iter().map(|(entry, _)| Mark::of(entry)).collect();
    equal("the advances", &marks, &vec![one.mark(), two.mark()])?;
    let found = told.advances.first().and_then(|(_, record)| record.lease.as_ref());
    equal("the lease that the first found", &found.map(|found| found.acquisition), &Some(lease.acquisition))?;
    equal("what the predecessor was refused since", &told.afterwards.rejections.len(), &1)?;
    ledger.release(&claimed.lease).await?;
    let after = claim(&*ledger, &jobs, "c", long_ttl()).await?;
    let told = cx.book().handover(&jobs, after.lease.generation).await?;
    equal("advances before an ordinary takeover", &told.map(|told| told.advances.len()), &Some(0))?;
    Ok(())
}
