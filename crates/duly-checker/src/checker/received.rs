//! Rules about single deliveries: unexpected, early.

use super::timeline::{Effect, Timeline};
use super::verdict::{Count, Verdict};
use crate::history::{Delivery, SettleVerdict};

/// Time by which a retry may come before its wait is over. The wait runs on another clock (boot
/// time) than the receiver's (wall time).
const RETRY_SLACK_US: u64 = 10_000;

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for seen in &timeline.seen {
        let delivery = seen.delivery;
        match find_originating_call(timeline, delivery) {
            Ok(content) => check_early(timeline, content, delivery, verdict),
            Err(text) => timeline.add(verdict, Count::Unexpected, text),
        }
    }
    check_early_retries(timeline, verdict);
}

/// Returns the call that set the delivered payload, or the text of a finding.
///
/// **Unexpected**: one of these holds.
///
/// 1. No call for this timer that was sent before, and not refused, set the payload.
/// 2. No such call can have set the reported due time.
fn find_originating_call<'t>(
    timeline: &'t Timeline<'_>,
    delivery: &Delivery,
) -> Result<&'t Effect, String> {
    let Some(mark) = delivery.mark else {
        return Err(format!("attempt {}: the payload is not what was sent", delivery.attempt));
    };
    let content = timeline
        .content(Some(mark))
        .filter(|content| content.from_us <= delivery.received_us)
        .ok_or_else(|| {
            format!("payload {mark} was delivered, but no call that set it can have succeeded")
        })?;
    let mut setters = due_setters(timeline, content, delivery);
    if setters.any(|effect| effect.may_set_due(delivery.due_ms)) {
        Ok(content)
    } else {
        Err(format!(
            "payload {mark} was delivered for due time {}, which no call set",
            delivery.due_ms
        ))
    }
}

/// **Early**: the receiver read the delivery before its reported due time, or before every due time
/// that the calls for this payload can have set.
fn check_early(
    timeline: &Timeline<'_>,
    content: &Effect,
    delivery: &Delivery,
    verdict: &mut Verdict,
) {
    let known_ms = due_setters(timeline, content, delivery)
        .filter_map(|effect| effect.due)
        .map(|(from_ms, _)| from_ms)
        .min()
        .unwrap_or(0);
    let due_us = known_ms.max(delivery.due_ms).saturating_mul(1_000);
    if delivery.received_us < due_us {
        let by_us = due_us - delivery.received_us;
        let attempt = delivery.attempt;
        timeline.add(
            verdict,
            Count::Early,
            format!("attempt {attempt} was received {by_us} µs before it was due"),
        );
    }
}

/// Returns the calls that may have set the due time of this delivery:
///
/// 1. The call that set the content, if it sets a time.
/// 2. Each call that sets only a time and is not certainly older.
/// 3. For content without a time, each call that sets a time.
fn due_setters<'t>(
    timeline: &'t Timeline<'_>,
    content: &'t Effect,
    delivery: &'t Delivery,
) -> impl Iterator<Item = &'t Effect> {
    timeline.effects.iter().filter(move |effect| {
        let own = effect.action.mark() == content.action.mark();
        let later = effect.action.mark().is_none() && effect.may_follow(content);
        effect.due.is_some()
            && effect.from_us <= delivery.received_us
            && (own || later || content.due.is_none())
    })
}

/// **Early** also: a firing that a consumer returned with a wait comes before the wait is over, and
/// no call asked for it sooner.
fn check_early_retries(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for pair in timeline.seen.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        if first.delivery.delivery_id != second.delivery.delivery_id {
            continue;
        }
        let hurried = timeline.effects.iter().any(|effect| {
            effect.to_us >= first.delivery.received_us
                && effect.from_us <= second.delivery.received_us
        });
        let wait = first.settles.iter().find_map(|settle| {
            let SettleVerdict::Retry { after_ms } = settle.verdict else {
                return None;
            };
            let taken = matches!(settle.answer, crate::history::SettleAnswer::Ok);
            Some(settle.sent_us + after_ms? * 1_000).filter(|_| taken)
        });
        let Some(not_before_us) = wait.filter(|_| !hurried) else {
            continue;
        };
        if second.delivery.received_us + RETRY_SLACK_US < not_before_us {
            let by_us = not_before_us - second.delivery.received_us;
            let attempt = second.delivery.attempt;
            timeline.add(
                verdict,
                Count::Early,
                format!("attempt {attempt} came {by_us} µs before the end of its wait"),
            );
        }
    }
}
