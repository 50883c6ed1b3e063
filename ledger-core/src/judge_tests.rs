//! Goal: the order of J1 is what the contract says. Method: a request is made wrong in one way, in every pair of ways,
//! and in every combination of ways; the reason must be the first of the list. The expected order is written down here
//! by hand and not taken from the code under test.

use std::sync::Arc;

use super::*;
use crate::{
    AcquisitionId, AppendId, Digest, Generation, Holder, LedgerId, NewEvent, PartitionId, Position, Revision, Standing,
    StoredLease, Ttl, chain,
};

const GRANTED_AT: i64 = 1_000_000;
const EXPIRES_AT: i64 = GRANTED_AT + 5_000_000;

/// A way in which an append can be wrong, in the order in which J1 looks.
const APPEND_ORDER: [Reason; 10] = [
    Reason::NeverClaimed,
    Reason::Diverged,
    Reason::StaleGeneration,
    Reason::UnknownGeneration,
    Reason::WrongAcquisition,
    Reason::WrongHolder,
    Reason::Released,
    Reason::Expired,
    Reason::AppendIdReused,
    Reason::PositionConflict,
];

/// The same for a claim; the middle three concern a claim with the current tenure's acquisition alone.
const CLAIM_ORDER: [Reason; 8] = [
    Reason::Diverged,
    Reason::WrongHolder,
    Reason::Released,
    Reason::Expired,
    Reason::AcquisitionSpent,
    Reason::ObservationOutdated,
    Reason::Held,
    Reason::GenerationExhausted,
];

fn id(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(number)
}

fn acquisition(number: u128) -> AcquisitionId {
    AcquisitionId::from_uuid(id(number)).expect("not nil")
}

fn holder(name: &str) -> Holder {
    Holder::new(name).expect("a valid name")
}

fn generation(number: i64) -> Generation {
    Generation::new(number).expect("positive")
}

fn position(number: i64) -> Position {
    Position::new(number).expect("positive")
}

fn partition() -> PartitionId {
    PartitionId::new("p").expect("a valid name")
}

fn ledger() -> LedgerId {
    LedgerId::from_uuid(id(1)).expect("not nil")
}

fn at(micros: i64) -> Judged {
    Judged::new(Timestamp::from_micros(micros), Revision::default(), false)
}

fn some_append() -> Append {
    let event = NewEvent::of("k", &1).expect("an event");
    Append::with_id(AppendId::from_uuid(id(0xe1)).expect("not nil"), [event]).expect("an append")
}

/// Generation 5 of holder `a`, granted at 1 s for 5 s; the log ends at position 7 with an append.
fn standing() -> Standing {
    let entry = Entry::new(
        Some(AppendId::from_uuid(id(0xe0)).expect("not nil")),
        (position(7), position(7)),
        generation(5),
        holder("a"),
        acquisition(0xa5),
        Timestamp::from_micros(GRANTED_AT),
        chain::content(&[]),
        Digest::new([7; 32]),
    );
    let lease = StoredLease::new(
        (generation(5), holder("a"), acquisition(0xa5)),
        (Ttl::from_millis(5_000).expect("a TTL"), Timestamp::from_micros(EXPIRES_AT)),
        None,
        0,
        Timestamp::from_micros(GRANTED_AT),
        (position(7), Digest::new([7; 32])),
    );
    Standing::new(lease, Some(Arc::new(entry)))
}

/// The same, released: the newest entry is `$released`, which has no id.
fn released(standing: Standing) -> Standing {
    let tip = standing.tip.map(|tip| Arc::new(Entry { id: None, ..tip.as_ref().clone() }));
    Standing { lease: StoredLease { vacancy: Some(Vacancy::Released), ..standing.lease }, tip }
}

fn earlier(content: Digest) -> Entry {
    let tip = standing().tip.expect("the standing has a tip");
    Entry { content, ..tip.as_ref().clone() }
}

