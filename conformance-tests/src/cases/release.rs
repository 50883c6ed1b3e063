//! Release, and the operator's end of a tenure.

use super::prelude::*;

pub(super) async fn rel01_frees_at_once_and_keeps_the_generation(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.append(&lease, &append("1")).await?;
    let released = ledger.release(&lease).await?;
    let at_three = matches!(released, Released::Now { position, .. } if position == at(3));
    ensure(at_three, "the release stands at 3", &released)?;
    let state = ledger.observe(&jobs).await?;
    ensure(state.is_free(), "the partition is free", &state)?;
    let tenure = state.tenure.ok_or_else(|| Violation::new("the released tenure is still known", "nothing"))?;
    equal("its generation", &tenure.lease.generation.get(), &1)?;
    equal("why it is vacant", &tenure.vacancy, &Some(Vacancy::Released))?;
    let next = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    equal("the generation of the next claim", &next.generation.get(), &2)?;
    Ok(())
}

pub(super) async fn rel02_twice_is_answered_as_ended(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&lease).await?;
    let end = already_ended("a second release", &*ledger, &lease).await?;
    equal("how it ended, and who followed", &end, &(Basis::Released, None))?;
    let next = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let end = already_ended("a release after a takeover", &*ledger, &lease).await?;
    equal("how it ended, and who followed", &end, &(Basis::Released, Some((next.holder.clone(), next.generation))))?;
    equal("the records: such a release leaves none", &records(&*ledger, Some(&jobs)).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn rel03_foreign_lease_releases_nothing(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&first).await?;
    let lease = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    for (reason, forged) in [
        (Reason::WrongHolder, edited(&lease, |lease| lease.holder = holder("c"))),
        (Reason::WrongAcquisition, edited(&lease, |lease| lease.acquisition = AcquisitionId::mint())),
        (Reason::UnknownGeneration, edited(&lease, |lease| lease.generation = shifted(lease.generation, 1))),
        (Reason::WrongHolder, edited(&first, |lease| lease.holder = holder("c"))),
        (Reason::WrongAcquisition, edited(&first, |lease| lease.acquisition = AcquisitionId::mint())),
    ] {
        let what = format!("a release with holder {:?} and generation {}", forged.holder, forged.generation);
        refused_without_effect(&what, &*ledger, &jobs, reason, ledger.release(&forged)).await?;
    }
    ledger.append(&lease, &append("still held")).await?;
    Ok(())
}

pub(super) async fn rel04_after_expiry_is_answered_as_ended(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&lease).await?;
    let (head, log) = (ledger.observe(&jobs).await?.judged.revision, read_all(&*ledger, &jobs).await?);
    let released = ledger.release(&lease).await?;
    let Released::AlreadyEnded { end, judged } = released else {
        return Err(Violation::new("an expired tenure had ended before its release", format!("{released:?}")).into());
    };
    let basis = Basis::Expired { expires_at: lease.expires_at, judged_at: judged.time };
    equal("how it ended", &(end.basis, end.successor), &(basis, None))?;
    equal("the revision, unchanged", &judged.revision, &head)?;
    equal("the log, unchanged", &read_all(&*ledger, &jobs).await?, &log)?;
    let recorded = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.recorded_at);
    ensure(recorded >= Some(lease.expires_at), "an answer that rests on expiry has recorded it", recorded)?;
    Ok(())
}

pub(super) async fn rel05_late_release_leaves_the_successor_alone(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", cx.short_ttl()).await?.lease;
    cx.expire(&a).await?;
    let b = claim(&*other, &jobs, "b", long_ttl()).await?.lease;
    let end = already_ended("a late release", &*ledger, &a).await?;
    equal("who followed", &end.1, &Some((b.holder.clone(), b.generation)))?;
    ensure(matches!(end.0, Basis::Expired { .. }), "it ended by expiry", &end.0)?;
    other.append(&b, &append("still held")).await?;
    let asked = prepare_claim(&*ledger, &jobs, "c", long_ttl()).await?;
    refused_without_effect("a claim after it", &*ledger, &jobs, Reason::Held, ledger.claim(&asked)).await?;
    Ok(())
}

pub(super) async fn rel06_appends_race_a_release(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    for _ in 0..cx.scale(10, 200) {
        let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        let mut writers = Vec::new();
        for _ in 0..5 {
            let (handle, lease) = (cx.open().await?, lease.clone());
            writers.push(async move { handle.append(&lease, &append("racing")).await });
        }
        let release = tokio::spawn({
            let (handle, lease) = (cx.open().await?, lease.clone());
            async move { handle.release(&lease).await }
        });
        let answers = all_at_once(writers).await?;
        let released = release.await.map_err(|error| Violation::new("no panic in a release", error.to_string()))??;
        let Released::Now { position, .. } = released else {
            return Err(Violation::new("the release ends the tenure", format!("{released:?}")).into());
        };
        let mut granted = 0;
        for answer in answers {
            match answer {
                Ok(appended) => {
                    let before = appended.entry.last < position;
                    ensure(before, &format!("an append stands before the release at {position}"), &appended.entry)?;
                    granted += 1;
                }
                refused => drop(expect_rejected("an append after the release", refused, Reason::Released)?),
            }
        }
        let from = Position::new(position.get() - granted)?;
        let page = ledger.read(&jobs, from, PageSize::MAX).await?;
        let kinds = page.events.iter().filter(|event| event.kind.as_str() == "noted").count();
        equal("the appends in the log: those granted", &i64::try_from(kinds).unwrap_or(-1), &granted)?;
        equal("the newest event: the release", &page.events.last().map(|event| event.position), &Some(position))?;
    }
    Ok(())
}

