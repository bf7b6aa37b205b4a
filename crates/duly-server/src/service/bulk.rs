//! Calls on many timers: cancels those that match a filter, redrives and purges dead letters, and dead-letters overdue
//! timers.
//!
//! A call reads the pages of the list. It changes each timer on the condition that it is still the
//! listed one (see [`Seen`]): a timer that was moved out of the filter meanwhile is left alone. The work
//! of a call is bounded, and the response has a cursor for the next call, so a call may be repeated or
//! cut off.

use duly_api::{
    CancelManyResponse, DeadLetterError, DeadLetterOverdueRequest, DeadLetterOverdueResponse,
    PurgeResponse, RedriveResponse, Time,
    dead_letters::{DEAD_LETTERS_MAX, DeadLetterSelection, RedriveSpacing},
    filter::{BulkCancel, BulkCancelMode, CANCELS_MAX, CheckedFilter, InFlight},
};
use duly_core::{Code, Invalid, Millis, NamespaceName, State, Timestamp};
use duly_store::{
    Command, Operation, Outcome, Refusal, TimerView,
    command::{DeadLetterId, Seen},
    query::{Body, ListRequest, ListState, PAGE_MAX, Position},
};
use tokio::time::Instant;

use super::{
    Admitted,
    items::brief,
    lists::{Cursor, apply_cursor},
    reading::ReadResult,
};
use crate::{
    messages,
    problem::{Problem, refusal_texts::OperationKind},
    tenants::TenantState,
};

/// Dead letters that a tenant with a limit of bytes redrives between two counts.
const REDRIVES_OF_STEP: usize = 16;
/// Pages of the list that one call reads.
const PAGES_MAX: usize = CANCELS_MAX as usize / PAGE_MAX;

impl Admitted {
    /// Cancels matching timers, as many as one call may.
    pub(crate) async fn cancel_many(
        &self,
        namespace: NamespaceName,
        call: BulkCancel,
    ) -> Result<CancelManyResponse, Problem> {
        let BulkCancel { filter, limit, cursor, mode, in_flight } = call;
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
            let remaining = limit - usize::try_from(out.cancelled + out.stopped).unwrap_or(limit);
            request.limit = remaining.min(PAGE_MAX);
            let read = self.read_page(request.clone()).await;
            let ReadResult { value: page, reservation: _reservation, rest: _rest } =
                read.map_err(|problem| match mode {
                    BulkCancelMode::DryRun => problem,
                    BulkCancelMode::Cancel => problem.after_doing(out.cancelled, "cancelled"),
                })?;
            out.examined = out.examined.map(|examined| examined + page.examined);
            let (chosen, skipped): (Vec<_>, Vec<_>) = page.timers.iter().partition(|view| {
                view.attempt_under_way.is_none() || in_flight == InFlight::Stop && !view.stopped
            });
            out.skipped += skipped.len() as u64;
            match mode {
                BulkCancelMode::DryRun => count(&chosen, &mut out),
                BulkCancelMode::Cancel => {
                    cancel(self, &request, &chosen, in_flight, &mut out).await?;
                }
            }
            request.after = page.next;
            let has_capacity = out.cancelled + out.stopped < limit as u64;
            if request.after.is_none() || !has_capacity || Instant::now() >= until {
                break;
            }
        }
        out.up_to = out.examined.and(request.after.as_ref()).map(|after| Time::from(after.due_at));
        let cursor = |position: Position| Cursor::new(position, filter).to_string();
        out.cursor = request.after.map(cursor);
        Ok(out)
    }

    /// Redrives dead letters, as many as one call may.
    pub(crate) async fn redrive(
        &self,
        namespace: NamespaceName,
        selection: DeadLetterSelection,
        spacing: RedriveSpacing,
    ) -> Result<RedriveResponse, Problem> {
        let operation =
            |letter, number| Operation::Redrive { letter, delay: spacing.delay(number) };
        let done = handle_selection(self, namespace, selection, "redriven", operation).await?;
        Ok(RedriveResponse { redriven: done.count, cursor: done.cursor, errors: done.errors })
    }

    /// Purges dead letters, as many as one call may.
    pub(crate) async fn purge(
        &self,
        namespace: NamespaceName,
        selection: DeadLetterSelection,
    ) -> Result<PurgeResponse, Problem> {
        let operation = |letter, _| Operation::Purge { letter };
        let done = handle_selection(self, namespace, selection, "purged", operation).await?;
        Ok(PurgeResponse { purged: done.count, cursor: done.cursor, errors: done.errors })
    }

    /// Dead-letters overdue timers, as many as one call may.
    pub(crate) async fn dead_letter_overdue(
        &self,
        namespace: NamespaceName,
        DeadLetterOverdueRequest { due_by, cursor, .. }: DeadLetterOverdueRequest,
    ) -> Result<DeadLetterOverdueResponse, Problem> {
        self.namespace(namespace.clone()).await?;
        let due_by = due_by.map(|time| time.check("due_by")).transpose()?;
        let due_by = check_due_by(due_by, self.now())?;
        let mut request = ListRequest::new(namespace.clone(), ListState::Pending);
        // The list has timers that are due before this time.
        request.due_to = Some(due_by.saturating_add(Millis::from_ms(1)));
        let filter = apply_cursor(&mut request, cursor.as_deref())?;
        let mut dead_lettered = 0;
        for _ in 0..DEAD_LETTERS_MAX / PAGE_MAX {
            let ReadResult { value: page, reservation: _reservation, rest: _rest } =
                self.read_page(request.clone()).await?;
            let unleased = page.timers.iter().filter(|view| view.attempt_under_way.is_none());
            let commands = unleased.map(|view| {
                let operation = Operation::DeadLetter { id: view.id().clone(), if_due_by: due_by };
                brief(namespace.clone(), operation)
            });
            dead_letter(self, &namespace, commands.collect(), &mut dead_lettered).await?;
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        let cursor = request.after.map(|position| Cursor::new(position, filter).to_string());
        Ok(DeadLetterOverdueResponse { dead_lettered, due_by: Some(due_by.into()), cursor })
    }
}

