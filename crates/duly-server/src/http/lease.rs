//! `POST /v1/namespaces/{namespace}/lease`: leases firings to a consumer.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use duly_core::NamespaceName;
use duly_node::{LeaseRequest, Leased};
use duly_store::Firing;
use http::StatusCode;
use serde::Serialize;

use super::{
    App, Problem,
    body::{JsonBody, run_blocking},
    budget::Reservation,
    lease_reservation::LeaseReservation,
    path::NamespacePath,
    response,
    text::ResponseText,
};
use crate::messages;
use duly_api::{
    LeaseRequest as LeaseMessage, LeaseResponse, SettleResponse, SettleResult, lease::LeaseCall,
};

/// The route. Its time limit includes the wait of the call.
pub(super) const PATH: &str = "/v1/namespaces/{namespace}/lease";

/// Lease due firings of the pull lane.
///
/// Returns as soon as there is one, or after `wait`. If the client disconnects before the response is
/// written, its claims are released at once and do not count as attempts.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/lease",
    tag = "pull",
    request_body(content = LeaseMessage, content_type = "application/json"),
    responses((status = 200, description = "The firings, possibly none.", body = LeaseResponse))
)]
pub(crate) async fn lease(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let call = body.parse::<LeaseMessage>().await?.check()?;
    let claims = Claims::take(&app, namespace, call).await?;
    claims.respond(&app, |leased| leased).await
}

/// Leases firings after settlements, and responds with both.
///
/// If no firing can be leased, the settlements still count: the response has no firings, and the next
/// lease call returns the reason.
pub(super) async fn settled_and_leased(
    app: App,
    namespace: NamespaceName,
    results: Vec<SettleResult>,
    call: LeaseCall,
    reservation: Reservation,
) -> Result<Response, Problem> {
    let leased = match Claims::take(&app, namespace, call).await {
        Ok(claims) => {
            let shown = results.clone();
            let with = move |leased| SettleResponse { results: shown, leased: Some(leased) };
            match claims.respond(&app, with).await {
                Ok(response) => return Ok(response),
                Err(problem) => problem,
            }
        }
        Err(problem) => problem,
    };
    tracing::debug!(
        code = leased.code().as_str(),
        "settle call leased no firings; its settlements count"
    );
    let nothing = SettleResponse { results, leased: Some(LeaseResponse::default()) };
    Ok(response::change(reservation, response::to_bytes(&nothing)?).await)
}

/// Firings that were claimed for a consumer. Claims that are not handed over are released and do not
/// count as attempts.
pub(crate) struct Claims {
    pub(crate) leased: Leased,
    pub(crate) memory: Arc<LeaseReservation>,
}

impl Claims {
    /// Claims firings, and waits for one as long as the call says.
    pub(crate) async fn take(
        app: &App,
        namespace: NamespaceName,
        call: LeaseCall,
    ) -> Result<Self, Problem> {
        let memory = Arc::new(LeaseReservation::new(app.budget()));
        let request = LeaseRequest {
            namespace,
            max: call.max,
            bytes_max: call.bytes_max,
            lease: call.lease,
            wait: call.wait,
            memory: Some(Arc::<LeaseReservation>::clone(&memory)),
        };
        Ok(Self { leased: app.node.lease(request).await?, memory })
    }

    /// Returns the firings in the form of a response.
    pub(crate) fn shown(&self) -> LeaseResponse {
        let firings = self.leased.firings.iter().map(messages::firing).collect();
        LeaseResponse { firings, paused: self.leased.paused }
    }

    /// Responds with the value that `body` makes of the firings. If the response is refused, the
    /// claims are released and do not count as attempts.
    async fn respond<T: Serialize>(
        self,
        app: &App,
        body: impl FnOnce(LeaseResponse) -> T + Send + 'static,
    ) -> Result<Response, Problem> {
        let mut reservation = self.memory.for_firings(app.budget(), &self.leased.firings)?;
        let own = reservation.split(reservation.bytes() / 2);
        let bytes = self.leased.firings.iter().map(Firing::bytes).sum::<u64>();
        let (text, leased) =
            run_blocking(usize::try_from(bytes).unwrap_or(usize::MAX), move || {
                let mut text = ResponseText::new(reservation);
                text.value(&body(self.shown()))?;
                let mut leased = self.leased;
                leased.firings = Vec::new();
                drop(own);
                Ok((text, leased))
            })
            .await?;
        Ok(text.into_response_of(StatusCode::OK, Some(leased)))
    }
}

#[cfg(test)]
mod tests;
