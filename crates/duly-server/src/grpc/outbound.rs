//! Bounds outgoing bytes (P10).
//!
//! 1. The bytes of a response count against the request memory until the connection has released them.
//! 2. The claims of a response are delivered when its last byte is handed over.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_api::{ListResponse, Time, View};
use duly_node::{Leased, PendingReply};
use duly_store::{Page, query::Position};
use futures::FutureExt;
use http::HeaderMap;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{consume::Asked, status::too_late};
use crate::http::{
    App, ChangesNothing, Made, Problem,
    budget::{self, Budget, Share},
    cursor::{Cursor, Filter},
    reading::Read,
    timers::list::shown,
};

/// Bytes of a response that are handed to the connection at once.
const PART_BYTES_MAX: usize = 64 * 1024;

/// The reservation and claims of a response; cheap to clone.
#[derive(Debug, Clone)]
struct ResponseGuards {
    /// The reservation, taken when the message has been encoded and only its text is left.
    share: Arc<Mutex<Option<Share>>>,
    leased: Arc<Mutex<Option<Leased>>>,
}

/// Returns a response that can still be refused for lack of memory.
pub(super) fn read<T: Message>(app: &App, message: T) -> Result<tonic::Response<T>, Problem> {
    read_within(app.budget().share(), message)
}

/// Returns such a response, with its memory from `share`, which grows as needed. Message and text exist
/// at once, and the text's buffer doubles as it grows.
pub(super) fn read_within<T: Message>(
    mut share: Share,
    message: T,
) -> Result<tonic::Response<T>, Problem> {
    let bytes = message.encoded_len();
    share.grow_to(3 * bytes)?;
    Ok(carrying(message, share, None))
}

/// Returns the response with a page of as many timers as fit, at least one. The first reservation is
/// that of the timers.
pub(super) fn page(
    Read { value: page, mut share, rest }: Read<Page>,
    filter: Filter,
    is_searched: bool,
    view: View,
) -> Result<tonic::Response<ListResponse>, Problem> {
    share.join(rest);
    let (own, mut next) = (share.bytes(), page.next);
    let mut places: Vec<_> = page.timers.iter().map(Position::of).collect();
    let timers = page.timers.iter().map(|timer| shown(timer, view)).collect();
    let examined = is_searched.then_some(page.examined);
    let mut response = ListResponse { timers, examined, ..ListResponse::default() };
    loop {
        let up_to = next.as_ref().filter(|_| is_searched).map(|next| Time::from(next.due_at));
        response.up_to = up_to;
        response.cursor = next.map(|next| Cursor::new(next, filter).to_string());
        let bytes = response.encoded_len();
        match share.grow_to(own.max(3 * bytes)) {
            Ok(()) => return Ok(carrying(response, share, None)),
            Err(problem) if response.timers.len() <= 1 => return Err(problem),
            Err(_) => {
                let half = response.timers.len() / 2;
                response.timers.truncate(half);
                places.truncate(half);
                next = places.last().cloned();
            }
        }
    }
}

/// Returns a response that counts against `share`. `leased` is released, and does not count as an
/// attempt, unless the response is handed over to its end.
pub(super) fn handing_out<T>(message: T, share: Share, leased: Leased) -> tonic::Response<T> {
    carrying(message, share, Some(leased))
}

/// Returns a response to a change that was made. It is counted even without capacity.
pub(super) async fn made<T: Message>(app: &App, message: T) -> tonic::Response<T> {
    made_within(app.budget().share(), message).await
}

/// Returns such a response, with its memory from `share`, which grows as needed.
pub(super) async fn made_within<T: Message>(mut share: Share, message: T) -> tonic::Response<T> {
    // The bytes in use, the message, and its text.
    let bytes = share.bytes() + message.encoded_len();
    share.grow_anyway_to(bytes).await;
    carrying(message, share, None)
}

fn carrying<T>(message: T, share: Share, leased: Option<Leased>) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    let leased = Arc::new(Mutex::new(leased));
    response
        .extensions_mut()
        .insert(ResponseGuards { share: Arc::new(Mutex::new(Some(share))), leased });
    response
}

/// Bounds a response, which counts against `budget` unless it has a reservation; a stream ends at
/// `until`.
pub(super) fn bounded(budget: &Budget, mut response: Response, until: Option<Instant>) -> Response {
    let carried = response.extensions_mut().remove::<ResponseGuards>();
    let asked = response.extensions_mut().remove::<Asked>();
    let budget = budget.clone();
    let until = until.map(|until| Box::pin(sleep_until(until)));
    response.map(|inner| {
        Body::new(Outbound {
            inner,
            budget,
            carried,
            asked,
            until,
            rest: Bytes::new(),
            in_rest: Vec::new(),
            ended: Ended::No,
        })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    No,
    /// The caller's time limit is over, and the trailers say so.
    TooLate,
}

struct Outbound {
    inner: Body,
    budget: Budget,
    carried: Option<ResponseGuards>,
    asked: Option<Asked>,
    until: Option<Pin<Box<Sleep>>>,
    /// Bytes that are made and not handed over.
    rest: Bytes,
    /// Responses of a stream that end in `rest`.
    in_rest: Vec<PendingReply>,
    ended: Ended,
}

impl Outbound {
    /// Hands over a part of the made bytes.
    fn part(&mut self) -> Frame<Bytes> {
        let part = self.rest.split_to(self.rest.len().min(PART_BYTES_MAX));
        if !self.rest.is_empty() {
            return Frame::data(part);
        }
        self.in_rest.drain(..).for_each(PendingReply::written);
        // A single message has one frame, so its claims are handed over with its last part.
        if let Some(carried) = &self.carried
            && let Some(leased) = carried.leased.lock().take()
        {
            leased.delivered();
        }
        Frame::data(part)
    }

    /// Counts made bytes.
    fn counted(&self, made: Bytes) -> Bytes {
        let carried = self.carried.as_ref().and_then(|carried| carried.share.lock().take());
        let mut share = carried.unwrap_or_else(|| self.budget.take_anyway(made.len()));
        share.shrink_to(2 * made.len());
        budget::held(made, share)
    }
}

impl hyper::body::Body for Outbound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(this.part())));
        }
        if this.ended == Ended::TooLate {
            return Poll::Ready(None);
        }
        if this.until.as_mut().is_some_and(|until| until.poll_unpin(context).is_ready()) {
            this.ended = Ended::TooLate;
            // The producer of the stream is dropped with it.
            this.inner = Body::empty();
            let mut trailers = HeaderMap::new();
            return Poll::Ready(
                match too_late(None, &ChangesNothing::by(Made::Change)).add_header(&mut trailers) {
                    Ok(()) => Some(Ok(Frame::trailers(trailers))),
                    Err(_) => None,
                },
            );
        }
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        polled.map(|frame| {
            Some(frame?.map(|frame| match frame.into_data() {
                Ok(made) if made.is_empty() => Frame::data(made),
                Ok(made) => {
                    this.rest = this.counted(made);
                    // All polled responses are part of these bytes: the library holds none back.
                    this.in_rest = this.asked.as_ref().map(Asked::take).unwrap_or_default();
                    this.part()
                }
                Err(trailers) => trailers,
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && (self.ended == Ended::TooLate || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
