//! What waits between a writer and its shadow's driver, within the bounds.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::counts::ShadowCounts;
use super::limits::Limits;
use super::rules;
use crate::Append;
use crate::keeper::Moment;

/// What the driver takes out, in the order in which it came in.
#[derive(Debug)]
pub(super) enum Item {
    /// An append that was handed over at that moment.
    Append(Append, Moment),
    /// The writer gave the partition up.
    Release,
}

#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Item>,
    appends: usize,
    bytes: usize,
    /// The driver has taken an append out and does not know its judgement yet.
    judging: bool,
    /// No handle is left: nothing comes in any more.
    closed: bool,
    /// The driver is gone: nothing is taken out any more.
    undriven: bool,
    counts: ShadowCounts,
    driver: Option<Waker>,
    callers: Vec<Waker>,
}

impl Queue {
    /// A writer's call begins: its append waits, for room at first.
    pub(super) fn begin(&self) {
        let counts = &mut self.lock().counts;
        counts.offered += 1;
        counts.waiting += 1;
    }

    /// A writer's call ends, with its append put in or not.
    pub(super) fn end(&self, is_in: bool, took: Duration) {
        let counts = &mut self.lock().counts;
        if !is_in {
            counts.waiting -= 1;
            counts.dropped_full += 1;
        }
        counts.held_up(took);
    }

    /// Puts an append in where there is room. Ready also where nobody will ever judge it, which is counted.
    pub(super) fn put(&self, append: &Append, at: Moment, limits: &Limits, waiter: Option<&Waker>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.undriven {
            inner.counts.waiting -= 1;
            inner.counts.dropped_undriven += 1;
            return Poll::Ready(());
        }
        if !rules::has_room(limits, inner.appends, inner.bytes, append.bytes()) {
            if let Some(waiter) = waiter.filter(|waiter| !inner.callers.iter().any(|known| known.will_wake(waiter))) {
                inner.callers.push(waiter.clone());
            }
            return Poll::Pending;
        }
        inner.appends += 1;
        inner.bytes += append.bytes();
        // Its positions are those of another log: what the head is expected to be there says nothing here.
        inner.items.push_back(Item::Append(append.clone().expecting_any(), at));
        inner.wake_driver();
        Poll::Ready(())
    }

    pub(super) fn put_release(&self) {
        let mut inner = self.lock();
        // Two in a row are one, so that releases need no bound of their own.
        if !matches!(inner.items.back(), Some(Item::Release)) && !inner.undriven {
            inner.items.push_back(Item::Release);
            inner.wake_driver();
        }
    }

    /// The next item; `None` once no handle is left and nothing waits.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut inner = self.lock();
        match inner.items.pop_front() {
            Some(item) => {
                if let Item::Append(append, _) = &item {
                    inner.judging = true;
                    inner.appends -= 1;
                    inner.bytes -= append.bytes();
                    let callers = std::mem::take(&mut inner.callers);
                    drop(inner);
                    callers.into_iter().for_each(Waker::wake);
                }
                Poll::Ready(Some(item))
            }
            None if inner.closed => Poll::Ready(None),
            None => {
                inner.driver = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// No handle is left.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.wake_driver();
    }

    /// The driver is gone: whatever waits is dropped, and counted.
    pub(super) fn undrive(&self) {
        let mut inner = self.lock();
        let lost = inner.appends as u64 + u64::from(inner.judging);
        inner.counts.waiting -= lost;
        inner.counts.dropped_undriven += lost;
        inner.undriven = true;
        inner.judging = false;
        inner.items.clear();
        (inner.appends, inner.bytes) = (0, 0);
        let callers = std::mem::take(&mut inner.callers);
        drop(inner);
        callers.into_iter().for_each(Waker::wake);
    }

    /// What became of the append that was taken out.
    pub(super) fn judged(&self, step: impl FnOnce(&mut ShadowCounts)) {
        let mut inner = self.lock();
        inner.judging = false;
        inner.counts.waiting -= 1;
        step(&mut inner.counts);
    }

    pub(super) fn counts(&self) -> ShadowCounts {
        self.lock().counts.clone()
    }

    pub(super) fn count(&self, step: impl FnOnce(&mut ShadowCounts)) {
        step(&mut self.lock().counts);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }
}
