//! Requests to other systems: recorded before they are sent, settled once, known to the successor.

use std::task::{Context as TaskContext, Poll, Waker};

use super::prelude::*;
use ledger_core::{
    Asked, Evidence, LateAnswer, Outcome, Owner, Request, RequestBook, RequestError, RequestKey, RequestState, Sending,
};

pub(super) async fn req01_is_recorded_before_it_is_sent(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    // Numbers and order of keys are what was given, not what a parser makes of it.
    let what = Json::new(r#"{"to":"bank","amount":1e2,"b":1,"a":1}"#)?;
    let sending = leave_to_send(book.request(&lease, &key("invoice-7"), &what).await?)?;
    equal("which sending it is", &sending.attempt, &1)?;
    let log = read_all(&*cx.open().await?, &jobs).await?;
    let found = log.iter().find(|event| event.entry.id == Some(key("invoice-7").append_id(0)));
    let event =
        found.ok_or_else(|| Violation::new("the request stands in the log under its derived id", told(&log)))?;
    let seen = (event.kind.as_str(), event.payload.as_str(), event.metadata.as_str());
    equal("the event", &seen, &("request/made", what.as_str(), r#"{"request":"invoice-7","change":0}"#))?;
    let request = sending.request;
    equal("what is to be sent, and under which key", &(&request.key, &request.what), &(&key("invoice-7"), &what))?;
    equal("the entry in the answer", &request.made, &event.entry)?;
    equal("the state", &(request.state, request.sends), &(RequestState::Requested, 1))?;
    Ok(())
}

pub(super) async fn req02_second_request_sends_nothing(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let first = leave_to_send(book.request(&a, &key("k"), &pay(1)).await?)?;
    ledger.append(&a, &append("something else")).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let other = cx.book_on(cx.open().await?);
    for book in [&book, &other] {
        let known = nothing_to_send("a second request", book.request(&a, &key("k"), &pay(1)).await?)?;
        equal("what is known", &*known, &first.request)?;
    }
    before.expect_unchanged("a second request", &*ledger, &jobs, false).await?;
    let b = take_over(&ledger, &a, "b").await?;
    let known = nothing_to_send("the successor's request", book.request(&b, &key("k"), &pay(1)).await?)?;
    equal("what the successor is told", &*known, &first.request)?;
    expect_refused("the old holder's request", book.request(&a, &key("k"), &pay(1)).await, Reason::StaleGeneration)?;
    expect_refused("a new one of it", book.request(&a, &key("new"), &pay(1)).await, Reason::StaleGeneration)?;
    Ok(())
}

pub(super) async fn req03_same_key_for_another_request_is_refused(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let first = leave_to_send(book.request(&a, &key("k"), &pay(1)).await?)?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    for what in [pay(2), Json::new(r#"{ "pay":1}"#)?] {
        match book.request(&a, &key("k"), &what).await {
            Err(RequestError::KeyReused(known)) => equal("the request of the key", &*known, &first.request)?,
            other => return Err(Violation::new("the key of another request is refused", told(&other)).into()),
        }
    }
    before.expect_unchanged("the key for another request", &*ledger, &jobs, false).await?;
    Ok(())
}

pub(super) async fn req04_keys_belong_to_their_partition_and_ids_to_the_keys(cx: Context) -> Verdict {
    let (ledger, book) = (cx.ledger(), cx.book());
    for name in ["one", "two"] {
        let lease = claim(&*ledger, &partition(name), "a", long_ttl()).await?.lease;
        leave_to_send(book.request(&lease, &key("invoice-7"), &pay(1)).await?)?;
        book.mark_unknown(&lease, &key("invoice-7"), &evidence("no answer")).await?;
        let log = read_all(&*ledger, &lease.partition).await?;
        let ids: Vec<_> = log.iter().skip(1).filter_map(|event| event.entry.id).map(|id| id.to_string()).collect();
        let vectors = ["e6728a0d-a53a-84f5-b071-8a0de510ee03", "4e37ef03-c6bc-834c-972c-e51c133974de"];
        equal("the ids of the request and of its first change", &ids, &vectors.map(str::to_owned).to_vec())?;
    }
    // An application that uses such a kind, under an id of its own, makes no request of it.
    let lease = claim(&*ledger, &partition("three"), "a", long_ttl()).await?.lease;
    let metadata = Json::new(r#"{"request":"invoice-7","change":0}"#)?;
    let event = NewEvent::new(EventKind::new("request/made")?, Json::new("1")?).with_metadata(metadata);
    ledger.append(&lease, &Append::new([event])?).await?;
    equal("a foreign event is no request", &book.open_requests(&lease.partition).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn req05_unknown_stays_open_until_it_is_settled(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    book.request(&a, &key("k"), &pay(1)).await?;
    let unknown = book.mark_unknown(&a, &key("k"), &evidence("timed out")).await?;
    let state = RequestState::Unknown { evidence: evidence("timed out") };
    equal("the state", &unknown.state, &state)?;
    let b = take_over(&ledger, &a, "b").await?;
    let [open] = &open(&*book, &jobs).await?[..] else {
        return Err(Violation::new("an unknown one is open", told(&book.open_requests(&jobs).await?)).into());
    };
    equal("what the successor finds", open, &unknown)?;
    // The same again writes nothing, by whomever; another reason does.
    let before = Snapshot::take(&*ledger, &jobs).await?;
    equal("the same again", &book.mark_unknown(&b, &key("k"), &evidence("timed out")).await?, &unknown)?;
    before.expect_unchanged("the same again", &*ledger, &jobs, false).await?;
    let later = book.mark_unknown(&b, &key("k"), &evidence("bank is closed")).await?;
    equal("the newest reason", &later.state, &RequestState::Unknown { evidence: evidence("bank is closed") })?;
    let settled = book.settle(&b, &key("k"), Outcome::Succeeded, &evidence("tx 9")).await?;
    equal("the state", &settled.state, &RequestState::Succeeded { evidence: evidence("tx 9") })?;
    equal("what is found of it", &book.look_up(&jobs, &key("k")).await?, &Some(settled))?;
    equal("the open ones", &open_keys(&*book, &jobs).await?, &Vec::new())?;
    Ok(())
}

pub(super) async fn req06_settled_never_changes(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let mut lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for (name, outcome) in [("done", Outcome::Succeeded), ("not done", Outcome::Failed)] {
        book.request(&lease, &key(name), &pay(1)).await?;
        book.settle(&lease, &key(name), outcome, &evidence("tx 1")).await?;
    }
    for holder in ["b", "c"] {
        for (name, outcome, other) in
            [("done", Outcome::Succeeded, Outcome::Failed), ("not done", Outcome::Failed, Outcome::Succeeded)]
        {
            let (k, before) = (key(name), Snapshot::take(&*ledger, &jobs).await?);
            let known = book.look_up(&jobs, &k).await?;
            let again = book.settle(&lease, &k, outcome, &evidence("tx 1")).await?;
            equal("the same settling again", &Some(&again), &known.as_ref())?;
            is_settled("the other outcome", book.settle(&lease, &k, other, &evidence("tx 1")).await, &again)?;
            is_settled("other evidence", book.settle(&lease, &k, outcome, &evidence("tx 2")).await, &again)?;
            is_settled("unknown", book.mark_unknown(&lease, &k, &evidence("tx 1")).await, &again)?;
            is_settled("an owner", book.assign(&lease, &k, &Owner::new("ops", "late")?).await, &again)?;
            is_settled("a sending", book.send_again(&lease, &k).await, &again)?;
            nothing_to_send("a second request", book.request(&lease, &k, &pay(1)).await?)?;
            before.expect_unchanged("what comes after the settling", &*ledger, &jobs, false).await?;
            equal("what is known of it", &book.look_up(&jobs, &k).await?, &Some(again))?;
        }
        lease = take_over(&ledger, &lease, holder).await?;
    }
    Ok(())
}

pub(super) async fn req07_one_of_many_settlings_lands(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for round in 0..cx.scale(3, 30) {
        let k = key(&format!("k{round}"));
        book.request(&lease, &k, &pay(1)).await?;
        let mut calls = Vec::new();
        for racer in 0..8 {
            let (book, lease, k) = (cx.book_on(cx.open().await?), lease.clone(), k.clone());
            let outcome = if racer % 2 == 0 { Outcome::Succeeded } else { Outcome::Failed };
            calls.push(async move { book.settle(&lease, &k, outcome, &evidence(&format!("by {racer}"))).await });
        }
        let (mut landed, mut told_of) = (Vec::new(), Vec::new());
        for answer in all_at_once(calls).await? {
            match answer {
                Ok(request) => landed.push(request),
                Err(RequestError::Settled(request)) => told_of.push(*request),
                Err(other) => return Err(other.into()),
            }
        }
        ensure(landed.len() == 1 && told_of.len() == 7, "exactly 1 of 8 settlings lands", (&landed, &told_of))?;
        ensure(told_of.iter().all(|told| *told == landed[0]), "the others are told of it", &told_of)?;
        equal("what is known of it", &book.look_up(&jobs, &k).await?, &landed.pop())?;
    }
    Ok(())
}

pub(super) async fn req08_owner_and_note_of_an_open_one(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    book.request(&a, &key("k"), &pay(1)).await?;
    let (ops, bank) = (Owner::new("ops", "will call")?, Owner::new("bank desk", "case 12")?);
    book.mark_unknown(&a, &key("k"), &evidence("timed out")).await?;
    let owned = book.assign(&a, &key("k"), &ops).await?;
    equal("the owner", &owned.owner, &Some(ops.clone()))?;
    equal("the state is what it was", &owned.state, &RequestState::Unknown { evidence: evidence("timed out") })?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    equal("the same again", &book.assign(&a, &key("k"), &ops).await?, &owned)?;
    before.expect_unchanged("the same again", &*ledger, &jobs, false).await?;
    let b = take_over(&ledger, &a, "b").await?;
    expect_refused(
        "an owner named by the old holder",
        book.assign(&a, &key("k"), &bank).await,
        Reason::StaleGeneration,
    )?;
    book.assign(&b, &key("k"), &bank).await?;
    let found = open(&*book, &jobs).await?.pop();
    equal("the owner in the list", &found.and_then(|request| request.owner), &Some(bank))?;
    match book.assign(&b, &key("never made"), &ops).await {
        Err(RequestError::NotMade { .. }) => Ok(()),
        other => Err(Violation::new("what was never made has no owner", told(&other)).into()),
    }
}

pub(super) async fn req09_sent_again_under_its_own_key_by_the_holder(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let first = leave_to_send(book.request(&a, &key("k"), &pay(1)).await?)?;
    let b = take_over(&ledger, &a, "b").await?;
    expect_refused("the old holder's sending", book.send_again(&a, &key("k")).await, Reason::StaleGeneration)?;
    let again = leave_to_send(book.send_again(&b, &key("k")).await?)?;
    equal("which sending it is", &again.attempt, &2)?;
    let sent = (&again.request.key, &again.request.what);
    equal("what is sent again, under which key", &sent, &(&first.request.key, &first.request.what))?;
    let [request] = &open(&*book, &jobs).await?[..] else {
        return Err(Violation::new("it is one open request", told(&book.open_requests(&jobs).await?)).into());
    };
    let generations = (request.generation(), request.last_sent.generation, request.sends);
    equal("first generation, last generation, sendings", &generations, &(a.generation, b.generation, 2))?;
    let log = read_all(&*ledger, &jobs).await?;
    let kinds: Vec<_> = log.iter().map(|event| event.kind.as_str()).filter(|kind| !kind.starts_with('$')).collect();
    equal("each sending is recorded", &kinds, &vec!["request/made", "request/sent-again"])?;
    // Of tasks that send again at one moment, each sending that is made is recorded.
    let calls = (0..6).map(|_| {
        let (book, b) = (cx.book(), b.clone());
        async move { book.send_again(&b, &key("k")).await }
    });
    let mut leaves = 0;
    for answer in all_at_once(calls).await? {
        leaves += u32::from(matches!(answer?, Asked::Send(_)));
    }
    let sends = open(&*book, &jobs).await?.first().map(|request| request.sends);
    equal("as many sendings as leaves to send", &sends, &Some(2 + leaves))?;
    Ok(())
}

pub(super) async fn req10_late_answer_is_refused_and_shown(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for name in ["one", "two", "three"] {
        book.request(&a, &key(name), &pay(1)).await?;
    }
    let b = take_over(&ledger, &a, "b").await?;
    book.settle(&b, &key("three"), Outcome::Failed, &evidence("bank says no")).await?;
    let before = Snapshot::take(&*ledger, &jobs).await?;
    let old = cx.book_on(cx.open().await?);
    for _ in 0..2 {
        for (name, outcome) in [("one", Outcome::Succeeded), ("two", Outcome::Failed), ("three", Outcome::Succeeded)] {
            let late = old.settle(&a, &key(name), outcome, &evidence(&format!("tx of {name}"))).await;
            expect_refused("a late answer", late, Reason::StaleGeneration)?;
        }
    }
    expect_refused("a late doubt", old.mark_unknown(&a, &key("one"), &evidence("?")).await, Reason::StaleGeneration)?;
    before.expect_unchanged("late answers", &*ledger, &jobs, false).await?;
    // At once, on another handle: what it wanted to say was durable before it was refused.
    let said = |late: &LateAnswer| (late.key.as_str().to_owned(), late.said.clone(), late.generation);
    let settled = |name, outcome| RequestState::settled(outcome, evidence(&format!("tx of {name}")));
    let of_one = [
        ("one".to_owned(), settled("one", Outcome::Succeeded), Some(a.generation)),
        ("one".to_owned(), RequestState::Unknown { evidence: evidence("?") }, Some(a.generation)),
    ];
    let of_two = ("two".to_owned(), settled("two", Outcome::Failed), Some(a.generation));
    let of_three = ("three".to_owned(), settled("three", Outcome::Succeeded), Some(a.generation));
    let shown = book.open_requests(&jobs).await?;
    let shown: Vec<Vec<_>> = shown.iter().map(|open| open.late.iter().map(said).collect()).collect();
    equal("the late answers to `one` and `two`", &shown, &vec![of_one.to_vec(), vec![of_two.clone()]])?;
    let all: Vec<_> = book.late_answers(&jobs, a.generation).await?.iter().map(said).collect();
    let [one, doubt] = of_one;
    equal("all late answers, that to a settled one too", &all, &vec![one, of_two, of_three, doubt])?;
    // It is a hint: the successor settles by what it has found itself.
    let settled = book.settle(&b, &key("one"), Outcome::Succeeded, &evidence("looked up")).await?;
    equal("the generation that settled it", &settled.changed.generation, &b.generation)?;
    Ok(())
}

pub(super) async fn req11_lost_answers_send_nothing_by_themselves(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for polls in 0..cx.scale(8, 60) {
        let k = key(&format!("k{polls}"));
        let what = pay(1);
        let dropped = poll_and_drop(book.request(&lease, &k, &what), polls).await;
        match (dropped, book.request(&lease, &k, &what).await?) {
            (Some(Ok(Asked::Send(_))), Asked::Send(again)) => {
                return Err(Violation::new("leave to send is given once", told(&again)).into());
            }
            (_, Asked::Known(request)) => equal("the recorded sendings", &request.sends, &1)?,
            (_, Asked::Send(sending)) => equal("which sending it is", &sending.attempt, &1)?,
        }
        let found = book.look_up(&jobs, &k).await?.is_some();
        ensure(found, "it is recorded once it is answered", polls)?;
    }
    let made = read_all(&*ledger, &jobs).await?.iter().filter(|event| event.kind.as_str() == "request/made").count();
    equal("each request is recorded once", &made, &cx.scale(8, 60))?;
    Ok(())
}

pub(super) async fn req12_open_ones_of_a_long_log(cx: Context) -> Verdict {
    let (ledger, book, jobs) = (cx.ledger(), cx.book(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for name in ["z", "settled later", "a"] {
        book.request(&lease, &key(name), &pay(1)).await?;
        ledger.append(&lease, &batch(900)).await?;
    }
    book.settle(&lease, &key("settled later"), Outcome::Succeeded, &evidence("tx")).await?;
    ledger.append(&lease, &batch(900)).await?;
    book.request(&lease, &key("last"), &pay(1)).await?;
    equal(
        "the open ones, as they were made",
        &open_keys(&*book, &jobs).await?,
        &["z", "a", "last"].map(str::to_owned).to_vec(),
    )?;
    // A fold that was kept goes on where it was.
    let mut fold = ledger_core::OpenRequests::of(jobs.clone());
    fold.catch_up(&*ledger).await?;
    let kept = serde_json::to_string(&fold).map_err(|error| Violation::new("a fold is JSON", error.to_string()))?;
    book.settle(&lease, &key("z"), Outcome::Failed, &evidence("never came")).await?;
    let mut fold: ledger_core::OpenRequests =
        serde_json::from_str(&kept).map_err(|error| Violation::new("a kept fold is read", error.to_string()))?;
    fold.catch_up(&*ledger).await?;
    equal("the open ones by the fold that was kept", &fold.requests(), &open(&*book, &jobs).await?)?;
    equal("the open ones at the end", &open_keys(&*book, &jobs).await?, &["a", "last"].map(str::to_owned).to_vec())?;
    Ok(())
}

/// A key that is known to be valid.
pub(super) fn key(name: &str) -> RequestKey {
    RequestKey::new(name).expect("cases use valid keys")
}

/// A request to pay.
pub(super) fn pay(amount: i64) -> Json {
    Json::new(format!(r#"{{"pay":{amount}}}"#)).expect("a number in an object is JSON")
}

pub(super) fn evidence(reference: &str) -> Evidence {
    Evidence::new("bank", reference).expect("cases use valid evidence")
}

/// Ends a tenure as an operator, so that its holder does not know, and claims.
pub(super) async fn take_over(ledger: &Arc<dyn FencedLedger>, old: &Lease, name: &str) -> Result<Lease, Stop> {
    ledger.end_tenure(&old.partition, Observation::of(old), &Note::new("stuck")?).await?;
    Ok(claim(&**ledger, &old.partition, name, long_ttl()).await?.lease)
}

/// The open requests, without their late answers.
async fn open(book: &dyn RequestBook, partition: &PartitionId) -> Result<Vec<Request>, Stop> {
    Ok(book.open_requests(partition).await?.into_iter().map(|open| open.request).collect())
}

async fn open_keys(book: &dyn RequestBook, partition: &PartitionId) -> Result<Vec<String>, Stop> {
    Ok(open(book, partition).await?.iter().map(|request| request.key.as_str().to_owned()).collect())
}

fn told(seen: &impl std::fmt::Debug) -> String {
    format!("{seen:?}")
}

#[track_caller]
fn leave_to_send(asked: Asked) -> Result<Sending, Violation> {
    match asked {
        Asked::Send(sending) => Ok(sending),
        known => Err(Violation::new("leave to send", told(&known))),
    }
}

#[track_caller]
fn nothing_to_send(what: &str, asked: Asked) -> Result<Box<Request>, Violation> {
    match asked {
        Asked::Known(request) => Ok(request),
        send => Err(Violation::new(format!("{what} sends nothing"), told(&send))),
    }
}

/// Demands that the store refused, and not the book.
#[track_caller]
pub(super) fn expect_refused<T: std::fmt::Debug>(
    what: &str,
    result: Result<T, RequestError>,
    reason: Reason,
) -> Result<(), Violation> {
    match result {
        Err(RequestError::Ledger(error)) => expect_rejected(what, Err::<(), _>(error), reason).map(drop),
        other => Err(Violation::new(format!("{what} is refused as {reason}"), told(&other))),
    }
}

#[track_caller]
fn is_settled<T: std::fmt::Debug>(
    what: &str,
    result: Result<T, RequestError>,
    known: &Request,
) -> Result<(), Violation> {
    match result {
        Err(RequestError::Settled(request)) => equal("how it was settled", &*request, known),
        other => Err(Violation::new(format!("{what} does not change what is settled"), told(&other))),
    }
}

/// Polls so many times, and drops the future unless it has ended.
async fn poll_and_drop<T: Send>(future: impl Future<Output = T> + Send, polls: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        // The waker does nothing: the loop polls again anyway.
        let polled = future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        let_others_run().await;
    }
    None
}
