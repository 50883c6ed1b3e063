//! The suite as a library: a skip is never a pass, and whatever a ledger does, there is a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use conformance_tests::{
    CASES, Harness, HarnessError, Hook, Outcome, Storage, Suite, UNTESTED, run_declared_skips, run_test,
};
use ledger_core::FencedLedger;
use ledger_memory::MemoryLedger;

/// What a backend's author begins with: no hook, and the host's clock.
struct Plain;

struct PlainStorage(MemoryLedger);

#[async_trait]
impl Harness for Plain {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        Ok(Box::new(PlainStorage(MemoryLedger::new())))
    }
}

#[async_trait]
impl Storage for PlainStorage {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        Ok(Arc::new(self.0.clone()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harness_without_hooks_is_tested_in_part_and_told_so() {
    let report = Suite::new().at_once(16).run(&Plain).await;
    assert_eq!(report.failed().count(), 0, "\n{report}");
    assert!(report.partial);
    assert_eq!(report.cases.len(), CASES.len(), "every case is in the report");
    for (case, known) in report.cases.iter().zip(CASES) {
        assert_eq!(case.id, known.id);
        let skipped = matches!(&case.outcome, Outcome::Skipped { hook, .. } if known.needs.contains(hook));
        assert_eq!(skipped, !known.needs.is_empty(), "{}: {:?}", case.id, case.outcome);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_says_the_same_as_json_and_as_a_table() {
    let report =
        Suite::new().only(|case| case.id.starts_with("par04") || case.id.starts_with("rst01")).run(&Plain).await;
    let json: serde_json::Value = serde_json::from_str(&report.to_json().expect("a report is JSON")).expect("JSON");
    assert_eq!(json["suite"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["backend"]["engine"], "memory");
    assert_eq!(json["partial"], true);
    let [passed, skipped] = json["cases"].as_array().expect("cases").as_slice() else { panic!("two cases: {json}") };
    assert_eq!((&passed["id"], &passed["outcome"]), (&"par04_ledger_says_what_it_is".into(), &"passed".into()));
    assert_eq!((&skipped["outcome"], &skipped["hook"]), (&"skipped".into(), &"restart".into()));
    assert!(skipped["reason"].as_str().is_some_and(|reason| reason.contains("restart")), "{skipped}");
    let table = report.to_string();
    for text in ["par04_ledger_says_what_it_is", "passed", "skipped", "1 passed, 0 failed, 1 skipped (partial)"] {
        assert!(table.contains(text), "{text} in\n{table}");
    }
}

/// The shape of the JSON, with the type of each value in its place: a new field is a minor release, any other change a
/// major one. `UPDATE=1` writes it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_of_a_report_has_the_shape_that_is_promised() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report-shape.json");
    let suite = Suite::new().only(|case| ["par04", "rst01"].contains(&&case.id[..5])).random(1, 10);
    let mut report = suite.run(&Plain).await;
    let mut failed = report.cases[0].clone();
    failed.outcome = Outcome::Failed { violation: conformance_tests::Violation::new("this", "that") };
    report.cases.push(failed);
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let shape = serde_json::to_string_pretty(&shape(&json)).expect("a shape is JSON") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &shape).expect("the shape is written");
    }
    assert_eq!(shape, std::fs::read_to_string(FILE).expect("the shape is stored"));
}

fn shape(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Null => "null".into(),
        serde_json::Value::Bool(_) => "boolean".into(),
        serde_json::Value::Number(_) => "number".into(),
        serde_json::Value::String(_) => "string".into(),
        serde_json::Value::Array(values) => values.iter().map(shape).collect(),
        serde_json::Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
    }
}

/// A harness that hangs or panics when it opens a handle, after so many good ones of each storage.
struct Unruly {
    good_handles: usize,
    hangs: bool,
}

struct UnrulyStorage {
    good_handles: AtomicUsize,
    hangs: bool,
}

#[async_trait]
impl Harness for Unruly {
    async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
        Ok(Box::new(UnrulyStorage { good_handles: AtomicUsize::new(self.good_handles), hangs: self.hangs }))
    }
}

#[async_trait]
impl Storage for UnrulyStorage {
    async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
        match self.good_handles.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Ok(Arc::new(MemoryLedger::new())),
            Err(_) if self.hangs => std::future::pending().await,
            Err(_) => panic!("the ledger fell over"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_that_hangs_ends_in_time_and_fails() {
    // `tko01` opens no second handle.
    let suite = Suite::new().only(|case| case.id.starts_with("tko08") || case.id.starts_with("tko01"));
    let report = suite.time_out(Duration::from_secs(1)).run(&Unruly { good_handles: 1, hangs: true }).await;
    assert_eq!(report.counts(), (1, 1, 0), "\n{report}");
    let (_, violation) = report.failed().next().expect("it failed");
    assert!(violation.to_string().contains("in time"), "{violation}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_that_panics_fails_alone() {
    let suite = Suite::new().only(|case| case.id.starts_with("tko08") || case.id.starts_with("tko01"));
    let report = suite.run(&Unruly { good_handles: 1, hangs: false }).await;
    assert_eq!(report.counts(), (1, 1, 0), "\n{report}");
    let (_, violation) = report.failed().next().expect("it failed");
    assert!(violation.to_string().contains("the ledger fell over"), "{violation}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harness_that_panics_or_hangs_is_reported() {
    let suite = Suite::new().only(|case| case.id.starts_with("tko01"));
    for (hangs, says) in [(false, "the ledger fell over"), (true, "nothing within 100ms")] {
        let suite = suite.clone().full(false).time_out(Duration::from_millis(100));
        let report = suite.run(&Unruly { good_handles: 0, hangs }).await;
        assert_eq!(report.backend, None, "it could not be asked");
        let (_, violation) = report.failed().next().expect("it failed");
        assert!(violation.to_string().contains(says), "{violation}");
    }
}

#[test]
#[should_panic(expected = "declare it")]
fn test_of_a_case_that_is_skipped_without_being_declared_fails() {
    run_test(&Plain, "rst01_lease_survives_a_restart");
}

#[test]
#[should_panic(expected = "there is one case")]
fn test_of_a_case_that_does_not_exist_fails() {
    run_test(&Plain, "rst99_no_such_case");
}

#[test]
#[should_panic(expected = "was declared as skipped for want of `clock`")]
fn hook_that_is_declared_as_missing_and_is_there_fails() {
    struct Clocked;
    struct ClockedStorage(ledger_core::ManualClock);
    #[async_trait]
    impl Harness for Clocked {
        async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
            Ok(Box::new(ClockedStorage(ledger_core::ManualClock::default())))
        }
    }
    #[async_trait]
    impl Storage for ClockedStorage {
        async fn open(&self) -> Result<Arc<dyn FencedLedger>, HarnessError> {
            Ok(Arc::new(MemoryLedger::with_clock(self.0.clone())))
        }
        fn clock(&self) -> Option<&dyn conformance_tests::ClockControl> {
            Some(&self.0)
        }
    }
    run_declared_skips(&Clocked, &[Hook::Clock]);
}

#[test]
fn every_rule_has_a_case_or_is_listed_as_untested() {
    let contract = include_str!("../../ledger-core/src/contract.md");
    let rules = contract.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** "));
    let rules: Vec<_> = rules.map(|(rule, _)| rule).filter(|rule| rule.len() <= 3).collect();
    assert!(rules.len() > 40, "the rules are found: {rules:?}");
    for rule in rules {
        let tested = CASES.iter().any(|case| case.rules.contains(&rule));
        let untested = UNTESTED.iter().any(|(known, _)| *known == rule);
        assert!(tested != untested, "{rule}: has a case: {tested}; is listed as untested: {untested}");
    }
}

#[test]
fn cases_have_names_of_their_own_rules_and_reasons() {
    let rules = include_str!("../../ledger-core/src/contract.md");
    let mut ids: Vec<_> = CASES.iter().map(|case| case.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CASES.len(), "each name once");
    assert!(CASES.len() >= 70);
    for case in CASES {
        assert!(!case.rules.is_empty() && !case.why.is_empty(), "{}", case.id);
        for rule in case.rules {
            assert!(rules.contains(&format!("- **{rule}** ")), "{}: rule {rule} is in the contract", case.id);
        }
    }
}

/// The page that maps each demand to its cases names every case, and none that is not.
#[test]
fn page_of_demands_names_each_case() {
    let page = include_str!("../../docs/verification.md");
    let is_short = |word: &&str| {
        let word = word.as_bytes();
        word.len() == 5 && word[..3].iter().all(u8::is_ascii_lowercase) && word[3..].iter().all(u8::is_ascii_digit)
    };
    let named: Vec<&str> = page.split('`').filter(is_short).collect();
    assert!(named.len() > 150, "the ids are found: {}", named.len());
    for id in &named {
        assert!(CASES.iter().any(|case| case.id.starts_with(id)), "{id}");
    }
    for case in CASES {
        assert!(named.contains(&&case.id[..5]), "{} is on the page", case.id);
    }
}
