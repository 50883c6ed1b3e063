//! The chain, and what `verify` finds by it.

use super::prelude::*;
use crate::Edit;
use crate::tampered::Tampered;
use ledger_core::{Digest, Fault, Mark, Verification, chain};

pub(super) async fn int01_chain_is_as_it_is_written_down(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    write_log(&*ledger, &jobs).await?;
    let id = ledger.describe().await?.ledger;
    let mut value = chain::start(id, &jobs);
    let log = read_all(&*ledger, &jobs).await?;
    for events in log.chunk_by(|one, next| one.entry == next.entry) {
        let Some(first) = events.first() else { continue };
        let written: Vec<NewEvent> = events
            .iter()
            .map(|event| NewEvent::new(event.kind.clone(), event.payload.clone()).with_metadata(event.metadata.clone()))
            .collect();
        equal(&format!("the content at {}", first.position), &first.entry.content, &chain::content(&written))?;
        value = chain::next(value, id, &jobs, &first.entry);
        equal(&format!("the chain value at {}", first.position), &first.entry.chain, &value)?;
    }
    let state = ledger.observe(&jobs).await?.tenure.map(|tenure| (tenure.head, tenure.chain));
    equal("head and chain of the partition", &state, &Some((at(9), value)))?;
    Ok(())
}

pub(super) async fn int02_clean_log_verifies(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let nothing = ledger.verify(&jobs, None).await?;
    equal("a name that nobody claimed", &nothing, &Verification::Clean { entries: 0, events: 0, head: None })?;
    write_log(&*ledger, &jobs).await?;
    let log = read_all(&*ledger, &jobs).await?;
    let head = log.last().map(|event| Mark::of(&event.entry));
    let clean = Verification::Clean { entries: 7, events: 9, head };
    equal("without a mark", &ledger.verify(&jobs, None).await?, &clean)?;
    for event in &log {
        let mark = Mark::of(&event.entry);
        equal(&format!("with a mark at {}", mark.position), &ledger.verify(&jobs, Some(mark)).await?, &clean)?;
    }
    Ok(())
}

pub(super) async fn int03_each_edit_is_named_at_its_position(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    write_log(&*ledger, &jobs).await?;
    type Change = fn(&mut Vec<Event>);
    let edits: [(&str, i64, Fault, Change); 17] = [
        ("a payload", 2, Fault::Content, |log| log[1].payload = Json::stored("\"edited\"")),
        ("a payload inside a batch", 3, Fault::Content, |log| log[3].payload = Json::stored("\"edited\"")),
        ("a space in a payload", 6, Fault::Content, |log| log[5].payload = Json::stored("\"third\" ")),
        ("metadata", 2, Fault::Content, |log| log[1].metadata = Json::stored("{ }")),
        ("a kind", 6, Fault::Content, |log| log[5].kind = log[0].kind.clone()),
        ("the record of a takeover", 8, Fault::Content, |log| log[7].payload = log[0].payload.clone()),
        ("a recorded time", 6, Fault::Chain, |log| {
            edit_entry(log, 6, |entry| entry.recorded_at = Timestamp::from_micros(entry.recorded_at.as_micros() - 1));
        }),
        ("a holder", 6, Fault::Chain, |log| edit_entry(log, 6, |entry| entry.holder = holder("b"))),
        ("a generation", 6, Fault::Chain, |log| {
            edit_entry(log, 6, |entry| entry.generation = shifted(entry.generation, 1))
        }),
        ("an acquisition", 6, Fault::Chain, |log| {
            edit_entry(log, 6, |entry| entry.acquisition = AcquisitionId::mint())
        }),
        ("an append's id", 3, Fault::Chain, |log| edit_entry(log, 3, |entry| entry.id = Some(AppendId::mint()))),
        ("a chain value", 6, Fault::Chain, |log| edit_entry(log, 6, |entry| entry.chain = Digest::new([7; 32]))),
        ("a missing entry", 6, Fault::Missing, |log| drop(log.remove(5))),
        ("an event missing in a batch", 3, Fault::Missing, |log| drop(log.remove(3))),
        ("a missing first event", 1, Fault::Missing, |log| drop(log.remove(0))),
        ("an event shown twice", 6, Fault::Order, |log| log.insert(6, log[5].clone())),
        ("a tail cut off", 9, Fault::Truncated, |log| log.truncate(8)),
    ];
    for (what, position, fault, edit) in edits {
        let tampered = Tampered::new(ledger.clone(), edit);
        let found = tampered.verify(&jobs, None).await?;
        equal(
            &format!("what verify names, with {what} edited"),
            &found,
            &Verification::Broken { position: at(position), fault },
        )?;
    }
    for (one, other) in [(1, 5), (2, 3), (1, 8)] {
        let tampered = Tampered::new(ledger.clone(), move |log: &mut Vec<Event>| {
            let (first, second) = (log[one].payload.clone(), log[other].payload.clone());
            (log[one].payload, log[other].payload) = (second, first);
        });
        let found = tampered.verify(&jobs, None).await?;
        let first = read_all(&*ledger, &jobs).await?.get(one).map_or(Position::FIRST, |event| event.entry.first);
        let broken = Verification::Broken { position: first, fault: Fault::Content };
        equal(&format!("what verify names, payloads {one} and {other} exchanged"), &found, &broken)?;
    }
    Ok(())
}