pub(super) async fn rel07_operator_ends_a_valid_tenure(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let reason = Note::new("the worker was removed")?;
    let ended = other.end_tenure(&jobs, Observation::of(&lease), &reason).await?;
    ensure(matches!(ended, Ended::Now { position, .. } if position == at(2)), "the end stands at 2", &ended)?;
    let late = append("late");
    let call = ledger.append(&lease, &late);
    let what = "an append after the operator's step";
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::Released, call).await?;
    let vacancy = refused.current.and_then(|current| current.vacancy);
    equal("why it is vacant", &vacancy, &Some(Vacancy::Ended { reason: reason.clone() }))?;
    let event = read_all(&*ledger, &jobs).await?.pop();
    let own = event.as_ref().and_then(|event| OwnEvent::read(&event.kind, &event.payload).ok().flatten());
    equal("the entry in the log", &own, &Some(OwnEvent::Ended { reason: reason.clone() }))?;
    let end = already_ended("a release after the operator's step", &*ledger, &lease).await?;
    equal("how it ended", &end, &(Basis::Ended { reason }, None))?;
    equal(
        "the generation of the next claim",
        &claim(&*ledger, &jobs, "b", long_ttl()).await?.lease.generation.get(),
        &2,
    )?;
    Ok(())
}

pub(super) async fn rel08_operator_ends_only_what_was_observed(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let note = Note::new("stuck")?;
    let call = ledger.end_tenure(&jobs, Observation::NeverClaimed, &note);
    refused_without_effect("the end of nothing", &*ledger, &jobs, Reason::NeverClaimed, call).await?;
    let first = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&first).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let vacant = ledger.end_tenure(&jobs, Observation::of(&first), &note).await?;
    let known = matches!(&vacant, Ended::AlreadyVacant { vacancy: Vacancy::Released, .. });
    ensure(known, "a vacant partition has nothing to end", &vacant)?;
    before.expect_unchanged("the end of a vacant tenure", &*ledger, &jobs, false).await?;
    let second = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    for observed in [
        Observation::NeverClaimed,
        Observation::of(&first),
        Observation::of(&edited(&second, |lease| lease.acquisition = first.acquisition)),
    ] {
        let call = ledger.end_tenure(&jobs, observed, &note);
        let what = "an operator's step from an old observation";
        refused_without_effect(what, &*ledger, &jobs, Reason::ObservationOutdated, call).await?;
    }
    ledger.append(&second, &append("still held")).await?;
    equal("the records: operators leave none", &records(&*ledger, None).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn rel09_release_that_overtakes_its_claim(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let asked = first_claim(&jobs, "a", cx.short_ttl());
    let early = Lease::new(
        ledger.describe().await?.ledger,
        jobs.clone(),
        asked.holder.clone(),
        Generation::FIRST,
        asked.acquisition,
        asked.ttl,
        Timestamp::from_micros(i64::MAX),
    );
    let what = "a release before its claim";
    refused_without_effect(what, &*ledger, &jobs, Reason::NeverClaimed, other.release(&early)).await?;
    let first = ledger.claim(&asked).await?.lease;
    ledger.append(&first, &append("the claim stands")).await?;
    cx.expire(&first).await?;
    let next = prepare_claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let ahead = edited(&first, |lease| {
        lease.generation = shifted(lease.generation, 1);
        lease.acquisition = next.acquisition;
    });
    let what = "a release before the claim of a later generation";
    refused_without_effect(what, &*ledger, &jobs, Reason::UnknownGeneration, other.release(&ahead)).await?;
    let second = ledger.claim(&next).await?.lease;
    equal("the generation of the claim that lands", &second.generation.get(), &2)?;
    ledger.append(&second, &append("and so does that one")).await?;
    Ok(())
}

type End = (Basis, Option<(Holder, Generation)>);

/// Releases, and demands a success without effect.
async fn already_ended(what: &str, ledger: &dyn FencedLedger, lease: &Lease) -> Result<End, Stop> {
    let before = Snapshot::take(ledger, &lease.partition).await?;
    let released = ledger.release(lease).await?;
    before.expect_unchanged(what, ledger, &lease.partition, false).await?;
    match released {
        Released::AlreadyEnded { end, .. } => Ok((end.basis, end.successor)),
        now @ Released::Now { .. } => {
            Err(Violation::new(format!("{what} finds a tenure that had ended before"), format!("{now:?}")).into())
        }
    }
}
