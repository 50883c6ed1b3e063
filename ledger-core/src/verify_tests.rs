//! Goal: every way in which a log can be wrong is named at its position, and nothing else is. Method: a short log is
//! sealed as a store does it, edited in one way, and walked.

use super::*;
use crate::{AppendId, EventKind, Holder, Json, NewEvent, Timestamp};

/// A log, sealed entry after entry.
struct Log {
    events: Vec<Event>,
    entries: Vec<Arc<Entry>>,
}

impl Log {
    fn new() -> Self {
        Self { events: Vec::new(), entries: Vec::new() }
    }

    fn chain(&self) -> Digest {
        self.entries.last().map_or_else(|| chain::start(ledger(), &partition()), |entry| entry.chain)
    }

    /// Seals an entry of events of those kinds.
    fn entry(mut self, kinds: &[&str], of: i64, acquisition: u128, at: i64) -> Self {
        let kind = |kind: &&str| EventKind::stored(*kind).expect("a kind");
        let text = |nth: usize| Json::new(format!("{nth}")).expect("JSON");
        let new: Vec<NewEvent> = kinds.iter().zip(0..).map(|(of, nth)| NewEvent::new(kind(of), text(nth))).collect();
        let first = self.events.last().map_or(1, |event| event.position.get() + 1);
        let last = first + i64::try_from(new.len()).expect("few") - 1;
        let id =
            AppendId::from_uuid(uuid::Uuid::from_u128(0xe000 + u128::from(first.unsigned_abs()))).expect("not nil");
        let (holder, acquisition) = (Holder::new("a").expect("a name"), self::acquisition(acquisition));
        let bounds = (position(first), position(last));
        let (at, content) = (Timestamp::from_micros(at), chain::content(&new));
        let mut entry = Entry::new(Some(id), bounds, generation(of), holder, acquisition, at, content, self.chain());
        entry.chain = chain::next(self.chain(), ledger(), &partition(), &entry);
        let entry = Arc::new(entry);
        self.events.extend(
            new.into_iter()
                .zip(first..)
                .map(|(event, at)| Event::new(position(at), event.kind, event.payload, event.metadata, entry.clone())),
        );
        self.entries.push(entry);
        self
    }

    fn walked(&self, marks: &[Mark]) -> Verification {
        walked(&self.events, marks)
    }

    fn mark(&self, nth: usize) -> Mark {
        Mark::of(&self.entries[nth])
    }
}

fn walked(events: &[Event], marks: &[Mark]) -> Verification {
    let name = partition();
    let mut walk = Walk::new(ledger(), &name, marks.to_vec());
    for event in events {
        if let Err(broken) = walk.event(event) {
            return broken;
        }
    }
    walk.end()
}

fn ledger() -> LedgerId {
    LedgerId::from_uuid(uuid::Uuid::from_u128(1)).expect("not nil")
}

fn partition() -> PartitionId {
    PartitionId::new("p").expect("a name")
}

fn acquisition(number: u128) -> AcquisitionId {
    AcquisitionId::from_uuid(uuid::Uuid::from_u128(number)).expect("not nil")
}

fn generation(number: i64) -> Generation {
    Generation::new(number).expect("positive")
}

fn position(number: i64) -> Position {
    Position::new(number).expect("positive")
}

fn broken(at: i64, fault: Fault) -> Verification {
    Verification::Broken { position: position(at), fault }
}

/// A claim at 1, three events at 2 to 4, one at 5, a claim at 6.
fn log() -> Log {
    Log::new().entry(&["$claimed"], 1, 0xa1, 10).entry(&["k", "k", "k"], 1, 0xa1, 10).entry(&["k"], 1, 0xa1, 11).entry(
        &["$claimed"],
        2,
        0xb2,
        12,
    )
}

#[test]
fn a_log_as_it_was_written_is_clean() {
    let log = log();
    let clean = Verification::Clean { entries: 4, events: 6, head: Some(log.mark(3)) };
    assert_eq!(log.walked(&[]), clean);
    assert_eq!(log.walked(&[log.mark(0), log.mark(1), log.mark(3)]), clean, "with marks that fit");
    assert_eq!(walked(&[], &[]), Verification::Clean { entries: 0, events: 0, head: None });
}

