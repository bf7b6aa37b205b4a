//! Import: takes over timers and dead letters of another store unchanged.

use crate::{
    State, Timer, TimerView,
    lifecycle::{Event, ImportMatch, Transition, transition},
    refusal::Refusal,
};

use super::{Cause, Context, Decision, Effect, QuotaUse, Reply, state_of};

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