/// An append that is wrong in just the given ways.
fn judge_append_wrong_in(ways: &[Reason]) -> Verdict {
    let wrong = |reason| ways.contains(&reason);
    let mut standing = standing();
    let mut lease = standing.lease.lease(ledger(), &partition());
    let mut append = some_append();
    let mut time = GRANTED_AT + 1;
    if wrong(Reason::Diverged) {
        standing.lease.chain = Digest::new([8; 32]);
    }
    if wrong(Reason::StaleGeneration) {
        lease.generation = generation(4);
    } else if wrong(Reason::UnknownGeneration) {
        lease.generation = generation(6);
    }
    if wrong(Reason::WrongAcquisition) {
        lease.acquisition = acquisition(0xff);
    }
    if wrong(Reason::WrongHolder) {
        lease.holder = holder("A");
    }
    if wrong(Reason::Released) {
        standing = released(standing);
    }
    if wrong(Reason::Expired) {
        time = EXPIRES_AT;
    }
    let reused = wrong(Reason::AppendIdReused).then(|| earlier(chain::content(&[])));
    if wrong(Reason::PositionConflict) {
        append = append.expecting(position(6));
    }
    let request = Request::Append { lease: &lease, append: &append, earlier: reused.as_ref() };
    judge((!wrong(Reason::NeverClaimed)).then_some(&standing), request, &at(time))
}

/// A claim that is wrong in just the given ways.
fn judge_claim_wrong_in(ways: &[Reason]) -> Verdict {
    let wrong = |reason| ways.contains(&reason);
    let retry = [Reason::WrongHolder, Reason::Released, Reason::Expired].into_iter().any(wrong);
    let mut standing = standing();
    let mut time = if wrong(Reason::Held) { GRANTED_AT + 1 } else { EXPIRES_AT };
    if retry {
        time = if wrong(Reason::Expired) { EXPIRES_AT } else { GRANTED_AT + 1 };
    }
    if wrong(Reason::Released) {
        standing = released(standing);
    }
    if wrong(Reason::Diverged) {
        standing.tip = None;
    }
    if wrong(Reason::GenerationExhausted) {
        standing.lease.generation = Generation::MAX;
        standing.tip = standing.tip.map(|tip| Arc::new(Entry { generation: Generation::MAX, ..tip.as_ref().clone() }));
    }
    let observed = Observation::Tenure {
        generation: standing.lease.generation,
        acquisition: acquisition(if wrong(Reason::ObservationOutdated) { 0xa4 } else { 0xa5 }),
    };
    let name = if retry && !wrong(Reason::WrongHolder) { "a" } else { "b" };
    let claim = Claim::new(partition(), holder(name), Ttl::default(), observed)
        .with_acquisition(acquisition(if retry { 0xa5 } else { 0xb6 }));
    let spent = wrong(Reason::AcquisitionSpent).then(|| earlier(chain::content(&[])));
    judge(Some(&standing), Request::Claim { claim: &claim, earlier: spent.as_ref() }, &at(time))
}

fn first_of(order: &[Reason], ways: &[Reason]) -> Verdict {
    let first = order.iter().find(|reason| ways.contains(reason));
    first.map_or(Verdict::Granted, |reason| Verdict::Refused(*reason))
}

/// Stale and unknown are two ends of one comparison: one generation can not be both.
fn possible_append(ways: &[Reason]) -> bool {
    !(ways.contains(&Reason::StaleGeneration) && ways.contains(&Reason::UnknownGeneration))
}

/// A claim with the current acquisition is judged by the middle three alone, so the later ways do not meet it.
fn possible_claim(ways: &[Reason]) -> bool {
    let retry = [Reason::WrongHolder, Reason::Released, Reason::Expired].iter().any(|reason| ways.contains(reason));
    let fresh = [Reason::AcquisitionSpent, Reason::ObservationOutdated, Reason::Held, Reason::GenerationExhausted];
    !(retry && fresh.iter().any(|reason| ways.contains(reason)))
}

#[test]
fn an_append_wrong_in_one_way_is_refused_for_it() {
    assert_eq!(judge_append_wrong_in(&[]), Verdict::Granted);
    for reason in APPEND_ORDER {
        assert_eq!(judge_append_wrong_in(&[reason]), Verdict::Refused(reason));
    }
}

#[test]
fn an_append_wrong_in_two_ways_is_refused_for_the_earlier() {
    for (nth, first) in APPEND_ORDER.into_iter().enumerate() {
        for second in APPEND_ORDER.into_iter().skip(nth + 1).filter(|second| possible_append(&[first, *second])) {
            assert_eq!(judge_append_wrong_in(&[second, first]), Verdict::Refused(first), "{first} before {second}");
        }
    }
}

