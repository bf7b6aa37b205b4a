//! The normal form of results, as text: two correct stores must agree on it.

use duly_core::{
    Timer, Timestamp,
    timer::{Attempt, AttemptOutcome},
    tombstone::Ended,
};

use super::Known;
use crate::{Firing, Outcome, Refusal, TimerView, command::DeadLetterId, query::Body};

pub(super) fn view(view: &TimerView, now: Timestamp, known: &mut Known) -> String {
    let held = (view.leased_until, view.attempt_under_way, view.claimed_at, view.stopped);
    match &view.body {
        Body::Whole(timer) => {
            let delivery = known.number(timer.delivery_id(view.namespace.as_str()));
            let body = whole(timer, now);
            format!("{} {} delivery {delivery} {body} held {held:?}", view.namespace, view.state)
        }
        Body::Tombstone(tombstone) => {
            let head = (
                &tombstone.id,
                tombstone.ended_at,
                tombstone.due_at,
                tombstone.attempts,
                tombstone.maybe_delivered,
            );
            let details = tombstone.details.as_ref().filter(|_| tombstone.ended == Ended::Finished);
            let details = details.map(|d| {
                let times = (d.created_at, d.updated_at, d.fired_at);
                (times, d.revision, d.occurrence, d.request_hash, history(&d.history))
            });
            format!("{} {} {head:?} {details:?} held {held:?}", view.namespace, view.state)
        }
    }
}

fn whole(timer: &Timer, now: Timestamp) -> String {
    let times = (timer.due_at, timer.created_at, timer.updated_at, timer.fired_at);
    let counts = (timer.revision, timer.occurrence, timer.attempts, timer.budget_from);
    let content =
        (&timer.spec.payload, &timer.spec.headers, &timer.spec.tags, &timer.spec.destination);
    let rules = (&timer.spec.retry, timer.spec.expire_after, timer.request_hash);
    // A wait that is over is left out: stores may notice the end of a lease at different times.
    let next = timer.next_attempt_at.map(|at| at.max(now));
    let dead_letter = timer.dead_letter.map(|dead_letter| dead_letter.reason);
    let settled = timer.last_settled.map(|settled| settled.verdict);
    format!(
        "{:?} {times:?} {counts:?} {content:?} {rules:?} next {next:?} maybe {} {:?} {dead_letter:?} {settled:?}",
        timer.id,
        timer.maybe_delivered,
        history(&timer.history),
    )
}

/// Returns attempts without the text that each store itself writes for a lost lease.
fn history(attempts: &[Attempt]) -> Vec<String> {
    let lines = attempts.iter().map(|attempt| {
        let reason = match attempt.outcome {
            AttemptOutcome::LeaseLost => "",
            _ => &attempt.reason,
        };
        format!("{} at {} {:?} {reason}", attempt.attempt, attempt.at, attempt.outcome)
    });
    lines.collect()
}

pub(super) fn outcome(outcome: &Outcome, now: Timestamp, known: &mut Known) -> String {
    let mut with = |word: &str, timer: &TimerView| format!("{word} {}", view(timer, now, known));
    match outcome {
        Outcome::Created(timer) => with("created", timer),
        Outcome::Existing(timer) => with("existing", timer),
        Outcome::Replaced(timer) => with("replaced", timer),
        Outcome::Changed(timer) => with("changed", timer),
        Outcome::Unchanged(timer) => with("unchanged", timer),
        Outcome::Cancelled { .. }
        | Outcome::Stopped { .. }
        | Outcome::Purged
        | Outcome::Failed(_) => format!("{outcome:?}"),
        Outcome::Refused(Refusal::UnknownDeadLetter {
            letter: DeadLetterId::Delivery(delivery_id),
            ..
        }) => format!("refused: no dead letter of delivery {}", known.number(*delivery_id)),
        Outcome::Refused(refusal) => format!("refused: {refusal:?}"),
    }
}

/// Returns a firing without the time of a retry, which may be the end of a lease.
pub(super) fn firing(firing: &Firing, known: &mut Known) -> String {
    let delivery = known.number(firing.delivery_id);
    let names = (&firing.namespace, &firing.id, firing.occurrence, firing.attempt);
    let times = (firing.due_at, firing.leased_until);
    let place = (&firing.lane, firing.destination());
    let (spec, settings) = (&firing.spec, firing.settings.weight);
    format!("delivery {delivery} {names:?} {times:?} {spec:?} {place:?} weight {settings}")
}
