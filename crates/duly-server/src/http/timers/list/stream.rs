//! A list as one stream: a timer a line, page after page, as fast as the caller reads.
//!
//! 1. The next page is read when the previous one has been handed over, so a stream of any length holds
//!    one page (P10).
//! 2. A page reserves its memory before it is read; without capacity the stream ends.
//! 3. The last line says that the stream is complete, or gives the reason for an early end and the
//!    cursor to continue from. A stream without a last line was cut off.
//! 4. While shards are unavailable, the stream has the timers of the others, and its last line gives the
//!    missing shards as the reason for which it is not complete.
//! 5. The caller is checked before each part: a revoked key gets no part of a page that is ready.
//! 6. A search by tag or id prefix reports its progress and a cursor after each page, so a caller can
//!    stop at any line.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_api::timer::ListEnd;
use duly_core::{Code, shard::ShardId};
use duly_store::{
    Error,
    query::{ListRequest, Position},
};
use futures::stream;

use super::truncate_page;
use crate::{
    http::{
        Problem,
        lines::{line, ndjson},
        response::ResponseText,
    },
    service::{
        Admitted,
        blocking::run_blocking,
        lists::{Cursor, FilterHash, PermittedView, shown},
        reading::ReadResult,
    },
};

/// Responds with every page from the request's position on.
///
/// # Errors
/// When the first page is refused: then no part of a stream was sent.
pub(super) async fn respond(
    admitted: Admitted,
    request: ListRequest,
    filter: FilterHash,
    view: PermittedView,
) -> Result<Response, Problem> {
    let mut listing = ListStream {
        admitted,
        request,
        filter,
        view,
        timers: 0,
        examined: 0,
        unavailable: BTreeMap::new(),
        over: false,
        is_stopped: false,
        ready: VecDeque::new(),
    };
    listing.page().await?;
    let chunks = stream::unfold(listing, |mut listing| async move {
        let chunk = listing.next().await?;
        Some((Ok::<_, Infallible>(chunk), listing))
    });
    Ok(ndjson(Body::from_stream(chunks)))
}

struct ListStream {
    admitted: Admitted,
    request: ListRequest,
    filter: FilterHash,
    view: PermittedView,
    timers: u64,
    examined: u64,
    /// Shards that were missing in a page, with the first error of each.
    unavailable: BTreeMap<ShardId, Error>,
    over: bool,
    /// `true`: the last line is the reason for an early end.
    is_stopped: bool,
    /// Parts that are written and not handed over.
    ready: VecDeque<Bytes>,
}

impl ListStream {
    /// Returns the next part of the response; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() && !self.over {
            if let Err(problem) = self.page().await {
                let after = self.request.after.clone();
                self.stop(problem, after);
            }
        }
        if !self.is_stopped
            && !self.ready.is_empty()
            && let Err(problem) = self.admitted.check_still_valid()
        {
            // A cursor would be behind the rest of the page.
            self.stop(problem, None);
        }
        self.ready.pop_front()
    }

    /// Ends the stream: its last line has the reason.
    fn stop(&mut self, problem: Problem, after: Option<Position>) {
        (self.over, self.is_stopped) = (true, true);
        let cursor = after.map(|at| Cursor::new(at, self.filter).to_string());
        let error = problem.into_body();
        let unavailable_shards = self.unavailable_shards();
        let last = ListEnd::Stopped { cursor, error, unavailable_shards };
        self.ready = [line(&self.admitted, &last)].into();
    }

    async fn page(&mut self) -> Result<(), Problem> {
        if self.admitted.is_stopping() {
            let detail = "the server is stopping: continue from the cursor at the next server";
            return Err(Problem::temporary(Code::Unavailable, detail));
        }
        self.admitted.check_still_valid()?;
        let ReadResult { value, reservation, rest } =
            self.admitted.read_partial_page(self.request.clone()).await?;
        for (shard, error) in value.unavailable {
            self.unavailable.entry(shard).or_insert(error);
        }
        let mut page = value.value;
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
                    let (examined, unavailable_shards) = (self.examined, self.unavailable_shards());
                    let progress =
                        ListEnd::Progress { examined, up_to, cursor, unavailable_shards };
                    self.ready.push_back(line(&self.admitted, &progress));
                }
                self.request.after = Some(position);
            }
            None => {
                self.over = true;
                let end = match self.missing_shards() {
                    Some(problem) => ListEnd::Stopped {
                        cursor: None,
                        error: problem.into_body(),
                        unavailable_shards: self.unavailable_shards(),
                    },
                    None => ListEnd::Summary { timers: self.timers },
                };
                self.ready.push_back(line(&self.admitted, &end));
            }
        }
        Ok(())
    }

    fn unavailable_shards(&self) -> Vec<u32> {
        self.unavailable.keys().map(|shard| shard.0.into()).collect()
    }

    /// Returns the reason for which the stream is not complete, if shards were unavailable.
    fn missing_shards(&self) -> Option<Problem> {
        let (_, error) = self.unavailable.first_key_value()?;
        let shards: Vec<_> = self.unavailable_shards().iter().map(u32::to_string).collect();
        let detail = format!(
            "the timers of the unavailable shards {} are missing, all others are listed: {error}",
            shards.join(", ")
        );
        Some(Problem::temporary(Code::Unavailable, &detail))
    }
}
