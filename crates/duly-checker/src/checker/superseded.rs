//! Rules about what a caller has ended or changed: no claim may be granted for it any more.

use super::timeline::{Effect, Seen, Timeline};
use super::verdict::{Count, Verdict};
use crate::history::{Action, Answer};

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for seen in &timeline.seen {
        let Some(content) = timeline.content(seen.delivery.mark) else {
            continue;
        };
        if let Some(text) = cancelled(timeline, content, seen) {
            timeline.add(verdict, Count::ClaimAfterCancel, text);
        } else if let Some(text) =
            replaced(timeline, content, seen).or_else(|| old_time(timeline, content, seen))
        {
            timeline.add(verdict, Count::OldTime, text);
        }
    }
}

/// **Claim after cancel**: a cancel was sent after the content was certainly set, `cancelled` was
/// answered, and then the content was claimed.
///
/// A claim is certainly later when its lease call was sent after the answer. For a webhook it is
/// when the request is read after an answer that knew of no attempt with an unknown outcome, with
/// no crash in the timer's life; or, with a crash, when the attempt has a higher number than the
/// answer gave (unless a change, or another timer in its place, may have made attempts start again). A redrive exempts: the dead
/// letter of an earlier timer with this id stays and may be sent again.
fn cancelled(timeline: &Timeline<'_>, content: &Effect, seen: &Seen<'_>) -> Option<String> {
    let delivery = seen.delivery;
    if timeline.redriven_before(delivery.received_us) {
        return None;
    }
    let claimed_us = timeline.claimed_from_us(content, delivery);
    timeline.effects.iter().find_map(|cancel| {
        let Answer::Cancelled {
            attempts,
            maybe_delivered,
        } = cancel.answer
        else {
            return None;
        };
        if !cancel.surely_follows(content) || delivery.received_us < cancel.to_us {
            return None;
        }
        let fresh_attempt = delivery.attempt > attempts
            && !timeline.renewed(content, delivery.received_us);
        let knows = seen.is_pull() || !maybe_delivered;
        (fresh_attempt || knows && claimed_us >= cancel.to_us).then(|| {
            format!(
                "attempt {} was received {} µs after `cancelled` (attempts {attempts}, maybe_delivered {maybe_delivered}) was answered",
                delivery.attempt,
                delivery.received_us - cancel.to_us
            )
        })
    })
}

/// **Old payload**: `replaced`, or a change of the payload, was acknowledged by a call that was
/// sent after the content was certainly set, and then the old content was claimed. A redrive
/// exempts as above.
fn replaced(timeline: &Timeline<'_>, content: &Effect, seen: &Seen<'_>) -> Option<String> {
    let delivery = seen.delivery;
    if timeline.redriven_before(delivery.received_us) {
        return None;
    }
    let claimed_us = timeline.claimed_from_us(content, delivery);
    let later = timeline.effects.iter().find(|change| {
        matches!(change.answer, Answer::Replaced { .. } | Answer::Changed { .. })
            && change.action.mark().is_some()
            && change.action.mark() != content.action.mark()
            && change.surely_follows(content)
            && claimed_us >= change.to_us
    })?;
    Some(format!(
        "attempt {} delivered the payload of before a {} that was answered {} µs earlier",
        delivery.attempt,
        later.action.name(),
        delivery.received_us - later.to_us
    ))
}

/// **Old time**: a change of the due time was acknowledged, every call that can have set the time
/// told by the delivery was over before that change was sent, and then it was claimed. A redrive
/// exempts as above: what it sends again keeps its own time.
fn old_time(timeline: &Timeline<'_>, content: &Effect, seen: &Seen<'_>) -> Option<String> {
    let delivery = seen.delivery;
    if timeline.redriven_before(delivery.received_us) {
        return None;
    }
    let claimed_us = timeline.claimed_from_us(content, delivery);
    let change = timeline.effects.iter().find(|change| {
        let changes = matches!(change.action, Action::Reschedule { .. } | Action::Fire)
            && matches!(change.answer, Answer::Changed { .. })
            && change.due.is_some();
        changes
            && claimed_us >= change.to_us
            && timeline
                .effects
                .iter()
                .filter(|setter| setter.may_set_due(delivery.due_ms))
                .all(|setter| change.surely_follows(setter))
            && !change.may_set_due(delivery.due_ms)
    })?;
    Some(format!(
        "attempt {} was for {}, though a {} to {:?} was answered {} µs earlier",
        delivery.attempt,
        delivery.due_ms,
        change.action.name(),
        change.due,
        delivery.received_us - change.to_us
    ))
}
