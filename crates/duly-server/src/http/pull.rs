//! `POST /v1/namespaces/{namespace}/lease`: leases firings to a consumer.
//! `POST /v1/namespaces/{namespace}/settle`: settles leased firings, and leases the next ones.

use std::sync::Arc;

use axum::extract::State;
use duly_api::{
    LeaseResponse, SettleResponse, SettleResult, Settlement as SettlementMessage, json,
    lease::LeaseCall,
    settle::{SETTLEMENTS_MAX, Settle},
};
use duly_core::{Invalid, NamespaceName};
use duly_node::{LeaseRequest, Leased};
use duly_store::{Error, Firing, SettleOutcome, Settlement, Token};
use http::StatusCode;
use serde::Serialize;

use super::{
    App, Problem,
    batch::too_many,
    body::{JsonBody, run_blocking},
    budget::{Budget, Reservation},
    lease_reservation::LeaseReservation,
    path::NamespacePath,
    response::{self, HandlerResult},
    text::ResponseText,
};
use crate::{call, messages};

/// The routes. Their time limits include the wait of a lease.
pub(super) const PATHS: [&str; 2] =
    ["/v1/namespaces/{namespace}/lease", "/v1/namespaces/{namespace}/settle"];

/// Approximate memory of a settlement and its result.
pub(crate) const SETTLEMENT_BYTES: usize = 192;

/// Lease due firings of the pull lane.
///
/// Returns as soon as there is one, or after `wait`. If the client disconnects before the response is
/// written, its claims are released at once and do not count as attempts.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/lease",
    tag = "pull",
    request_body(content = duly_api::LeaseRequest, content_type = "application/json"),
    responses((status = 200, description = "The firings, possibly none.", body = LeaseResponse))
)]
pub(crate) async fn lease(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let call = body.parse::<duly_api::LeaseRequest>().await?.check()?;
    let claims = Claims::take(&app, namespace, call).await?;
    claims.respond(&app, |leased| leased).await
}

/// Leases firings after settlements, and responds with both.
///
/// If no firing can be leased, the settlements still count: the response has no firings, and the next
/// lease call returns the reason.
async fn settled_and_leased(
    app: App,
    namespace: NamespaceName,
    results: Vec<SettleResult>,
    call: LeaseCall,
    reservation: Reservation,
) -> HandlerResult {
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
        lease: LeaseCall,
    ) -> Result<Self, Problem> {
        let caller = call::caller();
        let tenant = caller.tenant().filter(|_| !lease.wait.is_zero());
        let _slot = tenant.map(|tenant| tenant.admit_waiting()).transpose()?;
        let memory = Arc::new(LeaseReservation::new(&app.budget()));
        let request = LeaseRequest {
            namespace,
            max: lease.max,
            bytes_max: lease.bytes_max,
            lease: lease.lease,
            wait: lease.wait,
            memory: Some(Arc::<LeaseReservation>::clone(&memory)),
        };
        let leased = app.node.lease(request).await?;
        // The call may have waited. Claims that are dropped are released.
        call::caller().check_still_valid(app.now())?;
        Ok(Self { leased, memory })
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
    ) -> HandlerResult {
        let mut reservation = self.memory.for_firings(&app.budget(), &self.leased.firings)?;
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

/// Settle leased firings, at most 10000, and lease the next ones in the same call.
///
/// Each settlement has exactly one verdict; each result is exactly one of `outcome`, `error`. With
/// `lease`, the next firings are leased after the settlements, as by a lease call; a consumer needs no
/// other call.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/settle",
    tag = "pull",
    request_body(content = Settle, content_type = "application/json"),
    responses((status = 200, description = "One result for each settlement, in order.", body = SettleResponse))
)]
pub(crate) async fn settle(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let (budget, within) = (app.budget(), namespace.clone());
    let SettleBody { checked, lease, reservation } =
        body.read(move |text| read_settle(&within, &budget, text)).await?;
    let results = app.settle_many(checked).await?.into_iter().map(settle_result).collect();
    match lease {
        None => {
            let text = response::to_bytes(&SettleResponse { results, leased: None })?;
            Ok(response::change(reservation, text).await)
        }
        Some(call) => settled_and_leased(app, namespace, results, call, reservation).await,
    }
}

