//! Rules about timers that a caller has ended or changed: the old content must not be claimed any
//! more.

use super::timeline::{DeliveryRecord, Effect, Timeline};
use super::verdict::{Count, Verdict};
use crate::history::{Action, Answer};

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for seen in &timeline.seen {
        let delivery = seen.delivery;
        let Some(content) = timeline.content(delivery.mark) else {
            continue;
        };
        // The dead letter of an earlier timer with this id stays, and may be delivered again.
        if timeline.redriven_before(delivery.received_us) {
            continue;
        }
        let claim =
            ObservedClaim { seen, content, from_us: timeline.claimed_from_us(content, delivery) };
        let old = || replaced(timeline, &claim).or_else(|| old_time(timeline, &claim));
        if let Some(text) = cancelled(timeline, &claim) {
            timeline.add(verdict, Count::ClaimAfterCancel, text);
        } else if let Some(text) = old() {
            timeline.add(verdict, Count::OldTime, text);
        }
    }
}

/// A delivery that no redrive explains.
struct ObservedClaim<'t> {
    seen: &'t DeliveryRecord<'t>,
    /// The call that set its payload.
    content: &'t Effect,
    /// Earliest time of the claim.
    from_us: u64,
}

/// **Claim after cancel**: a cancel was sent after the content was certainly set, its result was
/// `cancelled`, and then the content was claimed.
///
/// 1. The claim of a lease is certainly later if the lease call was sent after the result of the
///    cancel.
/// 2. The claim of a webhook is certainly later if the request was read after a result that
///    reported no attempt with an unknown outcome, and there was no crash in the timer's life.
/// 3. With a crash, the claim is certainly later if the attempt has a higher number than the result
///    reported. This does not apply if a change, or another timer with this id, may have restarted
///    the attempts.
fn cancelled(timeline: &Timeline<'_>, claim: &ObservedClaim<'_>) -> Option<String> {
    let ObservedClaim { seen, content, from_us } = claim;
    let delivery = seen.delivery;
    timeline.effects.iter().find_map(|cancel| {
        let Answer::Cancelled { attempts, maybe_delivered } = cancel.answer else {
            return None;
        };
        if !cancel.certainly_follows(content) || delivery.received_us < cancel.to_us {
            return None;
        }
        let fresh_attempt =
            delivery.attempt > attempts && !timeline.may_be_renewed(content, delivery.received_us);
        let knows = seen.is_pull() || !maybe_delivered;
        (fresh_attempt || knows && *from_us >= cancel.to_us).then(|| {
            format!(
                "attempt {} was received {} µs after the result `cancelled` (attempts {attempts}, \
                 maybe_delivered {maybe_delivered})",
                delivery.attempt,
                delivery.received_us - cancel.to_us
            )
        })
    })
}

/// **Old payload**: a replacement or a change of the payload was sent after the content was
/// certainly set, and was acknowledged. Then the old content was claimed.
fn replaced(timeline: &Timeline<'_>, claim: &ObservedClaim<'_>) -> Option<String> {
    let (delivery, from_us) = (claim.seen.delivery, claim.from_us);
    let later = timeline.effects.iter().find(|change| {
        matches!(change.answer, Answer::Replaced { .. } | Answer::Changed { .. })
            && change.action.mark().is_some()
            && change.action.mark() != claim.content.action.mark()
            && change.certainly_follows(claim.content)
            && from_us >= change.to_us
    })?;
    Some(format!(
        "attempt {} delivered the payload that a {} acknowledged {} µs earlier had replaced",
        delivery.attempt,
        later.action.name(),
        delivery.received_us - later.to_us
    ))
}

/// **Old time**: a change of the due time was acknowledged, and then the timer was claimed for
/// another due time. Every call that can have set that time had ended before the change was sent.
fn old_time(timeline: &Timeline<'_>, claim: &ObservedClaim<'_>) -> Option<String> {
    let (delivery, from_us) = (claim.seen.delivery, claim.from_us);
    let change = timeline.effects.iter().find(|change| {
        let changes = matches!(change.action, Action::Reschedule { .. } | Action::Fire)
            && matches!(change.answer, Answer::Changed { .. })
            && change.due.is_some();
        changes
            && from_us >= change.to_us
            && timeline
                .effects
                .iter()
                .filter(|setter| setter.may_set_due(delivery.due_ms))
                .all(|setter| change.certainly_follows(setter))
            && !change.may_set_due(delivery.due_ms)
    })?;
    Some(format!(
        "attempt {} was for {}, though a {} to {:?} was acknowledged {} µs earlier",
        delivery.attempt,
        delivery.due_ms,
        change.action.name(),
        change.due,
        delivery.received_us - change.to_us
    ))
}
