//! Trust, renewals and losses: K1, K2, K3, K6.

use super::ledger::Fault;
use super::world::{Outcome, World, append, at, ensure, equal, expect_lost, ms, refused_as};
use crate::keeper::{ClaimError, State, Wait, WriteError, Writer};
use crate::{Append, Asked, FencedLedger, Json, Reason, Remark, RequestBook, RequestKey, Ttl};

/// K1. The answer to the claim comes a second late: that second is not trusted. So with a renewal.
pub(super) fn trust_counts_from_before_the_request(mut w: World) -> Outcome {
    let open = w.gate("claim", Fault::LateReply);
    let keeper = w.keeper("a");
    let claimed = w.start(async move { keeper.claim(Wait::No).await });
    w.pass(1_000);
    drop(open);
    w.run();
    let (writer, driver) = claimed.take("a claim")?.map_err(|error| error.to_string())?;
    equal("trust from before the claim", writer.trust().until, at(2_700))?;
    let open = w.gate("renew", Fault::LateReply);
    let _driver = w.start(driver);
    w.pass(400);
    drop(open);
    w.run();
    equal("trust from before the renewal", writer.trust().until, at(3_700))
}

/// K1. Asked for 3 s, the store grants 2 s: that is what is trusted, less the margin.
pub(super) fn trust_never_outlives_the_grant(mut w: World) -> Outcome {
    let granted = Fault::Grants(Ttl::from_millis(2_000).expect("a TTL"));
    w.ledger.fault("claim", &w.jobs, granted);
    let (writer, _driver) = w.claim(&w.keeper("a"))?;
    equal("trust in what was granted, less the margin", writer.trust().until, at(1_700))
}

/// K1. At equality the trust has ended, as a lease has.
pub(super) fn trust_has_ended_at_its_end(mut w: World) -> Outcome {
    let (writer, _driver) = w.claim(&w.keeper("a"))?;
    w.suspend(2_699);
    ensure(matches!(writer.state(), State::Held), "a writer that is held a moment before", writer.state())?;
    w.suspend(1);
    equal("nothing left at the end itself", writer.trust().left, ms(0))?;
    expect_lost(&writer, "expired")
}

/// K2. A minute, twenty TTLs: about one renewal a second, one generation, all appends land.
pub(super) fn renewals_keep_the_lease(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (writer, _driver) = w.hold(&keeper)?;
    for _ in 0..60 {
        w.pass(1_000);
        let writer = writer.clone();
        let answer = w.start(async move { writer.append(&append()).await }).take("an append")?;
        answer.map_err(|error| format!("expected that the append lands: {error}"))?;
    }
    let renewals = w.ledger.count("renew");
    ensure((58..=60).contains(&renewals), "a renewal a second", renewals)?;
    equal("entries of one generation", w.ledger.log(&w.jobs).len(), 61)
}

/// K2. One renewal lost on the way, one never answered: tried again within the time left, and no loss.
pub(super) fn unknown_renewal_is_tried_again(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.faults("renew", 1, || Fault::ReplyLost);
    w.faults("renew", 1, || Fault::Silent);
    w.pass(2_500);
    ensure(matches!(writer.state(), State::Held), "no loss by an unknown renewal", writer.state())?;
    let sent: Vec<_> = w.ledger.calls().iter().filter(|call| call.what == "renew").map(|call| call.at).collect();
    equal("the tries", sent, vec![at(1_000), at(1_125), at(1_750)])?;
    equal("trust from the try that was granted", writer.trust().until, at(4_450))
}

