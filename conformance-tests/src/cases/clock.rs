//! Time: the boundary of expiry, and clocks that step.

use super::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn clk01_boundary_table(cx: Context) -> Verdict {
    let (ledger, clock) = (cx.ledger(), cx.clock()?);
    for (nth, (offset, valid)) in [(-1, true), (0, false), (1, false)].into_iter().enumerate() {
        // A partition for each call: the first answer that rests on expiry is stored, and would hide the second's own.
        let mut leases = Vec::new();
        for call in ["append", "renew", "release", "claim"] {
            let jobs = partition(&format!("{call}-{nth}"));
            leases.push(claim(&*ledger, &jobs, "a", seconds(5)).await?.lease);
        }
        let expiry = leases[0].expires_at;
        clock.set(Timestamp::from_micros(expiry.as_micros() + offset)).await;
        let when = |call: &str| format!("{call} at {offset} µs from expiry");
        let appended = ledger.append(&leases[0], &append("1")).await;
        let renewed = ledger.renew(&leases[1], None).await;
        let released = ledger.release(&leases[2]).await?;
        let claimed = ledger.claim(&prepare_claim(&*ledger, &leases[3].partition, "b", seconds(5)).await?).await;
        if valid {
            ensure(appended.is_ok(), &format!("{} is granted", when("an append")), &appended)?;
            ensure(renewed.is_ok(), &format!("{} is granted", when("a renewal")), &renewed)?;
            ensure(matches!(released, Released::Now { .. }), &when("a release, granted"), &released)?;
            expect_rejected(&when("a claim"), claimed, Reason::Held)?;
        } else {
            expect_rejected(&when("an append"), appended, Reason::Expired)?;
            expect_rejected(&when("a renewal"), renewed, Reason::Expired)?;
            ensure(matches!(released, Released::AlreadyEnded { .. }), &when("a release, ended before"), &released)?;
            ensure(claimed.is_ok(), &format!("{} is granted", when("a claim")), &claimed)?;
        }
    }
    Ok(())
}

pub(super) async fn clk02_step_back_gives_no_time(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.advance(Duration::from_secs(3)).await;
    let highest = clock.now().await;
    ledger.append(&lease, &append("1")).await?;
    clock.step_back(HOUR).await;
    let state = ledger.observe(&jobs).await?;
    equal("the judged time, not behind what was recorded", &state.judged.time, &highest)?;
    ensure(state.judged.clock_behind, "the answer says that the clock is behind", state.judged)?;
    let renewal = ledger.renew(&lease, None).await?;
    let judged = (renewal.judged.time, renewal.judged.clock_behind, renewal.lease.expires_at);
    equal("time, mark and expiry of a renewal", &judged, &(highest, true, highest.after(seconds(5))))?;
    let appended = ledger.append(&lease, &append("2")).await?;
    equal("the recorded time of an append", &appended.entry.recorded_at, &highest)?;
    let asked = prepare_claim(&*ledger, &jobs, "b", seconds(5)).await?;
    refused_without_effect("a claim", &*ledger, &jobs, Reason::Held, ledger.claim(&asked)).await?;
    clock.set(highest.after(seconds(1))).await;
    ensure(!ledger.observe(&jobs).await?.judged.clock_behind, "the clock is ahead again", clock.now().await)?;
    Ok(())
}

pub(super) async fn clk03_step_forward_fences_the_holder(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let a = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.advance(HOUR).await;
    let b = claim(&*ledger, &jobs, "b", seconds(5)).await?.lease;
    clock.step_back(HOUR).await;
    let what = "an append of the holder before, its own lease unexpired by the clock";
    refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, ledger.append(&a, &append("x"))).await?;
    let appended = ledger.append(&b, &append("1")).await?;
    ensure(appended.judged.clock_behind, "the new holder writes, by the time recorded", appended.judged)?;
    Ok(())
}

pub(super) async fn clk04_recorded_expiry_stays_true(cx: Context) -> Verdict {
    let (ledger, clock) = (cx.ledger(), cx.clock()?);
    for first in ["append", "renewal", "release", "claim"] {
        let jobs = partition(first);
        let asked = first_claim(&jobs, "a", seconds(5));
        let lease = ledger.claim(&asked).await?.lease;
        clock.set(lease.expires_at).await;
        match first {
            "append" => {
                expect_rejected("an append", ledger.append(&lease, &append("1")).await, Reason::Expired)?;
            }
            "renewal" => drop(expect_rejected("a renewal", ledger.renew(&lease, None).await, Reason::Expired)?),
            "claim" => drop(expect_rejected("the same claim", ledger.claim(&asked).await, Reason::Expired)?),
            _ => drop(ledger.release(&lease).await?),
        }
        clock.step_back(Duration::from_secs(3)).await;
        let what = |call: &str| format!("{call}, the clock back before an expiry that a {first} was told");
        let call = ledger.append(&lease, &append("2")).await;
        expect_rejected(&what("an append"), call, Reason::Expired)?;
        expect_rejected(&what("a renewal"), ledger.renew(&lease, None).await, Reason::Expired)?;
        let released = ledger.release(&lease).await?;
        ensure(matches!(released, Released::AlreadyEnded { .. }), &what("a release ends nothing"), &released)?;
        let fate = ledger.fate(&jobs, AppendId::mint(), lease.generation).await?;
        equal(&what("the fate of an append that did not come"), &fate, &Fate::Never)?;
        let next = claim(&*ledger, &jobs, "b", seconds(5)).await?;
        equal(&what("the generation of a claim"), &next.lease.generation.get(), &2)?;
        ensure(next.judged.time >= lease.expires_at, &what("the claim is judged no earlier"), next.judged.time)?;
    }
    Ok(())
}

