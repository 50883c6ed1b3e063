//! The suite as a library: runs every case, whatever the one before did, and reports.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};

use crate::{
    CASES, Case, CaseReport, Context, Harness, HarnessError, Hook, Outcome, RandomReport, Report, Stop, Violation,
    random,
};

/// A run of the suite that is about to be made.
#[derive(Clone, Debug)]
pub struct Suite {
    cases: Vec<Case>,
    time_out: Duration,
    at_once: usize,
    full: Option<bool>,
    random: Option<(u64, usize)>,
}

impl Suite {
    /// All cases; full figures where the [harness says so](Harness::full).
    pub fn new() -> Self {
        Self { cases: CASES.to_vec(), time_out: Duration::from_secs(60), at_once: 8, full: None, random: None }
    }

    /// Only the cases that `keep` wants.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&Case) -> bool) -> Self {
        self.cases.retain(keep);
        self
    }

    /// Whether cases that count run with their full figures, whatever the harness says.
    #[must_use]
    pub fn full(mut self, full: bool) -> Self {
        self.full = Some(full);
        self
    }

    /// Also compares the ledger with the model over so many [random](mod@crate::random) operations of a seed.
    #[must_use]
    pub fn random(mut self, seed: u64, operations: usize) -> Self {
        self.random = Some((seed, operations));
        self
    }

    /// How long a case may take before it counts as failed: 60 seconds, if not said otherwise; full figures get ten
    /// times that.
    #[must_use]
    pub fn time_out(mut self, time_out: Duration) -> Self {
        self.time_out = time_out;
        self
    }

    /// How many cases run at once, each on a storage of its own: 8, if not said otherwise.
    #[must_use]
    pub fn at_once(mut self, cases: usize) -> Self {
        self.at_once = cases.max(1);
        self
    }

    /// Runs the cases. Never panics; needs a tokio runtime of several threads, with time.
    pub async fn run(&self, harness: &dyn Harness) -> Report {
        // Whatever is wrong here, each case meets it again and reports it.
        let backend = tokio::time::timeout(self.time_out, describe(harness)).await.unwrap_or_default();
        let results = stream::iter(self.cases.iter().copied())
            .map(|case| async move {
                let start = Instant::now();
                let outcome = self.run_case(harness, case).await;
                let (reproduce, took) = (format!("cargo test {}", case.id), start.elapsed());
                CaseReport { id: case.id, family: case.family, rules: case.rules, outcome, reproduce, took }
            })
            .buffered(self.at_once)
            .collect()
            .await;
        let random = match self.random {
            Some((seed, operations)) => Some(self.run_random(harness, seed, operations).await),
            None => None,
        };
        Report::new(backend, results, random)
    }

    async fn run_random(&self, harness: &dyn Harness, seed: u64, operations: usize) -> RandomReport {
        let no_clock = tokio::time::timeout(self.time_out, unwound(harness.provision())).await;
        let no_clock = matches!(no_clock, Ok(Ok(Ok(storage))) if storage.clock().is_none());
        let outcome = if no_clock {
            let reason = "times can not be steered without a clock that can be set".to_owned();
            Outcome::Skipped { hook: Hook::Clock, reason }
        } else {
            match unwound(random::differential(harness, seed, operations)).await {
                Ok(Ok(_)) => Outcome::Passed,
                Ok(Err(difference)) => {
                    let steps = difference.operations.iter().map(|operation| format!("\n      {operation:?}"));
                    let at = format!("the last of{}", steps.collect::<String>());
                    Outcome::Failed {
                        violation: Violation { expected: difference.expected, seen: difference.seen, at },
                    }
                }
                Err(panic) => failed("no panic", &panic_text(panic)),
            }
        };
        let reproduce = format!("conformance_tests::random::differential(&harness, {seed}, {operations}).await");
        RandomReport { seed, operations, outcome, reproduce }
    }

    async fn run_case(&self, harness: &dyn Harness, case: Case) -> Outcome {
        let full = self.full.unwrap_or_else(|| harness.full());
        let limit = if full { self.time_out * 10 } else { self.time_out };
        let provisioned = tokio::time::timeout(
            limit,
            unwound(async {
                let crashes = case.needs.contains(&Hook::Crash);
                let storage = if crashes { harness.provision_to_crash().await? } else { harness.provision().await? };
                Context::new(storage, full).await
            }),
        );
        let context = match provisioned.await {
            Ok(Ok(Ok(context))) => context,
            Ok(Ok(Err(stop))) => return outcome(case, Err(stop)),
            Ok(Err(panic)) => return failed("no panic in the harness", &panic_text(panic)),
            Err(_) => return failed("the harness provides a storage in time", &format!("nothing within {limit:?}")),
        };
        // A task of its own, so that a panic in the case or in the ledger ends this case alone.
        let mut task = tokio::spawn((case.run)(context));
        match tokio::time::timeout(limit, &mut task).await {
            Ok(Ok(verdict)) => outcome(case, verdict),
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(panic) => failed("no panic", &panic_text(panic)),
                Err(error) => failed("the case is not aborted", &error.to_string()),
            },
            Err(_) => {
                task.abort();
                failed("the case ends in time", &format!("it was still running after {limit:?}"))
            }
        }
    }
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}

