//! Streams of lines for batches and imports: one item a line in, one result a line out, while the
//! request is sent.
//!
//! ```text
//!   body ──► Splitter ──► a step of lines ──► store ──► results ──► response
//!      ▲                                                              │
//!      └──── input waits until the last results were read ◄───────────┘
//! ```
//!
//! 1. A stream holds the memory of one step, at any length. A caller that does not read its results is
//!    not read from, and the connection's own timeout ends it.
//! 2. A line that has begun must be complete within the time limit of a request, as a body must (P10).
//! 3. A refused line refuses only itself.
//! 4. The reason for an early end is in the last line, with the number of the last handled line.

mod splitter;

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use duly_core::{Code, Invalid, NamespaceName, error_code::Retry};
use futures::{FutureExt, stream};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use self::splitter::{InputLine, Splitter};
use super::{Problem, body::NDJSON, response::write_json};
use crate::{
    memory::budget::{self, Reservation},
    problem::refusal_texts::SentOperation,
    service::{
        Admitted, CheckedCommand,
        blocking::run_blocking,
        items::{BATCH_BYTES_MAX, Items},
    },
};
use duly_api::batch::{LastLine, ResultLine, Results};

/// Operations of one step.
const STEP_LINES_MAX: usize = 1_000;
/// Bytes of lines after which a step begins, even if more are there.
const STEP_BYTES: usize = 512 * 1024;
/// Longest wait before more is read after the store was overloaded.
const OVERLOAD_WAIT_MAX: Duration = Duration::from_secs(1);

/// Responds to a stream of lines.
pub(super) async fn respond(
    admitted: Admitted,
    namespace: NamespaceName,
    request: Request,
    items: Items,
    results: Results,
) -> Result<Response, Problem> {
    let line_bytes_max = admitted.limits.body_bytes_max.min(BATCH_BYTES_MAX);
    let mut lines = LineStream {
        reservation: admitted.budget().empty_reservation(),
        splitter: Splitter::new(line_bytes_max),
        deadline: None,
        body: request.into_body(),
        progress: StreamProgress::Reading,
        counts: LineCounts::default(),
        items,
        results,
        namespace,
        admitted,
    };
    // Read before the head of the response: a caller that waits for "100 Continue" gets it first.
    lines.read().await;
    let chunks = stream::unfold(lines, |mut lines| async move {
        let chunk = lines.next().await?;
        Some((Ok::<_, Infallible>(chunk), lines))
    });
    Ok(ndjson(Body::from_stream(chunks)))
}

/// Returns a response of lines.
pub(super) fn ndjson(body: Body) -> Response {
    ([(CONTENT_TYPE, NDJSON)], body).into_response()
}

/// Writes a value as one line. Line breaks in the text of a JSON payload are left out: they have no
/// meaning between its tokens and cannot be inside them.
fn write_line(text: &mut Vec<u8>, line: &impl Serialize) {
    let begin = text.len();
    // Duly's own values are always valid JSON, and a write to memory does not fail.
    write_json(&mut *text, line).ok();
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if text[begin..].iter().any(is_break) {
        let broken = text.split_off(begin);
        text.extend(broken.into_iter().filter(|byte| !is_break(byte)));
    }
    text.push(b'\n');
}

/// Returns a value as one line.
pub(super) fn line(admitted: &Admitted, value: &impl Serialize) -> Bytes {
    let mut text = Vec::new();
    write_line(&mut text, value);
    hold(admitted, text)
}

/// Returns text that is counted without a check of the capacity.
fn hold(admitted: &Admitted, text: Vec<u8>) -> Bytes {
    let reservation = admitted.budget().reserve_unchecked(text.len());
    budget::count_bytes(text, reservation)
}

/// A running stream.
struct LineStream {
    admitted: Admitted,
    namespace: NamespaceName,
    body: Body,
    splitter: Splitter,
    /// The number of the line before the incomplete one, and the deadline of the incomplete one.
    deadline: Option<(u64, Instant)>,
    /// The reservation of the bytes that were read and not handled yet.
    reservation: Reservation,
    progress: StreamProgress,
    items: Items,
    results: Results,
    counts: LineCounts,
}

#[derive(Debug)]
enum StreamProgress {
    /// More lines may come.
    Reading,
    /// The request has ended; its remaining lines are handled.
    Ended,
    /// The remaining lines are not handled.
    Stopped(Problem),
    /// The last line is written.
    Over,
}

#[derive(Debug, Default)]
struct LineCounts {
    accepted: u64,
    refused: u64,
}

