//! Schedule: creates a timer, returns the existing one, or replaces it. Import: takes over timers and dead
//! letters of another store unchanged.

use crate::{
    Schedule, State, Timer, TimerView,
    lifecycle::{Event, ImportMatch, RequestMatch, Transition, transition},
    refusal::Refusal,
    request_hash::RequestHash,
    schedule::IfExists,
};

use super::{Cause, Context, Decision, Effect, QuotaUse, Reply, state_of};

/// Schedules a timer.
///
/// # Errors
/// When the state of a timer with the same id, a limit of the namespace, or its quotas do not allow it.
pub fn schedule(
    schedule: Schedule,
    if_exists: IfExists,
    known: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let request = match known.as_ref().and_then(TimerView::request_hash) {
        Some(hash) if if_exists != IfExists::Restart && hash == RequestHash::of(&schedule) => {
            RequestMatch::Same
        }
        _ => RequestMatch::Other(if_exists),
    };
    let (wall, incarnation) = (context.now.wall, context.incarnation());
    let given = (schedule.spec.payload_bytes(), Some(schedule.when));
    let (cause, pending, reply, timer) =
        match (transition(state_of(known.as_ref()), Event::Schedule(request)), known) {
            (Transition::Existing, Some(view)) => {
                return Ok(Decision::reply(Reply::Existing(view)));
            }
            (Transition::Create, _) => {
                let timer = Timer::new(schedule, wall, incarnation);
                (Cause::Created, true, Reply::Created, timer)
            }
            (Transition::Replace, Some(old)) => {
                // A replaced timer is a new one, and its revision goes on.
                let revision = old.revision().unwrap_or(0).saturating_add(1);
                let timer = Timer::new(schedule, wall, incarnation);
                let timer = timer.map(|timer| Timer { revision, ..timer });
                (Cause::Replaced, false, Reply::Replaced, timer)
            }
            (refused, known) => {
                return Err(context.refused(refused, known.as_ref(), &schedule.id));
            }
        };
    let timer = timer.map_err(Refusal::Invalid)?;
    context.check_values(given.0, given.1)?;
    let quota_use = QuotaUse { pending, schedule: true, ..QuotaUse::default() };
    context.write(Effect::Put(cause, Box::new(timer)), quota_use, reply)
}

/// Imports a timer or a dead letter unchanged, unless this store has had it before. `letter` is the dead
/// letter of the same firing, if there is one.
///
/// # Errors
/// When another timer has its id, or a limit or quota of the namespace does not allow it.
pub fn import(
    imported: Box<Timer>,
    known: Option<TimerView>,
    letter: Option<Box<Timer>>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let letter =
        letter.map(|letter| TimerView::whole(context.namespace.clone(), State::Dead, letter));
    if imported.dead_letter.is_some() {
        return import_dead_letter(imported, known, letter, context);
    }
    if let Some(letter) = letter {
        return Ok(Decision::reply(Reply::Existing(letter)));
    }
    let is_known = known.as_ref().is_some_and(|known| known.is_of(&imported));
    let known_match = if is_known { ImportMatch::Same } else { ImportMatch::Other };
    match (transition(state_of(known.as_ref()), Event::Import(known_match)), known) {
        (Transition::Existing, Some(view)) => Ok(Decision::reply(Reply::Existing(view))),
        (Transition::Create, _) => {
            context.check_imported(&imported)?;
            let quota_use = QuotaUse { pending: true, ..QuotaUse::default() };
            context.write(Effect::Put(Cause::Created, imported), quota_use, Reply::Created)
        }
        (refused, known) => Err(context.refused(refused, known.as_ref(), &imported.id)),
    }
}

/// Imports a dead letter. A live timer with the same id stays.
fn import_dead_letter(
    imported: Box<Timer>,
    known: Option<TimerView>,
    letter: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let known = letter.or_else(|| known.filter(|known| known.is_of_firing(&imported)));
    let event = Event::Import(ImportMatch::Same);
    if let (Transition::Existing, Some(view)) = (transition(state_of(known.as_ref()), event), known)
    {
        return Ok(Decision::reply(Reply::Existing(view)));
    }
    context.check_imported(&imported)?;
    let quota_use = QuotaUse { dead_letter: true, ..QuotaUse::default() };
    context.write(Effect::DeadLetter(Cause::Imported, imported), quota_use, Reply::Created)
}
