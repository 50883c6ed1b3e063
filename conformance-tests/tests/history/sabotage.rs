//! Sabotages: what a wrong ledger would have answered or kept, put into a history of a right one.

use std::sync::Arc;

use conformance_tests::history::{Answer, Call, Content, Invocation, Kind, Own};
use fastrand::Rng;
use ledger_core::{Basis, Entry, Generation, Judged, Reason, Revision, Timestamp};

use crate::generate::Generated;
use crate::misread;

/// One kind of sabotage, and what the checker must say of it.
pub(crate) struct Sabotage {
    pub(crate) name: &'static str,
    /// The kind of finding that it leads to.
    pub(crate) kind: Kind,
    /// Words that a finding must contain.
    pub(crate) says: &'static str,
    /// In how many of a hundred histories it must be found so, at least: some sabotages are harmless where they land, as
    /// a look that is older by a moment.
    pub(crate) least: usize,
    /// Does it; says whether there was a place for it.
    pub(crate) apply: fn(&mut Generated, &mut Rng) -> bool,
}

pub(crate) const fn sabotage(
    name: &'static str,
    kind: Kind,
    says: &'static str,
    least: usize,
    apply: fn(&mut Generated, &mut Rng) -> bool,
) -> Sabotage {
    Sabotage { name, kind, says, least, apply }
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Sabotage> {
    WRITES.iter().chain(misread::READS)
}

/// Of writes, looks, fates and records.
const WRITES: &[Sabotage] = &[
    sabotage("acknowledged append lost", Kind::Lost, "the log has it as it was acknowledged", 100, |it, rng| {
        let acknowledged = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Appended { .. })));
        let Some(call) = pick(it, rng, acknowledged) else { return false };
        let Some((_, Answer::Appended { entry, .. })) = &call.answer else { return false };
        let entry = entry.clone();
        log(&mut it.content).retain(|logged| logged.entry != entry);
        true
    }),
    sabotage("gap in the log", Kind::Log, "positions have no gap", 100, |it, rng| {
        let log = log(&mut it.content);
        // Neither the first, without which it is no log, nor the last.
        if log.len() < 3 {
            return false;
        }
        log.remove(rng.usize(1..log.len() - 1));
        true
    }),
    sabotage("two entries exchanged", Kind::Lost, "the log has it", 70, |it, rng| {
        let log = log(&mut it.content);
        let pairs: Vec<usize> =
            (1..log.len()).filter(|nth| log[*nth].own.is_none() && log[nth - 1].own.is_none()).collect();
        let Some(nth) = rng.choice(&pairs).copied() else { return false };
        let first = log[nth - 1].entry.first;
        log.swap(nth - 1, nth);
        let mut next = first;
        for logged in &mut log[nth - 1..=nth] {
            let entry = Arc::make_mut(&mut logged.entry);
            entry.first = next;
            entry.last = next.checked_add(logged.events - 1).expect("a small position");
            next = entry.last.next().expect("a small position");
        }
        true
    }),
    sabotage("append of an ended lease kept", Kind::StaleWrite, "the lease in force wrote it", 100, |it, rng| {
        let log = log(&mut it.content);
        let late: Vec<usize> = (1..log.len())
            .filter(|nth| log[*nth].own.is_none() && log[*nth].entry.generation > Generation::FIRST)
            .collect();
        let Some(nth) = rng.choice(&late).copied() else { return false };
        let (holder, acquisition) = (log[0].entry.holder.clone(), log[0].entry.acquisition);
        let entry = Arc::make_mut(&mut log[nth].entry);
        (entry.generation, entry.holder, entry.acquisition) = (Generation::FIRST, holder, acquisition);
        true
    }),
    sabotage("append after the expiry kept", Kind::StaleWrite, "before the expiry", 90, |it, rng| {
        let log = log(&mut it.content);
        let appends: Vec<usize> = (1..log.len()).filter(|nth| log[*nth].own.is_none()).collect();
        let Some(nth) = rng.choice(&appends).copied() else { return false };
        let entry = Arc::make_mut(&mut log[nth].entry);
        entry.recorded_at = Timestamp::from_micros(entry.recorded_at.as_micros() + 3_600_000_000);
        true
    }),
    sabotage("valid lease taken", Kind::StaleWrite, "a valid lease is never taken", 100, |it, _| {
        for logged in log(&mut it.content) {
            if let Some(Own::Claimed(succession)) = &mut logged.own
                && matches!(succession.basis, Basis::Expired { .. } | Basis::Ended { .. })
            {
                succession.basis = Basis::Released;
                return true;
            }
        }
        false
    }),
    sabotage("generation given out twice", Kind::Log, "mints the next generation", 100, |it, _| {
        let log = log(&mut it.content);
        let claims: Vec<usize> = (1..log.len()).filter(|nth| matches!(log[*nth].own, Some(Own::Claimed(_)))).collect();
        let Some(nth) = claims.first().copied() else { return false };
        if let Some(Own::Claimed(succession)) = &mut log[nth].own {
            succession.generation = Generation::FIRST;
        }
        Arc::make_mut(&mut log[nth].entry).generation = Generation::FIRST;
        true
    }),
    sabotage("written, and told that it was not", Kind::Ghost, "somebody sent each entry", 60, |it, rng| {
        let acknowledged = |call: &&mut Invocation| {
            matches!(
                call.answer,
                Some((_, Answer::Appended { replayed: false, .. } | Answer::Claimed { replayed: false, .. }))
            )
        };
        let Some(call) = pick(it, rng, acknowledged) else { return false };
        if let Some((_, answer)) = &mut call.answer {
            *answer = Answer::NotWritten("the disk is full".to_owned());
        }
        true
    }),
    sabotage("renewal told not to be written", Kind::Ghost, "was sent under the lease in force", 60, |it, rng| {
        let renewed = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Renewed { .. })));
        let Some(call) = pick(it, rng, renewed) else { return false };
        if let Some((_, answer)) = &mut call.answer {
            *answer = Answer::NotWritten("busy".to_owned());
        }
        true
    }),
    sabotage("renewal with another expiry", Kind::WrongAnswer, "expiry", 100, |it, rng| {
        let renewed = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Renewed { .. })));
        let Some(call) = pick(it, rng, renewed) else { return false };
        if let Some((_, Answer::Renewed { lease, .. })) = &mut call.answer {
            lease.expires_at = Timestamp::from_micros(lease.expires_at.as_micros() + 1);
        }
        true
    }),
    sabotage("wrong reason", Kind::WrongRefusal, "Refused(", 100, |it, rng| {
        let Some(call) = pick(it, rng, rejected) else { return false };
        if let Some((_, Answer::Rejected { reason, .. })) = &mut call.answer {
            let others: Vec<Reason> = Reason::ALL.into_iter().filter(|other| other != reason).collect();
            *reason = rng.choice(&others).copied().unwrap_or(Reason::Held);
        }
        true
    }),
    sabotage("refused without a reason", Kind::WrongRefusal, "Replay", 100, |it, rng| {
        let replayed =
            |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Appended { replayed: true, .. })));
        let truth = it.history.invocations.iter().find_map(|call| match &call.answer {
            Some((_, Answer::Rejected { current, .. })) => current.clone(),
            _ => None,
        });
        let Some(call) = pick(it, rng, replayed) else { return false };
        if let Some((_, answer)) = &mut call.answer {
            let Answer::Appended { judged, .. } = answer else { return false };
            let (judged, record) = (*judged, conformance_tests::history::Kept::Counted);
            *answer = Answer::Rejected { reason: Reason::Expired, current: truth, earlier: None, judged, record };
        }
        true
    }),
    sabotage("refusal of another moment", Kind::WrongRefusal, "", 60, |it, rng| {
        let Some(call) = pick(it, rng, rejected) else { return false };
        shift_revision(call, rng)
    }),
    sabotage("refusal names another holder", Kind::WrongRefusal, "tells the truth", 100, |it, rng| {
        let held = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Rejected { current: Some(_), .. })));
        let Some(call) = pick(it, rng, held) else { return false };
        if let Some((_, Answer::Rejected { current: Some(current), .. })) = &mut call.answer {
            current.holder = ledger_core::Holder::new("nobody").expect("a name");
        }
        true
    }),
    sabotage("old look", Kind::Order, "stands after what had returned before", 40, |it, rng| {
        let look = |call: &&Invocation| matches!(call.answer, Some((_, Answer::Observed { .. })));
        let mut looks: Vec<Invocation> = it.history.invocations.iter().filter(look).cloned().collect();
        looks.sort_by_key(|call| call.called_at);
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return false };
        let (old, number) = (first.answer.as_ref().map(|(_, answer)| answer.clone()), last.number);
        if looks.len() < 2 || rng.u8(..) == 255 {
            return false;
        }
        for call in &mut it.history.invocations {
            if let (true, Some((_, answer)), Some(old)) = (call.number == number, &mut call.answer, &old) {
                *answer = old.clone();
            }
        }
        true
    }),
    sabotage("order against real time", Kind::Order, "stands after what had returned before", 90, |it, _| {
        // The last acknowledged append is said to have been over before everything else began.
        let appended =
            |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Appended { replayed: false, .. })));
        let Some(call) = it.history.invocations.iter_mut().filter(appended).max_by_key(|call| call.called_at) else {
            return false;
        };
        if let Some((at, _)) = &mut call.answer {
            (call.called_at, *at) = (0, 0);
        }
        it.history.invocations.iter_mut().for_each(|call| call.called_at += 1);
        it.history.invocations.iter_mut().for_each(|call| {
            if let Some((at, _)) = &mut call.answer {
                *at += 1;
            }
        });
        let Some(last) = it.history.invocations.iter_mut().find(|call| call.called_at == 1) else { return false };
        last.called_at = 0;
        if let Some((at, _)) = &mut last.answer {
            *at = 0;
        }
        true
    }),
    sabotage("revision of another renewal", Kind::Order, "", 60, |it, rng| {
        let renewed = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Renewed { .. })));
        let Some(call) = pick(it, rng, renewed) else { return false };
        shift_revision(call, rng)
    }),
    sabotage("time that went back", Kind::Time, "time", 20, |it, rng| {
        let judged = |call: &&mut Invocation| {
            call.answer.as_ref().is_some_and(|(_, answer)| matches!(answer, Answer::Renewed { .. }))
        };
        let Some(call) = pick(it, rng, judged) else { return false };
        if let Some((_, Answer::Renewed { judged, .. })) = &mut call.answer {
            judged.time = Timestamp::from_micros(judged.time.as_micros() - 2_000_000);
        }
        true
    }),
    sabotage("never, and it came", Kind::Fate, "it never comes into the log", 100, |it, rng| {
        let fate = |call: &&mut Invocation| {
            matches!(&call.answer, Some((_, Answer::Recorded(entry)))
            if matches!(&call.call, Call::Fate { generation, .. } if *generation >= entry.generation))
        };
        let Some(call) = pick(it, rng, fate) else { return false };
        if let Some((_, answer)) = &mut call.answer {
            *answer = Answer::Never;
        }
        true
    }),
    sabotage("recorded, and it was not", Kind::Fate, "it is in the log", 100, |it, rng| {
        let entry: Option<Arc<Entry>> = it.content.partitions[0].log.first().map(|logged| logged.entry.clone());
        let fate = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Never | Answer::Undecided)));
        let Some(call) = pick(it, rng, fate) else { return false };
        if let (Some((_, answer)), Some(entry)) = (&mut call.answer, entry) {
            *answer = Answer::Recorded(entry);
        }
        true
    }),
    sabotage("undecided, though it had landed", Kind::Fate, "stands after what had returned before", 50, |it, rng| {
        let fate = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Recorded(_) | Answer::Never)));
        let Some(call) = pick(it, rng, fate) else { return false };
        if let Some((_, answer)) = &mut call.answer {
            *answer = Answer::Undecided;
        }
        true
    }),
    sabotage(
        "replay told as a first writing",
        Kind::WrongAnswer,
        "one call is told that it has written",
        50,
        |it, rng| {
            let replayed =
                |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Appended { replayed: true, .. })));
            let Some(call) = pick(it, rng, replayed) else { return false };
            if let Some((_, Answer::Appended { replayed, .. })) = &mut call.answer {
                *replayed = false;
            }
            true
        },
    ),
    sabotage("acknowledged advance lost", Kind::Lost, "`$advanced` is in the log", 100, |it, rng| {
        let advanced = |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Advanced { .. })));
        let Some(call) = pick(it, rng, advanced) else { return false };
        if let Call::Advance(advance) = &mut call.call {
            advance.acquisition = ledger_core::AcquisitionId::mint();
        }
        true
    }),
    sabotage("advance below what is known", Kind::Log, "one above every generation known", 100, |it, _| {
        let Some((_, record)) = advance(&mut it.content) else { return false };
        record.above = Some(Generation::MAX);
        true
    }),
    sabotage("advance from another lease", Kind::Log, "tells what it found", 100, |it, _| {
        let Some((generation, record)) = advance(&mut it.content) else { return false };
        let Some(lease) = &mut record.lease else { return false };
        lease.generation = generation;
        true
    }),
    sabotage("lease valid beyond an advance", Kind::StaleWrite, "the lease in force wrote it", 100, |it, rng| {
        let log = log(&mut it.content);
        let advanced: Vec<usize> =
            (1..log.len()).filter(|nth| matches!(log[*nth].own, Some(Own::Advanced(_)))).collect();
        let Some(nth) = rng.choice(&advanced).copied() else { return false };
        // What the holder before wrote last is said to have come after the advance.
        let Some(last) = (0..nth).rev().find(|nth| log[*nth].own.is_none()) else { return false };
        let entry = log.remove(last);
        log.insert(nth, entry);
        let mut next = log[0].entry.first;
        for logged in log.iter_mut() {
            let entry = Arc::make_mut(&mut logged.entry);
            entry.first = next;
            entry.last = next.checked_add(logged.events - 1).expect("a small position");
            next = entry.last.next().expect("a small position");
        }
        true
    }),
    sabotage(
        "advance repeated, and told as made",
        Kind::WrongAnswer,
        "one call is told that it has written",
        50,
        |it, rng| {
            let again =
                |call: &&mut Invocation| matches!(call.answer, Some((_, Answer::Advanced { replayed: true, .. })));
            let Some(call) = pick(it, rng, again) else { return false };
            if let Some((_, Answer::Advanced { replayed, .. })) = &mut call.answer {
                *replayed = false;
            }
            true
        },
    ),
    sabotage("record lost", Kind::Evidence, "its record is kept", 90, |it, rng| {
        let records = &mut it.content.partitions[0].records;
        if records.is_empty() {
            return false;
        }
        // Where a call had no answer, it may be that record's.
        records.remove(rng.usize(..records.len()));
        true
    }),
    sabotage("record of nobody", Kind::Evidence, "each record is of a refusal", 100, |it, rng| {
        let records = &mut it.content.partitions[0].records;
        let Some(mut record) = rng.choice(&*records).cloned() else { return false };
        if let Some(refused) = &mut record.refused {
            refused.holder = ledger_core::Holder::new("nobody").expect("a name");
        }
        records.push(record);
        true
    }),
    sabotage("repeat not counted", Kind::Evidence, "the record counts", 100, |it, _| {
        let records = &mut it.content.partitions[0].records;
        let Some(record) = records.iter_mut().find(|record| record.count > 6) else { return false };
        record.count -= 6;
        true
    }),
    sabotage("repeat counted twice", Kind::Evidence, "record", 100, |it, _| {
        let records = &mut it.content.partitions[0].records;
        let Some(record) = records.first_mut() else { return false };
        record.count += 60;
        true
    }),
    sabotage("refusal without a word of its record", Kind::Evidence, "stored or counted", 100, |it, rng| {
        let evident = |call: &&mut Invocation| {
            matches!(&call.answer, Some((_, Answer::Rejected { record: conformance_tests::history::Kept::Stored, .. })))
        };
        let Some(call) = pick(it, rng, evident) else { return false };
        if let Some((_, Answer::Rejected { record, .. })) = &mut call.answer {
            *record = conformance_tests::history::Kept::NotEvidence;
        }
        true
    }),
];