impl LineStream {
    /// Returns the next part of the response, not empty; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if matches!(self.progress, StreamProgress::Reading | StreamProgress::Ended) {
                let ended = matches!(self.progress, StreamProgress::Ended);
                let step = self.splitter.take(STEP_LINES_MAX, ended);
                if !step.is_empty() {
                    match self.apply_step(step).await {
                        Ok(text) if text.is_empty() => {}
                        Ok(text) => return Some(hold(&self.admitted, text)),
                        Err(problem) => self.progress = StreamProgress::Stopped(problem),
                    }
                    continue;
                }
            }
            match std::mem::replace(&mut self.progress, StreamProgress::Over) {
                StreamProgress::Reading => {
                    self.progress = StreamProgress::Reading;
                    self.read().await;
                }
                StreamProgress::Ended if self.results == Results::All => return None,
                StreamProgress::Ended => {
                    let LineCounts { accepted, refused } = self.counts;
                    let lines = accepted + refused;
                    let summary = LastLine::Summary { lines, accepted, refused };
                    return Some(line(&self.admitted, &summary));
                }
                StreamProgress::Stopped(problem) => {
                    let after_line = self.splitter.line();
                    let error = problem.into_body();
                    return Some(line(&self.admitted, &LastLine::Stopped { after_line, error }));
                }
                StreamProgress::Over => return None,
            }
        }
    }

    /// Reads the available parts, and waits if there is none.
    async fn read(&mut self) {
        self.splitter.release();
        self.reservation.shrink_to(self.splitter.capacity_with(0));
        if self.admitted.is_stopping() {
            // Checked first: a fast sender has the next part ready each time.
            self.progress = StreamProgress::Stopped(stopping_now());
            return;
        }
        let request_timeout = self.admitted.limits.request_timeout;
        let until = self.until(request_timeout);
        if Instant::now() >= until {
            // Checked first: a part may be ready each time, even a small one.
            self.progress = StreamProgress::Stopped(too_slow(request_timeout));
            return;
        }
        let frame = tokio::select! {
            biased;
            frame = timeout_at(until, self.body.frame()) => {
                frame.map_err(|_| too_slow(request_timeout))
            }
            () = self.admitted.stopping() => Err(stopping_now()),
        };
        let mut arrived = match frame {
            Ok(frame) => frame,
            Err(problem) => {
                self.progress = StreamProgress::Stopped(problem);
                return;
            }
        };
        loop {
            match arrived {
                None => self.progress = StreamProgress::Ended,
                Some(Err(error)) => self.progress = StreamProgress::Stopped(broken(&error)),
                Some(Ok(frame)) => {
                    let part = frame.into_data().unwrap_or_default();
                    match self.reservation.grow_to(self.splitter.capacity_with(part.len())) {
                        Ok(()) => self.splitter.push(&part),
                        Err(problem) => self.progress = StreamProgress::Stopped(problem),
                    }
                }
            }
            if !matches!(self.progress, StreamProgress::Reading)
                || self.splitter.held() >= STEP_BYTES
            {
                return;
            }
            match self.body.frame().now_or_never() {
                Some(next) => arrived = next,
                None => return,
            }
        }
    }

    /// Returns the deadline of the next part.
    ///
    /// The deadline of an incomplete line does not move when a part of it arrives: a slow line would
    /// otherwise hold its memory for ever.
    fn until(&mut self, request_timeout: Duration) -> Instant {
        let line = self.splitter.line();
        let fresh = Instant::now() + request_timeout;
        let until = match self.deadline {
            _ if !self.splitter.is_within_line() => None,
            Some((since, until)) if since == line => Some(until),
            _ => Some(fresh),
        };
        self.deadline = until.map(|until| (line, until));
        until.unwrap_or(fresh)
    }

    /// Carries out a step and returns the lines of its response.
    async fn apply_step(&mut self, step: Vec<(u64, InputLine)>) -> Result<Vec<u8>, Problem> {
        let bytes: usize = step.iter().map(|(_, line)| line.len()).sum();
        // The values made from the lines; the lines themselves were counted when they were read.
        let (call, values) = self.admitted.begin_step(2 * bytes)?;
        let items = self.items;
        let (admitted, namespace) = (self.admitted.clone(), self.namespace.clone());
        let prepared = run_blocking(bytes, move || {
            let (numbers, lines): (Vec<_>, Vec<_>) = step.into_iter().unzip();
            let read = lines.iter().map(|line| parse_line(&admitted, &namespace, items, line));
            Ok((numbers, call.sort(read)))
        });
        let (numbers, sorted) = prepared.await?;
        let audited = self.admitted.step("http", &self.namespace);
        let applied = self.admitted.apply_items(&self.namespace, sorted).await;
        let wait_ms = applied.problem().and_then(|problem| problem.body().retry_after_ms);
        drop(values);
        audited.end(applied.problem().is_some());
        let mut text = Vec::new();
        for (line, item) in numbers.into_iter().zip(applied.outcomes()) {
            let result = self.items.result(&self.admitted, item, |kind| kind.name().to_owned());
            let refused = result.is_refused();
            let LineCounts { accepted, refused: others } = &mut self.counts;
            *(if refused { others } else { accepted }) += 1;
            if refused || self.results == Results::All {
                write_line(&mut text, &ResultLine { line, result });
            }
        }
        if let Some(wait_ms) = wait_ms {
            // The next step would get the same error: the sender is slowed down instead.
            sleep(Duration::from_millis(wait_ms).min(OVERLOAD_WAIT_MAX)).await;
        }
        Ok(text)
    }
}

fn parse_line(
    admitted: &Admitted,
    namespace: &NamespaceName,
    items: Items,
    line: &InputLine,
) -> Result<(CheckedCommand, SentOperation), Problem> {
    let text = match line {
        InputLine::Text(text) => text,
        InputLine::TooLong { bytes_max } => {
            let remedy = "send a smaller payload";
            return Err(Problem::too_large("line", "a line", *bytes_max, remedy));
        }
    };
    items.command(admitted, namespace, text).map_err(|invalid| {
        if invalid.field.is_empty() { invalid.within("line") } else { invalid }.into()
    })
}

fn too_slow(request_timeout: Duration) -> Problem {
    let detail = format!(
        "the next line was not complete within {} s (server.request_timeout): send the lines after \
         this one again",
        request_timeout.as_secs()
    );
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

fn stopping_now() -> Problem {
    let detail = "the server is stopping: send the lines after this one again, to the next server";
    Problem::temporary(Code::Unavailable, detail)
}

fn broken(error: &axum::Error) -> Problem {
    Invalid::new("body", error, "sent to its end").into()
}
