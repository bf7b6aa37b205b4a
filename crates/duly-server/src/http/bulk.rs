//! `POST /v1/namespaces/{namespace}/cancel`: cancels every pending timer that matches a filter.

use duly_api::{CancelManyRequest, CancelManyResponse};

use super::{
    body::JsonBody,
    path::NamespacePath,
    response::{self, HandlerResult},
};
use crate::service::Admitted;

/// Cancel by filter, at most 10000 timers a call.
///
/// A timer with an attempt under way is left alone and counted in `skipped`. Work and time of a call are
/// bounded: it may cancel nothing and still return a cursor; continue until there is none.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/cancel",
    tag = "timers",
    request_body(content = CancelManyRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were cancelled.", body = CancelManyResponse))
)]
pub(crate) async fn cancel_by_filter(
    admitted: Admitted,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let call = body.parse::<CancelManyRequest>().await?.check()?;
    response::ok(&admitted.cancel_many(namespace, call).await?)
}
