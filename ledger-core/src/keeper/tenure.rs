//! One tenure: what writers, driver and signals share, and every step that its state can take.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};

use super::changes::{Change, Feed, State};
use super::clock::{LocalClock, Moment};
use super::counts::Counters;
use super::end::{End, Loss, WriteError};
use super::rules;
use super::terms::Terms;
use super::trust::Trust;
use crate::sync::{Arc, Mutex, PoisonError};
use crate::{
    Append, Appended, Claimed, Digest, Failure, FailureKind, FencedLedger, Lease, LedgerError, Position, Released,
    Renewal, Result,
};

/// The store, the clock and what one keeper or pool has for all of its tenures.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) ledger: Arc<dyn FencedLedger>,
    pub(super) clock: Arc<dyn LocalClock>,
    pub(super) terms: Terms,
    pub(super) counters: Arc<Counters>,
    pub(super) feed: Feed,
}

#[derive(Debug)]
pub(super) struct Tenure {
    pub(super) ground: Ground,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    lease: Lease,
    /// Until when the lease is trusted.
    until: Moment,
    state: State,
    /// Appends, settlements and renewals that have begun and not ended.
    in_flight: usize,
    /// Nothing was in flight any more and the release was sent: no renewal after this.
    releasing: bool,
    /// The newest entry that the store has acknowledged to this tenure.
    acknowledged: (Position, Digest),
    /// What went wrong with renewals since the last grant.
    trouble: Option<LedgerError>,
    wakers: Vec<Waker>,
}

/// A renewal that was begun.
pub(super) struct Attempt {
    pub(super) permit: Permit,
    pub(super) lease: Lease,
    pub(super) sent: Moment,
    pub(super) until: Moment,
    acknowledged: (Position, Digest),
}

impl Tenure {
    /// A tenure that begins with a grant; `None` where its trust is over before it began.
    pub(super) fn begin(ground: Ground, sent: Moment, claimed: Claimed) -> Option<Arc<Self>> {
        let now = ground.clock.now();
        let granted = claimed.lease.expires_at.since(claimed.judged.time);
        let until = rules::trusted_until(&ground.terms, sent, granted);
        if rules::loss_by_time(until, now, None).is_some() {
            return None;
        }
        let inner = Inner {
            lease: claimed.lease,
            until,
            state: State::Held,
            in_flight: 0,
            releasing: false,
            acknowledged: (claimed.head, claimed.chain),
            trouble: None,
            wakers: Vec::new(),
        };
        ground.counters.lock().claims += 1;
        let tenure = Self { ground, inner: Mutex::new(inner) };
        tenure.with(|inner| tenure.tell(inner, now));
        Some(Arc::new(tenure))
    }

    pub(super) fn lease(&self) -> Lease {
        self.with(|inner| inner.lease.clone())
    }

    /// The state, after a look at the clock.
    pub(super) fn state(&self) -> State {
        self.with(|inner| {
            self.look(inner);
            inner.state.clone()
        })
    }

    pub(super) fn trust(&self) -> Trust {
        self.with(|inner| {
            let now = self.look(inner);
            let ended = matches!(inner.state, State::Ended(_));
            Trust { until: inner.until, left: if ended { Duration::ZERO } else { inner.until.since(now) } }
        })
    }

    /// Lets an append begin, and tells how much of the trust is left.
    pub(super) fn admit(self: &Arc<Self>, append: &Append) -> Result<(Permit, Duration), WriteError> {
        let admitted = self.with(|inner| {
            let now = self.look(inner);
            rules::admit(&inner.state, inner.releasing, append)?;
            inner.in_flight += 1;
            Ok(inner.until.since(now))
        });
        let mut counts = self.ground.counters.lock();
        match admitted {
            Ok(left) => {
                counts.append(left);
                drop(counts);
                Ok((Permit(self.clone()), left))
            }
            Err(error) => {
                counts.not_sent += 1;
                Err(error)
            }
        }
    }

    /// The span of an append, with the time that was left when it was let begin (K11).
    pub(super) fn span(&self, operation: &'static str, left: Duration) -> tracing::Span {
        let lease = self.lease();
        tracing::debug_span!(
            "keeper.append",
            operation,
            partition = %lease.partition,
            generation = %lease.generation,
            left_us = u64::try_from(left.as_micros()).unwrap_or(u64::MAX),
        )
    }