/// Returns the list of the pending timers that a filter selects.
fn list_request(namespace: NamespaceName, filter: CheckedFilter) -> ListRequest {
    let state = filter.state.map_or(ListState::Pending, ListState::Only);
    let CheckedFilter { tag, id_prefix, due_from, due_to, .. } = filter;
    ListRequest { tag, id_prefix, due_from, due_to, ..ListRequest::new(namespace, state) }
}

fn count(views: &[&TimerView], out: &mut CancelManyResponse) {
    for view in views {
        if view.attempt_under_way.is_some() {
            out.stopped += 1;
        } else {
            out.cancelled += 1;
            out.maybe_delivered += u64::from(view.maybe_delivered());
        }
    }
}

async fn cancel(
    admitted: &Admitted,
    request: &ListRequest,
    views: &[&TimerView],
    in_flight: InFlight,
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
            let id = timer.id.clone();
            let operation = match in_flight {
                InFlight::Skip => Operation::CancelSeen { id, seen },
                InFlight::Stop => {
                    Operation::CancelOrStop { id, if_revision: None, seen: Some(seen) }
                }
            };
            brief(namespace.clone(), operation)
        })
        .collect();
    let mut failed = None;
    let outcomes = admitted.apply_many(namespace, commands).await;
    for outcome in outcomes.map_err(|it| it.after_doing(out.cancelled, "cancelled"))? {
        match outcome {
            Outcome::Cancelled { already: false, maybe_delivered, .. } => {
                out.cancelled += 1;
                out.maybe_delivered += u64::from(maybe_delivered);
            }
            Outcome::Stopped { already: false, .. } => out.stopped += 1,
            // The timer has ended since it was listed, was replaced, or has an attempt under way.
            Outcome::Cancelled { .. }
            | Outcome::Stopped { .. }
            | Outcome::Refused(Refusal::State { .. } | Refusal::UnknownTimer { .. }) => {
                out.skipped += 1;
            }
            other => failed = Some(messages::refused(OperationKind::Cancel, &other, "")),
        }
    }
    let done = out.cancelled;
    failed.map_or(Ok(()), |problem| Err(problem.after_doing(done, "cancelled")))
}

