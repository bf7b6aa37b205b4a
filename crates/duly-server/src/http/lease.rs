//! `POST /v1/namespaces/{namespace}/lease`: hand firings to a consumer.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use duly_node::{LeaseRequest, Leased};
use http::StatusCode;
use hyper::body::{Frame, SizeHint};

use super::{
    App, Problem, answer, body::JsonBody, budget, path::InNamespace, problem::Refusals,
    room::LeaseRoom,
};
use crate::wire::{FiringOut, LeaseIn, LeasedOut};

/// The route; its time limit leaves room for the wait.
pub(super) const PATH: &str = "/v1/namespaces/{namespace}/lease";
/// Bytes of an answer that are handed to the connection at once.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// Lease due firings of the pull lane.
///
/// Answers as soon as there is one, or after `wait`. The claims of a client that is gone before
/// the answer is written return at once, uncounted.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/lease",
    tag = "pull",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = LeaseIn, content_type = "application/json"),
    responses((status = 200, description = "The firings, possibly none.", body = LeasedOut), Refusals)
)]
pub(crate) async fn lease(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    let call = body.parse::<LeaseIn>().await?.check()?;
    let room = Arc::new(LeaseRoom::new(app.budget()));
    let leased = app
        .node()
        .lease(LeaseRequest {
            namespace,
            max: call.max,
            bytes_max: call.bytes_max,
            lease: call.lease,
            wait: call.wait,
            room: Some(Arc::<LeaseRoom>::clone(&room)),
        })
        .await?;
    let text = answer::to_bytes(&LeasedOut {
        firings: leased.firings.iter().map(FiringOut::from).collect(),
        paused: leased.paused.then_some(true),
    })?;
    // Refused here, the claims go back uncounted as `leased` is dropped.
    let share = room.for_answer(app.budget(), text.len())?;
    let body = LeasedBody { rest: text, leased: Some(leased) };
    Ok(budget::count(answer::with_body(StatusCode::OK, Body::new(body)), share))
}

/// The answer, which gives the claims back unless it is handed over to its end.
struct LeasedBody {
    rest: Bytes,
    leased: Option<Leased>,
}

impl hyper::body::Body for LeasedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        let part = this.rest.split_to(this.rest.len().min(FRAME_BYTES_MAX));
        if this.rest.is_empty()
            && let Some(leased) = this.leased.take()
        {
            leased.delivered();
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests;
