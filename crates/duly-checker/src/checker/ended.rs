//! Rules about the state after the run: lost, resurrected, undone, stuck. They also count recovered
//! timers.

use super::timeline::{DeliveryRecord, Effect, Timeline};
use super::verdict::{Count, Verdict};
use crate::history::{Action, Answer, End, EndState, SettleVerdict, Via, WebhookReply};

/// Time after its due time during which a timer may still be pending, in a run that waited for all
/// timers.
const STUCK_AFTER_MS: u64 = 10_000;

pub(super) fn check(timeline: &Timeline<'_>, drained: bool, verdict: &mut Verdict) {
    for content in &timeline.effects {
        let made = content.action.mark().is_some() && content.is_definite();
        if made {
            check_content(timeline, content, verdict);
        }
    }
    let Some(end) = timeline.end else {
        return;
    };
    check_cancel(timeline, end, verdict);
    check_last_change(timeline, end, verdict);
    if drained && end.state.is_pending() {
        check_stuck(timeline, end, verdict);
    }
}

/// Checks the rules *lost* and *resurrected* for one acknowledged payload, and counts *delivered*
/// and *recovered* timers.
///
/// **Lost**: the timer was acknowledged, but all of these hold:
///
/// 1. No receiver confirmed it, and none may have confirmed it.
/// 2. It is neither pending nor a dead letter at the end.
/// 3. No other call that may have come later ended it.
///
/// A timer that is `finished` or `cancelled` without such a reason is lost, too.
///
/// **Resurrected**: its `ack` was accepted, and it is pending or a dead letter at the end.
///
/// *Recovered* means: acknowledged before a crash, and delivered or present after it.
fn check_content(timeline: &Timeline<'_>, content: &Effect, verdict: &mut Verdict) {
    verdict.acknowledged += 1;
    let own = || timeline.seen.iter().filter(|seen| seen.delivery.mark == content.action.mark());
    let delivered = own().next().is_some();
    verdict.delivered += usize::from(delivered);

    let Some(end) = timeline.end else {
        return;
    };
    let there = end.state.is_pending() || end.state == EndState::Dead;
    if let Some(crash) = timeline.crashes.first_after(content.to_us) {
        let after = own().any(|seen| seen.delivery.received_us >= crash.reaped_us);
        verdict.recovered += usize::from(after || there);
    }
    let ended_otherwise = timeline.effects.iter().any(|other| {
        let ends = match other.action {
            Action::Cancel | Action::Schedule { .. } => true,
            Action::Reschedule { mark, .. } => mark.is_some(),
            Action::Fire | Action::Redrive => false,
        };
        ends && other.action.mark() != content.action.mark() && other.may_follow(content)
    });
    // After a redrive the read may return the dead letter of another timer with this id.
    let of_another = end.mark.is_some() && end.mark != content.action.mark();
    if ended_otherwise || of_another && timeline.redriven_before(end.read_us) {
        return;
    }
    if there && own().any(|seen| seen.has_accepted(|verdict| *verdict == SettleVerdict::Ack)) {
        let text = format!("acked, and {:?} at the end", end.state);
        timeline.add(verdict, Count::Resurrected, text);
    } else if !there && !own().any(may_be_confirmed) {
        let seen = own().count();
        let text = format!(
            "acknowledged, {seen} deliveries seen, none confirmed, and {:?} at the end",
            end.state
        );
        timeline.add(verdict, Count::Lost, text);
    }
}

fn may_be_confirmed(seen: &DeliveryRecord<'_>) -> bool {
    match seen.delivery.via {
        Via::Pull { .. } => seen.may_have_accepted(|verdict| *verdict == SettleVerdict::Ack),
        Via::Push { reply } => matches!(reply, WebhookReply::Confirmed | WebhookReply::Unknown),
    }
}

/// **Resurrected**: a cancel was acknowledged, no other call can have come later, and the timer is
/// pending or a dead letter at the end.
fn check_cancel(timeline: &Timeline<'_>, end: &End, verdict: &mut Verdict) {
    let there = end.state.is_pending() || end.state == EndState::Dead;
    if let Some(last) = last_certain_call(timeline)
        && matches!(last.answer, Answer::Cancelled { .. })
        && there
    {
        let text = format!("cancelled, and {:?} at the end", end.state);
        timeline.add(verdict, Count::Resurrected, text);
    }
}

/// **Undone**: the last call that changed the timer was acknowledged, no other call can have come
/// later, and the pending timer has another due time or payload.
fn check_last_change(timeline: &Timeline<'_>, end: &End, verdict: &mut Verdict) {
    // After a redrive the read may return the dead letter of an earlier timer with this id.
    let readable = end.state.is_pending() && !timeline.redriven_before(end.read_us);
    let Some(last) = last_certain_call(timeline).filter(|_| readable) else {
        return;
    };
    let other_due =
        end.due_ms.is_some_and(|due_ms| last.due.is_some() && !last.may_set_due(due_ms));
    let other_mark = last.action.mark().is_some() && end.mark != last.action.mark();
    if other_due || other_mark {
        let text = format!(
            "the last {} set {:?} {:?}, but at the end it is {:?} {:?}",
            last.action.name(),
            last.due,
            last.action.mark(),
            end.due_ms,
            end.mark
        );
        timeline.add(verdict, Count::Undone, text);
    }
}

/// Returns the last call, if it certainly took effect and no other call can have come after it.
fn last_certain_call<'t>(timeline: &'t Timeline<'_>) -> Option<&'t Effect> {
    let last = timeline.effects.last()?;
    let others = &timeline.effects[..timeline.effects.len() - 1];
    let alone = others.iter().all(|other| last.certainly_follows(other));
    (last.is_definite() && alone).then_some(last)
}

/// **Stuck**: the run waited until no timer was due, and this timer was due long before the end.
fn check_stuck(timeline: &Timeline<'_>, end: &End, verdict: &mut Verdict) {
    let due_ms = end.due_ms.unwrap_or(u64::MAX);
    let read_ms = end.read_us / 1_000;
    if due_ms.saturating_add(STUCK_AFTER_MS) < read_ms {
        let text = format!("{:?}, due for {} ms", end.state, read_ms - due_ms);
        timeline.add(verdict, Count::Stuck, text);
    }
}
