//! `POST /v1/namespaces/{namespace}/lease`: hand firings to a consumer.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use duly_node::{LeaseRequest, Leased};
use duly_store::Firing;
use http::StatusCode;
use hyper::body::{Frame, SizeHint};

use super::{
    App, Problem, answer,
    body::{JsonBody, aside},
    budget::IsCounted,
    path::InNamespace,
    problem::Refusals,
    room::LeaseRoom,
    text::Text,
};
use crate::wire::{FiringOut, LeaseIn, LeasedOut};

/// The route; its time limit leaves room for the wait.
pub(super) const PATH: &str = "/v1/namespaces/{namespace}/lease";

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
    let mut leased = app
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
    // Refused here, the claims go back uncounted as `leased` is dropped.
    let mut share = room.for_firings(app.budget(), &leased.firings)?;
    let own = share.split(share.bytes() / 2);
    let bytes = leased.firings.iter().map(Firing::bytes).sum::<u64>();
    let (text, leased) = aside(usize::try_from(bytes).unwrap_or(usize::MAX), move || {
        let mut text = Text::new(share);
        text.value(&LeasedOut {
            firings: leased.firings.iter().map(FiringOut::from).collect(),
            paused: leased.paused.then_some(true),
        })?;
        leased.firings = Vec::new();
        drop(own);
        Ok((text, leased))
    })
    .await?;
    let body = LeasedBody { parts: text.into_line(), leased: Some(leased) };
    let mut response = answer::with_body(StatusCode::OK, Body::new(body));
    response.extensions_mut().insert(IsCounted);
    Ok(response)
}

/// The answer, which gives the claims back unless it is handed over to its end.
struct LeasedBody {
    parts: VecDeque<Bytes>,
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
        let Some(part) = this.parts.pop_front() else {
            return Poll::Ready(None);
        };
        if this.parts.is_empty()
            && let Some(leased) = this.leased.take()
        {
            leased.delivered();
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests;
