//! Unknown outcomes: K8.

use super::ledger::Fault;
use super::world::{Outcome, Slot, World, append, at, ensure, equal, expect_lost, ms};
use crate::keeper::{Settled, WriteError, Writer};
use crate::{Append, LedgerError, Position, Reason};

type Answer = Result<Settled, WriteError>;

fn settle(w: &mut World, writer: &Writer, append: &Append, budget: u64) -> Slot<Answer> {
    let (writer, append) = (writer.clone(), append.clone());
    w.start(async move { writer.settle(&append, ms(budget)).await })
}

fn times_in_log(w: &World, append: &Append) -> usize {
    w.ledger.log(&w.jobs).iter().filter(|entry| entry.content == append.content()).count()
}

/// K8. The answer was lost, then none came: sent again under the same id, it is in the log once.
pub(super) fn lost_answer_is_asked_for_again(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 1, || Fault::ReplyLost);
    w.faults("append", 1, || Fault::Silent);
    let sent = append();
    let settling = settle(&mut w, &writer, &sent, 5_000);
    w.pass(1_000);
    match settling.take("a settlement")? {
        Ok(Settled::Appended { appended, tries: 3 }) => {
            equal("how often it is in the log", times_in_log(&w, &sent), 1)?;
            equal("whether it is a replay", appended.replayed, true)
        }
        other => Err(format!("expected an append that is settled at the third try; seen: {other:?}")),
    }
}

/// K8. What surely was not written is sent again too, within the budget; then the error proves it.
pub(super) fn not_written_is_sent_again_and_proven_at_the_end(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 2, || Fault::NotWritten);
    let settling = settle(&mut w, &writer, &append(), 5_000);
    w.pass(1_000);
    let settled = settling.take("a settlement")?;
    ensure(matches!(settled, Ok(Settled::Appended { tries: 3, .. })), "an append at the third try", &settled)?;
    w.faults("append", 99, || Fault::NotWritten);
    let settling = settle(&mut w, &writer, &append(), 1_000);
    w.pass(1_000);
    let settled = settling.take("a settlement when its budget is used up")?;
    ensure(matches!(&settled, Err(error) if error.proves_not_written()), "a proof that nothing was written", &settled)
}

/// K8. It had landed, and the tenure ended before it could be asked for again: the refusal says where it stands.
pub(super) fn refusal_tells_that_it_had_landed(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 1, || Fault::ReplyLost);
    let sent = append();
    let settling = settle(&mut w, &writer, &sent, 5_000);
    w.operator_ends(&writer)?;
    w.pass(1_000);
    match settling.take("a settlement")? {
        Ok(Settled::Landed { entry, .. }) => equal("the entry", entry.content, sent.content()),
        other => Err(format!("expected that it had landed; seen: {other:?}")),
    }
}

/// K8. It did not arrive, and another took over: `fate` is final for the old generation.
pub(super) fn fate_is_final_after_a_takeover(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 1, || Fault::NotArrived);
    let sent = append();
    let settling = settle(&mut w, &writer, &sent, 5_000);
    w.operator_ends(&writer)?;
    let (_next, _other) = w.claim(&w.keeper("b"))?;
    w.pass(1_000);
    let settled = settling.take("a settlement")?;
    ensure(matches!(settled, Ok(Settled::Never { .. })), "that it can never land", &settled)?;
    equal("how often it is in the log", times_in_log(&w, &sent), 0)
}

/// K8. Without trust nothing is sent any more, and while the store has not seen the end, nobody knows.
pub(super) fn without_trust_it_stays_undecided(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 99, || Fault::NotArrived);
    w.faults("renew", 99, || Fault::NotArrived);
    let settling = settle(&mut w, &writer, &append(), 2_900);
    w.pass(2_900);
    let settled = settling.take("a settlement when its budget is used up")?;
    ensure(matches!(settled, Ok(Settled::Undecided { .. })), "that nobody knows", &settled)?;
    let late = w.ledger.calls().into_iter().filter(|call| call.what == "append" && call.at >= at(2_700)).count();
    equal("the appends sent without trust", late, 0)
}

/// K8. A conflict after an unknown try proves that no try has landed or will: positions only rise.
pub(super) fn conflict_after_an_unknown_try_is_final(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 1, || Fault::NotArrived);
    let sent = append().expecting(Position::FIRST);
    let settling = settle(&mut w, &writer, &sent, 5_000);
    let other = writer.clone();
    w.start(async move { other.append(&append()).await.is_ok() }).take("another append")?;
    w.pass(1_000);
    match settling.take("a settlement")? {
        Err(error) => {
            let reason = error.rejection().map(|rejection| rejection.reason);
            equal("the reason", reason, Some(Reason::PositionConflict))
        }
        other => Err(format!("expected a conflict; seen: {other:?}")),
    }
}

/// K8. The store went back, has written the append all the same, and a witness tells so: that is no error, which would
/// prove that nothing was written. What was not written there is one.
pub(super) fn written_where_the_store_went_back_is_undecided(mut w: World) -> Outcome {
    for (fault, written) in [(Fault::RolledBack { written: true }, 1), (Fault::RolledBack { written: false }, 0)] {
        let (writer, _driver) = w.hold(&w.keeper("a"))?;
        w.ledger.fault("append", &w.jobs, fault);
        let sent = append();
        let settled = settle(&mut w, &writer, &sent, 5_000).take("a settlement")?;
        let found = w.ledger.log(&w.jobs).iter().filter(|entry| entry.id == Some(sent.id())).count();
        equal("how often it is in the log", found, written)?;
        match (&settled, written) {
            (Ok(Settled::Undecided { last: LedgerError::RolledBack(_), tries: 1 }), 1) => {}
            (Err(error), 0) if error.proves_not_written() => {}
            _ => return Err(format!("expected no proof but where it was not written; seen: {settled:?}")),
        }
        expect_lost(&writer, "rolled_back")?;
        w.operator_ends(&writer)?;
    }
    Ok(())
}

/// K8, K4. A release waits for a settlement.
pub(super) fn release_waits_for_a_settlement(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("append", 2, || Fault::NotArrived);
    let settling = settle(&mut w, &writer, &append(), 5_000);
    let releaser = writer.clone();
    let release = w.start(async move { releaser.release().await.is_ok() });
    w.pass(100);
    equal("the releases while an append is being settled", w.ledger.count("release"), 0)?;
    w.pass(1_000);
    let settled = settling.take("a settlement")?;
    ensure(matches!(settled, Ok(Settled::Appended { tries: 3, .. })), "an append during the drain", &settled)?;
    equal("the release after it", release.take("a release")?, true)
}