#[test]
fn what_is_missing_or_out_of_place_is_named() {
    let log = log();
    let without = |positions: &[i64]| {
        let events: Vec<Event> =
            log.events.iter().filter(|event| !positions.contains(&event.position.get())).cloned().collect();
        walked(&events, &[])
    };
    assert_eq!(without(&[1]), broken(1, Fault::Missing));
    assert_eq!(without(&[3]), broken(2, Fault::Missing), "the entry is named by its first");
    assert_eq!(without(&[5]), broken(5, Fault::Missing));
    assert_eq!(walked(&log.events[..3], &[]), broken(2, Fault::Missing), "the log ends within an entry");

    let doubled = [&log.events[..2], &log.events[1..]].concat();
    assert_eq!(walked(&doubled, &[]), broken(2, Fault::Order));
    let mut elsewhere = log.events.clone();
    elsewhere[4].entry = log.entries[3].clone();
    assert_eq!(walked(&elsewhere, &[]), broken(5, Fault::Order), "not within its entry");
    let mut begun = log.events.clone();
    begun[4].entry = Arc::new(Entry { first: position(4), ..Entry::clone(&log.entries[2]) });
    assert_eq!(walked(&begun, &[]), broken(5, Fault::Order), "its entry begins before it");
    let mut other = log.events.clone();
    other[2].entry = Arc::new(Entry { holder: Holder::new("b").expect("a name"), ..Entry::clone(&log.entries[1]) });
    assert_eq!(walked(&other, &[]), broken(2, Fault::Chain), "of two entries");
}

#[test]
fn what_was_edited_is_named() {
    let log = log();
    let edited = |nth: usize, edit: &dyn Fn(&mut Event)| {
        let mut events = log.events.clone();
        edit(&mut events[nth]);
        walked(&events, &[])
    };
    let json = || Json::new("7").expect("JSON");
    assert_eq!(edited(2, &|event| event.payload = json()), broken(2, Fault::Content));
    assert_eq!(edited(4, &|event| event.metadata = json()), broken(5, Fault::Content));
    assert_eq!(edited(4, &|event| event.kind = EventKind::stored("l").expect("a kind")), broken(5, Fault::Content));
    let entry = |nth: usize, edit: &dyn Fn(&mut Entry)| edited(nth, &|event| edit(Arc::make_mut(&mut event.entry)));
    assert_eq!(entry(4, &|entry| entry.holder = Holder::new("b").expect("a name")), broken(5, Fault::Chain));
    assert_eq!(entry(4, &|entry| entry.chain = Digest::new([0; 32])), broken(5, Fault::Chain));
}

/// Sealed as it should be, by whoever can compute a chain: still it does not follow.
#[test]
fn what_does_not_follow_is_named() {
    let claimed = || Log::new().entry(&["$claimed"], 1, 0xa1, 10);
    let after = |log: Log| log.walked(&[]);
    let clean = |log: Log| matches!(after(log), Verification::Clean { .. });
    let order = broken(2, Fault::Order);
    assert_eq!(after(Log::new().entry(&["k"], 1, 0xa1, 10)), broken(1, Fault::Order), "nobody claimed");
    assert_eq!(after(Log::new().entry(&["$claimed"], 2, 0xa1, 10)), broken(1, Fault::Order), "the first is 1");
    assert!(clean(claimed().entry(&["k"], 1, 0xa1, 10)), "at the same time");
    assert_eq!(after(claimed().entry(&["k"], 1, 0xa1, 9)), order, "time went back");
    assert_eq!(after(claimed().entry(&["k"], 2, 0xa1, 10)), order, "a generation that was not claimed");
    assert_eq!(after(claimed().entry(&["k"], 1, 0xa2, 10)), order, "another acquisition");
    assert!(clean(claimed().entry(&["$claimed"], 2, 0xa2, 10)));
    assert_eq!(after(claimed().entry(&["$claimed"], 2, 0xa2, 9)), order, "a claim whose time went back");
    assert_eq!(after(claimed().entry(&["$claimed"], 1, 0xa2, 10)), order, "the same generation again");
    assert_eq!(after(claimed().entry(&["$claimed"], 3, 0xa2, 10)), order, "one was left out");
    assert!(clean(claimed().entry(&["$advanced"], 9, 0xa9, 10)), "an advance may leave some out");
    assert!(clean(Log::new().entry(&["$advanced"], 9, 0xa9, 10).entry(&["$claimed"], 10, 0xaa, 10)));
    assert_eq!(after(claimed().entry(&["$advanced"], 1, 0xa9, 10)), order, "an advance goes ahead");
    let back = claimed().entry(&["$advanced"], 9, 0xa9, 10).entry(&["$advanced"], 8, 0xa8, 10);
    assert_eq!(after(back), broken(3, Fault::Order));
}

