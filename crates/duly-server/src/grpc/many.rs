//! Calls on many timers at once: cancel by filter, redrive, purge, dead-letter overdue timers.

use duly_api::{filter::BulkCancelMode, v1};
use tonic::{Request, Response};

use super::{namespace, outbound::change_response};
use crate::http::{App, ChangesNothing, Problem};

/// Cancels timers that match a filter.
pub(super) async fn cancel(
    app: &App,
    request: Request<v1::CancelManyRequest>,
) -> Result<Response<v1::CancelManyResponse>, Problem> {
    let changes_nothing = request.extensions().get::<ChangesNothing>().cloned();
    let request = request.into_inner();
    let namespace = namespace(&request.namespace)?;
    let call = request.check()?;
    if let Some(changes_nothing) = changes_nothing.filter(|_| call.mode == BulkCancelMode::DryRun) {
        changes_nothing.set();
    }
    Ok(change_response(app, app.cancel_many(namespace, call).await?).await)
}

/// Redrives dead letters.
pub(super) async fn redrive(
    app: &App,
    request: v1::RedriveRequest,
) -> Result<Response<v1::RedriveResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let (selection, spacing) = request.check()?;
    Ok(change_response(app, app.redrive(namespace, selection, spacing).await?).await)
}

/// Purges dead letters.
pub(super) async fn purge(
    app: &App,
    request: v1::PurgeRequest,
) -> Result<Response<v1::PurgeResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let selection = request.check()?;
    Ok(change_response(app, app.purge(namespace, selection).await?).await)
}

/// Dead-letters overdue timers.
pub(super) async fn dead_letter_overdue(
    app: &App,
    request: v1::DeadLetterOverdueRequest,
) -> Result<Response<v1::DeadLetterOverdueResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    Ok(change_response(app, app.dead_letter_overdue(namespace, request).await?).await)
}
