//! Cancels every pending timer that matches a filter.
//!
//! A call reads the pages of the list. It cancels each timer on the condition that it is still the
//! listed one (see [`Seen`]): a timer that was moved out of the filter meanwhile is left alone. The work
//! of a call is bounded, and the response has a cursor for the next call, so a call may be repeated or
//! cut off.

use duly_api::{
    CancelManyResponse, Time,
    filter::{BulkCancel, BulkCancelMode, CANCELS_MAX, CheckedFilter},
};
use duly_core::NamespaceName;
use duly_store::{
    Operation, Outcome, Refusal, TimerView,
    command::Seen,
    query::{ListRequest, ListState, PAGE_MAX, Position},
};
use tokio::time::Instant;

use super::{
    Admitted,
    cursor::{Cursor, apply_cursor},
    items::brief,
    reading::ReadResult,
};
use crate::{
    messages,
    problem::{Problem, refusal_texts::OperationKind},
};

/// Pages of the list that one call reads.
const PAGES_MAX: usize = CANCELS_MAX as usize / PAGE_MAX;

impl Admitted {
    /// Cancels matching timers, as many as one call may.
    pub(crate) async fn cancel_many(
        &self,
        namespace: NamespaceName,
        call: BulkCancel,
    ) -> Result<CancelManyResponse, Problem> {
        let BulkCancel { filter, limit, cursor, mode } = call;
        if mode == BulkCancelMode::DryRun {
            self.set_dry_run();
        }
        let mut request = list_request(namespace, filter);
        let filter = apply_cursor(&mut request, cursor.as_deref())?;
        self.namespace(request.namespace.clone()).await?;
        let mut out = CancelManyResponse {
            dry_run: mode == BulkCancelMode::DryRun,
            examined: request.is_searched().then_some(0),
            ..CancelManyResponse::default()
        };
        // A response with a cursor is better than a timeout.
        let until = Instant::now() + self.limits.request_timeout / 2;
        for _ in 0..PAGES_MAX {
            let remaining = limit - usize::try_from(out.cancelled).unwrap_or(limit);
            request.limit = remaining.min(PAGE_MAX);
            let read = self.read_page(request.clone()).await;
            let ReadResult { value: page, reservation: _reservation, rest: _rest } =
                read.map_err(|problem| match mode {
                    BulkCancelMode::DryRun => problem,
                    BulkCancelMode::Cancel => problem.after_doing(out.cancelled, "cancelled"),
                })?;
            out.examined = out.examined.map(|examined| examined + page.examined);
            let (free, in_flight): (Vec<_>, Vec<_>) =
                page.timers.iter().partition(|view| view.attempt_under_way.is_none());
            out.skipped += in_flight.len() as u64;
            match mode {
                BulkCancelMode::DryRun => count(&free, &mut out),
                BulkCancelMode::Cancel => cancel(self, &request, &free, &mut out).await?,
            }
            request.after = page.next;
            let has_capacity = out.cancelled < limit as u64;
            if request.after.is_none() || !has_capacity || Instant::now() >= until {
                break;
            }
        }
        out.up_to = out.examined.and(request.after.as_ref()).map(|after| Time::from(after.due_at));
        let cursor = |position: Position| Cursor::new(position, filter).to_string();
        out.cursor = request.after.map(cursor);
        Ok(out)
    }
}

/// Returns the list of the pending timers that a filter selects.
fn list_request(namespace: NamespaceName, filter: CheckedFilter) -> ListRequest {
    let state = filter.state.map_or(ListState::Pending, ListState::Only);
    let CheckedFilter { tag, id_prefix, due_from, due_to, .. } = filter;
    ListRequest { tag, id_prefix, due_from, due_to, ..ListRequest::new(namespace, state) }
}

fn count(views: &[&TimerView], out: &mut CancelManyResponse) {
    out.cancelled += views.len() as u64;
    out.maybe_delivered += views.iter().filter(|view| view.maybe_delivered()).count() as u64;
}

async fn cancel(
    admitted: &Admitted,
    request: &ListRequest,
    views: &[&TimerView],
    out: &mut CancelManyResponse,
) -> Result<(), Problem> {
    let state = match request.state {
        ListState::Only(state) => Some(state),
        _ => None,
    };
    let namespace = &request.namespace;
    let timers = views.iter().filter_map(|view| view.timer());
    let commands: Vec<_> = timers
        .map(|timer| {
            let (incarnation, revision) = (timer.incarnation, timer.revision);
            let seen = Seen { incarnation, revision, state };
            brief(namespace.clone(), Operation::CancelSeen { id: timer.id.clone(), seen })
        })
        .collect();
    if commands.is_empty() {
        return Ok(());
    }
    let mut failed = None;
    let outcomes = admitted.apply_many(namespace, commands).await;
    for outcome in outcomes.map_err(|it| it.after_doing(out.cancelled, "cancelled"))? {
        match outcome {
            Outcome::Cancelled { already: false, maybe_delivered, .. } => {
                out.cancelled += 1;
                out.maybe_delivered += u64::from(maybe_delivered);
            }
            // The timer has ended since it was listed, was replaced, or has an attempt under way.
            Outcome::Cancelled { .. }
            | Outcome::Refused(Refusal::State { .. } | Refusal::UnknownTimer { .. }) => {
                out.skipped += 1;
            }
            other => failed = Some(messages::refused(OperationKind::Cancel, &other, "")),
        }
    }
    let done = out.cancelled;
    failed.map_or(Ok(()), |problem| Err(problem.after_doing(done, "cancelled")))
}