    /// Begins a renewal, unless the tenure has ended or is being released.
    pub(super) fn begin_renewal(self: &Arc<Self>) -> Option<Attempt> {
        let (lease, sent, until, acknowledged) = self.with(|inner| {
            let sent = self.look(inner);
            if !rules::renews(&inner.state, inner.releasing) {
                return None;
            }
            inner.in_flight += 1;
            // Should the time run out before there is an answer, this is why.
            inner.trouble = Some(no_answer("a renewal was sent and not answered"));
            Some((inner.lease.clone(), sent, inner.until, inner.acknowledged))
        })?;
        Some(Attempt { permit: Permit(self.clone()), lease, sent, until, acknowledged })
    }

    /// Takes in how a renewal ended.
    pub(super) fn end_renewal(&self, attempt: &Attempt, outcome: Result<Renewal>) {
        self.with(|inner| {
            // What is answered too late changes nothing: an end is final, whatever the store says afterwards.
            let now = self.look(inner);
            if matches!(inner.state, State::Ended(_)) {
                return;
            }
            match outcome {
                Ok(renewal) => {
                    self.ground.counters.lock().renewals += 1;
                    let (known, head) = (attempt.acknowledged, (renewal.head, renewal.chain));
                    if rules::went_back(known, head) {
                        self.end(inner, End::Lost(Loss::WentBack { acknowledged: known, head }), now);
                        return;
                    }
                    inner.acknowledged = rules::newest(inner.acknowledged, head);
                    inner.until = rules::trusted_until(&self.ground.terms, attempt.sent, renewal.remaining);
                    inner.lease = renewal.lease;
                    inner.trouble = None;
                    tracing::debug!(partition = %inner.lease.partition, left = ?inner.until.since(now), "renewed");
                    self.look(inner);
                }
                Err(error) => match rules::loss_by_answer(&error) {
                    Some(loss) => self.end(inner, End::Lost(loss), now),
                    None => {
                        self.ground.counters.lock().renewals_failed += 1;
                        tracing::debug!(partition = %inner.lease.partition, %error, "a renewal failed");
                        inner.trouble = Some(error);
                    }
                },
            }
        });
    }

    /// When the driver has to look again: at its next renewal, at the latest when the trust ends.
    pub(super) fn next_look(&self, renewal: Moment) -> Moment {
        self.with(
            |inner| {
                if rules::renews(&inner.state, inner.releasing) { inner.until.min(renewal) } else { inner.until }
            },
        )
    }

    /// Stops new appends, lets those in flight end, and releases. Dropped half-way it leaves the tenure draining.
    pub(super) async fn release(&self) -> Result<Released> {
        let done = self.with(|inner| {
            let now = self.look(inner);
            match &inner.state {
                State::Held => {
                    inner.state = State::Draining;
                    self.tell(inner, now);
                }
                State::Draining => {}
                State::Ended(end) => {
                    if let End::Released(released) = &**end {
                        return Some(released.clone());
                    }
                }
            }
            None
        });
        if let Some(released) = done {
            return Ok(released);
        }
        let lease = self.when(|inner| {
            let drained = rules::is_drained(inner.in_flight);
            inner.releasing |= drained;
            drained.then(|| inner.lease.clone())
        });
        let lease = lease.await;
        let released = self.ground.ledger.release(&lease).await?;
        self.finish(End::Released(released.clone()));
        Ok(released)
    }

    /// Ends the tenure, if it has not ended.
    pub(super) fn finish(&self, end: End) {
        self.with(|inner| {
            let now = self.look(inner);
            self.end(inner, end, now);
        });
    }

    /// Ends when the tenure has ended, as soon as somebody has noticed.
    pub(super) async fn noticed_end(&self) -> Arc<End> {
        self.when(|inner| match &inner.state {
            State::Ended(end) => Some(end.clone()),
            _ => None,
        })
        .await
    }

    /// Ends when the tenure has ended, and sees to it by a timer of its own.
    pub(super) async fn ended(&self) -> Arc<End> {
        loop {
            let timer = self.ground.clock.sleep_until(self.trust().until);
            match select(pin!(self.noticed_end()), timer).await {
                Either::Left((end, _)) => return end,
                Either::Right(_) => {
                    self.state();
                }
            }
        }
    }