#[test]
fn a_claim_wrong_in_one_or_two_ways_is_refused_for_the_earlier() {
    assert_eq!(judge_claim_wrong_in(&[]), Verdict::Granted);
    for (nth, first) in CLAIM_ORDER.into_iter().enumerate() {
        assert_eq!(judge_claim_wrong_in(&[first]), Verdict::Refused(first));
        for second in CLAIM_ORDER.into_iter().skip(nth + 1).filter(|second| possible_claim(&[first, *second])) {
            assert_eq!(judge_claim_wrong_in(&[second, first]), Verdict::Refused(first), "{first} before {second}");
        }
    }
}

/// Every subset of `order`.
fn combinations(order: &[Reason]) -> impl Iterator<Item = Vec<Reason>> {
    (0_u32..1 << order.len()).map(|mask| {
        order.iter().copied().enumerate().filter(|(nth, _)| mask >> nth & 1 == 1).map(|(_, way)| way).collect()
    })
}

#[test]
fn an_append_wrong_in_any_combination_of_ways_is_refused_for_the_first() {
    let tried = combinations(&APPEND_ORDER).filter(|ways| possible_append(ways));
    assert_eq!(
        tried.inspect(|ways| assert_eq!(judge_append_wrong_in(ways), first_of(&APPEND_ORDER, ways))).count(),
        768
    );
}

#[test]
fn a_claim_wrong_in_any_combination_of_ways_is_refused_for_the_first() {
    let tried = combinations(&CLAIM_ORDER).filter(|ways| possible_claim(ways));
    assert_eq!(tried.inspect(|ways| assert_eq!(judge_claim_wrong_in(ways), first_of(&CLAIM_ORDER, ways))).count(), 46);
}

#[test]
fn a_replay_needs_a_valid_lease_and_ignores_the_expected_position() {
    let (standing, append) = (standing(), some_append().expecting(position(1)));
    let lease = standing.lease.lease(ledger(), &partition());
    let same = earlier(append.content());
    let request = Request::Append { lease: &lease, append: &append, earlier: Some(&same) };
    assert_eq!(judge(Some(&standing), request, &at(EXPIRES_AT - 1)), Verdict::Replay);
    assert_eq!(judge(Some(&standing), request, &at(EXPIRES_AT)), Verdict::Refused(Reason::Expired));
}

#[test]
fn an_expectation_is_the_head_itself() {
    let standing = standing();
    let lease = standing.lease.lease(ledger(), &partition());
    let refused = Verdict::Refused(Reason::PositionConflict);
    for (expected, verdict) in [(6, refused.clone()), (7, Verdict::Granted), (8, refused)] {
        let append = some_append().expecting(position(expected));
        let request = Request::Append { lease: &lease, append: &append, earlier: None };
        assert_eq!(judge(Some(&standing), request, &at(GRANTED_AT)), verdict, "expecting {expected}");
    }
}

/// T3 as one table: at equality the lease has expired, for everybody.
#[test]
fn expiry_is_one_boundary_for_all_operations() {
    let standing = standing();
    let lease = standing.lease.lease(ledger(), &partition());
    let append = some_append();
    let claim = Claim::new(partition(), holder("b"), Ttl::default(), Observation::of(&lease));
    for (micros, valid) in [(EXPIRES_AT - 1, true), (EXPIRES_AT, false), (EXPIRES_AT + 1, false)] {
        let verdict = |request| judge(Some(&standing), request, &at(micros));
        let own = if valid { Verdict::Granted } else { Verdict::Refused(Reason::Expired) };
        let other = if valid { Verdict::Refused(Reason::Held) } else { Verdict::Granted };
        assert_eq!(verdict(Request::Append { lease: &lease, append: &append, earlier: None }), own);
        assert_eq!(verdict(Request::Renew { lease: &lease }), own);
        assert_eq!(verdict(Request::Claim { claim: &claim, earlier: None }), other);
        let released = verdict(Request::Release { lease: &lease, past: None });
        assert_eq!(released == Verdict::Granted, valid);
        assert_eq!(matches!(released, Verdict::AlreadyEnded(_)), !valid);
    }
}