pub(super) async fn clk05_times_never_fall_along_the_log(cx: Context) -> Verdict {
    let (ledger, other, jobs, clock) = (cx.ledger(), cx.open().await?, partition("jobs"), cx.clock()?);
    let mut lease = claim(&*ledger, &jobs, "a", Ttl::MAX).await?.lease;
    // Steps of minutes, forward and back, that return again and again to where they were.
    for (nth, minutes) in [3, -2, 7, -7, 0, 5, -9, 11, -3, 2, -8, 13].into_iter().enumerate() {
        let minutes = Duration::from_secs(60) * i32::unsigned_abs(minutes) * if minutes == 0 { 0 } else { 1 };
        if nth % 2 == 0 {
            clock.advance(minutes).await
        } else {
            clock.step_back(minutes).await
        }
        let handle = if nth % 2 == 0 { &other } else { &ledger };
        handle.append(&lease, &append("1")).await?;
        lease = handle.renew(&lease, None).await?.lease;
        if nth % 4 == 3 {
            handle.release(&lease).await?;
            lease = claim(&**handle, &jobs, "b", Ttl::MAX).await?.lease;
        }
    }
    let times: Vec<_> = read_all(&*ledger, &jobs).await?.iter().map(|event| event.entry.recorded_at).collect();
    ensure(times.is_sorted(), "recorded times never fall along positions", &times)?;
    Ok(())
}

pub(super) async fn clk06_microseconds_are_kept(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    clock.advance(Duration::from_micros(123_457)).await;
    let lease = claim(&*ledger, &jobs, "a", Ttl::from_micros(1)?).await?.lease;
    let now = clock.now().await;
    equal("the expiry of a lease of one microsecond", &lease.expires_at.as_micros(), &(now.as_micros() + 1))?;
    ledger.append(&lease, &append("in time")).await?;
    clock.advance(Duration::from_micros(1)).await;
    expect_rejected("an append a microsecond later", ledger.append(&lease, &append("x")).await, Reason::Expired)?;
    let day = claim(&*ledger, &jobs, "b", Ttl::MAX).await?.lease;
    equal("the expiry of the longest lease", &day.expires_at, &clock.now().await.after(Ttl::MAX))?;
    Ok(())
}

pub(super) async fn clk07_looking_records_nothing(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let lease = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.set(lease.expires_at).await;
    ensure(ledger.observe(&jobs).await?.is_free(), "an observer sees it expired", clock.now().await)?;
    equal("the fate of an id", &ledger.fate(&jobs, AppendId::mint(), lease.generation).await?, &Fate::Undecided)?;
    read_all(&*ledger, &jobs).await?;
    clock.step_back(Duration::from_secs(1)).await;
    ensure(!ledger.observe(&jobs).await?.is_free(), "it is held again: nothing was answered", clock.now().await)?;
    ledger.append(&lease, &append("in time")).await?;
    Ok(())
}

pub(super) async fn clk08_operator_frees_what_a_jump_has_locked(cx: Context) -> Verdict {
    let (ledger, jobs, clock) = (cx.ledger(), partition("jobs"), cx.clock()?);
    let a = claim(&*ledger, &jobs, "a", seconds(5)).await?.lease;
    clock.advance(Duration::from_secs(4)).await;
    let before = clock.now().await;
    // The clock jumps while the holder renews: within its TTL, then far beyond what is true.
    let a = ledger.renew(&a, Some(Ttl::MAX)).await?.lease;
    clock.advance(HOUR * 20).await;
    let ahead = clock.now().await;
    ledger.renew(&a, None).await?;
    clock.set(before.after(seconds(60))).await;
    let asked = prepare_claim(&*ledger, &jobs, "b", seconds(5)).await?;
    refused_without_effect("a claim after the jump", &*ledger, &jobs, Reason::Held, ledger.claim(&asked)).await?;
    ledger.end_tenure(&jobs, Observation::of(&a), &Note::new("the clock had jumped")?).await?;
    let b = ledger.claim(&asked).await?;
    let judged = (b.judged.time, b.judged.clock_behind);
    equal("time and mark of the claim", &judged, &(ahead, true))?;
    equal("its expiry, counted from the judged time", &b.lease.expires_at, &ahead.after(seconds(5)))?;
    ledger.append(&b.lease, &append("1")).await?;
    Ok(())
}
