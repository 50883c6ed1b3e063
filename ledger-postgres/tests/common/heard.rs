//! A subscriber that takes down every span and event with all of their fields. `ledger-sqlite` uses it too.

#![allow(unreachable_pub, reason = "`pub` here is `pub` to the tests that use it")]

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The names of the spans, as both crates document them.
pub const SPANS: [&str; 11] = [
    "fenced_ledger.advance",
    "fenced_ledger.append",
    "fenced_ledger.claim",
    "fenced_ledger.end_tenure",
    "fenced_ledger.fate",
    "fenced_ledger.observe",
    "fenced_ledger.partitions",
    "fenced_ledger.read",
    "fenced_ledger.rejections",
    "fenced_ledger.release",
    "fenced_ledger.renew",
];

/// What was heard.
#[derive(Default)]
pub struct Heard {
    spans: Mutex<BTreeSet<&'static str>>,
    text: Mutex<String>,
}

impl Heard {
    /// Every documented span was heard, and of ours no other.
    pub fn assert_spans(&self) {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<_> = spans.iter().copied().filter(|name| name.starts_with("fenced_ledger.")).collect();
        assert_eq!(ours, SPANS);
    }

    /// None of these is in any field, name or message.
    pub fn assert_silent_about(&self, words: &[&str]) {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(text.contains("partition=p"), "nothing was heard:\n{text}");
        for word in words {
            assert!(!text.contains(word), "`{word}` was told:\n{text}");
        }
    }

    fn take(&self, metadata: &Metadata<'_>, fields: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {} {}", metadata.level(), metadata.target(), metadata.name()));
        fields(&mut line);
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&line.0);
        text.push('\n');
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).insert(span.metadata().name());
        self.take(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.text.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.take(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