#[test]
fn a_release_of_an_older_tenure_is_judged_by_that_tenure() {
    let standing = standing();
    let mut lease = standing.lease.lease(ledger(), &partition());
    lease.generation = generation(3);
    lease.acquisition = acquisition(0xa3);
    let end = TenureEnd::new(Basis::Released);
    let past = crate::PastTenure::new(holder("a"), acquisition(0xa3), end.clone());
    let verdict = |lease: &Lease, past| judge(Some(&standing), Request::Release { lease, past }, &at(GRANTED_AT));
    assert_eq!(verdict(&lease, Some(&past)), Verdict::AlreadyEnded(end));
    assert_eq!(verdict(&lease, None), Verdict::Refused(Reason::UnknownGeneration));
    let forged = Lease { holder: holder("b"), ..lease.clone() };
    assert_eq!(verdict(&forged, Some(&past)), Verdict::Refused(Reason::WrongHolder));
    let forged = Lease { acquisition: acquisition(0xa5), ..forged };
    assert_eq!(verdict(&forged, Some(&past)), Verdict::Refused(Reason::WrongAcquisition));
    let unknown = Lease { generation: generation(6), ..lease };
    assert_eq!(verdict(&unknown, None), Verdict::Refused(Reason::UnknownGeneration));
}

/// J1 for an advance: no lease, no time and no contradiction of row and log is in its way.
#[test]
fn an_advance_is_stopped_by_its_acquisition_and_the_ceiling_alone() {
    let reason = crate::Note::new("restored").expect("a note");
    let step = Advance::new(partition(), holder("o"), Some(generation(9)), reason).with_acquisition(acquisition(0xaa));
    let tail = Tail::of(Some(&standing()));
    let verdict = |standing: Option<&Standing>, advance: &Advance, tail: &Tail, taken, earlier| {
        judge(standing, Request::Advance { advance, tail, taken, earlier }, &at(GRANTED_AT))
    };
    let diverged = Standing { tip: None, ..standing() };
    for state in [None, Some(standing()), Some(released(standing())), Some(diverged)] {
        assert_eq!(verdict(state.as_ref(), &step, &Tail::of(state.as_ref()), None, None), Verdict::Granted);
    }
    let standing = standing();
    let record = AdvanceRecord::new(&step, None, None);
    let entry = Entry { holder: holder("o"), ..earlier(chain::content(&[])) };
    assert_eq!(verdict(Some(&standing), &step, &tail, Some((&entry, &record)), None), Verdict::Replay);
    let spent = Verdict::Refused(Reason::AcquisitionSpent);
    for other in [
        Advance { above: None, ..step.clone() },
        Advance { operator: holder("p"), ..step.clone() },
        Advance { reason: crate::Note::new("another").expect("a note"), ..step.clone() },
    ] {
        assert_eq!(verdict(Some(&standing), &other, &tail, Some((&entry, &record)), None), spent);
    }
    assert_eq!(verdict(Some(&standing), &step, &tail, None, Some(&entry)), spent);

    let exhausted = Verdict::Refused(Reason::GenerationExhausted);
    let highest = Advance { above: Some(Generation::MAX), ..step.clone() };
    assert_eq!(verdict(None, &highest, &Tail::default(), None, None), exhausted);
    assert_eq!(verdict(Some(&standing), &highest, &tail, None, Some(&entry)), spent, "the acquisition comes first");
    let mut row = standing.clone();
    row.lease.generation = Generation::MAX;
    assert_eq!(verdict(Some(&row), &step, &tail, None, None), exhausted);
    let log = Tail::new(tail.last, Some(Arc::new(Entry { generation: Generation::MAX, ..entry.clone() })));
    assert_eq!(verdict(Some(&standing), &step, &log, None, None), exhausted);
}

#[test]
fn judged_time_never_goes_behind_what_is_recorded() {
    let mut standing = standing();
    standing.lease.recorded_at = Timestamp::from_micros(EXPIRES_AT);
    let behind = judged(Some(&standing), Timestamp::from_micros(5));
    assert_eq!((behind.time.as_micros(), behind.clock_behind), (EXPIRES_AT, true));
    let level = judged(Some(&standing), Timestamp::from_micros(EXPIRES_AT));
    assert_eq!((level.time.as_micros(), level.clock_behind), (EXPIRES_AT, false));
    let ahead = judged(Some(&standing), Timestamp::from_micros(EXPIRES_AT + 1));
    assert_eq!((ahead.time.as_micros(), ahead.clock_behind), (EXPIRES_AT + 1, false));
    assert!(standing.has_visibly_ended(generation(5)), "the recorded time has reached the expiry");
    assert!(standing.has_visibly_ended(generation(4)));
    assert!(!standing.has_visibly_ended(generation(6)), "what was never granted has not ended");
}

