//! `POST /v1/namespaces/{namespace}/settle`: settles leased firings.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName};
use duly_store::{Error, SettleOutcome, Settlement, Token};
use http::StatusCode;

use super::{
    App, Problem, answer,
    batch::too_many,
    body::JsonBody,
    budget::{self, Budget, Share},
    lease,
    path::InNamespace,
    problem::Refusals,
};
use duly_api::{
    SettleResponse, SettleResult, Settlement as Asking, json,
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
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = Settle, content_type = "application/json"),
    responses((status = 200, description = "One result for each settlement, in order.", body = SettleResponse), Refusals)
)]
pub(crate) async fn settle(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    let (budget, within) = (app.budget().clone(), namespace.clone());
    let Read { asked, lease, share } = body.read(move |text| read(&within, &budget, text)).await?;
    let results = app.settle_many(asked).await?.into_iter().map(result).collect();
    match lease {
        None => {
            let text = answer::to_bytes(&SettleResponse { results, leased: None })?;
            let (bytes, body) = (text.len(), text.into());
            Ok(budget::count_made(answer::with_body(StatusCode::OK, body), share, bytes).await)
        }
        Some(call) => lease::settled_and_leased(app, namespace, results, call, share).await,
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
pub(crate) type Asked = Result<Option<Settlement>, Invalid>;

impl App {
    /// Settles leases. Returns one result for each settlement, in their order. A shard that fails
    /// refuses only its own settlements, unless all shards fail.
    pub(crate) async fn settle_many(
        &self,
        asked: Vec<Asked>,
    ) -> Result<Vec<Result<SettleOutcome, Problem>>, Problem> {
        let mut settlements = Vec::with_capacity(asked.len());
        let places: Vec<_> = asked
            .into_iter()
            .map(|asked| {
                asked.map(|settlement| {
                    let is_sent = settlement.is_some();
                    settlements.extend(settlement);
                    is_sent
                })
            })
            .collect();
        let mut outcomes = self.node().settle(settlements).await?.into_iter();
        let results = places.into_iter().map(|place| match place? {
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
struct Read {
    asked: Vec<Asked>,
    lease: Option<LeaseCall>,
    share: Share,
}

fn read(namespace: &NamespaceName, budget: &Budget, text: &[u8]) -> Result<Read, Problem> {
    let request: Settle = json::parse_body(text)?;
    let lease = request.lease.map(|lease| lease.check().map_err(|it| it.within("lease")));
    let share = set_aside(budget, request.settlements.len())?;
    let asked = request.settlements.iter().enumerate().map(|(i, text)| {
        let settlement = json::parse::<Asking>(text.get().as_bytes());
        checked(namespace, i, settlement)
    });
    Ok(Read { asked: asked.collect(), lease: lease.transpose()?, share })
}

/// Returns a checked settlement, or `None` for an invalid token. An error names the field with its place
/// in the list.
pub(crate) fn checked(
    namespace: &NamespaceName,
    place: usize,
    asking: Result<Asking, Invalid>,
) -> Asked {
    let settlement = asking.and_then(|mut asking| {
        let token = std::mem::take(&mut asking.token);
        let verdict = asking.verdict()?;
        let namespace = Some(namespace.clone());
        Ok(Token::parse(&token).map(|token| Settlement { token, namespace, verdict }))
    });
    settlement.map_err(|invalid| invalid.within(&format!("settlements[{place}]")))
}

/// Reserves the memory of `count` settlements and their results, unless the number is over the limit.
pub(crate) fn set_aside(budget: &Budget, count: usize) -> Result<Share, Problem> {
    if count > SETTLEMENTS_MAX {
        return Err(too_many("settlements", count, SETTLEMENTS_MAX));
    }
    budget.take(count * SETTLEMENT_BYTES)
}

/// Returns the problem of a settlement whose outcome is not known.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}