#[test]
fn a_mark_that_does_not_fit_is_named() {
    let log = log();
    let cut = &log.events[..5];
    assert_eq!(walked(cut, &[log.mark(3)]), broken(6, Fault::Truncated));
    assert_eq!(walked(cut, &[Mark { position: position(9), ..log.mark(3) }]), broken(6, Fault::Truncated));
    let other = Mark { chain: Digest::new([0; 32]), ..log.mark(1) };
    assert_eq!(log.walked(&[other]), broken(4, Fault::OtherHistory));
    let within = Mark { position: position(3), ..log.mark(1) };
    assert_eq!(log.walked(&[within]), broken(3, Fault::OtherHistory), "no entry ends there");
    let two = [Mark { chain: Digest::new([0; 32]), ..log.mark(2) }, other];
    assert_eq!(log.walked(&two), broken(4, Fault::OtherHistory), "the first of them");
}

/// I4: an operator's advance lifts the marks from below it, before and after, and no others.
#[test]
fn an_advance_lifts_the_marks_below_it() {
    let advanced = || log().entry(&["$advanced"], 7, 0xa7, 13);
    let mark = |generation: i64, at: i64| Mark::new(self::generation(generation), position(at), Digest::new([0; 32]));
    let clean = |log: &Log, mark| matches!(log.walked(&[mark]), Verification::Clean { .. });
    assert!(clean(&advanced(), mark(1, 4)), "passed, and lifted");
    assert!(clean(&advanced(), mark(6, 99)), "beyond the end, and lifted");
    assert_eq!(advanced().walked(&[mark(7, 99)]), broken(8, Fault::Truncated), "of the advance's own generation");
    assert_eq!(advanced().walked(&[mark(7, 7)]), broken(7, Fault::OtherHistory));
    let later = advanced().entry(&["$claimed"], 8, 0xa8, 13);
    assert_eq!(later.walked(&[mark(8, 8)]), broken(8, Fault::OtherHistory), "what comes after counts again");
}

/// What a store says of a page from the first position to the second, in which the third can not be read.
type Says = fn(i64, i64, i64) -> Option<i64>;

/// A store of a log in which some events can not be read.
struct Store {
    log: Log,
    unreadable: Vec<i64>,
    says: Says,
    /// How many events it reads beyond the page.
    ahead: i64,
}

impl Store {
    fn new(log: Log, unreadable: &[i64]) -> Self {
        Self { log, unreadable: unreadable.to_vec(), says: |_, _, at| Some(at), ahead: 0 }
    }

    fn page(&self, from: i64, items: u32) -> Result<Page> {
        let to = from + i64::from(items) - 1;
        let bad = self.unreadable.iter().rev().find(|at| (from..=to + self.ahead).contains(at));
        if let Some(bad) = bad {
            let at = (self.says)(from, to, *bad).map(position);
            return Err(LedgerError::corrupt(None, at, "torn"));
        }
        let events = self.log.events.iter().filter(|event| (from..=to).contains(&event.position.get()));
        let head = self.log.entries.last().map(|entry| (entry.last, entry.generation));
        Ok(Page::forward(events.cloned().collect(), head))
    }

