//! `POST /v1/namespaces/{namespace}/settle`: verdicts on leased firings.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName};
use duly_store::{Error, SettleOutcome, Settlement};
use http::StatusCode;
use serde_json::value::RawValue;

use super::{
    App, Problem, answer,
    batch::too_many,
    body::JsonBody,
    budget::{self, Budget, Share},
    path::InNamespace,
    problem::Refusals,
};
use crate::wire::{
    SettleIn, SettledOut, SettlementIn, json,
    settlement::{SETTLEMENTS_MAX, SettleResult},
};

/// What a settlement and its result take in memory, about.
pub(crate) const SETTLEMENT_BYTES: usize = 192;

/// Say what became of leased firings, at most 10000.
///
/// Each settlement has exactly one verdict; each result is exactly one of `outcome`, `error`.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/settle",
    tag = "pull",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = SettleIn, content_type = "application/json"),
    responses((status = 200, description = "One result for each settlement, in order.", body = SettledOut), Refusals)
)]
pub(crate) async fn settle(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    let budget = app.budget().clone();
    let (read, share) = body.read(move |text| read(&namespace, &budget, text)).await?;
    let results = app.settle_many(read).await?.into_iter().map(|result| match result {
        Ok(outcome) => SettleResult::Outcome(outcome.as_str()),
        Err(problem) => SettleResult::Error(problem.into_body()),
    });
    let text = answer::to_bytes(&SettledOut { results: results.collect() })?;
    let bytes = text.len();
    Ok(budget::count_made(answer::with_body(StatusCode::OK, text.into()), share, bytes).await)
}

/// What a caller asks for: a settlement, none for a token that is none, or why it is refused.
pub(crate) type Asked = Result<Option<Settlement>, Invalid>;

impl App {
    /// Settles; one result for each, in their order. A shard that fails refuses only its own, unless all
    /// fail.
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

fn read(
    namespace: &NamespaceName,
    budget: &Budget,
    text: &[u8],
) -> Result<(Vec<Asked>, Share), Problem> {
    let request: SettleIn = json::parse_body(text)?;
    let share = set_aside(budget, request.settlements.len())?;
    let asked = request.settlements.iter().enumerate().map(|(i, text)| {
        settlement(namespace, text).map_err(|invalid| invalid.within(&format!("settlements[{i}]")))
    });
    Ok((asked.collect(), share))
}

/// Takes the memory of so many settlements and their results, if they are not too many.
pub(crate) fn set_aside(budget: &Budget, count: usize) -> Result<Share, Problem> {
    if count > SETTLEMENTS_MAX {
        return Err(too_many("settlements", count, SETTLEMENTS_MAX));
    }
    budget.take(count * SETTLEMENT_BYTES)
}

/// The answer to a settlement of which nobody knows whether it was taken.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}

fn settlement(namespace: &NamespaceName, text: &RawValue) -> Result<Option<Settlement>, Invalid> {
    json::parse::<SettlementIn>(text.get().as_bytes())?.check(namespace)
}
