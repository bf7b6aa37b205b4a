//! `POST /v1/namespaces/{namespace}/settle`: verdicts on leased firings.

use std::collections::BTreeMap;

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
const SETTLEMENT_BYTES: usize = 192;

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
    let (shards, budget) = (app.store().shards(), app.budget().clone());
    let Read { mut results, groups, share } =
        body.read(move |text| read(&namespace, shards, &budget, text)).await?;
    let mut failures = 0;
    let group_count = groups.len();
    for (places, settlements) in groups.into_values() {
        match app.node().settle(settlements).await {
            Ok(outcomes) => {
                for (place, outcome) in places.into_iter().zip(outcomes) {
                    results[place] = match outcome {
                        SettleOutcome::InDoubt => SettleResult::Error(in_doubt().into_body()),
                        outcome => SettleResult::Outcome(outcome.as_str()),
                    };
                }
            }
            Err(error) => {
                failures += 1;
                if failures == group_count {
                    return Err(error.into());
                }
                for place in places {
                    results[place] = SettleResult::Error(Problem::from(error.clone()).into_body());
                }
            }
        }
    }
    let text = answer::to_bytes(&SettledOut { results })?;
    let bytes = text.len();
    Ok(budget::count_made(answer::with_body(StatusCode::OK, text.into()), share, bytes))
}

/// Settlements of one shard, and their places among the results.
type Group = (Vec<usize>, Vec<Settlement>);

/// A body that was read.
struct Read {
    /// For each settlement its result, where the store is not asked; otherwise one to be replaced.
    results: Vec<SettleResult>,
    groups: BTreeMap<u16, Group>,
    /// For the answer.
    share: Share,
}

fn read(
    namespace: &NamespaceName,
    shards: u16,
    budget: &Budget,
    text: &[u8],
) -> Result<Read, Problem> {
    let request: SettleIn = json::parse_body(text)?;
    let count = request.settlements.len();
    if count > SETTLEMENTS_MAX {
        return Err(too_many("settlements", count, SETTLEMENTS_MAX));
    }
    let share = budget.take(count * SETTLEMENT_BYTES)?;
    let mut results = Vec::with_capacity(count);
    let mut groups: BTreeMap<u16, Group> = BTreeMap::new();
    for (i, text) in request.settlements.iter().enumerate() {
        match settlement(namespace, text) {
            Ok(Some(settlement)) if settlement.token.shard().0 < shards => {
                let group = groups.entry(settlement.token.shard().0).or_default();
                group.0.push(i);
                group.1.push(settlement);
                results.push(SettleResult::Outcome(SettleOutcome::LeaseLost.as_str()));
            }
            Ok(_) => results.push(SettleResult::Outcome(SettleOutcome::InvalidToken.as_str())),
            Err(invalid) => {
                let invalid = invalid.within(&format!("settlements[{i}]"));
                results.push(SettleResult::Error(Problem::from(invalid).into_body()));
            }
        }
    }
    Ok(Read { results, groups, share })
}

/// The answer to a settlement of which nobody knows whether it was taken.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}

fn settlement(namespace: &NamespaceName, text: &RawValue) -> Result<Option<Settlement>, Invalid> {
    json::parse::<SettlementIn>(text.get().as_bytes())?.check(namespace)
}
