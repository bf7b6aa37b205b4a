//! `GET /v1/namespaces/{namespace}/timers/{id}`.

use axum::{extract::State, response::Response};
use duly_core::{NamespaceName, TimerId};
use duly_store::TimerView;

use crate::{
    http::{App, Problem, answer, path::OfTimer, problem::Refusals},
    wire::{TimerOut, timer::Mark},
};

/// One timer, its stub, or its latest dead letter.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("id" = String, Path, description = "Id of the timer, percent-encoded (`/` as `%2F`)")
    ),
    responses((status = 200, description = "The timer.", body = TimerOut), Refusals)
)]
pub(crate) async fn get_timer(State(app): State<App>, timer: OfTimer) -> Result<Response, Problem> {
    let view = app.timer(timer.namespace, timer.id).await?;
    answer::ok(&TimerOut::new(&view, Mark::None))
}

impl App {
    /// One timer, its stub, or its latest dead letter.
    pub(crate) async fn timer(
        &self,
        namespace: NamespaceName,
        id: TimerId,
    ) -> Result<TimerView, Problem> {
        let shard = self.shard_of_timer(&namespace, id.as_str());
        match self.store().get(shard, namespace.clone(), id.clone()).await? {
            Some(view) => Ok(view),
            None if self.store().get_namespace(namespace.clone()).await?.is_none() => {
                Err(Problem::no_namespace(namespace.as_str()))
            }
            None => Err(Problem::no_timer(id.as_str(), namespace.as_str())),
        }
    }
}
