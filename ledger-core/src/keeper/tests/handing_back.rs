//! Release, drop, changes, pool: K4, K5, K7, K10.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::StreamExt;

use super::ledger::Fault;
use super::world::{Outcome, World, append, ensure, equal, expect_lost};
use super::{Bug, bug};
use crate::keeper::{Change, Changes, Driver, End, Pool, PoolDriver, State, Wait, WriteError};
use crate::{Holder, PartitionId, Released, Remark};

/// K4. An append is on its way: the release waits for it, admits no other, renews meanwhile, and not afterwards.
pub(super) fn release_waits_for_what_is_in_flight(mut w: World) -> Outcome {
    let (writer, driver) = w.hold(&w.keeper("a"))?;
    let open = w.gate("append", Fault::Late);
    let sender = writer.clone();
    let in_flight = w.start(async move { sender.append(&append()).await });
    let releaser = writer.clone();
    let release = w.start(async move { releaser.release().await });
    w.pass(3_500);
    equal("the releases while an append is in flight", w.ledger.count("release"), 0)?;
    equal("the renewals during the drain", w.ledger.count("renew"), 3)?;
    let sender = writer.clone();
    let refused = w.start(async move { sender.append(&append()).await }).take("an append")?;
    ensure(matches!(refused, Err(WriteError::Draining)), "no new append during the drain", &refused)?;
    drop(open);
    w.run();
    let appended = in_flight.take("the append in flight")?.map_err(|error| error.to_string())?;
    let released = release.take("the release")?.map_err(|error| error.to_string())?;
    let Released::Now { position, .. } = released else { return Err(format!("expected an end now: {released:?}")) };
    ensure(appended.entry.last < position, "the append before the release", (appended.entry.last, position))?;
    let acquisition = writer.lease().acquisition;
    let entry = w.ledger.log(&w.jobs).last().cloned();
    equal("the acquisition that was released", entry.map(|entry| entry.acquisition), Some(acquisition))?;
    let end = driver.take("the driver")?;
    ensure(matches!(*end, End::Released(_)), "an end by release", &end)?;
    w.pass(10_000);
    equal("the renewals after the release", w.ledger.count("renew"), 3)
}

/// K4. The answer to a request comes during a drain: it is sent, and the release waits for it. Once the release is sent it
/// is the store's to judge.
pub(super) fn answer_during_a_drain_is_waited_for(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let (first, second) = (w.gate("append", Fault::Late), w.gate("append", Fault::Late));
    let sender = writer.clone();
    let in_flight = w.start(async move { sender.append(&append()).await.is_ok() });
    let releaser = writer.clone();
    let release = w.start(async move { releaser.release().await });
    let answers = |w: &mut World, said: &str| {
        let answer = append().remarking(Remark::new(said).expect("a remark"));
        let (ledger, lease) = (writer.ledger(), writer.lease());
        w.start(async move { ledger.append(&lease, &answer).await })
    };
    let answer = answers(&mut w, "what came of it");
    equal("the appends sent, an answer among them", w.ledger.count("append"), 2)?;
    drop(first);
    w.run();
    equal("what was in flight", in_flight.take("the append in flight")?, true)?;
    equal("the releases while an answer is in flight", w.ledger.count("release"), 0)?;
    let third = w.gate("release", Fault::Late);
    drop(second);
    w.run();
    let answered = answer.take("the answer")?.map_err(|error| error.to_string())?;
    equal("the releases after it", w.ledger.count("release"), 1)?;
    let late = answers(&mut w, "what came of another").take("an answer beside the release")?;
    ensure(late.is_ok(), "one that the store has judged, before it had the release", &late)?;
    drop(third);
    w.run();
    let released = release.take("the release")?.map_err(|error| error.to_string())?;
    let Released::Now { position, .. } = released else { return Err(format!("expected an end now: {released:?}")) };
    ensure(answered.entry.last < position, "the answer before the release", (answered.entry.last, position))
}

/// K4. No renewal is sent beside the release or after it, also while its answer stays out.
pub(super) fn nothing_is_renewed_once_the_release_is_sent(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let _open = w.gate("release", Fault::LateReply);
    let releaser = writer.clone();
    let release = w.start(async move { releaser.release().await });
    w.pass(2_000);
    ensure(release.is_empty(), "a release without an answer", "an answer")?;
    equal("the renewals after the release was sent", w.ledger.count("renew"), 0)?;
    w.pass(1_000);
    expect_lost(&writer, "expired")
}

/// K4. The answer to a release was lost: asked again it is answered, and nothing was sent or renewed in between.
pub(super) fn lost_answer_to_a_release_is_asked_for_again(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("release", 1, || Fault::ReplyLost);
    for (tries, succeeds) in [(1, false), (2, true), (2, true)] {
        let releaser = writer.clone();
        let released = w.start(async move { releaser.release().await }).take("a release")?;
        equal("whether it is answered", released.is_ok(), succeeds)?;
        equal("the releases sent", w.ledger.count("release"), tries)?;
        let sender = writer.clone();
        let refused = w.start(async move { sender.append(&append()).await }).take("an append")?;
        ensure(refused.is_err(), "no append once a release has begun", &refused)?;
    }
    w.pass(5_000);
    equal("the renewals", w.ledger.count("renew"), 0)
}

