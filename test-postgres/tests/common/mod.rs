//! What the tests of this crate share.

use std::time::{Duration, Instant};

use test_postgres::{Error, Wanted};

/// Runs a test on the oldest and on the newest major. A missing one fails it, with the command that helps.
pub(crate) fn on_both(test: impl Fn(Wanted) -> Result<(), Error>) {
    for wanted in Wanted::BOTH {
        if let Err(e) = test(wanted) {
            panic!("on {wanted}: {e}\n{e:?}");
        }
    }
}

/// Waits up to ten seconds.
pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
