//! Writes responses as JSON, and problems as `application/problem+json` (RFC 9457).
//!
//! The text of a large response is written in parts, each reserved before it is allocated (P10):
//!
//! 1. A text that grows is not copied.
//! 2. The memory of each part is released when the connection has written it.
//! 3. Without capacity the text ends: a page then ends with the previous item.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use duly_core::Code;
use duly_node::Leased;
use duly_store::TimerView;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::{Problem, body::JSON};
use crate::{
    memory::budget::{self, IsCounted, Reservation},
    messages,
    service::{Admitted, blocking::run_blocking},
};
use duly_api::timer::CallEffect;

/// Media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Bytes of the first part of a text.
const PART_BYTES_MIN: usize = 1024;
/// Most bytes of a later part.
const PART_BYTES_MAX: usize = 64 * 1024;

/// The result of a handler.
pub(super) type HandlerResult = Result<Response, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code().http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = Body::from(to_bytes(self.body()).unwrap_or_default());
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if self.code() == Code::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait_ms) = self.body().retry_after_ms {
            response.headers_mut().insert(RETRY_AFTER, wait_ms.div_ceil(1_000).into());
        }
        response
    }
}

/// Returns a JSON response.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> HandlerResult {
    Ok(with_body(status, Body::from(to_bytes(value)?)))
}

/// Returns a JSON response with status 200.
pub(super) fn ok(value: &impl Serialize) -> HandlerResult {
    json(StatusCode::OK, value)
}

/// Returns a JSON response whose text takes its memory from `reservation`, and from the budget where that
/// is too small.
pub(super) fn json_within(
    reservation: Reservation,
    status: StatusCode,
    value: &impl Serialize,
) -> HandlerResult {
    let mut text = ResponseText::new(reservation);
    text.value(value)?;
    Ok(text.into_response(status))
}

/// Returns a JSON response that shows a timer after a change.
///
/// The change is made, so the response cannot be refused any more. `reservation` counts the timer and
/// the text; if it is too small for the text, the text exceeds the budget.
pub(super) async fn changed_timer(
    admitted: &Admitted,
    mut reservation: Reservation,
    status: StatusCode,
    view: &Arc<TimerView>,
    effect: CallEffect,
) -> HandlerResult {
    let bytes = usize::try_from(view.memory_bytes()).unwrap_or(usize::MAX);
    let own = reservation.split(bytes);
    let write = |reservation| {
        let (view, admitted) = (Arc::clone(view), admitted.clone());
        run_blocking(bytes, move || {
            let mut text = ResponseText::new(reservation);
            let written = text.value(&messages::shown(admitted.caller(), &view, effect));
            Ok((written, text))
        })
    };
    let (mut written, mut text) = write(reservation).await?;
    if written.is_err() {
        reservation = text.into_reservation();
        let shown = messages::shown(admitted.caller(), view, effect);
        reservation.grow_past_budget_to(ResponseText::bytes_of(&shown)).await;
        drop(shown);
        (written, text) = write(reservation).await?;
    }
    written?;
    drop(own);
    Ok(text.into_response(status))
}

/// Returns a response with a JSON text.
pub(super) fn with_body(status: StatusCode, body: Body) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}

/// Returns a JSON response with status 200 to a change that was made. It counts against `reservation`; if
/// that is too small it exceeds the budget, because the response cannot be refused any more.
pub(super) async fn change(mut reservation: Reservation, text: Bytes) -> Response {
    reservation.grow_past_budget_to(text.len()).await;
    let mut response = with_body(StatusCode::OK, budget::count_bytes(text, reservation).into());
    response.extensions_mut().insert(IsCounted);
    response
}

/// Returns the JSON text of a response, which ends with a line break.
pub(super) fn to_bytes(value: &impl Serialize) -> Result<Bytes, Problem> {
    let mut text = Vec::new();
    write_json(&mut text, value)?;
    text.push(b'\n');
    Ok(text.into())
}

/// Writes the JSON text of a value.
pub(super) fn write_json(text: impl io::Write, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(text, value).map_err(|error| {
        if error.is_io() {
            return budget::over_budget();
        }
        tracing::error!(%error, "response could not be serialized; it fails or ends here");
        Problem::fault("the response could not be serialized")
    })
}

/// The text of a response in parts: see the module.
#[derive(Debug)]
pub(crate) struct ResponseText {
    /// At least the capacity of all parts.
    reservation: Reservation,
    parts: Vec<Vec<u8>>,
    /// Bytes of memory of all parts.
    allocated: usize,
    breaks: LineBreaks,
}

/// An offset in a text.
#[derive(Debug, Clone, Copy)]
struct TextMark {
    parts: usize,
    last_bytes: usize,
}

/// The handling of line breaks in the text of JSON payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineBreaks {
    Kept,
    /// For a line: line breaks have no meaning between the tokens of JSON and cannot be inside them.
    Removed,
}

impl ResponseText {
    /// Creates a text whose memory is that of `reservation`, which grows with it.
    pub(crate) const fn new(reservation: Reservation) -> Self {
        Self { reservation, parts: Vec::new(), allocated: 0, breaks: LineBreaks::Kept }
    }

