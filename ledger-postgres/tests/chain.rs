//! Goal: SQL computes the chain that the core computes (I1), and writes the bytes of the ledger's own events that the
//! core writes.

mod common;

use std::time::Duration;

use common::{Place, Wanted, append, claim, holder, partition, seconds};
use ledger_core::{
    Advance, Claim, Digest, Entry, FencedLedger, FencedLedgerExt, Generation, LedgerId, Note, OwnEvent, PartitionId,
    Position, Verification,
};
use serde::Deserialize;
use sqlx::Row;

#[derive(Deserialize)]
struct Vectors {
    ledger: LedgerId,
    partition: PartitionId,
    start: Digest,
    entries: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    events: Vec<[String; 3]>,
    entry: Entry,
}

fn vectors() -> Vectors {
    let text = include_str!("../../docs/chain-vectors.json");
    serde_json::from_str(text).expect("as chain.py writes them")
}

#[tokio::test]
async fn the_vectors_hold_in_sql_whatever_the_session_is_set_to() {
    let vectors = vectors();
    let settings = [
        "select 1",
        "set standard_conforming_strings = off; set escape_string_warning = off; set bytea_output = escape",
        "set timezone = 'Asia/Kathmandu'; set datestyle = 'German'; set intervalstyle = sql_standard",
        "set search_path = pg_temp; set client_encoding = LATIN1; set jit_above_cost = 0",
    ];
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        for setting in settings {
            let mut shell = place.shell().await;
            sqlx::raw_sql(setting).execute(&mut shell).await.expect(setting);
            if setting.contains("LATIN1") {
                // The driver reads UTF-8: only that the session can be set so matters, and is not read back through.
                sqlx::raw_sql("set client_encoding = UTF8").execute(&mut shell).await.expect("set");
            }
            let sql = "select encode(fenced_ledger.chain_start($1::uuid, $2), 'hex')";
            let start: String = sqlx::query(place.sql(sql))
                .bind(vectors.ledger.to_string())
                .bind(vectors.partition.as_str())
                .fetch_one(&mut shell)
                .await
                .expect("computed")
                .get(0);
            assert_eq!(start, vectors.start.to_string());
            let mut chain = vectors.start;
            for Vector { events, entry } in &vectors.entries {
                let column = |nth: usize| events.iter().map(|event| event[nth].clone()).collect::<Vec<_>>();
                let sql = "select encode(fenced_ledger.chain_content($1, $2, $3), 'hex'),
                    encode(fenced_ledger.chain_next($4, $5::uuid, $6, $7, $8, $9, $10, $11::uuid, $12, $13::uuid, $14), 'hex')";
                let row = sqlx::query(place.sql(sql))
                    .bind(column(0))
                    .bind(column(1))
                    .bind(column(2))
                    .bind(chain.as_bytes().as_slice())
                    .bind(vectors.ledger.to_string())
                    .bind(vectors.partition.as_str())
                    .bind(entry.generation.get())
                    .bind(entry.first.get())
                    .bind(entry.last.get())
                    .bind(entry.recorded_at.as_micros())
                    .bind(entry.acquisition.to_string())
                    .bind(entry.holder.as_str())
                    .bind(entry.id.map(|id| id.to_string()))
                    .bind(entry.content.as_bytes().as_slice())
                    .fetch_one(&mut shell)
                    .await
                    .expect("computed");
                assert_eq!(row.get::<String, _>(0), entry.content.to_string());
                assert_eq!(row.get::<String, _>(1), entry.chain.to_string());
                chain = entry.chain;
            }
        }
        place.drop().await;
    }
}

#[tokio::test]
async fn the_ledgers_own_events_have_the_bytes_that_the_core_writes() {
    let place = Place::new(Wanted::OLDEST).await.with_clock().await;
    let ledger = place.open().await;
    let name = partition("jobs/\"á\\ 1");
    // Each basis once: first, expired, released, ended, advanced.
    let odd = "w \"x\" \\ /é\u{2028}👩‍🚒";
    let first = claim(&ledger, name.as_str(), odd, seconds(5)).await.lease;
    ledger.append(&first, &append("1")).await.expect("appended");
    place.advance(Duration::from_secs(6)).await;
    let second = claim(&ledger, name.as_str(), odd, seconds(5)).await.lease;
    ledger.release(&second).await.expect("released");
    let third = claim(&ledger, name.as_str(), "c", seconds(5)).await.lease;
    let reason = Note::new("clock \"had\" jumped \\").expect("a note");
    ledger.end_tenure(&name, ledger_core::Observation::of(&third), &reason).await.expect("ended");
    let observed = ledger.observe(&name).await.expect("observed").observation();
    ledger.claim(&Claim::new(name.clone(), holder("d"), seconds(5), observed)).await.expect("claimed");

    let reason = Note::new("restored \"from\" \\ a copy").expect("a note");
    for above in [Some(Generation::new(8).expect("positive")), None] {
        let step = Advance::new(name.clone(), holder(odd), above, reason.clone());
        ledger.advance(&step).await.expect("advanced");
    }
    let observed = ledger.observe(&name).await.expect("observed").observation();
    ledger.claim(&Claim::new(name.clone(), holder("e"), seconds(5), observed)).await.expect("claimed");
    let never = partition("never/\"claimed\"");
    ledger.advance(&Advance::new(never.clone(), holder(odd), None, reason)).await.expect("advanced");

    let mut page = ledger.read(&name, Position::FIRST, Default::default()).await.expect("read");
    page.events.extend(ledger.read(&never, Position::FIRST, Default::default()).await.expect("read").events);
    let mut kinds = Vec::new();
    for event in page.events.iter().filter(|event| event.kind.is_own()) {
        let own = OwnEvent::read(&event.kind, &event.payload).expect("readable").expect("the ledger's own");
        let written = own.to_new_event();
        assert_eq!(written.payload.as_str(), event.payload.as_str());
        assert_eq!(written.metadata.as_str(), event.metadata.as_str());
        kinds.push(event.kind.as_str().to_owned());
    }
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    assert_eq!(kinds[..6], ["$claimed", "$claimed", "$released", "$claimed", "$ended", "$claimed"]);
    assert_eq!(kinds[6..], ["$advanced", "$advanced", "$claimed", "$advanced"]);
    for (name, entries) in [(&name, 10), (&never, 1)] {
        let verified = ledger.verify(name, None).await.expect("read");
        assert!(matches!(verified, Verification::Clean { entries: found, .. } if found == entries), "{verified:?}");
    }
    place.drop().await;
}
