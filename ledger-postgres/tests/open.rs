//! Goal: a server or a schema that can not keep what it acknowledges is refused at open, and the error names what is
//! wrong (S1, S4).

mod common;

use common::{Place, Wanted, claim, seconds};
use ledger_core::{Capability, Durability, FencedLedger, LedgerError};
use ledger_postgres::{Options, Schema};
use test_postgres::Server;

async fn refused(place: &Place, url: &str, options: Options) -> String {
    let error = options.schema(place.schema.clone()).connect(url).await.expect_err("refused");
    assert!(matches!(error, LedgerError::Invalid(_)), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn settings_that_lose_what_was_acknowledged_are_refused_and_named() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        for (setting, named) in [
            ("-c synchronous_commit=off", "synchronous_commit"),
            ("-c default_transaction_isolation=serializable", "isolation"),
            ("-c default_transaction_isolation=repeatable\\ read", "isolation"),
        ] {
            let url = format!("{}&options={}", place.url, setting.replace(' ', "%20").replace('=', "%3D"));
            let why = refused(&place, &url, Options::new()).await;
            assert!(why.contains(named), "{setting}: {why}");
        }
        for kept in ["-c synchronous_commit=local", "-c synchronous_commit=remote_apply"] {
            let url = format!("{}&options={}", place.url, kept.replace(' ', "%20").replace('=', "%3D"));
            Options::new().schema(place.schema.clone()).connect(&url).await.expect(kept);
        }
        place.drop().await;
    }
    for (setting, value) in [("fsync", "off"), ("full_page_writes", "off")] {
        let server: Server = test_postgres::Options::new(Wanted::OLDEST).set(setting, value).start().expect("a server");
        let place = Place::at(server.url(), "l").await;
        let why = refused(&place, &server.url(), Options::new()).await;
        assert!(why.contains(setting), "{why}");
    }
}

#[tokio::test]
async fn another_encoding_and_a_standby_are_refused() {
    let server: Server = test_postgres::Options::new(Wanted::OLDEST).start().expect("a server");
    server.query("create database latin encoding 'LATIN1' locale 'C' template template0").expect("created");
    let place = Place::at(server.url_of("latin"), "l").await;
    assert!(refused(&place, &place.url, Options::new()).await.contains("LATIN1"));

    let place = Place::at(server.url(), "l").await;
    let standby = server.standby("s").expect("a standby");
    standby.catch_up_with(&server).expect("caught up");
    assert!(refused(&place, &standby.url(), Options::new()).await.contains("recovery"));
}

#[tokio::test]
async fn a_tests_clock_that_was_left_behind_is_refused() {
    let place = Place::new(Wanted::NEWEST).await;
    Options::new().schema(place.schema.clone()).connect(&place.url).await.expect("the real clock");
    let place = place.with_clock().await;
    assert!(refused(&place, &place.url, Options::new()).await.contains("clock"));
    Options::new().schema(place.schema.clone()).accept_other_clock(true).connect(&place.url).await.expect("accepted");
    place.drop().await;
}

#[tokio::test]
async fn a_schema_that_is_not_there_is_refused_and_the_remedy_named() {
    let place = Place::new(Wanted::OLDEST).await;
    let missing = Options::new().schema(Schema::new("not_there").expect("a name"));
    let error = missing.connect(&place.url).await.expect_err("refused");
    assert!(error.to_string().contains("migrate"), "{error}");
    place.drop().await;
}

#[tokio::test]
async fn a_ledger_says_what_it_is() {
    for (wanted, major) in [(Wanted::OLDEST, "15."), (Wanted::NEWEST, "18.")] {
        let place = Place::new(wanted).await;
        let ledger = Options::new().schema(place.schema.clone()).connect(&place.url).await.expect("opened");
        let described = ledger.describe().await.expect("described");
        assert_eq!((described.engine.as_str(), described.durability), ("PostgreSQL", Durability::MachineCrash));
        assert!(described.version.starts_with(major), "{}", described.version);
        assert_eq!(described.capabilities, [Capability::ManyProcesses, Capability::CallerTransactions]);
        assert_eq!(described.ledger, claim(&ledger, "p", "a", seconds(5)).await.lease.ledger);
        place.drop().await;
    }
}
