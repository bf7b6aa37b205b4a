//! A list as one stream: a timer a line, page after page, as fast as the caller reads.
//!
//! The next page is asked for when the one before has been handed over, so a stream holds one page
//! whatever its length (P10). Its last line says that it is whole, or where to go on and why it
//! ended here: a stream without one was cut off. A search by tag or id prefix says behind each page how
//! far it is and where to go on, so that it can be stopped at any line.

use std::convert::Infallible;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_core::{Code, Millis, error_code::Retry};
use duly_store::query::ListRequest;
use futures::stream;

use crate::{
    http::{
        App, Problem, budget,
        cursor::{Cursor, Filter},
        lines::{ndjson, write_line},
        pages,
    },
    wire::{
        TimerOut,
        timer::{ListEndOut, Mark},
    },
};

/// Answers every page from the request's place on.
///
/// # Errors
/// When the first page is refused: then nothing of a stream was answered.
pub(super) async fn answer(
    app: App,
    request: ListRequest,
    filter: Filter,
) -> Result<Response, Problem> {
    let mut listing = Listing { app, request, filter, timers: 0, examined: 0, over: false };
    let mut text = Vec::new();
    listing.page(&mut text).await?;
    let first = (!text.is_empty()).then(|| listing.held(text));
    let chunks = stream::unfold((first, listing), |(first, mut listing)| async move {
        let chunk = match first {
            Some(first) => first,
            None => listing.next().await?,
        };
        Some((Ok::<_, Infallible>(chunk), (None, listing)))
    });
    Ok(ndjson(Body::from_stream(chunks)))
}

struct Listing {
    app: App,
    request: ListRequest,
    filter: Filter,
    timers: u64,
    examined: u64,
    over: bool,
}

impl Listing {
    /// The next part of the answer, not empty; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut text = Vec::new();
        while text.is_empty() && !self.over {
            if let Err(problem) = self.page(&mut text).await {
                self.over = true;
                let after = self.request.after.clone();
                let cursor = after.map(|at| Cursor::new(at, self.filter).to_string());
                let last = ListEndOut::Stopped { cursor, error: problem.into_body() };
                write_line(&mut text, &last);
            }
        }
        (!text.is_empty()).then(|| self.held(text))
    }

    fn held(&self, text: Vec<u8>) -> Bytes {
        let share = self.app.budget().take_anyway(text.len());
        budget::held(text, share)
    }

    async fn page(&mut self, text: &mut Vec<u8>) -> Result<(), Problem> {
        if self.app.is_stopping() {
            let detail = "the server is stopping: go on from the cursor at the next one";
            return Err(Problem::new(Code::Unavailable, detail)
                .with_retry(Retry::After(Millis::from_secs(1))));
        }
        // What is held already may have filled the memory: this stream then ends before it takes
        // more, with the place to go on from.
        drop(self.app.budget().take(1)?);
        let page = pages::page(self.app.store(), self.request.clone()).await?;
        for view in &page.timers {
            write_line(text, &TimerOut::new(view, Mark::None));
        }
        self.timers += page.timers.len() as u64;
        self.examined += page.examined;
        match page.next {
            Some(position) => {
                if self.request.is_searched() {
                    let up_to = position.due_at.into();
                    let cursor = Cursor::new(position.clone(), self.filter).to_string();
                    let progress = ListEndOut::Progress { examined: self.examined, up_to, cursor };
                    write_line(text, &progress);
                }
                self.request.after = Some(position);
            }
            None => {
                self.over = true;
                write_line(text, &ListEndOut::Summary { timers: self.timers });
            }
        }
        Ok(())
    }
}