/// K3. Renewals stay unknown until the time has run out: it stops at once, says why, and nothing goes on by itself.
pub(super) fn stops_when_renewals_stay_unknown(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (writer, driver) = w.hold(&keeper)?;
    let signal = writer.signal();
    let fired = w.start(signal.ended());
    w.faults("renew", 99, || Fault::NotArrived);
    w.pass(2_675);
    ensure(matches!(writer.state(), State::Held), "trust until its end", writer.state())?;
    ensure(fired.is_empty(), "no signal before the end", w.now())?;
    w.pass(25);
    expect_lost(&writer, "unrenewed")?;
    fired.take("the future of the signal")?;
    driver.take("the driver")?;
    let before = w.ledger.calls();
    let sender = writer.clone();
    let refused = w.start(async move { sender.append(&append()).await }).take("an append")?;
    ensure(matches!(refused, Err(WriteError::Ended(_))), "an append that is not sent", &refused)?;
    w.pass(60_000);
    equal("the calls of the store: none after the end", w.ledger.calls().len(), before.len())
}

/// K3. The store refuses an append: that one refusal ends the writer.
pub(super) fn refused_append_ends_the_writer(mut w: World) -> Outcome {
    let (writer, driver) = w.hold(&w.keeper("a"))?;
    w.operator_ends(&writer)?;
    for _ in 0..2 {
        let writer = writer.clone();
        let answer = w.start(async move { writer.append(&append()).await }).take("an append")?;
        ensure(answer.is_err(), "no append under an ended tenure", &answer)?;
    }
    equal("one append that was sent", w.ledger.count("append"), 1)?;
    expect_lost(&writer, "refused")?;
    equal("why", refused_as(&*driver.take("the driver")?), Some(Reason::Released))
}

/// K3. The store refuses a renewal.
pub(super) fn refused_renewal_ends_the_writer(mut w: World) -> Outcome {
    let (writer, driver) = w.hold(&w.keeper("a"))?;
    w.operator_ends(&writer)?;
    w.pass(1_000);
    expect_lost(&writer, "refused")?;
    equal("why", refused_as(&*driver.take("the driver")?), Some(Reason::Released))
}

/// K3. A renewal was granted, and its answer read after the time had run out: an end is final.
pub(super) fn late_answer_does_not_revive(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let open = w.gate("renew", Fault::LateReply);
    w.pass(1_000);
    equal("a renewal on its way", w.ledger.count("renew"), 1)?;
    w.suspend(1_800);
    drop(open);
    w.run();
    expect_lost(&writer, "unrenewed")
}

/// K3. The answer to a renewal tells a head before what was acknowledged.
pub(super) fn store_that_went_back_is_noticed(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let sender = writer.clone();
    let answer = w.start(async move { sender.append(&append()).await }).take("an append")?;
    answer.map_err(|error| error.to_string())?;
    w.faults("renew", 1, || Fault::WentBack);
    w.pass(1_000);
    expect_lost(&writer, "went_back")
}

/// K3. Another way under the same lease has written, and a renewal has told of it: what is lost of that is noticed too.
pub(super) fn head_that_a_renewal_told_is_not_forgotten(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let (ledger, lease) = (w.ledger.clone(), writer.lease());
    let written = w.start(async move { ledger.append(&lease, &append()).await }).take("an append past the writer")?;
    written.map_err(|error| error.to_string())?;
    w.pass(1_000);
    equal("the renewals that were granted", w.ledger.count("renew"), 1)?;
    w.faults("renew", 1, || Fault::WentBack);
    w.pass(1_000);
    expect_lost(&writer, "went_back")
}

/// K3. An append is written where another had been acknowledged before, be it the last one alone.
pub(super) fn append_behind_what_was_acknowledged_is_noticed(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let sender = writer.clone();
    w.start(async move { sender.append(&append()).await }).take("an append")?.map_err(|error| error.to_string())?;
    w.faults("append", 1, || Fault::WentBack);
    let sender = writer.clone();
    let written = w.start(async move { sender.append(&append()).await }).take("an append")?;
    ensure(written.is_ok(), "an append that the store has written", &written)?;
    expect_lost(&writer, "went_back")
}

/// K3. Appends that were sent side by side, and are answered in another order than they were written, are no such sign.
pub(super) fn answers_in_another_order_are_no_loss(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    let open = w.gate("append", Fault::LateReply);
    let (one, other) = (writer.clone(), writer.clone());
    let first = w.start(async move { one.append(&append()).await });
    let second = w.start(async move { other.append(&append()).await }).take("the second of two at once")?;
    second.map_err(|error| error.to_string())?;
    drop(open);
    w.run();
    first.take("the first of two at once")?.map_err(|error| error.to_string())?;
    ensure(matches!(writer.state(), State::Held), "a writer that goes on", writer.state())
}