/// The result of a call.
#[derive(Debug, Default)]
struct SelectionResult {
    count: u64,
    cursor: Option<String>,
    errors: Vec<DeadLetterError>,
}

/// Carries out the operation that `operation` makes of a letter and its number, from 0, on the selected dead
/// letters.
async fn handle_selection(
    admitted: &Admitted,
    namespace: NamespaceName,
    selection: DeadLetterSelection,
    verb: &str,
    operation: impl Fn(DeadLetterId, u64) -> Operation,
) -> Result<SelectionResult, Problem> {
    admitted.namespace(namespace.clone()).await?;
    match selection {
        DeadLetterSelection::Named(dead_letters) => {
            handle_named(admitted, &namespace, dead_letters, operation).await
        }
        DeadLetterSelection::All(cursor) => {
            handle_all(admitted, namespace, cursor.as_deref(), verb, operation).await
        }
    }
}

async fn handle_named(
    admitted: &Admitted,
    namespace: &NamespaceName,
    dead_letters: Vec<Result<DeadLetterId, Invalid>>,
    operation: impl Fn(DeadLetterId, u64) -> Operation,
) -> Result<SelectionResult, Problem> {
    let mut done = SelectionResult::default();
    let mut indices = Vec::new();
    let mut operations = Vec::new();
    for (index, letter) in dead_letters.into_iter().enumerate() {
        match letter {
            Ok(letter) => {
                operations.push(operation(letter, indices.len() as u64));
                indices.push(index);
            }
            Err(invalid) => done.errors.push(refused(index, invalid.into())),
        }
    }
    let outcomes = apply(admitted, namespace, operations).await?;
    for (index, outcome) in indices.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => done.count += 1,
            Err(problem) => done.errors.push(refused(index, problem)),
        }
    }
    done.errors.sort_by_key(|error| error.index);
    Ok(done)
}

fn refused(index: usize, problem: Problem) -> DeadLetterError {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    DeadLetterError { index, error: Some(*problem.into_body()) }
}

/// Handles every dead letter after the cursor, page by page, up to the bound of one call.
async fn handle_all(
    admitted: &Admitted,
    namespace: NamespaceName,
    cursor: Option<&str>,
    verb: &str,
    operation: impl Fn(DeadLetterId, u64) -> Operation,
) -> Result<SelectionResult, Problem> {
    let mut request = ListRequest::new(namespace.clone(), ListState::Only(State::Dead));
    let filter = Cursor::filter_of(&request);
    // The count continues across calls, and so does the spacing.
    let mut number = 0;
    if let Some(text) = cursor {
        let cursor = Cursor::parse("cursor", text, filter)?;
        number = cursor.count;
        request.after = Some(cursor.position);
    }
    let mut done = SelectionResult::default();
    for _ in 0..DEAD_LETTERS_MAX / PAGE_MAX {
        let ReadResult { value: page, reservation: _reservation, rest: _rest } =
            admitted.read_page(request.clone()).await?;
        let dead_letters = page.timers.iter().filter_map(|view| match &view.body {
            Body::Whole(timer) => {
                Some(DeadLetterId::Delivery(timer.delivery_id(namespace.as_str())))
            }
            Body::Tombstone(_) => None,
        });
        let operations: Vec<_> =
            dead_letters.zip(number..).map(|(letter, number)| operation(letter, number)).collect();
        number += operations.len() as u64;
        let outcomes = apply(admitted, &namespace, operations).await?;
        done.count += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        if let Some(problem) = outcomes.into_iter().filter_map(Result::err).find(ends_the_call) {
            return Err(problem.after_doing(done.count, verb));
        }
        request.after.clone_from(&page.next);
        let cursor = |next| Cursor::new(next, filter).with_count(number).to_string();
        done.cursor = page.next.map(cursor);
        if request.after.is_none() {
            break;
        }
    }
    Ok(done)
}

/// Returns `true` for a problem after which later dead letters are not tried: at a limit, in a shard that fails, or with a
/// result in doubt. A repetition of the call finds the rest.
///
/// Other problems concern one letter: another call has redriven or purged it, or its id is in use.
fn ends_the_call(problem: &Problem) -> bool {
    matches!(problem.code(), Code::ResourceExhausted | Code::Unavailable | Code::Aborted)
}

