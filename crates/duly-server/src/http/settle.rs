//! `POST /v1/namespaces/{namespace}/settle`: settles leased firings.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName};
use duly_store::{Error, SettleOutcome, Settlement, Token};

use super::{
    App, Problem,
    batch::too_many,
    body::JsonBody,
    budget::{Budget, Reservation},
    lease,
    path::NamespacePath,
    response,
};
use duly_api::{
    SettleResponse, SettleResult, Settlement as SettlementMessage, json,
    lease::LeaseCall,
    settle::{SETTLEMENTS_MAX, Settle},
};

/// The route. Its time limit includes the wait of a lease.
pub(super) const PATH: &str = "/v1/namespaces/{namespace}/settle";

/// Approximate memory of a settlement and its result.
pub(crate) const SETTLEMENT_BYTES: usize = 192;

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
) -> Result<Response, Problem> {
    let (budget, within) = (app.budget().clone(), namespace.clone());
    let SettleBody { checked, lease, reservation } =
        body.read(move |text| read(&within, &budget, text)).await?;
    let results = app.settle_many(checked).await?.into_iter().map(result).collect();
    match lease {
        None => {
            let text = response::to_bytes(&SettleResponse { results, leased: None })?;
            Ok(response::change(reservation, text).await)
        }
        Some(call) => lease::settled_and_leased(app, namespace, results, call, reservation).await,
    }
}

/// Returns the result of a settlement.
pub(crate) fn result(result: Result<SettleOutcome, Problem>) -> SettleResult {
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
        let mut settlements = Vec::with_capacity(checked.len());
        let mut send = |settlement: Option<Settlement>| {
            let is_sent = settlement.is_some();
            settlements.extend(settlement);
            is_sent
        };
        let slots: Vec<_> = checked.into_iter().map(|checked| checked.map(&mut send)).collect();
        let mut outcomes = self.node.settle(settlements).await?.into_iter();
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

fn read(namespace: &NamespaceName, budget: &Budget, text: &[u8]) -> Result<SettleBody, Problem> {
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
