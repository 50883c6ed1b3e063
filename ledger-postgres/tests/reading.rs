//! Goal: a stream keeps nothing open on the server while its consumer does something else (D6); a page whose sample of
//! sizes misleads is bounded all the same (D5); entries that end elsewhere are found, however many they are (D2, D7).

mod common;

use std::time::{Duration, Instant};

use common::{Place, Wanted, claim, event, noise, partition, seconds};
use futures_util::TryStreamExt;
use ledger_core::{Append, Event, EventKind, FencedLedger, FencedLedgerExt, Lease, NewEvent, PageSize, Position};
use ledger_postgres::PostgresLedger;

async fn write(ledger: &PostgresLedger, lease: &Lease, events: Vec<NewEvent>) {
    ledger.append(lease, &Append::new(events).expect("an append")).await.expect("appended");
}

async fn all(ledger: &PostgresLedger, name: &str) -> Vec<Event> {
    ledger.events(&partition(name), Position::FIRST).try_collect().await.expect("read")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_waits_keeps_no_snapshot_and_no_connection() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        // One connection: a read that kept it would hold up the append below.
        let ledger = place.options().connections(1).connect(&place.url).await.expect("opened");
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        for _ in 0..4 {
            write(&ledger, &lease, vec![noise(900_000)]).await;
        }
        let name = partition("p");
        let mut stream = ledger.events(&name, Position::FIRST);
        stream.try_next().await.expect("read");
        let start = Instant::now();
        let busy = "select count(*) from pg_stat_activity where query like '%fenced_ledger%'
                    and pid <> pg_backend_pid() and (state <> 'idle' or backend_xmin is not null)";
        while place.value::<i64>(busy).await > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "a session stays busy for a stream that nobody polls");
            tokio::time::sleep(Duration::from_millis(10)).await; // Between two looks.
        }
        write(&ledger, &lease, vec![event("meanwhile")]).await;
        let rest: Vec<Event> = stream.try_collect().await.expect("read");
        assert_eq!(rest.len(), 5);
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_behind_many_small_ones_do_not_fill_a_page() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.options().connections(1).connect(&place.url).await.expect("opened");
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        // More than the statement looks at to tell how many fit.
        write(&ledger, &lease, (0..100).map(|_| event("small")).collect()).await;
        for _ in 0..10 {
            write(&ledger, &lease, vec![noise(200_000), event("small")]).await;
        }
        let size = PageSize::MAX.with_bytes(100_000).expect("a size");
        let (mut found, mut from) = (Vec::new(), Some(Position::FIRST));
        while let Some(position) = from {
            let page = ledger.read(&partition("p"), position, size).await.expect("read");
            let bytes: usize = page.events.iter().map(Event::bytes).sum();
            assert!(page.events.len() == 1 || bytes <= 100_000, "{} events, {bytes} bytes", page.events.len());
            found.extend(page.events);
            from = page.next;
        }
        assert_eq!(found, all(&ledger, "p").await);
        assert_eq!(found.len(), 121);
        place.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_end_on_another_kind_are_found() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let ledger = place.open().await;
        let lease = claim(&ledger, "p", "a", seconds(600)).await.lease;
        let rare = EventKind::new("rare").expect("a kind");
        let first = NewEvent::of(&rare, &1).expect("an event");
        // More than are asked about at a time.
        for _ in 0..70 {
            write(&ledger, &lease, vec![first.clone(), event("other")]).await;
        }
        let page = ledger.read_kind(&partition("p"), &rare, Position::FIRST, PageSize::MAX).await.expect("read");
        let expected: Vec<Event> = all(&ledger, "p").await.into_iter().filter(|event| event.kind == rare).collect();
        assert_eq!(expected.len(), 70);
        assert_eq!(page.events, expected);
        assert_eq!(page.next, None);
        place.drop().await;
    }
}