pub(crate) fn pick<'a>(
    generated: &'a mut Generated,
    rng: &mut Rng,
    fits: impl Fn(&&mut Invocation) -> bool,
) -> Option<&'a mut Invocation> {
    let mut found: Vec<&mut Invocation> = generated.history.invocations.iter_mut().filter(fits).collect();
    if found.is_empty() {
        return None;
    }
    Some(found.swap_remove(rng.usize(..found.len())))
}

fn rejected(call: &&mut Invocation) -> bool {
    matches!(call.answer, Some((_, Answer::Rejected { .. })))
}

fn shift_revision(call: &mut Invocation, rng: &mut Rng) -> bool {
    let moved = |judged: &mut Judged, rng: &mut Rng| {
        let number = judged.revision.get();
        let number = if rng.bool() && number > 1 { number - 1 } else { number + 1 };
        judged.revision = Revision::new(number);
    };
    match &mut call.answer {
        Some((_, Answer::Rejected { judged, .. } | Answer::Renewed { judged, .. })) => moved(judged, rng),
        _ => return false,
    }
    true
}

fn log(content: &mut Content) -> &mut Vec<conformance_tests::history::Logged> {
    &mut content.partitions[0].log
}

/// The first advance of the log, with its generation.
fn advance(content: &mut Content) -> Option<(Generation, &mut ledger_core::AdvanceRecord)> {
    log(content).iter_mut().find_map(|logged| match &mut logged.own {
        Some(Own::Advanced(record)) => Some((logged.entry.generation, record)),
        _ => None,
    })
}