/// Carries out operations of one kind on dead letters.
async fn apply(
    admitted: &Admitted,
    namespace: &NamespaceName,
    operations: Vec<Operation>,
) -> Result<Vec<Result<(), Problem>>, Problem> {
    let Some(kind) = operations.first().map(OperationKind::of) else { return Ok(Vec::new()) };
    let commands = operations.into_iter().map(|operation| brief(namespace.clone(), operation));
    let commands: Vec<_> = commands.collect();
    let tenants = admitted.auth.tenants();
    let tenant = tenants.of_namespace(namespace.as_str()).filter(|tenant| tenant.limits_bytes());
    let outcomes = match tenant {
        Some(tenant) if kind == OperationKind::Redrive => {
            redrive_in_steps(admitted, namespace, tenant, commands).await?
        }
        _ => admitted.apply_many(namespace, commands).await?,
    };
    let results = outcomes.into_iter().map(|outcome| match outcome {
        Outcome::Refused(_) | Outcome::Failed(_) => Err(messages::refused(kind, &outcome, "")),
        _ => Ok(()),
    });
    Ok(results.collect())
}

/// Redrives dead letters of a tenant that has a limit of bytes. Only the store knows the size of a dead letter. So
/// the namespace is counted after each step, and a call exceeds the limit by one step.
async fn redrive_in_steps(
    admitted: &Admitted,
    namespace: &NamespaceName,
    tenant: &TenantState,
    mut commands: Vec<Command>,
) -> Result<Vec<Outcome>, Problem> {
    let mut outcomes = Vec::with_capacity(commands.len());
    let mut before = pending_bytes(admitted, namespace).await?;
    while !commands.is_empty() {
        let later = commands.split_off(commands.len().min(REDRIVES_OF_STEP));
        outcomes.extend(admitted.apply_many(namespace, commands).await?);
        let after = pending_bytes(admitted, namespace).await?;
        tenant.add_pending_bytes(after.saturating_sub(before));
        (before, commands) = (after, later);
    }
    Ok(outcomes)
}

/// Returns the bytes of the pending timers of a namespace in the shards that are available.
async fn pending_bytes(admitted: &Admitted, namespace: &NamespaceName) -> Result<u64, Problem> {
    let counts = admitted.sharded().counts(std::slice::from_ref(namespace)).await?;
    Ok(counts.value.into_iter().flatten().map(|stats| stats.pending_bytes).sum())
}

fn check_due_by(requested: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Invalid> {
    match requested {
        Some(due_by) if due_by > now => {
            Err(Invalid::new("due_by", due_by, format!("not in the future; it is {now}")))
        }
        requested => Ok(requested.unwrap_or(now)),
    }
}

async fn dead_letter(
    admitted: &Admitted,
    namespace: &NamespaceName,
    commands: Vec<Command>,
    dead_lettered: &mut u64,
) -> Result<(), Problem> {
    let mut failed = None;
    for outcome in admitted.apply_many(namespace, commands).await? {
        match outcome {
            Outcome::Changed(_) => *dead_lettered += 1,
            // Claimed, cancelled, rescheduled or dead-lettered since it was listed.
            Outcome::Unchanged(_)
            | Outcome::Refused(Refusal::State { .. } | Refusal::UnknownTimer { .. }) => {}
            other => failed = Some(messages::refused(OperationKind::DeadLetter, &other, "")),
        }
    }
    let already = *dead_lettered;
    failed.map_or(Ok(()), |problem| Err(problem.after_doing(already, "dead-lettered")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_in_doubt_ends_a_call_on_all_dead_letters() {
        for (code, ends) in [
            (Code::Aborted, true),
            (Code::Unavailable, true),
            (Code::ResourceExhausted, true),
            (Code::NotFound, false),
            (Code::Finished, false),
        ] {
            let problem = Problem::temporary(code, "asked to by the test");
            assert_eq!(ends_the_call(&problem), ends, "{code:?}");
        }
    }
}