/// K5. The last writer is dropped: nothing blocks, nothing is released, nothing renews; a signal keeps nothing alive.
pub(super) fn dropped_writer_is_abandoned_and_not_released(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (writer, driver) = w.hold(&keeper)?;
    let (clone, signal) = (writer.clone(), writer.signal());
    drop(writer);
    ensure(!signal.is_ended(), "one that is held while there is a clone", signal.end())?;
    drop(clone);
    w.pass(2_600);
    equal("the renewals after the drop", w.ledger.count("renew"), 0)?;
    equal("the releases", w.ledger.count("release"), 0)?;
    let end = driver.take("the driver")?;
    ensure(matches!(*end, End::Abandoned), "an end by abandonment", &end)?;
    ensure(signal.is_ended(), "a signal that has fired", signal.end())?;
    let next = w.keeper("b");
    let refused = w.start(async move { next.claim(Wait::No).await }).take("a claim")?;
    ensure(refused.is_err(), "a lease that runs out by itself", &refused)
}

/// K7. Two subscribers, one reads as it goes and one at the end: both get every change of every tenure, in order.
pub(super) fn every_subscriber_gets_every_change(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (mut eager, late) = (keeper.subscribe(), keeper.subscribe());
    let mut seen = Vec::new();
    let (first, _driver) = w.hold(&keeper)?;
    seen.extend(ready(&mut eager));
    w.start(async move { first.release().await.is_ok() }).take("a release")?;
    seen.extend(ready(&mut eager));
    let (_second, driver) = w.hold(&keeper)?;
    w.suspend(5_000);
    w.run();
    driver.take("the driver")?;
    seen.extend(ready(&mut eager));
    let expected = ["1 held", "1 draining", "1 released", "2 held", "2 lost"];
    equal("the changes, read as they came", told(&seen), expected.map(str::to_owned).to_vec())?;
    let mut late = late;
    equal("the changes, read at the end", told(&ready(&mut late)), expected.map(str::to_owned).to_vec())
}

/// K10. The store does not answer for one partition: that one is lost in its time, and the others go on.
pub(super) fn loss_of_one_does_not_disturb_another(mut w: World) -> Outcome {
    let holder = Holder::new("a").expect("a name");
    let (pool, driver) = Pool::new(w.ledger.clone(), holder, w.terms()).expect("the usual terms");
    let pool = std::rc::Rc::new(pool.with_clock(w.clock()));
    let driving = match w.bug {
        Some(Bug::PoolDrivesOneAfterAnother) => w.start(OneAfterAnother { pool: driver, waiting: VecDeque::new() }),
        _ => w.start(driver),
    };
    let names = ["jobs", "other", "third"].map(|name| PartitionId::new(name).expect("a name"));
    let mut changes = pool.subscribe();
    for name in names.clone() {
        let pool = pool.clone();
        let claimed = w.start(async move { pool.claim(&name, Wait::No).await }).take("a claim")?;
        claimed.map_err(|error| error.to_string())?;
    }
    w.faults("renew", 99, || Fault::Silent);
    w.pass(20_000);
    equal("what is held when one was lost", pool.held(), names[1..].to_vec())?;
    let lost = told(&ready(&mut changes)).into_iter().filter(|told| told.contains("lost")).count();
    equal("the losses that were told", lost, 1)?;
    let releasing = pool.clone();
    let released = w.start(async move { releasing.release_all().await }).take("the releases")?;
    ensure(released.len() == 2 && released.iter().all(|(_, released)| released.is_ok()), "two releases", &released)?;
    equal("what is held after them", pool.held(), Vec::new())?;
    drop(pool);
    w.run();
    driving.take("the driver of a pool that is gone")
}

/// A pool's driver with a bug: it polls one tenure until that has ended, and then the next.
struct OneAfterAnother {
    pool: PoolDriver,
    waiting: VecDeque<Driver>,
}

impl Future for OneAfterAnother {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(incoming) = &mut self.pool.incoming
            && let Poll::Ready(next) = incoming.poll_next_unpin(cx)
        {
            match next {
                Some(driver) => self.waiting.push_back(driver),
                None => self.pool.incoming = None,
            }
        }
        while let Some(front) = self.waiting.front_mut() {
            if Pin::new(front).poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.waiting.pop_front();
        }
        if self.pool.incoming.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The changes that wait to be read; one bug tells no ends.
fn ready(changes: &mut Changes) -> Vec<Change> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut found = Vec::new();
    while let Poll::Ready(Some(change)) = changes.poll_next_unpin(&mut cx) {
        let is_end = matches!(change.state, State::Ended(_));
        if !(is_end && bug() == Some(Bug::EndsAreNotTold)) {
            found.push(change);
        }
    }
    found
}

fn told(changes: &[Change]) -> Vec<String> {
    let state = |state: &State| match state {
        State::Held => "held",
        State::Draining => "draining",
        State::Ended(end) => match **end {
            End::Released(_) => "released",
            End::Abandoned => "abandoned",
            End::Lost(_) => "lost",
        },
    };
    changes.iter().map(|change| format!("{} {}", change.generation, state(&change.state))).collect()
}
