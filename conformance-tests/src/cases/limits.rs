//! Limits: the ends of every range.

use super::prelude::*;
use ledger_core::{MAX_EVENTS, MAX_NAME_BYTES, MAX_NESTING};

pub(super) async fn lim01_invalid_input_reaches_no_store(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    claim(&*ledger, &jobs, "a", long_ttl()).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let nested = format!("{}{}", "[".repeat(MAX_NESTING + 1), "]".repeat(MAX_NESTING + 1));
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for (what, accepted) in [
        ("an append without events", Append::new([]).is_ok()),
        ("an append of 10,001 events", Append::new(vec![event("x"); MAX_EVENTS + 1]).is_ok()),
        ("a kind of the ledger's own", EventKind::new("$claimed").is_ok()),
        ("a nesting of 129", Json::new(nested).is_ok()),
        ("what is no JSON", Json::new("{'a':1}").is_ok()),
        ("a TTL of nothing", Ttl::from_micros(0).is_ok()),
        ("a negative TTL", Ttl::from_millis(-1).is_ok()),
        ("a TTL over a day", Ttl::from_micros(Ttl::MAX.as_micros() + 1).is_ok()),
        ("a name without a byte", PartitionId::new("").is_ok()),
        ("a name of 256 bytes", PartitionId::new(&long).is_ok()),
        ("a name with a control character", PartitionId::new("a\nb").is_ok()),
        ("a blank holder", Holder::new(" ").is_ok()),
        ("a page of nothing", PageSize::new(0).is_ok()),
        ("a page of 10,001", PageSize::new(10_001).is_ok()),
    ] {
        ensure(!accepted, &format!("{what} is refused before the store is asked"), "accepted")?;
    }
    before.expect_unchanged("invalid input", &*ledger, &jobs, false).await?;
    equal("the records: invalid input leaves none", &records(&*ledger, Some(&jobs)).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn lim02_largest_numbers_are_compared_not_wrapped(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let ahead = edited(&lease, |lease| lease.generation = Generation::MAX);
    let what = "an append of the largest generation";
    let call = ledger.append(&ahead, &append("x")).await;
    let refused = expect_rejected(what, call, Reason::UnknownGeneration)?;
    equal("the generation that the refusal names", &refused.presented.generation, &Some(Generation::MAX))?;
    let kept = records(&*ledger, Some(&jobs)).await?.pop().and_then(|record| record.refused);
    equal("the generation that the record names", &kept.and_then(|kept| kept.generation), &Some(Generation::MAX))?;
    let far = append("x").expecting(Position::MAX);
    expect_rejected("an append at the largest position", ledger.append(&lease, &far).await, Reason::PositionConflict)?;
    let fate = ledger.fate(&jobs, AppendId::mint(), Generation::MAX).await?;
    equal("the fate under the largest generation", &fate, &Fate::Undecided)?;
    let observed = Observation::Tenure { generation: Generation::MAX, acquisition: lease.acquisition };
    let asked = Claim::new(jobs.clone(), holder("b"), long_ttl(), observed);
    expect_rejected("a claim that saw it", ledger.claim(&asked).await, Reason::ObservationOutdated)?;
    Ok(())
}

pub(super) async fn lim03_largest_ids_and_times_are_kept(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let text = "\"ffffffff-ffff-ffff-ffff-ffffffffffff\"";
    let parsed = |error: serde_json::Error| Violation::new("the largest UUID is an id", error.to_string());
    let acquisition: AcquisitionId = serde_json::from_str(text).map_err(parsed)?;
    let id: AppendId = serde_json::from_str("\"00000000-0000-0000-0000-000000000001\"").map_err(parsed)?;
    let asked = first_claim(&jobs, "a", Ttl::MAX).with_acquisition(acquisition);
    let lease = ledger.claim(&asked).await?.lease;
    let entry = ledger.append(&lease, &append_as(id, "1")).await?.entry;
    equal("ids as they were given", &(entry.id, entry.acquisition), &(Some(id), acquisition))?;
    equal("the fate of that id", &ledger.fate(&jobs, id, lease.generation).await?, &Fate::Recorded(entry))?;
    equal("the same claim again", &ledger.claim(&asked).await?.lease, &lease)?;
    Ok(())
}
