//! What a shadow may take of its writer: W2, W3.

use super::{all_counted, append, shadow};
use crate::keeper::tests::ledger::Fault;
use crate::keeper::tests::world::{Outcome, World, ensure, equal, ms};

/// W2. The store does not answer: ten appends are handed over at once, five wait, five are dropped and counted.
pub(super) fn handing_over_does_not_wait(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    w.faults("observe", 99, || Fault::Silent);
    let _driver = w.start(driver);
    for _ in 0..10 {
        shadow.offer(&append(10));
        w.run();
    }
    let counts = shadow.counts();
    equal("what waits, the one that is judged among it", counts.waiting, 5)?;
    equal("what was dropped for want of room", counts.dropped_full, 5)?;
    equal("the time lost", (counts.time_lost, counts.longest), (ms(0), ms(0)))?;
    all_counted(&counts)
}

/// W2. Two of 400 bytes fit beside the one that is judged; a third does not, and a small one does.
pub(super) fn bytes_that_wait_are_bounded_too(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    w.faults("observe", 99, || Fault::Silent);
    let _driver = w.start(driver);
    for bytes in [400, 400, 400, 400, 100] {
        shadow.offer(&append(bytes));
        w.run();
    }
    let counts = shadow.counts();
    equal("what waits and what was dropped for want of room", (counts.waiting, counts.dropped_full), (4, 1))?;
    shadow.offer(&append(1_001));
    equal("one that is larger than all room", shadow.counts().dropped_full, 2)
}

/// W2. A caller that waits for room gets it when there is some, and goes on after 200 ms where there is none.
pub(super) fn waiting_for_room_ends_in_its_time(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    let _driver = w.start(driver);
    let open = w.gate("observe", Fault::Late);
    for _ in 0..5 {
        shadow.offer(&append(10));
        w.run();
    }
    let waiter = shadow.clone();
    let waiting = w.start(async move { waiter.append(&append(10)).await });
    w.pass(175);
    ensure(waiting.is_empty(), "a wait while there is no room", "an end")?;
    w.pass(25);
    waiting.take("the wait for room, in its time,")?;
    let counts = shadow.counts();
    equal("what was dropped", counts.dropped_full, 1)?;
    equal("the time lost", (counts.time_lost, counts.longest), (ms(200), ms(200)))?;
    let waiter = shadow.clone();
    let waiting = w.start(async move { waiter.append(&append(10)).await });
    w.pass(100);
    drop(open);
    w.run();
    waiting.take("the wait for room that there is")?;
    let counts = shadow.counts();
    equal("what was granted", (counts.granted, counts.time_lost), (6, ms(300)))?;
    all_counted(&counts)
}

/// W2. A call that its caller gave up is dropped, and counted with the time that it took.
pub(super) fn dropped_call_is_counted(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    w.faults("observe", 99, || Fault::Silent);
    let _driver = w.start(driver);
    for _ in 0..5 {
        shadow.offer(&append(10));
        w.run();
    }
    let (next, waker) = (append(10), std::task::Waker::noop());
    let mut call = Box::pin(shadow.append(&next));
    ensure(call.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending(), "no room", "an end")?;
    w.pass(50);
    drop(call);
    let counts = shadow.counts();
    equal("what was dropped, and the time lost", (counts.dropped_full, counts.time_lost), (1, ms(50)))?;
    all_counted(&counts)
}

/// W3. What has waited for more than a second is not sent: the judgement would be of another moment.
pub(super) fn what_has_become_too_old_is_not_judged(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    w.faults("observe", 3, || Fault::Silent);
    let _driver = w.start(driver);
    shadow.offer(&append(10));
    w.pass(500);
    shadow.offer(&append(10));
    // After three silent looks of 500 ms, with pauses, the store answers at 1.875 s.
    w.pass(1_400);
    shadow.offer(&append(10));
    w.run();
    let counts = shadow.counts();
    equal("the first two were too old", counts.dropped_old, 2)?;
    equal("what was sent and granted", (w.ledger.count("append"), counts.granted), (1, 1))?;
    ensure(counts.trouble.is_some_and(|text| text.contains("a look was not answered")), "why", "nothing")?;
    all_counted(&shadow.counts())
}

/// W2. Nobody drives any more: what waits and what comes is counted, and the writer goes on without a wait.
pub(super) fn dropped_driver_is_not_noticed_by_the_writer(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    for _ in 0..4 {
        shadow.offer(&append(10));
    }
    let waiter = shadow.clone();
    let waiting = w.start(async move { waiter.append(&append(10)).await });
    drop(driver);
    w.run();
    waiting.take("a wait for room when nobody makes any")?;
    shadow.offer(&append(10));
    shadow.release();
    let counts = shadow.counts();
    equal("undriven, and no room", (counts.dropped_undriven, counts.dropped_full), (6, 0))?;
    all_counted(&counts)
}

/// W2. The last handle is gone: what waits is judged, the lease is released, and the driver ends with the counts.
pub(super) fn last_handle_lets_what_waits_be_judged(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    for _ in 0..3 {
        shadow.offer(&append(10));
    }
    drop(shadow);
    let counts = w.start(driver).take("the driver")?;
    equal("what was granted", (counts.granted, counts.waiting), (3, 0))?;
    equal("the releases", w.ledger.count("release"), 1)?;
    all_counted(&counts)
}