/// K3. Nobody drives any more: nobody would watch the time.
pub(super) fn dropped_driver_ends_the_writer(mut w: World) -> Outcome {
    let (writer, driver) = w.claim(&w.keeper("a"))?;
    w.drop_driver(driver);
    expect_lost(&writer, "unkept")
}

/// K6. Suspended for ten seconds: the first append after it is not sent, and no renewal either.
pub(super) fn suspended_writer_finds_its_time_gone(mut w: World) -> Outcome {
    let (writer, _driver) = w.hold(&w.keeper("a"))?;
    w.pass(500);
    let before = w.ledger.calls();
    w.suspend(10_000);
    let sender = writer.clone();
    let refused = w.start(async move { sender.append(&append()).await }).take("an append")?;
    ensure(matches!(refused, Err(WriteError::Ended(_))), "an append that is not sent after a suspension", &refused)?;
    w.run();
    equal("the calls of the store: none after the suspension", w.ledger.calls(), before)?;
    expect_lost(&writer, "expired")
}

/// K3, K4. A request is recorded through the writer: counted, waited for by a release, and not sent without trust.
pub(super) fn request_book_goes_by_the_writer(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (writer, _driver) = w.hold(&keeper)?;
    let request = |w: &mut World, writer: &Writer, key: &'static str| {
        let (ledger, lease) = (w.ledger_of(writer), writer.lease());
        w.start(async move {
            let key = RequestKey::new(key).expect("a key");
            ledger.request(&lease, &key, &Json::empty_object()).await
        })
    };
    let asked = request(&mut w, &writer, "one").take("a request")?.map_err(|error| error.to_string())?;
    ensure(matches!(asked, Asked::Send(_)), "leave to send", &asked)?;
    w.suspend(10_000);
    let refused = request(&mut w, &writer, "two").take("a request")?;
    equal("no request without trust, the appends sent", w.ledger.count("append"), 1)?;
    let told = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure(told.contains("the writer's time has ended"), "why it was not sent", told)?;
    let (ledger, lease) = (w.ledger_of(&writer), writer.lease());
    let answer = append().remarking(Remark::new("what came of it").expect("a remark"));
    let refused = w.start(async move { ledger.append(&lease, &answer).await }).take("a late answer")?;
    let reason = refused.err().and_then(|error| error.rejection().map(|rejection| rejection.reason));
    equal("a late answer, sent to be refused by the store", reason, Some(Reason::Expired))?;
    let (writer, _driver) = w.hold(&keeper)?;
    let open = w.gate("append", Fault::Late);
    let in_flight = request(&mut w, &writer, "three");
    let releaser = writer.clone();
    let release = w.start(async move { releaser.release().await.is_ok() });
    equal("the releases while a request is being recorded", w.ledger.count("release"), 0)?;
    drop(open);
    w.run();
    equal("a request in flight", in_flight.take("a request")?.is_ok(), true)?;
    equal("the release after it", release.take("a release")?, true)?;
    let (writer, _driver) = w.hold(&keeper)?;
    w.operator_ends(&writer)?;
    equal("a refused request", request(&mut w, &writer, "four").take("a request")?.is_err(), true)?;
    expect_lost(&writer, "refused")
}