/// Returns the result of a settlement.
pub(crate) fn settle_result(result: Result<SettleOutcome, Problem>) -> SettleResult {
    match result {
        Ok(outcome) => outcome.into(),
        Err(problem) => problem.into_body().into(),
    }
}

/// A settlement of a caller: `None` for an invalid token, or the reason of its refusal.
pub(crate) type CheckedSettlement = Result<Option<Settlement>, Invalid>;

impl App {
    /// Settles leases. Returns one result for each settlement, in their order. A shard that fails
    /// refuses only its own settlements, unless all shards fail.
    pub(crate) async fn settle_many(
        &self,
        checked: Vec<CheckedSettlement>,
    ) -> Result<Vec<Result<SettleOutcome, Problem>>, Problem> {
        call::note(|notes| notes.items += checked.len() as u64);
        let mut settlements = Vec::with_capacity(checked.len());
        let mut send = |settlement: Option<Settlement>| {
            let is_sent = settlement.is_some();
            settlements.extend(settlement);
            is_sent
        };
        let slots: Vec<_> = checked.into_iter().map(|checked| checked.map(&mut send)).collect();
        let trace_parent = call::trace_parent();
        let outcomes = self.node.settle(settlements, trace_parent.as_deref()).await?;
        let mut outcomes = outcomes.into_iter();
        let results = slots.into_iter().map(|slot| match slot? {
            false => Ok(SettleOutcome::InvalidToken),
            true => match outcomes.next() {
                Some(Ok(SettleOutcome::InDoubt)) | None => Err(in_doubt()),
                Some(outcome) => Ok(outcome?),
            },
        });
        Ok(results.collect())
    }
}

/// A parsed body.
struct SettleBody {
    checked: Vec<CheckedSettlement>,
    lease: Option<LeaseCall>,
    reservation: Reservation,
}

fn read_settle(
    namespace: &NamespaceName,
    budget: &Budget,
    text: &[u8],
) -> Result<SettleBody, Problem> {
    let request: Settle = json::parse_body(text)?;
    let lease = request.lease.map(|lease| lease.check().map_err(|it| it.within("lease")));
    let reservation = reserve_settlements(budget, request.settlements.len())?;
    let checked = request.settlements.iter().enumerate().map(|(i, text)| {
        let settlement = json::parse::<SettlementMessage>(text.get().as_bytes());
        check_settlement(namespace, i, settlement)
    });
    Ok(SettleBody { checked: checked.collect(), lease: lease.transpose()?, reservation })
}

/// Returns a checked settlement, or `None` for an invalid token. An error names the field with its place
/// in the list.
pub(crate) fn check_settlement(
    namespace: &NamespaceName,
    index: usize,
    message: Result<SettlementMessage, Invalid>,
) -> CheckedSettlement {
    let settlement = message.and_then(|mut message| {
        let token = std::mem::take(&mut message.token);
        let verdict = message.verdict()?;
        let namespace = Some(namespace.clone());
        Ok(Token::parse(&token).map(|token| Settlement { token, namespace, verdict }))
    });
    settlement.map_err(|invalid| invalid.within(&format!("settlements[{index}]")))
}

/// Reserves the memory of `count` settlements and their results, unless the number is over the limit.
pub(crate) fn reserve_settlements(budget: &Budget, count: usize) -> Result<Reservation, Problem> {
    if count > SETTLEMENTS_MAX {
        return Err(too_many("settlements", count, SETTLEMENTS_MAX));
    }
    budget.reserve(count * SETTLEMENT_BYTES)
}

/// Returns the problem of a settlement whose outcome is not known.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}

#[cfg(test)]
mod tests;
