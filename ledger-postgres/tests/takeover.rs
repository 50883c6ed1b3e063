//! Goal: an append in flight while its partition is taken over is before `$claimed` in the log or it is refused; what the
//! old holder was told is what is there (C6, J3).

mod common;

use std::time::Duration;

use common::{Place, Wanted, append, claim, holder, scale, seconds};
use ledger_core::{Claim, Fate, FencedLedger, FencedLedgerExt, LedgerError, PageSize, Position, Reason, Verification};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_in_flight_is_before_the_takeover_or_refused() {
    let rounds = scale(60, 1_000);
    let place = Place::new(Wanted::OLDEST).await.with_clock().await;
    let old = place.open().await;
    let new = place.open().await;
    let mut lease = claim(&old, "p", "a0", seconds(5)).await.lease;
    let (mut landed, mut refused) = (0, 0);
    for round in 1..=rounds {
        // Two appends in flight, the clock at the expiry at an odd moment, and a claim.
        let sends: Vec<_> = (0..2)
            .map(|nth| {
                let (old, lease, sent) = (old.clone(), lease.clone(), append(&format!("{round}/{nth}")));
                tokio::spawn(async move {
                    // Somewhere between before the expiry and after the claim.
                    tokio::time::sleep(Duration::from_micros((round as u64 * 397 + nth * 911) % 16_000)).await;
                    (sent.clone(), old.append(&lease, &sent).await)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros((round as u64 * 37) % 900)).await;
        place.advance(Duration::from_secs(5)).await;
        let observed = new.observe(&lease.partition).await.expect("observed").observation();
        let next = Claim::new(lease.partition.clone(), holder(&format!("a{round}")), seconds(5), observed);
        let granted = new.claim(&next).await.expect("claimed");
        for send in sends {
            let (sent, answer) = send.await.expect("no panic");
            let fate = new.fate(&lease.partition, sent.id(), lease.generation).await.expect("asked");
            match (answer, fate) {
                (Ok(appended), Fate::Recorded(entry)) => {
                    assert_eq!(appended.entry, entry);
                    assert!(entry.last < granted.head && entry.generation == lease.generation, "after the takeover");
                    landed += 1;
                }
                (Err(LedgerError::Rejected(rejection)), Fate::Never) => {
                    assert!(matches!(rejection.reason, Reason::Expired | Reason::StaleGeneration), "{rejection}");
                    assert!(rejection.earlier.is_none());
                    refused += 1;
                }
                (answer, fate) => panic!("{answer:?}, {fate:?}"),
            }
        }
        lease = granted.lease;
    }
    assert!(landed > 0 && refused > 0, "{landed} landed, {refused} refused: no race was seen");
    let verified = new.verify(&lease.partition, None).await.expect("read");
    let expected = u64::try_from(1 + rounds + landed).expect("a count");
    assert!(matches!(verified, Verification::Clean { events, .. } if events == expected), "{verified:?}");
    // Every event stands under the generation that was claimed last before it.
    let page = new.read(&lease.partition, Position::FIRST, PageSize::MAX).await.expect("read");
    let mut generation = 0;
    for event in page.events {
        generation += i64::from(event.kind.as_str() == "$claimed");
        assert_eq!(event.entry.generation.get(), generation);
    }
    println!("{rounds} takeovers: {landed} appends before, {refused} refused");
    place.drop().await;
}
