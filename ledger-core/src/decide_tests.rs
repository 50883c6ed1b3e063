//! Goal: what is written is what was judged and answered. Method: a store that does nothing but what a decision says is
//! taken through the life of a partition; answers, revisions and stored rows are compared with what the contract says,
//! written down by hand.

use super::*;
use crate::{AcquisitionId, AppendId, Holder, TenureEnd};

/// A partition, and what was decided about it last.
struct Store {
    partition: PartitionId,
    standing: Option<Standing>,
    log: Vec<(Arc<Entry>, Arc<[NewEvent]>)>,
    clock: i64,
    written: Write,
}

impl Store {
    fn new() -> Self {
        let partition = PartitionId::new("p").expect("a name");
        Self { partition, standing: None, log: Vec::new(), clock: 100, written: Write::default() }
    }

    fn subject(&self) -> Subject<'_> {
        Subject::new(ledger(), &self.partition, self.standing.as_ref(), Timestamp::from_micros(self.clock))
    }

    fn apply<A>(&mut self, decision: Decision<A>) -> Result<A, Reason> {
        let Write { lease, entry } = decision.write.clone();
        let tip = self.standing.as_ref().and_then(|standing| standing.tip.clone());
        let tip = entry.as_ref().map(|(entry, _)| entry.clone()).or(tip);
        if let Some(lease) = lease.or_else(|| self.standing.as_ref().map(|standing| standing.lease.clone())) {
            self.standing = Some(Standing::new(lease, tip));
        }
        self.log.extend(entry);
        self.written = decision.write;
        decision.answer.map_err(|rejection| rejection.reason)
    }

    fn claim(&mut self, by: &str, acquisition: u128) -> Result<Claimed, Reason> {
        let observed = self.standing.as_ref().map_or(Observation::NeverClaimed, |standing| {
            let (generation, acquisition) = (standing.lease.generation, standing.lease.acquisition);
            Observation::Tenure { generation, acquisition }
        });
        let claim = Claim::new(self.partition.clone(), holder(by), ttl(50), observed);
        self.apply(claim_of(&self.subject(), &claim.with_acquisition(self::acquisition(acquisition))))
    }

    fn append(&mut self, lease: &Lease, sent: &Append) -> Result<Appended, Reason> {
        let earlier = self.log.iter().map(|(entry, _)| entry).find(|entry| entry.id == Some(sent.id()));
        self.apply(append(self.subject(), earlier, lease, sent))
    }

    fn renew(&mut self, lease: &Lease, of: Option<Ttl>) -> Result<Renewal, Reason> {
        self.apply(renew(self.subject(), lease, of))
    }

    fn release(&mut self, lease: &Lease, past: Option<&PastTenure>) -> Result<Released, Reason> {
        self.apply(release(self.subject(), past, lease))
    }

    fn advance(&mut self, tail: &Tail, step: &Advance) -> Result<Advanced, Reason> {
        self.apply(advance(self.subject(), tail, None, None, step))
    }

    fn lease(&self) -> &StoredLease {
        &self.standing.as_ref().expect("it was claimed").lease
    }

    /// The revision that the store has: what an answer told must be this.
    fn revision(&self) -> u64 {
        self.standing.as_ref().expect("it was claimed").revision().get()
    }

    fn kind(&self) -> &str {
        self.log.last().expect("it has entries").1[0].kind.as_str()
    }
}

fn claim_of(subject: &Subject<'_>, claim: &Claim) -> Decision<Claimed> {
    super::claim(*subject, None, claim)
}

fn ledger() -> LedgerId {
    LedgerId::from_uuid(uuid::Uuid::from_u128(1)).expect("not nil")
}

fn acquisition(number: u128) -> AcquisitionId {
    AcquisitionId::from_uuid(uuid::Uuid::from_u128(number)).expect("not nil")
}

fn holder(name: &str) -> Holder {
    Holder::new(name).expect("a name")
}

fn ttl(micros: i64) -> Ttl {
    Ttl::from_micros(micros).expect("a TTL")
}

fn events(id: u128, count: u8) -> Append {
    let events: Vec<NewEvent> = (0..count).map(|nth| NewEvent::of("k", &nth).expect("an event")).collect();
    Append::with_id(AppendId::from_uuid(uuid::Uuid::from_u128(id)).expect("not nil"), events).expect("an append")
}

fn advance_above(generation: i64) -> Advance {
    let above = Generation::new(generation).ok();
    let partition = PartitionId::new("p").expect("a name");
    Advance::new(partition, holder("o"), above, Note::new("restored").expect("a note"))
        .with_acquisition(acquisition(0xaa))
}

