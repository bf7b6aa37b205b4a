//! Calls on many timers at once: cancelling by filter, and what becomes of dead letters.

use duly_proto::v1;
use tonic::{Request, Response};

use super::{namespace, outbound::made};
use crate::{
    http::{App, ChangesNothing, Problem},
    wire::bulk::Mode,
    wire::proto::{
        filter::{cancel_in, cancelled_out},
        letters::{given_up_out, overdue_in, purge_in, purged_out, redrive_in, redriven_out},
    },
};

/// Cancels what fits a filter.
pub(super) async fn cancel(
    app: &App,
    request: Request<v1::CancelManyRequest>,
) -> Result<Response<v1::CancelManyResponse>, Problem> {
    let changes_nothing = request.extensions().get::<ChangesNothing>().cloned();
    let request = request.into_inner();
    let namespace = namespace(&request.namespace)?;
    let call = cancel_in(request)?.check(namespace)?;
    if let Some(changes_nothing) = changes_nothing.filter(|_| call.mode == Mode::DryRun) {
        changes_nothing.say();
    }
    Ok(made(app, cancelled_out(app.cancel_many(call).await?)).await)
}

/// Sends dead letters again.
pub(super) async fn redrive(
    app: &App,
    request: v1::RedriveRequest,
) -> Result<Response<v1::RedriveResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let (selection, spacing) = redrive_in(request)?.check()?;
    Ok(made(app, redriven_out(app.redrive(namespace, selection, spacing).await?)).await)
}

/// Drops dead letters for good.
pub(super) async fn purge(
    app: &App,
    request: v1::PurgeRequest,
) -> Result<Response<v1::PurgeResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let selection = purge_in(request).check()?;
    Ok(made(app, purged_out(app.purge(namespace, selection).await?)).await)
}

/// Gives up what is overdue.
pub(super) async fn dead_letter_overdue(
    app: &App,
    request: v1::DeadLetterOverdueRequest,
) -> Result<Response<v1::DeadLetterOverdueResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    Ok(made(app, given_up_out(app.dead_letter_overdue(namespace, overdue_in(request)?).await?))
        .await)
}
