//! Import: takes over timers and dead letters of another store unchanged.

use crate::{
    State, Timer, TimerView,
    lifecycle::{Event, Imported, Transition, transition},
    refusal::Refusal,
};

use super::{Cause, Context, Decision, Effect, Reply, Takes, state_of};

/// Imports a timer or a dead letter unchanged, unless this store has had it before. `letter` is the dead
/// letter of the same firing, if there is one.
///
/// # Errors
/// When another timer has its id, or a limit or quota of the namespace does not allow it.
pub fn import(
    brought: Box<Timer>,
    known: Option<TimerView>,
    letter: Option<Box<Timer>>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let letter =
        letter.map(|letter| TimerView::whole(context.namespace.clone(), State::Dead, letter));
    if brought.dead_letter.is_some() {
        return import_dead_letter(brought, known, letter, context);
    }
    if let Some(letter) = letter {
        return Ok(Decision::reply(Reply::Existing(letter)));
    }
    let is_known = known.as_ref().is_some_and(|known| known.is_of(&brought));
    let imported = if is_known { Imported::Known } else { Imported::New };
    match (transition(state_of(known.as_ref()), Event::Import(imported)), known) {
        (Transition::Existing, Some(view)) => Ok(Decision::reply(Reply::Existing(view))),
        (Transition::Create, _) => {
            context.check_brought(&brought)?;
            let takes = Takes { pending: true, ..Takes::default() };
            context.write(Effect::Put(Cause::Created, brought), takes, Reply::Created)
        }
        (refused, known) => Err(context.refused(refused, known.as_ref(), &brought.id)),
    }
}

/// Imports a dead letter. A live timer with the same id stays.
fn import_dead_letter(
    brought: Box<Timer>,
    known: Option<TimerView>,
    letter: Option<TimerView>,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let known = letter.or_else(|| known.filter(|known| known.is_of_firing(&brought)));
    let event = Event::Import(Imported::Known);
    if let (Transition::Existing, Some(view)) = (transition(state_of(known.as_ref()), event), known)
    {
        return Ok(Decision::reply(Reply::Existing(view)));
    }
    context.check_brought(&brought)?;
    let takes = Takes { dead_letter: true, ..Takes::default() };
    context.write(Effect::DeadLetter(Cause::Imported, brought), takes, Reply::Created)
}