#[test]
fn a_tenure_from_its_claim_to_its_release() {
    let mut store = Store::new();
    let claimed = store.claim("a", 0xa1).expect("free");
    assert_eq!((claimed.lease.generation.get(), claimed.head.get(), claimed.replayed), (1, 1, false));
    assert_eq!(claimed.lease.expires_at.as_micros(), 150);
    assert_eq!((claimed.judged.revision.get(), store.revision()), (1, 1));
    assert_eq!((store.lease().chain, store.lease().recorded_at.as_micros()), (claimed.chain, 100));
    let lease = claimed.lease;

    store.clock = 110;
    let sent = events(0xe1, 3);
    let appended = store.append(&lease, &sent).expect("valid");
    assert_eq!((appended.entry.first.get(), appended.entry.last.get(), appended.replayed), (2, 4, false));
    assert_eq!((appended.judged.revision.get(), store.revision()), (4, 4));
    assert_eq!(
        appended.entry.chain,
        chain::next(claimed.chain, ledger(), &store.partition, &appended.entry),
        "it goes on from the chain value before"
    );
    assert_eq!(
        (store.written.lease.clone(), store.lease().head.get()),
        (None, 1),
        "an append leaves the lease as it is"
    );
    let again = store.append(&lease, &sent).expect("a replay");
    assert!(again.replayed && store.written.is_empty() && again.entry == appended.entry);

    for (renewals, clock) in [(1, 120), (2, 130)] {
        store.clock = clock;
        let renewed = store.renew(&lease, None).expect("valid");
        assert_eq!((renewed.lease.expires_at.as_micros(), renewed.head.get()), (clock + 50, 4));
        assert_eq!(
            (renewed.judged.revision.get(), store.revision(), store.lease().renewals),
            (4 + renewals, 4 + renewals, renewals)
        );
        assert!(!store.written.is_empty() && store.written.entry.is_none());
    }
    assert_eq!(store.append(&lease, &events(0xe2, 1)).expect("valid").judged.revision.get(), 7, "5 and two renewals");
    assert_eq!(store.revision(), 7);

    let Ok(Released::Now { position, judged }) = store.release(&lease, None) else { panic!("it is released now") };
    assert_eq!((position.get(), judged.revision.get(), store.revision()), (6, 8, 8));
    assert_eq!((store.lease().vacancy.clone(), store.kind()), (Some(Vacancy::Released), OwnEvent::RELEASED));
    assert_eq!((store.lease().head, store.lease().recorded_at.as_micros()), (position, 130));
    let again = store.release(&lease, None).expect("a success without effect");
    assert!(matches!(again, Released::AlreadyEnded { .. }) && store.written.is_empty());

    let next = store.claim("b", 0xb1).expect("free");
    assert_eq!((next.lease.generation.get(), next.head.get(), store.lease().renewals), (2, 7, 2));
    assert_eq!((next.judged.revision.get(), store.revision(), store.lease().vacancy.clone()), (9, 9, None));
    assert!(store.claim("b", 0xb1).expect("the same").replayed && store.written.is_empty());
}

/// T2: the time of an expiry is stored by the first answer that rests on it, and by no other.
#[test]
fn the_time_of_an_expiry_is_stored_once() {
    type Call = fn(&mut Store, &Lease) -> Option<Reason>;
    let calls: [Call; 4] = [
        |store, lease| store.append(lease, &events(0xe1, 1)).err(),
        |store, lease| store.renew(lease, None).err(),
        |store, lease| {
            let again = Claim::new(store.partition.clone(), lease.holder.clone(), ttl(50), Observation::of(lease));
            let decision = claim_of(&store.subject(), &again.with_acquisition(lease.acquisition));
            store.apply(decision).err()
        },
        |store, lease| {
            let ended = store.release(lease, None).expect("a success without effect");
            matches!(ended, Released::AlreadyEnded { .. }).then_some(Reason::Expired)
        },
    ];
    for call in calls {
        for first in [150, 155] {
            let mut store = Store::new();
            let lease = store.claim("a", 0xa1).expect("free").lease;
            let forged = Lease { holder: holder("b"), ..lease.clone() };
            assert_eq!(store.append(&forged, &events(0xe1, 1)).err(), Some(Reason::WrongHolder));
            assert!(store.written.is_empty(), "a refusal for another reason stores no time");
            assert_eq!(store.renew(&forged, None).err(), Some(Reason::WrongHolder));
            assert!(store.written.is_empty());
            assert_eq!(store.claim("b", 0xb1).err(), Some(Reason::Held));
            assert!(store.written.is_empty());
            store.clock = first;
            assert_eq!(call(&mut store, &lease), Some(Reason::Expired));
            let expected =
                Write::lease(StoredLease { recorded_at: Timestamp::from_micros(first), ..store.lease().clone() });
            assert_eq!((&store.written, store.lease().recorded_at.as_micros()), (&expected, first));
            store.clock = 160;
            assert_eq!(call(&mut store, &lease), Some(Reason::Expired));
            assert!(store.written.is_empty(), "it is stored already");
        }
    }
}

/// What a release of an older tenure is told rests on that tenure's end, not on the current lease.
#[test]
fn a_release_of_an_older_tenure_stores_nothing() {
    let mut store = Store::new();
    let lease = store.claim("a", 0xa1).expect("free").lease;
    store.clock = 150;
    let next = store.claim("b", 0xb1).expect("expired").lease;
    let Some((_, payload)) = store.log.last().map(|(entry, events)| (entry, &events[0])) else { panic!("a claim") };
    let Ok(Some(OwnEvent::Claimed(succession))) = OwnEvent::read(&payload.kind, &payload.payload) else {
        panic!("a claim's event is its succession")
    };
    let end = TenureEnd::from(&succession);
    let past = PastTenure::new(holder("a"), acquisition(0xa1), end.clone());
    let Ok(Released::AlreadyEnded { end: told, .. }) = store.release(&lease, Some(&past)) else {
        panic!("it has ended")
    };
    assert_eq!((told, store.written.is_empty(), store.lease().holder.clone()), (end, true, next.holder));
}

