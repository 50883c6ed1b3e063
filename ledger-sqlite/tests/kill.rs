//! Goal: a process that is killed loses nothing that it was acknowledged, leaves no half append behind, and stops nobody.
//! Method: real processes, SIGKILL at odd moments, several times over one file; each says what it was acknowledged only
//! after it was.

mod common;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Place, event, given_file, millis, partition, process, texts};
use ledger_core::{Append, FencedLedger, FencedLedgerExt, Ttl, Verification};
use ledger_sqlite::SqliteLedger;

const CALLERS: usize = 16;

fn start(place: &Place, name: &str) -> Child {
    process("appends_until_it_is_killed", &place.file, &[("PARTITION", name)])
}

#[tokio::test]
async fn what_was_acknowledged_before_a_kill_is_there_and_nothing_is_halved() {
    let place = Place::new();
    let mut expected = HashSet::new();
    for round in 0..8_u64 {
        let mut child = start(&place, "jobs");
        let (first, reader) = read(&mut child);
        // Not before the first acknowledgement, or a slow machine tests nothing.
        first.recv().expect("something is acknowledged");
        std::thread::sleep(Duration::from_millis(10 + 23 * round % 90));
        child.kill().expect("killed");
        child.wait().expect("gone");
        expected.extend(reader.join().expect("no panic").0);

        let ledger = SqliteLedger::open(&place.file).expect("opened after a kill");
        let stored = texts(&ledger, "jobs").await;
        let found: HashSet<_> =
            stored.iter().map(|text| text.trim_end_matches("/a").trim_end_matches("/b").to_owned()).collect();
        let lost: Vec<_> = expected.difference(&found).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
        assert_eq!(stored.len(), 2 * found.len(), "each append has its two events, or none");
        let verified = ledger.verify(&partition("jobs"), None).await.expect("verified");
        assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
        ledger.close().await;
    }
    assert!(expected.len() > 100, "only {} appends", expected.len());
}

#[tokio::test]
async fn the_others_go_on_when_one_is_killed() {
    let place = Place::new();
    drop(SqliteLedger::open(&place.file).expect("opened"));
    let mut children: Vec<_> = ["one", "two", "three"].into_iter().map(|name| (name, start(&place, name))).collect();
    let readers: Vec<_> = children.iter_mut().map(|(_, child)| read(child)).collect();
    for (first, _) in &readers {
        first.recv().expect("something is acknowledged");
    }
    let killed = Instant::now();
    children[0].1.kill().expect("killed");
    std::thread::sleep(Duration::from_millis(400));
    for (_, child) in &mut children[1..] {
        child.kill().expect("killed");
    }
    let ledger = SqliteLedger::open(&place.file).expect("opened");
    for ((name, child), (_, reader)) in children.iter_mut().zip(readers) {
        child.wait().expect("gone");
        let (said, last) = reader.join().expect("no panic");
        assert!(
            *name == "one" || last.duration_since(killed) > Duration::from_millis(200),
            "{name} stood still after the other was killed"
        );
        let stored: HashSet<_> = texts(&ledger, name).await.into_iter().collect();
        let lost: Vec<_> = said.iter().filter(|text| !stored.contains(&format!("{text}/a"))).collect();
        assert!(lost.is_empty(), "{name}: acknowledged and lost: {lost:?}");
        let verified = ledger.verify(&partition(name), None).await.expect("verified");
        assert!(matches!(verified, Verification::Clean { .. }), "{name}: {verified:?}");
    }
}

type Acknowledged = (Vec<String>, Instant);

/// Reads what a process says that it was acknowledged, until it is gone; with the moment of the last. Tells the first at
/// once. A line that the kill has cut does not count.
fn read(child: &mut Child) -> (Receiver<()>, JoinHandle<Acknowledged>) {
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let (tell, first) = channel();
    let reader = std::thread::spawn(move || {
        let (mut said, mut last, mut line) = (Vec::new(), Instant::now(), String::new());
        while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if let Some(text) = line.strip_suffix('\n').and_then(|line| line.split("ACK ").nth(1)) {
                said.push(text.to_owned());
                last = Instant::now();
                let _ = tell.send(());
            }
            line.clear();
        }
        (said, last)
    });
    (first, reader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts"]
async fn appends_until_it_is_killed() {
    let name = std::env::var("PARTITION").expect("given");
    let ledger = SqliteLedger::open(given_file()).expect("opened");
    // A takeover from the one that was killed: as soon as its short lease has run out.
    let by = common::holder(&format!("process-{}", std::process::id()));
    let ttl: Ttl = millis(1_000);
    let claimed = ledger.claim_when_free(&partition(&name), &by, ttl, Duration::from_secs(20)).await.expect("claimed");
    let lease = claimed.lease;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (ledger, lease, by) = (ledger.clone(), lease.clone(), by.clone());
            tokio::spawn(async move {
                for number in 0.. {
                    let text = format!("{by}-{caller}-{number}");
                    let pair = [event(&format!("{text}/a")), event(&format!("{text}/b"))];
                    match ledger.append(&lease, &Append::new(pair).expect("an append")).await {
                        Ok(_) => println!("ACK {text}"),
                        Err(error) if error.rejection().is_some() => break,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    while ledger.renew(&lease, None).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for caller in callers {
        caller.await.expect("no panic");
    }
}
