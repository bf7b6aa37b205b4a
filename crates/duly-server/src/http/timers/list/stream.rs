//! A list as one stream: a timer a line, page after page, as fast as the caller reads.
//!
//! 1. The next page is read when the previous one has been handed over, so a stream of any length holds
//!    one page (P10).
//! 2. A page reserves its memory before it is read; without capacity the stream ends.
//! 3. The last line says that the stream is complete, or gives the reason for an early end and the
//!    cursor to continue from. A stream without a last line was cut off.
//! 4. A search by tag or id prefix reports its progress and a cursor after each page, so a caller can
//!    stop at any line.

use std::{collections::VecDeque, convert::Infallible};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_api::{View, timer::ListEnd};
use duly_core::Code;
use duly_store::query::ListRequest;
use futures::stream;

use super::{shown, truncate_page};
use crate::{
    call,
    http::{
        App, Problem,
        body::run_blocking,
        cursor::{Cursor, FilterHash},
        lines::{line, ndjson},
        reading::ReadResult,
        text::ResponseText,
    },
};

/// Responds with every page from the request's position on.
///
/// # Errors
/// When the first page is refused: then no part of a stream was sent.
pub(super) async fn respond(
    app: App,
    request: ListRequest,
    filter: FilterHash,
    view: View,
) -> Result<Response, Problem> {
    let (timers, examined, over) = (0, 0, false);
    let ready = VecDeque::new();
    let mut listing = ListStream { app, request, filter, view, timers, examined, over, ready };
    listing.page().await?;
    let chunks =
        stream::unfold((listing, call::Scope::current()), |(mut listing, scope)| async move {
            let chunk = scope.run(listing.next()).await?;
            Some((Ok::<_, Infallible>(chunk), (listing, scope)))
        });
    Ok(ndjson(Body::from_stream(chunks)))
}

struct ListStream {
    app: App,
    request: ListRequest,
    filter: FilterHash,
    view: View,
    timers: u64,
    examined: u64,
    over: bool,
    /// Parts that are written and not handed over.
    ready: VecDeque<Bytes>,
}

impl ListStream {
    /// Returns the next part of the response; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() && !self.over {
            if let Err(problem) = self.page().await {
                self.over = true;
                let after = self.request.after.clone();
                let cursor = after.map(|at| Cursor::new(at, self.filter).to_string());
                let last = ListEnd::Stopped { cursor, error: problem.into_body() };
                self.ready = [line(&self.app, &last)].into();
            }
        }
        self.ready.pop_front()
    }

    async fn page(&mut self) -> Result<(), Problem> {
        if self.app.is_stopping() {
            let detail = "the server is stopping: continue from the cursor at the next server";
            return Err(Problem::temporary(Code::Unavailable, detail));
        }
        call::caller().check_still_valid(self.app.now())?;
        let ReadResult { value: mut page, reservation, rest } =
            self.app.read_page(self.request.clone()).await?;
        self.examined += page.examined;
        let view = self.view;
        let written = run_blocking(reservation.bytes(), move || {
            let mut text = ResponseText::new(rest);
            let timers = page.timers.iter().map(|timer| shown(timer, view));
            let count = text.fill(timers, ResponseText::line)?;
            truncate_page(&mut page, count);
            let next = page.next.take();
            drop((page, reservation));
            Ok((text, count, next))
        });
        let (text, count, next) = written.await?;
        self.timers += count as u64;
        self.ready = text.into_parts();
        match next {
            Some(position) => {
                if self.request.is_searched() {
                    let up_to = position.due_at.into();
                    let cursor = Cursor::new(position.clone(), self.filter).to_string();
                    let progress = ListEnd::Progress { examined: self.examined, up_to, cursor };
                    self.ready.push_back(line(&self.app, &progress));
                }
                self.request.after = Some(position);
            }
            None => {
                self.over = true;
                let summary = ListEnd::Summary { timers: self.timers };
                self.ready.push_back(line(&self.app, &summary));
            }
        }
        Ok(())
    }
}
