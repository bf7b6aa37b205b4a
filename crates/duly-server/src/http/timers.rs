//! Calls on timers: schedule, get, change, cancel (also by a filter), fire, forget. A list is in the module `list`.

pub(crate) mod list;

use duly_api::{
    CancelManyRequest, CancelManyResponse, CancelResponse, ForgetResponse, MessageFormat,
    Reschedule, Schedule, Timer,
    json::{self, Nulls},
    timer::CallEffect,
};
use duly_core::NamespaceName;
use duly_store::{Operation, Outcome};
use http::{StatusCode, Uri};

use super::{
    body::{JsonBody, NoBody},
    idempotency_key::IdempotencyKey,
    response::{self, HandlerResult},
    target::{CallOn, Query, TimerTarget},
};
use crate::{
    memory::budget::Reservation,
    messages,
    problem::refusal_texts::SentOperation,
    service::{Admitted, CheckedCommand},
    service::{blocking::run_blocking, reading::ReadResult},
};

/// Schedule a timer.
///
/// The same request again returns the existing timer, as long as the timer or its tombstone exists.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers",
    tag = "timers",
    params(("Idempotency-Key" = Option<String>, Header, description = "The id of the timer, for a body without `id`, so that a repeated call finds the timer. A key in quotes stands for the text between them")),
    request_body(content = Schedule, content_type = "application/json"),
    responses(
        (status = 201, description = "The timer was made.", body = Timer),
        (status = 200, description = "The timer was there (`existing`) or took the place of a pending one (`replaced`).", body = Timer)
    )
)]
pub(crate) async fn schedule_timer(
    call: CallOn<NamespaceName>,
    IdempotencyKey(key): IdempotencyKey,
    body: JsonBody,
) -> HandlerResult {
    let CallOn { admitted, target: namespace } = call;
    let reader = admitted.clone();
    let ((command, when), reservation) = body
        .read_held(move |text| {
            let mut schedule: Schedule = json::parse_body(text)?;
            schedule.id = schedule.id.or(key);
            let when = schedule.when_text().map(Box::from);
            let checked = schedule.check(MessageFormat::Json, || reader.make_id())?;
            let (schedule, if_exists) = (Box::new(checked.0), checked.1);
            let operation = Operation::Schedule { schedule, if_exists };
            Ok((reader.check_operation(namespace, operation)?, when))
        })
        .await?;
    change(&admitted, command, when, reservation).await
}

/// One timer, its tombstone, or its latest dead letter.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    responses((status = 200, description = "The timer.", body = Timer))
)]
pub(crate) async fn get_timer(call: CallOn<TimerTarget>) -> HandlerResult {
    let CallOn { admitted, target: TimerTarget { namespace, id } } = call;
    let ReadResult { value, reservation, rest } = admitted.read_timer(namespace, id).await?;
    let written = move || {
        let response = response::json_within(
            rest,
            StatusCode::OK,
            &messages::shown(admitted.caller(), &value, CallEffect::Plain),
        );
        drop(value);
        response
    };
    let response = run_blocking(reservation.bytes(), written).await;
    drop(reservation);
    response
}

/// Change a pending timer: an absent field is kept, `null` resets it, a value replaces the whole field.
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    request_body(content = Reschedule, content_type = "application/json"),
    responses((status = 200, description = "The timer as it is now.", body = Timer))
)]
pub(crate) async fn reschedule_timer(call: CallOn<TimerTarget>, body: JsonBody) -> HandlerResult {
    let CallOn { admitted, target: TimerTarget { namespace, id } } = call;
    let reader = admitted.clone();
    let ((command, when), reservation) = body
        .read_held(move |text| {
            let change = Reschedule::from(json::parse_body::<Nulls<Reschedule>>(text)?);
            let when = change.when_text().map(Box::from);
            let operation = change.check(MessageFormat::Json, Some(id))?;
            Ok((reader.check_operation(namespace, operation)?, when))
        })
        .await?;
    change(&admitted, command, when, reservation).await
}