    /// Writes JSON text.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Problem> {
        io::Write::write_all(self, text.as_bytes()).map_err(|_| budget::over_budget())
    }

    /// Writes a value as JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        write_json(&mut *self, value)
    }

    /// Writes a value as one line.
    pub(crate) fn line(&mut self, line: &impl Serialize) -> Result<(), Problem> {
        let mark = self.mark();
        self.breaks = LineBreaks::Removed;
        let written = self.value(line);
        self.breaks = LineBreaks::Kept;
        let written = written.and_then(|()| self.raw("\n"));
        if written.is_err() {
            self.truncate_to(mark);
        }
        written
    }

    /// Writes items with `write`, as many as fit. Returns their number, which is less than all only if it
    /// is at least one.
    pub(crate) fn fill<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        write: impl Fn(&mut Self, &T) -> Result<(), Problem>,
    ) -> Result<usize, Problem> {
        let mut count = 0;
        for item in items {
            match write(self, &item) {
                Ok(()) => count += 1,
                Err(problem) if count == 0 => return Err(problem),
                Err(_) => break,
            }
        }
        Ok(count)
    }

    /// Writes an item of a list, behind a comma unless it is the first. Writes nothing if it does not
    /// fit.
    pub(crate) fn item(&mut self, item: &impl Serialize) -> Result<(), Problem> {
        let mark = self.mark();
        let is_first = self.parts.last().is_none_or(|part| part.ends_with(b"["));
        let comma = if is_first { Ok(()) } else { self.raw(",") };
        let written = comma.and_then(|()| self.value(item));
        if written.is_err() {
            self.truncate_to(mark);
        }
        written
    }

    /// Drops the text and returns its reservation.
    pub(crate) fn into_reservation(self) -> Reservation {
        self.reservation
    }

    /// Returns the bytes of memory that the JSON of a value takes as a text.
    pub(crate) fn bytes_of(value: &impl Serialize) -> usize {
        let mut count = ByteCounter(0);
        // Counting does not fail, and Duly's own values are always valid JSON.
        serde_json::to_writer(&mut count, value).ok();
        count.0 + PART_BYTES_MAX
    }

    /// Returns the parts, each with its reservation.
    pub(crate) fn into_parts(mut self) -> VecDeque<Bytes> {
        let parts = std::mem::take(&mut self.parts);
        let counted = |part: Vec<u8>| {
            let reservation = self.reservation.split(part.capacity());
            budget::count_bytes(part, reservation)
        };
        parts.into_iter().map(counted).collect()
    }

    /// Returns a response with this text as its JSON.
    pub(crate) fn into_response(self, status: StatusCode) -> Response {
        self.into_response_of(status, None)
    }

    /// Returns such a response to a lease: the claims are released unless it is handed over to its end.
    pub(crate) fn into_response_of(
        mut self,
        status: StatusCode,
        leased: Option<Leased>,
    ) -> Response {
        // A line break ends the text, if one fits.
        self.raw("\n").ok();
        let parts = self.into_parts();
        let left = parts.iter().map(|part| part.len() as u64).sum();
        let mut response = with_body(status, Body::new(TextBody { parts, left, leased }));
        response.extensions_mut().insert(IsCounted);
        response
    }

    fn mark(&self) -> TextMark {
        TextMark { parts: self.parts.len(), last_bytes: self.parts.last().map_or(0, Vec::len) }
    }

    fn truncate_to(&mut self, mark: TextMark) {
        self.parts.truncate(mark.parts);
        if let Some(last) = self.parts.last_mut() {
            last.truncate(mark.last_bytes);
        }
        self.allocated = self.parts.iter().map(Vec::capacity).sum();
    }

    #[inline]
    fn push(&mut self, text: &[u8]) -> io::Result<()> {
        match self.parts.last_mut() {
            Some(last) if last.capacity() - last.len() >= text.len() => {
                last.extend_from_slice(text);
                Ok(())
            }
            _ => self.push_over(text),
        }
    }

    /// Fills the last part and begins others.
    #[cold]
    fn push_over(&mut self, mut text: &[u8]) -> io::Result<()> {
        loop {
            if let Some(last) = self.parts.last_mut() {
                let free = last.capacity() - last.len();
                let (now, later) = text.split_at(free.min(text.len()));
                last.extend_from_slice(now);
                text = later;
            }
            if text.is_empty() {
                return Ok(());
            }
            let bytes = self.allocated.clamp(PART_BYTES_MIN, PART_BYTES_MAX);
            let full = |_| io::Error::from(io::ErrorKind::OutOfMemory);
            self.reservation.grow_to(self.allocated + bytes).map_err(full)?;
            let part = Vec::with_capacity(bytes);
            self.allocated += part.capacity();
            self.parts.push(part);
        }
    }
}

impl io::Write for ResponseText {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        io::Write::write_all(self, text).map(|()| text.len())
    }

    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if self.breaks == LineBreaks::Kept || !text.iter().any(is_break) {
            return self.push(text);
        }
        text.split(is_break).try_for_each(|piece| self.push(piece))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the bytes of a text.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0 += text.len();
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of a response in parts.
struct TextBody {
    parts: VecDeque<Bytes>,
    left: u64,
    leased: Option<Leased>,
}

impl hyper::body::Body for TextBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let part = this.parts.pop_front();
        this.left -= part.as_ref().map_or(0, |part| part.len() as u64);
        if this.parts.is_empty()
            && let Some(leased) = this.leased.take()
        {
            leased.delivered();
        }
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
