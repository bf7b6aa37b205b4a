//! `POST /v1/store/repair`: lets shards of a store on Redis take calls again.

use axum::{extract::State, response::Response};
use duly_core::{Code, shard::ShardId};
use duly_store::Repaired;

use super::{App, Problem, body::JsonBody, response};
use crate::messages;
use duly_api::cluster::{Repair, Repaired as RepairedShards};

/// Path of the route. A repair reads and writes every namespace.
pub(super) const PATH: &str = "/v1/store/repair";

/// Accept that shards have lost data, so that they take calls again.
///
/// An emptied shard gets its marker and the settings of namespaces from the other shards; its timers are
/// lost. A shard that came back with older data is confirmed. Shards that take calls stay as they are.
#[utoipa::path(
    post,
    path = "/v1/store/repair",
    tag = "service",
    request_body(content = Repair, content_type = "application/json"),
    responses((status = 200, description = "The shards take calls.", body = RepairedShards))
)]
pub(crate) async fn repair(State(app): State<App>, body: JsonBody) -> Result<Response, Problem> {
    let wanted = body.parse::<Repair>().await?.shards;
    let Some(deployment) = app.store.deployment() else {
        let detail = "there is nothing to repair here: this server keeps its timers in a directory \
                      of its own, which `duly store check` verifies";
        return Err(Problem::new(Code::PermissionDenied, detail));
    };
    let mut shards = Vec::with_capacity(wanted.len());
    for shard in wanted.into_iter().map(ShardId) {
        let repaired = deployment.repair(shard).await?;
        if repaired != Repaired::Nothing {
            tracing::warn!(
                shard = shard.0,
                ?repaired,
                "shard repaired on an operator's call; it accepts calls again"
            );
        }
        shards.push(messages::repaired_shard(shard, repaired));
    }
    response::ok(&RepairedShards { shards })
}
