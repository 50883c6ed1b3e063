//! Goal: a group decides as the single form does. What `append_group` grants, `append` grants with the same answer; what
//! it leaves out would not have been granted; and rows, leases and evidence are the same to the last byte. And groups
//! stand their ground beside takeovers, renewals, releases and sessions that hold a partition.
//!
//! Method: three schemas with one ledger id and one clock that stands still. The same random history is written to each:
//! by groups, one by one in the order of the groups' answers, and one by one in the order in which it was sent. The seed
//! of a failed run is in its message.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{Place, Wanted, append, event, holder, partition, scale, seconds};
use ledger_core::{
    AcquisitionId, Append, AppendId, Appended, Claim, Claimed, Expected, FencedLedger, FencedLedgerExt, Generation,
    Lease, LedgerError, PageSize, Position, Reason, Result, Ttl, Verification,
};
use ledger_postgres::PostgresLedger;
use sqlx::{Executor, PgConnection, Row};
use uuid::Uuid;

/// SplitMix64: what a seed made can be made again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("small")).expect("small")
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next() | 1)
    }
}

struct World {
    place: Place,
    ledger: PostgresLedger,
    shell: PgConnection,
}

impl World {
    async fn new(wanted: Wanted) -> Self {
        let place = Place::new(wanted).await.with_clock().await;
        place.run("update fenced_ledger.ledger set id = '01920000-0000-7000-8000-00000000000a'").await;
        place.run("update fenced_ledger.test_clock set at = 1700000000000000").await;
        let ledger = place.options().coalesce(false).connect(&place.url).await.expect("opened");
        Self { shell: place.shell().await, ledger, place }
    }

    async fn step(&mut self, to: i64) {
        let sql = self.place.sql("update fenced_ledger.test_clock set at = $1");
        sqlx::query(sql).bind(to).execute(&mut self.shell).await.expect("stepped");
    }