/// A test runs beside others: what tells a case that hangs from one on a busy machine.
const IN_A_TEST: Duration = Duration::from_secs(120);

/// Runs one case as the body of a test: for [`conformance_tests!`](crate::conformance_tests).
///
/// # Panics
///
/// With the violation, or with the skip: a test that ran nothing must not print as passed.
pub fn run_test(harness: &dyn Harness, id: &str) {
    let report = block_on(Suite::new().time_out(IN_A_TEST).only(|case| case.id == id).run(harness));
    for case in &report.cases {
        match &case.outcome {
            Outcome::Passed => {}
            Outcome::Failed { violation } => {
                let why = CASES.iter().find(|case| case.id == id).map_or("", |case| case.why);
                panic!("{id} ({}) failed\n{violation}\n     why: {why}", case.rules.join(", "))
            }
            Outcome::Skipped { hook, reason } => panic!(
                "{id} did not run: {reason}\ndeclare it: `conformance_tests!(harness, without: {{ {hook}: {reason:?} }})`"
            ),
        }
    }
    assert_eq!(report.cases.len(), 1, "there is one case of the name {id}");
}

/// Demands that the hooks declared as missing are missing, so that a skip can not hide a case that would run: for
/// [`conformance_tests!`](crate::conformance_tests).
///
/// # Panics
///
/// Where a hook that was declared as missing is there.
pub fn run_declared_skips(harness: &dyn Harness, without: &[crate::Hook]) {
    for hook in without {
        let needing = |case: &Case| case.needs.contains(hook) && case.needs.iter().all(|hook| without.contains(hook));
        let report = block_on(Suite::new().only(needing).run(harness));
        for case in report.cases {
            assert!(
                matches!(&case.outcome, Outcome::Skipped { hook, .. } if without.contains(hook)),
                "{} was declared as skipped for want of `{hook}`, but ended otherwise: {:?}",
                case.id,
                case.outcome
            );
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("two threads can be started");
    let value = runtime.block_on(future);
    // A ledger that hangs must not keep the test from reporting so.
    runtime.shutdown_timeout(Duration::from_secs(1));
    value
}

async fn describe(harness: &dyn Harness) -> Option<ledger_core::Description> {
    let described =
        unwound(async { harness.provision().await?.open().await?.describe().await.map_err(HarnessError::from) });
    described.await.ok()?.ok()
}

/// What a future gives, or the panic in it.
async fn unwound<T>(future: impl Future<Output = T>) -> std::thread::Result<T> {
    let mut future = pin!(future);
    // After a panic the future is not polled again, so nothing sees what it left half done.
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn outcome(case: Case, verdict: Result<(), Stop>) -> Outcome {
    match verdict {
        Ok(()) => Outcome::Passed,
        Err(Stop::Violation(violation)) => Outcome::Failed { violation },
        Err(Stop::Skip { hook, reason }) if case.needs.contains(&hook) => Outcome::Skipped { hook, reason },
        Err(Stop::Skip { hook, .. }) => {
            failed("a case asks only for the hooks that it declares", &format!("it asked for `{hook}`"))
        }
    }
}

fn failed(expected: &str, seen: &str) -> Outcome {
    Outcome::Failed { violation: Violation::new(expected, seen) }
}

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".to_owned())
}