    /// Takes in the answer to an append. `known`: what had been acknowledged when it was sent.
    fn answered(&self, answer: &Result<Appended>, known: (Position, Digest)) {
        self.with(|inner| match answer {
            Ok(appended) if rules::was_written_behind(known.0, appended) => {
                let head = (appended.entry.last, appended.entry.chain);
                let loss = Loss::WentBack { acknowledged: known, head };
                self.end(inner, End::Lost(loss), self.ground.clock.now());
            }
            Ok(appended) => {
                let entry = (appended.entry.last, appended.entry.chain);
                inner.acknowledged = rules::newest(inner.acknowledged, entry);
            }
            Err(error) => {
                if let Some(loss) = rules::loss_by_answer(error) {
                    self.end(inner, End::Lost(loss), self.ground.clock.now());
                }
            }
        });
    }

    /// Looks at the clock; where the trust has run out, the tenure ends.
    fn look(&self, inner: &mut Inner) -> Moment {
        let now = self.ground.clock.now();
        if let Some(loss) = rules::loss_by_time(inner.until, now, inner.trouble.as_ref()) {
            self.end(inner, End::Lost(loss), now);
        }
        now
    }

    /// Ends the tenure, if it has not ended: the first end stays.
    fn end(&self, inner: &mut Inner, end: End, now: Moment) {
        if matches!(inner.state, State::Ended(_)) {
            return;
        }
        let mut counts = self.ground.counters.lock();
        match &end {
            End::Released(_) => counts.releases += 1,
            End::Abandoned => counts.abandoned += 1,
            End::Lost(loss) => counts.loss(loss),
        }
        drop(counts);
        inner.state = State::Ended(Arc::new(end));
        self.tell(inner, now);
    }

    fn tell(&self, inner: &Inner, at: Moment) {
        let lease = &inner.lease;
        let (partition, generation) = (lease.partition.clone(), lease.generation);
        match &inner.state {
            State::Held => tracing::info!(%partition, %generation, "claimed"),
            State::Draining => tracing::debug!(%partition, %generation, "draining"),
            State::Ended(end) => match &**end {
                End::Lost(loss) => tracing::warn!(%partition, %generation, reason = loss.as_str(), %loss, "lost"),
                end => tracing::info!(%partition, %generation, %end, "ended"),
            },
        }
        let state = inner.state.clone();
        self.ground.feed.tell(&Change { partition, generation, acquisition: lease.acquisition, state, at });
    }

    /// Ends when `ready` has a value.
    async fn when<T>(&self, mut ready: impl FnMut(&mut Inner) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            match ready(&mut inner) {
                Some(value) => Poll::Ready(value),
                None => {
                    if !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                        inner.wakers.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// A step under the lock; whoever waits for something looks again after it.
    fn with<T>(&self, step: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = (std::mem::discriminant(&inner.state), inner.in_flight, inner.until);
        let value = step(&mut inner);
        let changed = before != (std::mem::discriminant(&inner.state), inner.in_flight, inner.until);
        let wakers = if changed { std::mem::take(&mut inner.wakers) } else { Vec::new() };
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        value
    }
}

/// Something in flight, which a release waits for. Dropping it is its end.
#[derive(Debug)]
pub(super) struct Permit(Arc<Tenure>);

impl Permit {
    /// Sends an append, and takes in the answer.
    pub(super) async fn send(&self, append: &Append) -> Result<Appended> {
        let (lease, known) = self.0.with(|inner| (inner.lease.clone(), inner.acknowledged));
        let answer = self.0.ground.ledger.append(&lease, append).await;
        self.0.answered(&answer, known);
        answer
    }

    /// Whether what is in flight may be sent again: while the trust lasts, also during a drain.
    pub(super) fn may_send(&self) -> bool {
        rules::may_send_again(&self.0.state())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.with(|inner| inner.in_flight -= 1);
    }
}

/// A call that may have done its work, and gave no answer in its time.
pub(crate) fn no_answer(detail: &str) -> LedgerError {
    LedgerError::Unknown(Failure::new(FailureKind::Unavailable, detail))
}
