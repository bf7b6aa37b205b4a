//! Bounds outgoing bytes (P10).
//!
//! 1. The bytes of a response count against the request memory until the connection has released them.
//! 2. The claims of a response are delivered when its last byte is handed over.
//! 3. The caller of a stream is checked before each part: a revoked key gets nothing more, also of what is ready.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_api::{ListResponse, Time};
use duly_node::{Leased, PendingReply};
use duly_store::{Page, Partial, query::Position};
use futures::FutureExt;
use http::HeaderMap;
use hyper::body::Frame;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::{Problem, consume::PolledResponses, status::stream_deadline_exceeded};
use crate::{
    memory::budget::{self, Budget, Reservation},
    service::{
        Admitted,
        lists::{Cursor, FilterHash, PermittedView, shown},
        reading::ReadResult,
    },
};

/// Bytes of a response that are handed to the connection at once.
const PART_BYTES_MAX: usize = 64 * 1024;

/// The reservation and claims of a response.
struct ResponseGuards {
    /// The reservation, taken when the message has been encoded and only its text is left.
    reservation: Option<Reservation>,
    leased: Option<Leased>,
}

/// Returns a response that can still be refused for lack of memory.
pub(super) fn read_response<T: Message>(
    admitted: &Admitted,
    message: T,
) -> Result<tonic::Response<T>, Problem> {
    read_response_within(admitted.budget().empty_reservation(), message)
}

/// Returns such a response, with its memory from `reservation`, which grows as needed. Message and text
/// exist at once, and the text's buffer doubles as it grows.
pub(super) fn read_response_within<T: Message>(
    mut reservation: Reservation,
    message: T,
) -> Result<tonic::Response<T>, Problem> {
    let bytes = message.encoded_len();
    reservation.grow_to(3 * bytes)?;
    Ok(with_guards(message, reservation, None))
}

/// Returns the response with a page of as many timers as fit, at least one. The first reservation is
/// that of the timers.
pub(super) fn page(
    ReadResult { value, mut reservation, rest }: ReadResult<Partial<Page>>,
    filter: FilterHash,
    is_searched: bool,
    view: PermittedView,
) -> Result<tonic::Response<ListResponse>, Problem> {
    reservation.join(rest);
    let unavailable_shards = value.unavailable_shards();
    let page = value.value;
    let (own, mut next) = (reservation.bytes(), page.next);
    let mut places: Vec<_> = page.timers.iter().map(Position::of).collect();
    let timers = page.timers.iter().map(|timer| shown(timer, view)).collect();
    let examined = is_searched.then_some(page.examined);
    let mut response =
        ListResponse { timers, examined, unavailable_shards, ..ListResponse::default() };
    loop {
        let up_to = next.as_ref().filter(|_| is_searched).map(|next| Time::from(next.due_at));
        response.up_to = up_to;
        response.cursor = next.map(|next| Cursor::new(next, filter).to_string());
        let bytes = response.encoded_len();
        match reservation.grow_to(own.max(3 * bytes)) {
            Ok(()) => return Ok(with_guards(response, reservation, None)),
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

/// Returns a response to a change that was made. It is counted even without capacity.
pub(super) async fn change_response<T: Message>(
    admitted: &Admitted,
    message: T,
) -> tonic::Response<T> {
    change_response_within(admitted.budget().empty_reservation(), message).await
}

/// Returns such a response, with its memory from `reservation`, which grows as needed.
pub(super) async fn change_response_within<T: Message>(
    mut reservation: Reservation,
    message: T,
) -> tonic::Response<T> {
    // The bytes in use, the message, and its text.
    let bytes = reservation.bytes() + message.encoded_len();
    reservation.grow_past_budget_to(bytes).await;
    with_guards(message, reservation, None)
}

/// Returns a response that counts against `reservation`. `leased` is released, and does not count as an
/// attempt, unless the response is handed over to its end.
pub(super) fn with_guards<T>(
    message: T,
    reservation: Reservation,
    leased: Option<Leased>,
) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    let guards = ResponseGuards { reservation: Some(reservation), leased };
    response.extensions_mut().insert(Arc::new(Mutex::new(guards)));
    response
}

/// Bounds a response, which counts against `budget` unless it has a reservation; a stream ends at
/// `deadline`, and when its caller, who is `checked`, is not admitted any more.
pub(super) fn bounded(
    budget: &Budget,
    mut response: Response,
    deadline: Option<Instant>,
    checked: Option<Admitted>,
) -> Response {
    let guards = response.extensions_mut().remove::<Arc<Mutex<ResponseGuards>>>();
    let polled_responses = response.extensions_mut().remove::<PolledResponses>();
    let budget = budget.clone();
    let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
    response.map(|inner| {
        Body::new(Outbound {
            inner,
            budget,
            guards,
            polled_responses,
            deadline,
            checked,
            rest: Bytes::new(),
            in_rest: Vec::new(),
        })
    })
}

struct Outbound {
    inner: Body,
    budget: Budget,
    guards: Option<Arc<Mutex<ResponseGuards>>>,
    polled_responses: Option<PolledResponses>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// The call of a stream.
    checked: Option<Admitted>,
    /// Bytes that are made and not handed over.
    rest: Bytes,
    /// Responses of a stream that end in `rest`.
    in_rest: Vec<PendingReply>,
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
        if let Some(guards) = &self.guards
            && let Some(leased) = guards.lock().leased.take()
        {
            leased.delivered();
        }
        Frame::data(part)
    }

    /// Ends a stream with a status; its producer is dropped.
    fn end(&mut self, status: &Status) -> Option<Result<Frame<Bytes>, axum::Error>> {
        (self.deadline, self.checked, self.inner) = (None, None, Body::empty());
        let mut trailers = HeaderMap::new();
        let added = status.add_header(&mut trailers).ok();
        added.map(|()| Ok(Frame::trailers(trailers)))
    }

    /// Counts made bytes.
    fn count(&self, made: Bytes) -> Bytes {
        let own = self.guards.as_ref().and_then(|guards| guards.lock().reservation.take());
        let mut reservation = own.unwrap_or_else(|| self.budget.reserve_unchecked(made.len()));
        reservation.shrink_to(2 * made.len());
        budget::count_bytes(made, reservation)
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
        if this.deadline.as_mut().is_some_and(|deadline| deadline.poll_unpin(context).is_ready()) {
            return Poll::Ready(this.end(&stream_deadline_exceeded()));
        }
        if let Some(Err(problem)) = this.checked.as_ref().map(Admitted::check_still_valid) {
            return Poll::Ready(this.end(&problem.into()));
        }
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        polled.map(|frame| {
            Some(frame?.map(|frame| match frame.into_data() {
                Ok(made) if made.is_empty() => Frame::data(made),
                Ok(made) => {
                    this.rest = this.count(made);
                    // All polled responses are part of these bytes: the library holds none back.
                    let responses = this.polled_responses.as_ref();
                    this.in_rest = responses.map(PolledResponses::take).unwrap_or_default();
                    this.part()
                }
                Err(trailers) => trailers,
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }
}