/// K9. The grant counts from before the claim that was granted, however long the wait before.
pub(super) fn waiting_does_not_shorten_the_trust(mut w: World) -> Outcome {
    let (first, _driver) = w.claim(&w.keeper("a"))?;
    let keeper = w.keeper("b");
    let waiting = w.start(async move { keeper.claim(Wait::AtMost(ms(10_000))).await });
    w.pass(2_975);
    ensure(waiting.is_empty(), "a wait while the lease lasts", w.now())?;
    w.pass(75);
    let (second, driver) = waiting.take("the wait for the expiry")?.map_err(|error| error.to_string())?;
    let until = second.trust().until;
    ensure(until >= at(5_700) && until <= at(5_750), "a whole trust from the grant", until)?;
    equal("the generation", second.generation().get(), 2)?;
    expect_lost(&first, "unkept").or_else(|_| expect_lost(&first, "expired"))?;
    let _driver = w.start(driver);
    let keeper = w.keeper("c");
    let waiting = w.start(async move { keeper.claim(Wait::Forever).await });
    w.pass(20_000);
    let release = w.start(async move { second.release().await.is_ok() });
    equal("a release", release.take("a release")?, true)?;
    w.pass(50);
    let (third, _driver) = waiting.take("the wait for the release")?.map_err(|error| error.to_string())?;
    equal("the generation", third.generation().get(), 3)
}

/// K9. The answer to the claim was lost: it is asked for again under the same acquisition.
pub(super) fn lost_grant_is_asked_for_again(mut w: World) -> Outcome {
    w.faults("claim", 1, || Fault::ReplyLost);
    let keeper = w.keeper("a");
    let claimed = w.start(async move { keeper.claim(Wait::AtMost(ms(1_000))).await });
    w.pass(1_000);
    let (writer, _driver) = claimed.take("a claim")?.map_err(|error| error.to_string())?;
    equal("the generation: one tenure", writer.generation().get(), 1)
}

/// K9. The answer to the claim was lost, and the lease has run out before it could be asked for again: claimed anew.
pub(super) fn lost_grant_that_has_run_out_is_followed_by_another(mut w: World) -> Outcome {
    w.faults("claim", 1, || Fault::ReplyLost);
    let keeper = w.keeper("a");
    let claimed = w.start(async move { keeper.claim(Wait::AtMost(ms(10_000))).await });
    w.suspend(3_000);
    w.pass(1_000);
    let (writer, _driver) = claimed.take("a claim")?.map_err(|error| error.to_string())?;
    equal("the generation: the second tenure", writer.generation().get(), 2)
}

/// K9. The answer to the claim comes when its trust is over: nobody gets a writer.
pub(super) fn grant_that_comes_too_late_is_none(mut w: World) -> Outcome {
    let open = w.gate("claim", Fault::LateReply);
    let keeper = w.keeper("a");
    let claimed = w.start(async move { keeper.claim(Wait::No).await });
    w.suspend(2_700);
    drop(open);
    w.run();
    match claimed.take("a claim")? {
        Err(ClaimError::TooLate { .. }) => Ok(()),
        other => Err(format!("expected no writer whose trust is over; seen: {other:?}")),
    }
}

/// K11. What is counted.
pub(super) fn counters_tell_what_happened(mut w: World) -> Outcome {
    let keeper = w.keeper("a");
    let (writer, _driver) = w.hold(&keeper)?;
    w.faults("renew", 1, || Fault::NotWritten);
    w.pass(500);
    for delay in [0, 1_000] {
        w.pass(delay);
        let (writer, append): (_, Append) = (writer.clone(), append());
        let answer = w.start(async move { writer.append(&append).await }).take("an append")?;
        answer.map_err(|error| error.to_string())?;
    }
    w.suspend(20_000);
    let sender = writer.clone();
    let refused = w.start(async move { sender.append(&append()).await }).take("an append")?;
    ensure(refused.is_err(), "an append that is not sent", &refused)?;
    let counts = w.counts(&keeper);
    equal("renewals granted and failed", (counts.renewals, counts.renewals_failed), (1, 1))?;
    equal("appends sent and not sent", (counts.appends, counts.not_sent), (2, 1))?;
    // At 0.5 s there were 2.2 s left of the claim, at 1.5 s 2.325 s of the renewal that was sent at 1.125 s.
    equal("the least time left", counts.least_left, Some(ms(2_200)))?;
    equal("all times left", counts.total_left, ms(4_525))?;
    equal("losses by reason", (counts.losses(), counts.lost_expired), (1, 1))
}