pub(super) async fn int04_mark_finds_a_store_that_was_rewound(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    write_log(&*ledger, &jobs).await?;
    let log = read_all(&*ledger, &jobs).await?;
    let mark = log.last().map(|event| Mark::of(&event.entry));
    let rewound = Tampered::new(ledger.clone(), |log| log.truncate(6)).with_lease();
    let alone = rewound.verify(&jobs, None).await?;
    ensure(matches!(alone, Verification::Clean { events: 6, .. }), "a rewound store is consistent in itself", &alone)?;
    let broken = Verification::Broken { position: at(7), fault: Fault::Truncated };
    equal("a rewound store against a mark", &rewound.verify(&jobs, mark).await?, &broken)?;
    // The same positions, written anew in another history: everything recomputed, as somebody who knows the layout can.
    let (id, name) = (ledger.describe().await?.ledger, jobs.clone());
    let rewritten = Tampered::new(ledger.clone(), move |log| {
        log[1].payload = Json::stored("\"edited\"");
        let mut value = chain::start(id, &name);
        for event in log.iter_mut() {
            let mut entry = Entry::clone(&event.entry);
            if event.position == at(2) {
                let new = NewEvent::new(event.kind.clone(), event.payload.clone());
                entry.content = chain::content(&[new.with_metadata(event.metadata.clone())]);
            }
            if entry.first == event.position {
                value = chain::next(value, id, &name, &entry);
            }
            entry.chain = value;
            event.entry = Arc::new(entry);
        }
    })
    .with_lease();
    let alone = rewritten.verify(&jobs, None).await?;
    ensure(
        matches!(alone, Verification::Clean { events: 9, .. }),
        "a rewritten store is consistent in itself",
        &alone,
    )?;
    let broken = Verification::Broken { position: at(9), fault: Fault::OtherHistory };
    equal("a rewritten store against a mark", &rewritten.verify(&jobs, mark).await?, &broken)?;
    Ok(())
}

pub(super) async fn int05_edit_of_the_storage_is_named_at_its_position(cx: Context) -> Verdict {
    let text = |text: &str| text.to_owned();
    let edits = [
        (2, Edit::Payload { position: at(2), text: text("\"edited\"") }),
        (3, Edit::Payload { position: at(4), text: text("\"edited\"") }),
        (8, Edit::Payload { position: at(8), text: text("{}") }),
        (2, Edit::Metadata { position: at(2), text: text("{\"edited\":true}") }),
        (6, Edit::Kind { position: at(6), text: text("edited") }),
        (6, Edit::RecordedAt { position: at(6), time: Timestamp::from_micros(1) }),
        (3, Edit::Holder { position: at(3), holder: holder("b") }),
        (6, Edit::Remove { position: at(6) }),
        (2, Edit::Swap { one: at(2), other: at(6) }),
    ];
    for (nth, (position, edit)) in edits.into_iter().enumerate() {
        let (ledger, jobs) = (cx.ledger(), partition(&format!("jobs-{nth}")));
        write_log(&*ledger, &jobs).await?;
        // The second edit comes later in the log, and in the same page: the first fault is named all the same.
        for edit in [edit, Edit::Remove { position: at(8) }] {
            let what = format!("what verify names after {edit:?}");
            cx.tamper(&jobs, edit).await?;
            for handle in [ledger.clone(), cx.open().await?] {
                match handle.verify(&jobs, None).await? {
                    Verification::Broken { position: found, .. } => equal(&what, &found, &at(position))?,
                    clean @ Verification::Clean { .. } => return Err(Violation::new(what, format!("{clean:?}")).into()),
                }
            }
        }
        let untouched = partition(&format!("untouched-{nth}"));
        write_log(&*cx.ledger(), &untouched).await?;
        let other = cx.ledger().verify(&untouched, None).await?;
        ensure(matches!(other, Verification::Clean { .. }), "another partition is clean", &other)?;
    }
    Ok(())
}

