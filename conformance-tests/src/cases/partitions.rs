//! Many partitions: each with an order and an owner of its own.

use super::prelude::*;

pub(super) async fn par01_writers_of_64_partitions_do_not_meet(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let each = cx.scale(10, 200);
    let mut tasks = Vec::new();
    for nth in 0..64 {
        let handle = if nth % 8 == 0 { cx.open().await? } else { ledger.clone() };
        let jobs = partition(&format!("jobs-{nth}"));
        tasks.push(async move {
            let lease = claim(&*handle, &jobs, "a", long_ttl()).await?.lease;
            for next in 0..each {
                let next = i64::try_from(next).unwrap_or(0) + 1;
                let sent = append(jobs.as_str()).expecting(at(next));
                equal("the position", &handle.append(&lease, &sent).await?.entry.first, &at(next + 1))?;
            }
            Ok::<_, Stop>(jobs)
        });
    }
    for task in all_at_once(tasks).await? {
        let jobs = task?;
        let events = read_all(&*ledger, &jobs).await?;
        equal("the events of a partition", &events.len(), &(each + 1))?;
        let own = events.iter().skip(1).all(|event| event.payload.as_str().contains(jobs.as_str()));
        ensure(own, "a partition has its own events alone", &jobs)?;
    }
    Ok(())
}

pub(super) async fn par02_first_claims_of_200_at_once(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let names: Vec<PartitionId> = (0..200).map(|nth| partition(&format!("new-{nth:03}"))).collect();
    let tasks = names.iter().map(|jobs| {
        let (handle, asked) = (ledger.clone(), first_claim(jobs, "a", long_ttl()));
        async move { handle.claim(&asked).await }
    });
    for claimed in all_at_once(tasks).await? {
        let claimed = claimed?;
        equal("generation and head of each", &(claimed.lease.generation, claimed.head), &(Generation::FIRST, at(1)))?;
    }
    equal("the partitions", &ledger.partitions(None, PageSize::MAX).await?.partitions, &names)?;
    Ok(())
}

pub(super) async fn par03_listing_gives_each_name_once(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let empty = ledger.partitions(None, PageSize::default()).await?;
    equal("the partitions of a fresh ledger", &(empty.partitions.len(), empty.next), &(0, None))?;
    let names: Vec<PartitionId> = (0..20).map(|nth| partition(&format!("p-{nth:02}"))).collect();
    // Created from the last to the first: the order of creation is not the order of the names.
    for jobs in names.iter().rev() {
        claim(&*ledger, jobs, "a", long_ttl()).await?;
    }
    for size in [1, 3, 19, 20, 21] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = ledger.partitions(after.as_ref(), PageSize::new(size)?).await?;
            let len = u32::try_from(page.partitions.len()).unwrap_or(u32::MAX);
            ensure((1..=size).contains(&len), &format!("1 to {size} names on a page"), len)?;
            found.extend(page.partitions);
            after = page.next;
            if after.is_none() || found.len() > 20 {
                break;
            }
        }
        equal(&format!("the names in pages of {size}"), &found, &names)?;
    }
    let (first, mut seen) = (ledger.partitions(None, PageSize::new(7)?).await?, Vec::new());
    for late in ["p-00a", "p-99"] {
        claim(&*ledger, &partition(late), "a", long_ttl()).await?;
    }
    seen.extend(first.partitions);
    seen.extend(ledger.partitions(first.next.as_ref(), PageSize::MAX).await?.partitions);
    seen.retain(|name| *name != partition("p-99"));
    equal("the names, others created between two pages", &seen, &names)?;
    let unknown = ledger.partitions(Some(&partition("p-09a")), PageSize::new(1)?).await?.partitions;
    equal("the names after one that is not there", &unknown, &vec![partition("p-10")])?;
    Ok(())
}

pub(super) async fn par04_ledger_says_what_it_is(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let described = ledger.describe().await?;
    ensure(!described.engine.is_empty() && !described.version.is_empty(), "engine and version are told", &described)?;
    equal("the description on another handle", &other.describe().await?, &described)?;
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    equal("the ledger that a lease names", &lease.ledger, &described.ledger)?;
    equal("the ledger that an observer is told", &other.observe(&jobs).await?.ledger, &described.ledger)?;
    equal("the description later", &ledger.describe().await?, &described)?;
    Ok(())
}