/// Cancel a timer. After `cancelled` it is never delivered.
///
/// A refusal has the definite outcome in `outcome`: `in_flight`, `finished`, `dead`, `not_found`. With
/// `no_further_attempt` a timer in flight is not refused: no attempt follows the one under way. If that attempt
/// succeeds, the timer is `finished`; otherwise the timer is `cancelled` when the attempt ends.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    params(
        ("if_revision" = Option<u32>, Query, minimum = 1, description = "Only if it has this revision"),
        ("no_further_attempt" = Option<bool>, Query, description = "If an attempt is under way, no further attempt follows")
    ),
    responses(
        (status = 200, description = "It is cancelled.", body = CancelResponse),
        (status = 202, description = "It is in flight, and no attempt follows the one under way.", body = CancelResponse)
    )
)]
pub(crate) async fn cancel_timer(call: CallOn<TimerTarget>, uri: Uri) -> HandlerResult {
    let CallOn { admitted, target: TimerTarget { namespace, id } } = call;
    let query = Query::read(&uri, &["if_revision", "no_further_attempt"])?;
    let if_revision = query.integer("if_revision", u32::MAX as usize)?;
    let operation = match query.flag("no_further_attempt")? {
        Some(true) => Operation::CancelOrStop { id, if_revision, seen: None },
        Some(false) | None => Operation::Cancel { id, if_revision },
    };
    let command = admitted.check_operation(namespace, operation)?;
    let outcome = admitted.apply_checked(command).await?;
    let cancelled = messages::cancelled(&outcome, "")?;
    admitted.note_cancel(&cancelled);
    let is_final = !cancelled.no_further_attempt;
    let status = if is_final { StatusCode::OK } else { StatusCode::ACCEPTED };
    response::json(status, &cancelled)
}

/// Make a timer or its next attempt due now.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers/{id}/fire",
    tag = "timers",
    responses((status = 200, description = "The timer as it is now; unchanged if it was due or in flight.", body = Timer))
)]
pub(crate) async fn fire_timer(call: CallOn<TimerTarget>, _body: NoBody) -> HandlerResult {
    let CallOn { admitted, target: TimerTarget { namespace, id } } = call;
    let reservation = admitted.budget().empty_reservation();
    let command = admitted.check_operation(namespace, Operation::Fire { id })?;
    change(&admitted, command, None, reservation).await
}

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
pub(crate) async fn cancel_by_filter(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let bulk = body.parse::<CancelManyRequest>().await?.check()?;
    response::ok(&call.admitted.cancel_many(call.target, bulk).await?)
}

/// Remove all that is left of an ended timer: its tombstone and its dead letters.
///
/// A pending timer is refused: cancel it first. If nothing is left, the call does nothing. After it the id is
/// as if it had never been used: a repetition of an earlier request makes a new timer.
///
/// The parts are removed one by one. If the call fails in between, its code is `aborted`: repeat it unless the
/// id may have been used again, because what is left of the newer timer would be removed, too. A dead letter that the
/// id gets during the call is removed.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers/{id}/forget",
    tag = "timers",
    responses((status = 200, description = "What was removed.", body = ForgetResponse))
)]
pub(crate) async fn forget_timer(call: CallOn<TimerTarget>, _body: NoBody) -> HandlerResult {
    response::ok(&call.admitted.forget(call.target.namespace, call.target.id).await?)
}

/// Makes, finds or changes a timer, and responds with it. `when` is the due time or delay if the caller sent
/// text.
async fn change(
    admitted: &Admitted,
    command: CheckedCommand,
    when: Option<Box<str>>,
    mut reservation: Reservation,
) -> HandlerResult {
    let sent = SentOperation::of(command.operation(), when);
    let outcome = admitted.apply_within(command, &mut reservation).await?;
    let is_new = matches!(outcome, Outcome::Created(_));
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let (view, effect) = messages::view(sent, &outcome, "")?;
    admitted.note_unchanged(effect, view);
    response::changed_timer(admitted, reservation, status, view, effect).await
}