pub(super) async fn int06_lease_that_contradicts_the_log_is_diverged(cx: Context) -> Verdict {
    for (nth, edit) in [
        Edit::LeaseHolder { holder: holder("c") },
        Edit::LeaseGeneration { generation: shifted(Generation::FIRST, 6) },
        // The newest tenure began at 8: what is cut here, the lease itself still knows.
        Edit::CutTail { after: at(6) },
    ]
    .into_iter()
    .enumerate()
    {
        let (ledger, jobs) = (cx.ledger(), partition(&format!("jobs-{nth}")));
        let lease = write_log(&*ledger, &jobs).await?;
        let asked = prepare_claim(&*ledger, &jobs, "d", long_ttl()).await?;
        let what = |call: &str| format!("{call} after {edit:?}");
        cx.tamper(&jobs, edit.clone()).await?;
        let handle = cx.open().await?;
        expect_rejected(&what("a claim"), handle.claim(&asked).await, Reason::Diverged)?;
        // A generation below the one of the row has visibly ended by that row: it is refused without a look at the log.
        if !matches!(edit, Edit::LeaseGeneration { .. }) {
            expect_rejected(&what("an append"), handle.append(&lease, &append("x")).await, Reason::Diverged)?;
            expect_rejected(&what("a renewal"), handle.renew(&lease, None).await, Reason::Diverged)?;
            expect_rejected(&what("a release"), handle.release(&lease).await, Reason::Diverged)?;
        }
        if let Edit::CutTail { .. } = edit {
            let broken = Verification::Broken { position: at(7), fault: Fault::Truncated };
            equal(&what("what verify names"), &handle.verify(&jobs, None).await?, &broken)?;
        }
    }
    Ok(())
}

pub(super) async fn int07_lease_rewound_behind_its_release_is_diverged(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = write_log(&*ledger, &jobs).await?;
    ledger.release(&lease).await?;
    cx.tamper(&jobs, Edit::LeaseUnreleased).await?;
    let handle = cx.open().await?;
    expect_rejected("an append", handle.append(&lease, &append("x")).await, Reason::Diverged)?;
    expect_rejected("a renewal", handle.renew(&lease, None).await, Reason::Diverged)?;
    let asked = prepare_claim(&*handle, &jobs, "d", long_ttl()).await?;
    expect_rejected("a claim", handle.claim(&asked).await, Reason::Diverged)?;
    Ok(())
}

/// Seven entries, nine events, two tenures: 1 `$claimed`, 2 append, 3-5 batch, 6 append, 7 `$released`, 8 `$claimed`,
/// 9 append. Gives the newest lease, which is valid.
async fn write_log(ledger: &dyn FencedLedger, jobs: &PartitionId) -> Result<Lease, Stop> {
    let first = claim(ledger, jobs, "a", long_ttl()).await?.lease;
    ledger.append(&first, &append("first")).await?;
    ledger.append(&first, &batch(3)).await?;
    ledger.append(&first, &append("third")).await?;
    ledger.release(&first).await?;
    let second = claim(ledger, jobs, "b", long_ttl()).await?.lease;
    ledger.append(&second, &append("fourth")).await?;
    Ok(second)
}

/// Edits the entry that starts at a position, in all of its events.
fn edit_entry(log: &mut [Event], first: i64, edit: impl Fn(&mut Entry)) {
    for event in log.iter_mut().filter(|event| event.entry.first == at(first)) {
        edit(Arc::make_mut(&mut event.entry));
    }
}
