//! Operations on dead letters: made from overdue timers, redriven, purged.

use crate::{
    Code, Millis, State, Timer, TimerId, TimerView, Timestamp,
    lifecycle::{Event, Transition, transition},
    refusal::Refusal,
    schedule::after,
    timer::DeadLetterReason,
    view::Body,
};

use super::{Cause, Context, DeadLetterId, Decision, Effect, QuotaUse, Reply, state_of};

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

fn unknown(named: &DeadLetterId, context: &Context<'_>) -> Refusal {
    Refusal::UnknownDeadLetter { namespace: context.namespace.clone(), letter: named.clone() }
}
