//! Schedule: creates a timer, returns the existing one, or replaces it.

use crate::{
    Schedule, Timer, TimerView,
    lifecycle::{Event, RequestMatch, Transition, transition},
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
        Some(hash) if hash == RequestHash::of(&schedule) => RequestMatch::Same,
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
                let revision = old.revision().unwrap_or(0);
                let timer = Timer::replacing(revision, schedule, wall, incarnation);
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