#[test]
fn an_operator_ends_a_tenure_once() {
    let mut store = Store::new();
    let lease = store.claim("a", 0xa1).expect("free").lease;
    store.renew(&lease, None).expect("valid");
    let note = Note::new("stuck").expect("a note");
    let wrong = Observation::NeverClaimed;
    let decision = end_tenure(store.subject(), wrong, &note);
    assert_eq!(store.apply(decision).err(), Some(Reason::ObservationOutdated));
    let decision = end_tenure(store.subject(), Observation::of(&lease), &note);
    let Ok(Ended::Now { position, judged }) = store.apply(decision) else { panic!("it is ended now") };
    assert_eq!((position.get(), judged.revision.get(), store.revision(), store.kind()), (2, 3, 3, OwnEvent::ENDED));
    let vacancy = Vacancy::Ended { reason: note.clone() };
    assert_eq!(store.lease().vacancy, Some(vacancy.clone()));
    let decision = end_tenure(store.subject(), Observation::of(&lease), &note);
    let Ok(Ended::AlreadyVacant { vacancy: told, .. }) = store.apply(decision) else { panic!("it is vacant") };
    assert!(told == vacancy && store.written.is_empty());
}

#[test]
fn an_advance_goes_on_from_where_the_log_ends() {
    let mut store = Store::new();
    let lease = store.claim("a", 0xa1).expect("free").lease;
    let kept = store.standing.clone();
    let tail = Tail::of(kept.as_ref());
    store.append(&lease, &events(0xe1, 4)).expect("valid");
    store.renew(&lease, None).expect("valid");
    let before = store.revision();
    assert_eq!(before, 6);
    // The log lost its end; the lease remembers position 5.
    let advanced = store.advance(&tail, &advance_above(7)).expect("an operator may");
    assert_eq!((advanced.generation.get(), advanced.position.get(), advanced.replayed), (8, 2, false));
    assert_eq!(
        (advanced.judged.revision.get(), store.revision()),
        (7, 7),
        "what was lost is not lost for the revision"
    );
    assert!(!advanced.judged.clock_behind, "the clock shows the very time");
    assert_eq!(store.lease().vacancy, Some(Vacancy::Advanced { reason: advance_above(7).reason }));
    assert_eq!((store.kind(), store.lease().expires_at.as_micros()), (OwnEvent::ADVANCED, 100));
    store.clock = 99;
    let tail = Tail::of(store.standing.as_ref());
    let behind = store.advance(&tail, &advance_above(20)).expect("an operator may");
    assert_eq!((behind.judged.clock_behind, behind.judged.time.as_micros()), (true, 100));
    store.clock = 101;
    let tail = Tail::of(store.standing.as_ref());
    let ahead = store.advance(&tail, &advance_above(30)).expect("an operator may");
    assert_eq!((ahead.judged.clock_behind, ahead.judged.time.as_micros()), (false, 101));
    let highest = advance_above(i64::MAX);
    assert_eq!(store.advance(&tail, &highest).err(), Some(Reason::GenerationExhausted));
    assert!(store.written.is_empty());
    let (entry, record) = (store.log[2].0.clone(), AdvanceRecord::new(&advance_above(7), None, None));
    let again = advance(store.subject(), &tail, Some((&entry, &record)), None, &advance_above(7));
    assert!(again.answer.is_ok_and(|told| told.replayed && told.mark() == Mark::of(&entry)));
    assert!(again.write.is_empty());
}

#[test]
fn a_log_without_positions_refuses() {
    let mut store = Store::new();
    let lease = store.claim("a", 0xa1).expect("free").lease;
    let standing = store.standing.as_mut().expect("it was claimed");
    let mut tip = Entry::clone(standing.tip.as_ref().expect("the claim"));
    tip.last = Position::new(i64::MAX - 1).expect("a position");
    (standing.lease.head, standing.tip) = (tip.last, Some(Arc::new(tip)));
    assert_eq!(store.append(&lease, &events(0xe1, 2)).err(), Some(Reason::PositionConflict));
    let last = store.append(&lease, &events(0xe2, 1)).expect("there is one left");
    assert_eq!(last.entry.last, Position::MAX);
    assert_eq!(store.append(&lease, &events(0xe3, 1)).err(), Some(Reason::PositionConflict));
    assert_eq!(store.release(&lease, None).err(), Some(Reason::GenerationExhausted));
    let decision = end_tenure(store.subject(), Observation::of(&lease), &Note::new("x").expect("a note"));
    assert_eq!(store.apply(decision).err(), Some(Reason::GenerationExhausted));
    store.clock = 150;
    assert_eq!(store.claim("b", 0xb1).err(), Some(Reason::GenerationExhausted));
}
