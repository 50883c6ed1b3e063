//! A stream of events over pages: while one page is consumed, the next is read (D6).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::{Event, LazyPage, PageSize, Position, Result};

/// The pages of a stream. Two of them are held, so their bytes bound its memory; small events fill 10,000.
pub(crate) const PAGE: PageSize = PageSize::of_stream();

/// The read of the next page is polled at the first of so many events. It goes on by itself, in the store.
const POLL_EVERY: u32 = 64;

type Reading<'a> = Pin<Box<dyn Future<Output = Result<LazyPage>> + Send + 'a>>;

/// Reads page after page, one ahead of what is consumed. It needs no runtime: whoever polls the stream polls the read.
pub(crate) struct Pages<'a, F> {
    read: F,
    page: Option<LazyPage>,
    taken: u32,
    ahead: Option<Ahead<'a>>,
}

/// The page after the one that is consumed.
enum Ahead<'a> {
    Reading(Reading<'a>),
    Here(Result<LazyPage>),
}

impl<'a, F: FnMut(Position) -> Reading<'a>> Pages<'a, F> {
    pub(crate) fn new(from: Position, mut read: F) -> Self {
        let ahead = Some(Ahead::Reading(read(from)));
        Self { read, page: None, taken: 0, ahead }
    }

    /// Lets the read of the next page go on.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(Ahead::Reading(reading)) = &mut self.ahead
            && let Poll::Ready(page) = reading.as_mut().poll(cx)
        {
            self.ahead = Some(Ahead::Here(page));
        }
    }
}

impl<'a, F: FnMut(Position) -> Reading<'a> + Unpin> Stream for Pages<'a, F> {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        loop {
            if self.taken.is_multiple_of(POLL_EVERY) {
                self.poll_ahead(cx);
            }
            if let Some(event) = self.page.as_mut().and_then(LazyPage::next) {
                self.taken = self.taken.wrapping_add(1);
                return Poll::Ready(Some(Ok(event)));
            }
            self.page = None;
            self.poll_ahead(cx);
            match self.ahead.take() {
                None => return Poll::Ready(None),
                Some(Ahead::Here(Ok(page))) => {
                    let this = &mut *self;
                    this.ahead = page.next.map(|from| Ahead::Reading((this.read)(from)));
                    this.page = Some(page);
                    this.taken = 0;
                }
                Some(Ahead::Here(Err(error))) => return Poll::Ready(Some(Err(error))),
                Some(reading @ Ahead::Reading(_)) => {
                    self.ahead = Some(reading);
                    return Poll::Pending;
                }
            }
        }
    }
}