#[test]
fn every_way_in_which_log_and_lease_can_disagree_is_seen() {
    assert!(!standing().has_diverged());
    let tip = |edit: fn(&mut Entry)| {
        let mut standing = standing();
        let mut entry = standing.tip.as_deref().expect("the standing has a tip").clone();
        edit(&mut entry);
        standing.tip = Some(Arc::new(entry));
        standing
    };
    assert!(tip(|entry| entry.generation = generation(4)).has_diverged());
    assert!(tip(|entry| entry.holder = holder("b")).has_diverged());
    assert!(tip(|entry| entry.acquisition = acquisition(1)).has_diverged());
    assert!(tip(|entry| entry.last = position(6)).has_diverged(), "a cut tail");
    assert!(tip(|entry| entry.chain = Digest::new([9; 32])).has_diverged());
    assert!(!tip(|entry| entry.last = position(8)).has_diverged(), "an append moves the log on alone");
    assert!(Standing { tip: None, ..standing() }.has_diverged());
    assert!(!released(standing()).has_diverged());
    assert!(tip(|entry| entry.id = None).has_diverged(), "a lease rewound behind its own release");
    assert!(
        Standing { tip: standing().tip, ..released(standing()) }.has_diverged(),
        "vacant without an end in the log"
    );
    let claimed_later = |entry: &mut Entry| {
        entry.id = Some(entry.acquisition.into());
        entry.last = position(8);
    };
    assert!(tip(claimed_later).has_diverged(), "a lease rewound behind its own claim");
}

/// Where the log falls short of the lease, the lease says where it should end (I2). Else the log does.
#[test]
fn what_is_observed_is_the_end_that_should_be_there() {
    let ends_at = |last: i64, chain: u8| {
        let mut standing = standing();
        let tip = standing.tip.as_deref().expect("the standing has a tip").clone();
        standing.tip = Some(Arc::new(Entry { last: position(last), chain: Digest::new([chain; 32]), ..tip }));
        let tenure = standing.tenure(ledger(), &partition());
        (tenure.head.get(), tenure.chain)
    };
    assert_eq!(ends_at(6, 6), (7, Digest::new([7; 32])), "a cut tail");
    assert_eq!(ends_at(7, 9), (7, Digest::new([9; 32])), "edited, as it stands there");
    assert_eq!(ends_at(8, 8), (8, Digest::new([8; 32])), "an append moves the log on alone");
}

/// R3: the claim that followed tells how a tenure ended; where only an advance did, the stored lease does.
#[test]
fn how_an_earlier_tenure_ended() {
    let who = || (holder("a"), acquisition(0xa4));
    let lease = standing().lease;
    let previous = crate::Predecessor::new(holder("a"), generation(4), acquisition(0xa4), position(6));
    let given = lease.lease(ledger(), &partition());
    let next = crate::Succession::new(Some(previous), Basis::Released, &given, Timestamp::from_micros(GRANTED_AT));
    let told = crate::PastTenure::new(holder("a"), acquisition(0xa4), TenureEnd::from(&next));
    assert_eq!(crate::PastTenure::before(who(), Some(&next), &lease), Some(told));
    let vacancy = Vacancy::Advanced { reason: crate::Note::new("restored").expect("a note") };
    let advanced = StoredLease { vacancy: Some(vacancy.clone()), ..lease.clone() };
    let told = crate::PastTenure::new(holder("a"), acquisition(0xa4), TenureEnd::new((&vacancy).into()));
    assert_eq!(crate::PastTenure::before(who(), None, &advanced), Some(told));
    for vacancy in [None, Some(Vacancy::Released)] {
        let edited = StoredLease { vacancy, ..lease.clone() };
        assert_eq!(crate::PastTenure::before(who(), None, &edited), None, "the log was edited");
    }
}