    /// What is found, and in how many reads.
    fn verified(&self, marks: &[Mark]) -> (Verification, usize) {
        let (name, mut reads) = (partition(), 0);
        let walk = Walk::new(ledger(), &name, marks.to_vec());
        let read = |from: Position, size: PageSize| {
            reads += 1;
            // A walk that never ends would hang the test.
            assert!(reads < 100, "read after read");
            Box::pin(std::future::ready(self.page(from.get(), size.get()))) as BoxFuture<'_, Result<Page>>
        };
        let found = futures_executor::block_on(walk_through(walk, read)).expect("no error but of what is stored");
        (found, reads)
    }
}

fn unreadable(at: i64) -> Verification {
    broken(at, Fault::Unreadable { detail: "torn".to_owned() })
}

/// I2: the first fault is named, though a page tells of a later one and of nothing else.
#[test]
fn what_stands_before_an_unreadable_event_is_walked_first() {
    let edited = |at: usize, bad: &[i64]| {
        let mut log = log();
        log.events[at - 1].payload = Json::new("7").expect("JSON");
        Store::new(log, bad).verified(&[])
    };
    assert_eq!(edited(5, &[6]), (broken(5, Fault::Content), 2));
    assert_eq!(edited(2, &[6]), (broken(2, Fault::Content), 2));
    assert_eq!(edited(5, &[5]), (unreadable(5), 3));
    assert_eq!(edited(6, &[5]), (unreadable(5), 3));
    let store = |bad: &[i64]| Store::new(log(), bad);
    assert_eq!(store(&[1]).verified(&[]), (unreadable(1), 1));
    assert_eq!(store(&[3]).verified(&[]), (unreadable(2), 3), "the entry is named by its first");
    assert_eq!(store(&[5, 6]).verified(&[]), (unreadable(5), 5), "the later one is told first");
    let other = Mark { chain: Digest::new([0; 32]), ..log().mark(1) };
    assert_eq!(store(&[5]).verified(&[other]), (broken(4, Fault::OtherHistory), 3), "passed before");
    assert_eq!(store(&[3]).verified(&[other]), (unreadable(2), 3), "not come to");
    assert_eq!(store(&[]).verified(&[]).1, 1);
}

/// A store that names no position, or one that is of no use, is asked for ever less.
#[test]
fn an_unreadable_event_without_a_position_is_found() {
    let of_no_use: [Says; 3] = [|_, _, _| None, |from, _, _| (from > 1).then_some(from - 1), |_, to, _| Some(to + 1)];
    for says in of_no_use {
        let found = |bad| {
            let (found, reads) = Store { says, ..Store::new(log(), &[bad]) }.verified(&[]);
            assert!(reads < 30, "{reads}");
            found
        };
        assert_eq!(found(1), unreadable(1));
        assert_eq!(found(5), unreadable(5));
        assert_eq!(found(6), unreadable(6));
    }
    // One that reads one event ahead can not show the one before.
    let (found, reads) = Store { ahead: 1, ..Store::new(log(), &[6]) }.verified(&[]);
    assert!(found == unreadable(5) && reads < 30, "{found:?} in {reads}");
}

#[test]
fn a_mark_is_later_by_generation_and_then_by_position() {
    let mark = |of: i64, at: i64| Mark::new(generation(of), position(at), Digest::new([0; 32]));
    assert!(mark(2, 1).is_later_than(&mark(1, 9)) && !mark(1, 9).is_later_than(&mark(2, 1)));
    assert!(mark(2, 2).is_later_than(&mark(2, 1)) && !mark(2, 1).is_later_than(&mark(2, 2)));
    assert!(!mark(2, 2).is_later_than(&mark(2, 2)));
}

#[test]
fn each_fault_says_what_it_is() {
    for (fault, says) in [
        (Fault::Missing, "missing"),
        (Fault::Truncated, "cut"),
        (Fault::Content, "events were edited"),
        (Fault::Chain, "edited or moved"),
        (Fault::Order, "does not follow"),
        (Fault::Unreadable { detail: "torn".to_owned() }, "torn"),
        (Fault::OtherHistory, "of another history"),
    ] {
        assert!(fault.to_string().contains(says), "{fault}");
    }
}
