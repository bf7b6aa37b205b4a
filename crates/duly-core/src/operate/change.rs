//! Reschedule, fire and cancel: changes of a pending timer. And operations on dead letters: made from
//! overdue timers, redriven, purged.

use crate::{
    Code, Millis, State, Timer, TimerId, TimerView, Timestamp, Tombstone,
    lifecycle::{Event, Transition, transition},
    refusal::Refusal,
    schedule::{Patch, after},
    timer::{DeadLetterId, DeadLetterReason},
    tombstone::Ended,
    view::Body,
};

use super::{Cause, Context, Decision, Effect, QuotaUse, Reply, check_revision, state_of};

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

/// Cancels a timer. `event` says what becomes of one in flight: [`Event::Cancel`] refuses it, [`Event::CancelOrStop`]
/// stops it.
///
/// # Errors
/// When its revision or its state does not allow it.
pub fn cancel(
    id: &TimerId,
    if_revision: Option<u32>,
    event: Event,
    known: Option<&TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    check_revision(known, if_revision)?;
    match (transition(state_of(known), event), known) {
        (Transition::Move(State::Cancelled), Some(TimerView { body: Body::Whole(timer), .. })) => {
            Ok(cancelled(Tombstone::of(timer, Ended::Cancelled, context.now.wall)))
        }
        (Transition::Already, Some(view)) => Ok(Decision::reply(Reply::Cancelled {
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered(),
            already: true,
        })),
        (Transition::Change, Some(view)) => {
            let already = view.stopped;
            let (attempts, maybe_delivered) = (view.attempts(), view.maybe_delivered());
            let reply = Reply::Stopped { attempts, maybe_delivered, already };
            Ok(match already {
                true => Decision::reply(reply),
                false => Decision::change(Effect::Stop(id.clone()), reply),
            })
        }
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

/// Dead-letters a timer that was due by `if_due_by` and is not leased.
///
/// # Errors
/// When its state, its due time or the quota of dead letters does not allow it.
pub fn dead_letter_overdue(
    id: &TimerId,
    if_due_by: Timestamp,
    known: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let overdue = transition(state_of(known.as_ref()), Event::Overdue);
    let mut timer = match (overdue, known) {
        (Transition::Already, Some(view)) => return Ok(Decision::reply(Reply::Unchanged(view))),
        (Transition::Move(State::Dead), Some(TimerView { body: Body::Whole(timer), .. }))
            if timer.due_at <= if_due_by =>
        {
            timer
        }
        (Transition::Move(_), Some(view)) => {
            return Err(Refusal::state(&view, Code::AlreadyExists));
        }
        (refused, known) => return Err(context.refused(refused, known.as_ref(), id)),
    };
    timer.mark_dead_letter(context.now.wall, DeadLetterReason::Overdue);
    let quota_use = QuotaUse { dead_letter: true, ..QuotaUse::default() };
    context.write(Effect::DeadLetter(Cause::Expired, timer), quota_use, Reply::Changed)
}

/// Delivers a dead letter again after `delay`. `known` is the live timer of its id, if there is one.
///
/// # Errors
/// When there is no such dead letter, a live timer has its id, its payload is lost, or the delay ends past
/// 2200-01-01.
pub fn redrive(
    named: &DeadLetterId,
    delay: Millis,
    known: Option<&TimerView>,
    letter: Option<Box<Timer>>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let event = transition(letter.as_ref().map(|_| State::Dead), Event::Redrive);
    let (Transition::Move(State::Retrying), Some(mut timer)) = (event, letter) else {
        return Err(unknown(named, context));
    };
    if let Some(live) = known.filter(|view| view.state.is_pending()) {
        return Err(Refusal::state(live, Code::AlreadyExists));
    }
    if timer.dead_letter.is_some_and(|dead| dead.reason == DeadLetterReason::Corrupt) {
        return Err(Refusal::PayloadLost { letter: named.clone() });
    }
    timer.redrive(after(context.now.steady, delay).map_err(Refusal::Invalid)?);
    Ok(Decision::change(Effect::Put(Cause::Redriven, timer), Reply::Changed))
}

/// Removes a dead letter for good. Its record need not be readable.
///
/// # Errors
/// When there is no such dead letter.
pub fn purge(
    named: &DeadLetterId,
    exists: bool,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    match transition(exists.then_some(State::Dead), Event::Purge) {
        Transition::Remove => Ok(Decision::change(Effect::Purge, Reply::Purged)),
        _ => Err(unknown(named, context)),
    }
}

/// Removes the tombstone of an ended timer for good.
///
/// # Errors
/// When the timer is pending, or there is no tombstone.
pub fn forget(
    id: &TimerId,
    known: Option<&TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    match transition(state_of(known), Event::Forget) {
        Transition::Remove => Ok(Decision::change(Effect::Forget, Reply::Purged)),
        refused => Err(context.refused(refused, known.filter(|view| view.state.is_pending()), id)),
    }
}

fn unknown(named: &DeadLetterId, context: &Context<'_>) -> Refusal {
    Refusal::UnknownDeadLetter { namespace: context.namespace.clone(), letter: named.clone() }
}
