//! The background part: renews while there is time, and watches the time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, Either, select};

use super::clock::{Moment, within};
use super::end::{End, Loss};
use super::tenure::{Tenure, no_answer};

/// Keeps one lease: a future that the caller spawns or polls. It ends with the tenure, and tells how that ended.
///
/// It renews every [`renew_every`](super::Terms::renew_every), sends a try again that failed or stayed unanswered,
/// and ends the writer's time when none succeeds (K2, K3). It never claims.
///
/// Dropping it ends the writer's time at once, as [`Loss::Unkept`]: nobody would watch it. The
/// lease is not released by that.
#[must_use = "without its driver polled a lease is not renewed"]
pub struct Driver {
    keeping: BoxFuture<'static, Arc<End>>,
    tenure: Arc<Tenure>,
}

impl Driver {
    /// A driver for a tenure whose claim was sent at `sent`.
    pub(super) fn new(tenure: Arc<Tenure>, sent: Moment) -> Self {
        Self { keeping: Box::pin(keep(tenure.clone(), sent)), tenure }
    }
}

impl Future for Driver {
    type Output = Arc<End>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<End>> {
        self.keeping.as_mut().poll(cx)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.tenure.finish(End::Lost(Loss::Unkept));
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("tenure", &self.tenure).finish_non_exhaustive()
    }
}

async fn keep(tenure: Arc<Tenure>, sent: Moment) -> Arc<End> {
    let (clock, terms) = (tenure.ground.clock.clone(), tenure.ground.terms);
    let mut next = sent.after(terms.renew_every);
    loop {
        let timer = clock.sleep_until(tenure.next_look(next));
        if let Some(end) = ended_before(&tenure, timer).await {
            return end;
        }
        if clock.now() < next {
            tenure.state();
            continue;
        }
        // Looks at the clock before the store is asked: after a suspension the time may be long over (K6).
        let Some(attempt) = tenure.begin_renewal() else { continue };
        let deadline = attempt.sent.after(terms.try_for).min(attempt.until);
        let mut outcome = None;
        let renewal = async {
            outcome = within(&*clock, deadline, tenure.ground.ledger.renew(&attempt.lease, None)).await;
        };
        if let Some(end) = ended_before(&tenure, renewal).await {
            return end;
        }
        let outcome = outcome.unwrap_or_else(|| Err(no_answer("a renewal was not answered in its time")));
        let granted = outcome.is_ok();
        tenure.end_renewal(&attempt, outcome);
        next = if granted { attempt.sent.after(terms.renew_every) } else { clock.now().after(terms.pause()) };
        drop(attempt.permit);
    }
}

/// The end of the tenure, if it comes before the future's.
async fn ended_before(tenure: &Tenure, future: impl Future<Output = ()>) -> Option<Arc<End>> {
    match select(std::pin::pin!(tenure.noticed_end()), std::pin::pin!(future)).await {
        Either::Left((end, _)) => Some(end),
        Either::Right(_) => None,
    }
}