    /// What `append_group` grants, by the place of the append in the call. Told how far the logs have come or not, it does
    /// the same.
    async fn group(&mut self, calls: &[(Lease, Append)]) -> BTreeMap<usize, Granted> {
        let mut lanes: Vec<&Lease> = Vec::new();
        let slots: Vec<i32> = calls
            .iter()
            .map(|(lease, _)| {
                let at = lanes.iter().position(|other| *other == lease).unwrap_or_else(|| {
                    lanes.push(lease);
                    lanes.len() - 1
                });
                i32::try_from(at + 1).expect("small")
            })
            .collect();
        let appends = || calls.iter().map(|(_, append)| append);
        let events = || appends().flat_map(|append| append.events().iter());
        let count = |append: &Append| i32::try_from(append.events().len()).expect("small");
        let expected = |append: &Append| match append.expected() {
            Expected::Any => None,
            Expected::Position(position) => Some(position.get()),
        };
        let sql =
            "select * from fenced_ledger.append_group($1, $2, $3::text[]::uuid[], $4, $5, $6::text[]::uuid[], $7, $8,
             $9, $10, $11, $12, (select array_agg(case when random() < 0.5 then 0 else coalesce((
                 select max(l.position) from fenced_ledger.log l join fenced_ledger.partition p on p.id = l.partition
                 where p.name = u.name), 0) end order by u.nth) from unnest($1) with ordinality u (name, nth)), null)";
        let texts = |of: fn(&ledger_core::NewEvent) -> &str| events().map(of).collect::<Vec<_>>();
        let row = sqlx::query(self.place.sql(sql))
            .bind(lanes.iter().map(|lease| lease.partition.as_str()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|lease| lease.generation.get()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|lease| lease.acquisition.to_string()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|lease| lease.holder.as_str()).collect::<Vec<_>>())
            .bind(slots)
            .bind(appends().map(|append| append.id().to_string()).collect::<Vec<_>>())
            .bind(appends().map(expected).collect::<Vec<_>>())
            .bind(appends().map(|append| append.content().as_bytes().to_vec()).collect::<Vec<_>>())
            .bind(appends().map(count).collect::<Vec<_>>())
            .bind(texts(|event| event.kind.as_str()))
            .bind(texts(|event| event.payload.as_str()))
            .bind(texts(|event| event.metadata.as_str()))
            .fetch_one(&mut self.shell)
            .await
            .expect("decided");
        let bigs = |column: usize| row.get::<Option<Vec<Option<i64>>>, _>(column).unwrap_or_default();
        let (lasts, times, revisions) = (bigs(0), bigs(1), bigs(2));
        let behind = row.get::<Option<Vec<Option<bool>>>, _>(3).unwrap_or_default();
        let chains = row.get::<Option<Vec<Option<Vec<u8>>>>, _>(4).unwrap_or_default();
        assert!(bigs(5).is_empty(), "nobody else holds a partition");
        assert!(lasts.is_empty() || lasts.len() == calls.len(), "by append");
        let granted = |nth: usize| {
            Some(Granted {
                last: lasts[nth]?,
                time: times[nth].expect("of a granted append"),
                revision: revisions[nth].expect("of a granted append"),
                behind: behind[nth].expect("of a granted append"),
                chain: chains[nth].clone().expect("of a granted append"),
            })
        };
        (0..lasts.len()).filter_map(|nth| granted(nth).map(|granted| (nth, granted))).collect()
    }

    /// All that is stored, as text.
    async fn stored(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["partition", "log", "rejection", "evidence_budget"] {
            let sql = format!("select to_jsonb(t)::text from fenced_ledger.{table} t order by 1");
            let rows: Vec<String> =
                sqlx::query_scalar(self.place.sql(&sql)).fetch_all(&mut self.shell).await.expect("read");
            all.extend(rows);
        }
        all
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Granted {
    last: i64,
    time: i64,
    revision: i64,
    behind: bool,
    chain: Vec<u8>,
}

impl Granted {
    fn of(appended: &Appended) -> Self {
        Self {
            last: appended.entry.last.get(),
            time: appended.entry.recorded_at.as_micros(),
            revision: i64::try_from(appended.judged.revision.get()).expect("small"),
            behind: appended.judged.clock_behind,
            chain: appended.entry.chain.as_bytes().to_vec(),
        }
    }
}

/// One of the appends of a round: good, forged, replayed, conflicting or under an id that was used.
fn call(random: &mut Random, leases: &[Lease], old: &[Lease], sent: &[Append], heads: &[i64]) -> (Lease, Append) {
    let at = random.below(leases.len());
    let mut lease = leases[at].clone();
    match random.below(12) {
        0 => lease.holder = holder("forger"),
        1 => lease.acquisition = AcquisitionId::from_uuid(random.uuid()).expect("not nil"),
        2 => lease.generation = Generation::new(lease.generation.get() + 1).expect("small"),
        3 if !old.is_empty() => lease = old[random.below(old.len())].clone(),
        4 => lease.partition = partition("never claimed"),
        _ => {}
    }
    let text = format!("{} é \\ ' {}", random.below(1000), "x".repeat(random.below(200)));
    let events: Vec<_> = (0..=random.below(3)).map(|nth| event(&format!("{text}/{nth}"))).collect();
    let mut append = match random.below(8) {
        0 if !sent.is_empty() => sent[random.below(sent.len())].clone(),
        1 if !sent.is_empty() => Append::with_id(sent[random.below(sent.len())].id(), events).expect("small"),
        // The id of a claim.
        2 => Append::with_id(AppendId::from_uuid(lease.acquisition.as_uuid()).expect("an id"), events).expect("small"),
        _ => Append::with_id(AppendId::from_uuid(random.uuid()).expect("not nil"), events).expect("small"),
    };
    match random.below(4) {
        0 => append = append.expecting(Position::new(heads[at]).expect("positive")),
        1 => append = append.expecting(Position::new(1 + heads[at].min(3)).expect("positive")),
        _ => {}
    }
    (lease, append)
}

/// What a round does before its appends, on every world alike; and what the worlds then know.
async fn between(
    worlds: &mut [World; 3],
    random: &mut Random,
    leases: &mut [Lease],
    old: &mut Vec<Lease>,
    now: &mut i64,
) {
    let at = random.below(leases.len());
    match random.below(7) {
        // To a lease's last microsecond, and to its end.
        0 => *now = leases[at].expires_at.as_micros() - 1,
        1 => *now = leases[at].expires_at.as_micros(),
        2 => *now -= 500_000,
        3 => *now += 1_000,
        4 => {
            for world in worlds.iter() {
                let _ = world.ledger.renew(&leases[at], None).await;
            }
        }
        5 => {
            for world in worlds.iter() {
                let _ = world.ledger.release(&leases[at]).await;
            }
        }
        _ => {}
    }
    for world in worlds.iter_mut() {
        world.step(*now).await;
    }
    // A lease that has ended is claimed anew, now and then.
    let acquisition = AcquisitionId::from_uuid(random.uuid()).expect("not nil");
    let by = holder(&format!("h{}", random.below(100)));
    if random.below(2) == 0 {
        let mut claimed: Option<Result<Claimed>> = None;
        for world in worlds.iter() {
            let observed = world.ledger.observe(&leases[at].partition).await.expect("observed").observation();
            let claim = Claim::new(leases[at].partition.clone(), by.clone(), seconds(5), observed);
            claimed = Some(world.ledger.claim(&claim.with_acquisition(acquisition)).await);
        }
        if let Some(Ok(claimed)) = claimed {
            old.push(std::mem::replace(&mut leases[at], claimed.lease));
        }
    }
}

#[tokio::test]
async fn a_group_decides_as_the_single_form_does() {
    for wanted in Wanted::BOTH {
        for seed in 0..u64::try_from(scale(1, 8)).expect("small") {
            let mut random = Random(seed);
            let mut worlds = [World::new(wanted).await, World::new(wanted).await, World::new(wanted).await];
            let (mut leases, mut old, mut sent, mut now) = (Vec::new(), Vec::new(), Vec::new(), 1_700_000_000_000_000);
            for nth in 0..4 {
                let acquisition = AcquisitionId::from_uuid(random.uuid()).expect("not nil");
                let claim = Claim::new(
                    partition(&format!("p/{nth}")),
                    holder("a"),
                    seconds(5),
                    ledger_core::Observation::NeverClaimed,
                );
                for world in &worlds {
                    let claimed =
                        world.ledger.claim(&claim.clone().with_acquisition(acquisition)).await.expect("claimed");
                    leases.truncate(nth);
                    leases.push(claimed.lease);
                }
            }
            let (mut granted_in_all, mut refused_in_all) = (0, 0);
            for round in 0..20 {
                let place = format!("{wanted}, seed {seed}, round {round}");
                between(&mut worlds, &mut random, &mut leases, &mut old, &mut now).await;
                let mut heads = Vec::new();
                for lease in &leases {
                    let state = worlds[0].ledger.observe(&lease.partition).await.expect("observed");
                    heads.push(state.tenure.expect("claimed").head.get());
                }
                let mut calls: Vec<(Lease, Append)> = Vec::new();
                for _ in 0..=random.below(14) {
                    let one = call(&mut random, &leases, &old, &sent, &heads);
                    // No id twice in one call.
                    if calls.iter().all(|(_, other)| other.id() != one.1.id()) {
                        calls.push(one);
                    }
                }
                // Those of a lease side by side, as a group has them.
                let lanes: Vec<Lease> = calls.iter().map(|(lease, _)| lease.clone()).collect();
                calls.sort_by_key(|(lease, _)| lanes.iter().position(|other| other == lease));
                let [by_group, by_answers, by_order] = &mut worlds;
                let granted = by_group.group(&calls).await;
                let rest = || (0..calls.len()).filter(|nth| !granted.contains_key(nth));

                // One by one as they were sent: the same are granted, and nothing else.
                for (nth, (lease, append)) in calls.iter().enumerate() {
                    let answer = by_order.ledger.append(lease, append).await;
                    let fresh = answer.as_ref().ok().filter(|appended| !appended.replayed).map(Granted::of);
                    assert_eq!(granted.get(&nth), fresh.as_ref(), "{place}, append {nth}: {answer:?}");
                }
                // One by one as the group answered: the granted first, then the others by the single form.
                for nth in granted.keys() {
                    let (lease, append) = &calls[*nth];
                    let appended = by_answers.ledger.append(lease, append).await.expect("granted");
                    assert_eq!(Some(&Granted::of(&appended)), granted.get(nth), "{place}");
                }
                for nth in rest() {
                    let (lease, append) = &calls[nth];
                    let (one, other) =
                        (by_group.ledger.append(lease, append).await, by_answers.ledger.append(lease, append).await);
                    assert_eq!(format!("{one:?}"), format!("{other:?}"), "{place}, append {nth}");
                    // The third world goes on as the others do: a conflict of positions may be none by now.
                    if one.as_ref().is_ok_and(|appended| !appended.replayed) {
                        by_order.ledger.append(lease, append).await.expect("granted there too");
                    }
                    refused_in_all += usize::from(one.is_err());
                }
                granted_in_all += granted.len();
                let (one, other) = (by_group.stored().await, by_answers.stored().await);
                assert!(one == other, "{place}: rows differ:\n{one:#?}\n{other:#?}");
                sent.extend(calls.into_iter().map(|(_, append)| append));
            }
            assert!(granted_in_all > 10 && refused_in_all > 10, "{granted_in_all} granted, {refused_in_all} refused");
            for world in worlds {
                for lease in &leases {
                    let verified = world.ledger.verify(&lease.partition, None).await.expect("read");
                    assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
                }
                world.place.drop().await;
            }
        }
    }
}

/// Groups against claims of expired leases, renewals, releases and a session that holds a partition and lets it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_stand_their_ground_beside_takeovers_and_blockers() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let (one, other) = (place.open().await, place.open().await);
        let (stop, landed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let names: Vec<String> = (0..4).map(|nth| format!("p/{nth}")).collect();
        let mut tasks = Vec::new();
        for (nth, name) in names.iter().cycle().take(8).enumerate() {
            // Two rivals for each partition, each with 6 appends at once under whatever lease it has.
            let ledger = if nth < 4 { one.clone() } else { other.clone() };
            let (name, stop, landed) = (partition(name), stop.clone(), landed.clone());
            let mut random = Random(u64::try_from(nth).expect("small"));
            tasks.push(tokio::spawn(async move {
                let mut answers: Vec<(Generation, Append, Answer)> = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let observed = ledger.observe(&name).await.expect("observed").observation();
                    let ttl = Ttl::from_millis(30).expect("a TTL");
                    let claim = Claim::new(name.clone(), holder(&format!("rival-{nth}")), ttl, observed);
                    let Ok(claimed) = ledger.claim(&claim).await else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    let lease = claimed.lease;
                    for _ in 0..random.below(6) {
                        let calls: Vec<_> = (0..6)
                            .map(|_| {
                                let (ledger, lease, append) = (ledger.clone(), lease.clone(), append("x"));
                                tokio::spawn(async move {
                                    let answer = ledger.append(&lease, &append).await;
                                    (lease.generation, append, Answer::of(answer))
                                })
                            })
                            .collect();
                        for call in calls {
                            answers.push(call.await.expect("no panic"));
                        }
                        if random.below(3) == 0 {
                            let _ = ledger.renew(&lease, None).await;
                        }
                    }
                    let taken = answers.iter().filter(|(.., answer)| *answer == Answer::Landed).count();
                    landed.fetch_max(u64::try_from(taken).expect("small"), Ordering::SeqCst);
                    if random.below(2) == 0 {
                        let _ = ledger.release(&lease).await;
                    }
                }
                answers
            }));
        }
        let blocker = tokio::spawn({
            let (mut session, stop) = (place.shell().await, stop.clone());
            let lock = format!("select 1 from {}.partition where name = $1 for no key update", place.schema.name());
            async move {
                let mut random = Random(99);
                while !stop.load(Ordering::SeqCst) {
                    session.execute("begin").await.expect("begun");
                    let held = sqlx::query(sqlx::AssertSqlSafe(lock.clone())).bind(format!("p/{}", random.below(4)));
                    held.execute(&mut session).await.expect("locked");
                    // Past a lease's expiry, now and then: who waits is judged by the time after the wait (T4).
                    let millis = [1, 5, 40][random.below(3)];
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    session.execute("rollback").await.expect("ended");
                }
            }
        });
        let full = u64::try_from(scale(40, 400)).expect("small");
        let start = std::time::Instant::now();
        while landed.load(Ordering::SeqCst) < full && start.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.store(true, Ordering::SeqCst);
        blocker.await.expect("no panic");
        let mut answers = Vec::new();
        for task in tasks {
            answers.extend(task.await.expect("no panic"));
        }
        let mut stored: BTreeMap<AppendId, Vec<Generation>> = BTreeMap::new();
        for name in &names {
            let name = partition(name);
            let verified = one.verify(&name, None).await.expect("read");
            assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
            let mut from = Position::FIRST;
            let mut newest = 0;
            loop {
                let page = one.read(&name, from, PageSize::MAX).await.expect("read");
                for event in &page.events {
                    // C6: nothing of an earlier generation stands behind a claim.
                    assert!(event.entry.generation.get() >= newest, "{wanted}: {event:?}");
                    newest = event.entry.generation.get();
                    if let Some(id) = event.entry.id {
                        stored.entry(id).or_default().push(event.entry.generation);
                    }
                }
                let Some(last) = page.events.last() else { break };
                from = Position::new(last.position.get() + 1).expect("positive");
            }
        }
        let refused = answers.iter().filter(|(.., answer)| *answer == Answer::Refused).count();
        assert!(refused > 0, "{wanted}: no append came too late");
        for (generation, append, answer) in answers {
            let expected = if answer == Answer::Landed { Some(vec![generation]) } else { None };
            assert_eq!(stored.get(&append.id()).cloned(), expected, "{wanted}");
        }
        place.drop().await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Landed,
    Refused,
}

impl Answer {
    fn of(answer: Result<Appended>) -> Self {
        match answer {
            Ok(appended) if !appended.replayed => Self::Landed,
            Err(LedgerError::Rejected(rejection))
                if matches!(rejection.reason, Reason::Expired | Reason::StaleGeneration | Reason::Released) =>
            {
                Self::Refused
            }
            other => panic!("{other:?}"),
        }
    }
}
