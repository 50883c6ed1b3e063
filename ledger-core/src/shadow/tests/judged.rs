//! By what right a shadow has an append judged: W3, W5.

use super::{all_counted, append, shadow};
use crate::keeper::tests::ledger::Fault;
use crate::keeper::tests::world::{Outcome, World, equal, ms};
use crate::{Position, Reason};

/// W3, W5. Paused for ten seconds, the writer writes: the store refuses that, once. Then it claims anew.
pub(super) fn paused_writer_is_judged_under_the_lease_that_it_had(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    let _driver = w.start(driver);
    shadow.offer(&append(10));
    w.run();
    w.suspend(10_000);
    for _ in 0..3 {
        shadow.offer(&append(10).expecting(Position::FIRST));
        w.run();
    }
    let counts = shadow.counts();
    equal("the refusals by reason", counts.refused.get(&Reason::Expired).copied(), Some(1))?;
    equal("what was granted, in two tenures", (counts.granted, counts.claims), (3, 2))?;
    let generations: Vec<_> = w.ledger.log(&w.jobs).iter().map(|entry| entry.generation.get()).collect();
    equal("the generations in the log", generations, vec![1, 1, 2, 2, 2])?;
    all_counted(&counts)
}

/// W5. Every answer takes 400 ms: the lease is renewed between them, and not lost.
pub(super) fn lease_is_renewed_beside_a_long_queue(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    let _driver = w.start(driver);
    for _ in 0..20 {
        let open = w.gate("append", Fault::LateReply);
        shadow.offer(&append(10));
        w.pass(400);
        drop(open);
        w.run();
    }
    let counts = shadow.counts();
    equal("what was granted, in one tenure", (counts.granted, counts.claims), (20, 1))?;
    equal("renewals, in 8 seconds", w.ledger.count("renew") >= 6, true)?;
    equal("how old one was when it was judged", counts.oldest, ms(400))
}

/// W5, C4. The answer to the claim was lost: the same is asked for again, and the lease is kept.
pub(super) fn lost_grant_is_asked_for_again_and_renewed(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    w.faults("claim", 1, || Fault::ReplyLost);
    let _driver = w.start(driver);
    shadow.offer(&append(10));
    w.pass(6_000);
    shadow.offer(&append(10));
    w.run();
    equal("what was granted", shadow.counts().granted, 2)?;
    equal("one tenure", w.ledger.log(&w.jobs).last().map(|entry| entry.generation.get()), Some(1))
}

/// W2. A lost answer is asked for again, and lands once. Where none comes while it is young, its judgement is unknown.
pub(super) fn lost_answer_counts_once_and_no_answer_is_unknown(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    let _driver = w.start(driver);
    w.faults("append", 1, || Fault::ReplyLost);
    shadow.offer(&append(10));
    w.pass(500);
    equal("the entries: a claim and an append", w.ledger.log(&w.jobs).len(), 2)?;
    w.faults("append", 9, || Fault::NotArrived);
    shadow.offer(&append(10));
    w.pass(1_500);
    let counts = shadow.counts();
    equal("granted and unknown", (counts.granted, counts.unknown, counts.dropped()), (1, 1, 0))?;
    all_counted(&counts)
}

/// W5. The writer gives the partition up after two appends, and takes it again for a third.
pub(super) fn release_comes_in_its_order(mut w: World) -> Outcome {
    let (shadow, driver) = shadow(&w, "a");
    shadow.offer(&append(10));
    shadow.offer(&append(10));
    shadow.release();
    shadow.release();
    shadow.offer(&append(10));
    let _driver = w.start(driver);
    let generations: Vec<_> = w.ledger.log(&w.jobs).iter().map(|entry| entry.generation.get()).collect();
    equal("claim, two appends, release, claim, append", generations, vec![1, 1, 1, 1, 2, 2])?;
    equal("the releases sent", w.ledger.count("release"), 1)
}

/// W5. A holder that enforces has released: the shadow beside another writer does not take its place.
pub(super) fn nothing_is_claimed_where_a_holder_enforced(mut w: World) -> Outcome {
    let (writer, driver) = w.claim(&w.keeper("a"))?;
    let _driver = w.start(driver);
    w.start(async move { writer.release().await.is_ok() }).take("a release")?;
    let (shadow, driver) = shadow(&w, "b");
    let _driver = w.start(driver);
    shadow.offer(&append(10));
    w.run();
    equal("the claims, that of the holder alone", w.ledger.count("claim"), 1)?;
    equal("the refusals", shadow.counts().refused.get(&Reason::WrongAcquisition).copied(), Some(1))
}
