//! Reschedule, fire and cancel: changes of a pending timer.

use crate::{
    State, TimerId, TimerView, Timestamp, Tombstone,
    lifecycle::{Event, Transition, transition},
    refusal::Refusal,
    schedule::Patch,
    tombstone::Ended,
    view::Body,
};

use super::{Cause, Context, Decision, Effect, Reply, check_revision, state_of};

/// Changes a pending timer.
///
/// # Errors
/// When its revision, its state or the limits of the namespace do not allow it. Values that the patch leaves
/// unchanged are not checked again.
pub fn reschedule(
    id: &TimerId,
    patch: Patch,
    if_revision: Option<u32>,
    known: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    check_revision(known.as_ref(), if_revision)?;
    let mut timer = match (transition(state_of(known.as_ref()), Event::Reschedule), known) {
        (Transition::Change, Some(TimerView { body: Body::Whole(timer), .. })) => timer,
        (refused, known) => return Err(context.refused(refused, known.as_ref(), id)),
    };
    let (payload_bytes, when) = (patch.payload_bytes(), patch.when);
    let shows_stored_content = patch.payload.is_keep();
    timer.change(patch, context.now.wall).map_err(Refusal::Invalid)?;
    context.check_values(payload_bytes, when)?;
    let effect = Effect::Put(Cause::Rescheduled, timer);
    Ok(Decision { shows_stored_content, ..Decision::change(effect, Reply::Changed) })
}

/// Makes a timer due now, or its next attempt if it waits for one.
///
/// # Errors
/// When its state does not allow it.
pub fn fire(
    id: &TimerId,
    known: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    // The time of a retry is in the steady clock, a due time in the wall clock.
    let (at, mut timer) = match (transition(state_of(known.as_ref()), Event::Fire), known) {
        (Transition::Already, Some(view)) => return Ok(Decision::reply(Reply::Unchanged(view))),
        (Transition::Change, Some(TimerView { body: Body::Whole(timer), .. })) => {
            (context.now.wall, timer)
        }
        (Transition::Move(State::Retrying), Some(TimerView { body: Body::Whole(timer), .. })) => {
            (context.now.steady, timer)
        }
        (refused, known) => return Err(context.refused(refused, known.as_ref(), id)),
    };
    timer.fire_now(at);
    timer.updated_at = context.now.wall;
    Ok(Decision::change(Effect::Put(Cause::Rescheduled, timer), Reply::Changed))
}

/// Cancels a timer.
///
/// # Errors
/// When its revision or its state does not allow it.
pub fn cancel(
    id: &TimerId,
    if_revision: Option<u32>,
    known: Option<&TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    check_revision(known, if_revision)?;
    match (transition(state_of(known), Event::Cancel), known) {
        (Transition::Move(State::Cancelled), Some(TimerView { body: Body::Whole(timer), .. })) => {
            Ok(cancelled(Tombstone::of(timer, Ended::Cancelled, context.now.wall)))
        }
        (Transition::Already, Some(view)) => Ok(Decision::reply(Reply::Cancelled {
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered(),
            already: true,
        })),
        (refused, known) => Err(context.refused(refused, known, id)),
    }
}

/// Cancels a scheduled or due timer without reading its record. No attempt of it may have been made.
pub fn cancel_without_record(id: TimerId, due_at: Timestamp, context: &Context<'_>) -> Decision {
    cancelled(Tombstone::cancelled_without_record(id, due_at, context.now.wall))
}

fn cancelled(tombstone: Tombstone) -> Decision {
    let Tombstone { attempts, maybe_delivered, .. } = tombstone;
    let reply = Reply::Cancelled { attempts, maybe_delivered, already: false };
    Decision::change(Effect::End(Box::new(tombstone)), reply)
}
