//! Rules about repeated deliveries of one firing: duplicates, resurrections, delivery ids.

use super::timeline::{DeliveryRecord, Timeline};
use super::verdict::{Count, Verdict};
use crate::history::{SettleAnswer, SettleVerdict, Via, WebhookReply};

/// Time by which a lease may end before its reported end. It runs on another clock (boot time) than
/// the receiver's (wall time).
const LEASE_SLACK_MS: u64 = 10;

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (i, second) in timeline.seen.iter().enumerate() {
        let earlier: Vec<&DeliveryRecord<'_>> = timeline.seen[..i]
            .iter()
            .filter(|first| first.delivery.delivery_id == second.delivery.delivery_id)
            .collect();
        if let Some(text) = resurrected(timeline, &earlier, second) {
            timeline.add(verdict, Count::Resurrected, text);
        } else if let Some(first) = earlier.last() {
            match repetition(timeline, first, second) {
                Repetition::Retry => {}
                Repetition::Explained => verdict.duplicates_explained += 1,
                Repetition::Unexplained(text) => {
                    timeline.add(verdict, Count::DuplicateUnexplained, text);
                }
            }
        }
    }
    check_delivery_ids(timeline, verdict);
}

/// **Resurrected**: a later attempt exists although an earlier attempt of the same firing ended for
/// good. It ended for good in one of these ways:
///
/// 1. Its consumer settled it with `ack` or `dead`, and the result was *accepted*. A crash in
///    between is no excuse, since that result promises durability.
/// 2. The receiver replied 410 and the server certainly received it: there was no crash and no stop
///    since.
///
/// A redrive after a dead letter is allowed. If the later attempt was received before the
/// settlement was sent, the settlement is stale instead; see [`super::settled`].
fn resurrected(
    timeline: &Timeline<'_>,
    earlier: &[&DeliveryRecord<'_>],
    second: &DeliveryRecord<'_>,
) -> Option<String> {
    let again = second.delivery;
    let redriven = timeline.redriven_before(again.received_us);
    earlier.iter().find_map(|first| {
        let settle = first.settles.iter().find(|settle| {
            let taken = match settle.answer {
                SettleAnswer::Ok | SettleAnswer::AlreadySettled => true,
                SettleAnswer::Dead => !redriven,
                _ => false,
            };
            let ends = match settle.verdict {
                SettleVerdict::Ack => true,
                SettleVerdict::Dead => !redriven,
                SettleVerdict::Retry { .. } => settle.answer == SettleAnswer::Dead,
                SettleVerdict::Extend { .. } => false,
            };
            taken && ends && settle.sent_us < again.received_us
        });
        if let Some(settle) = settle {
            return Some(format!(
                "attempt {} came after {:?} of attempt {} returned {:?}",
                again.attempt, settle.verdict, first.delivery.attempt, settle.answer
            ));
        }
        let gave_up = matches!(first.delivery.via, Via::Push { reply: WebhookReply::GaveUp });
        let span = (first.delivery.received_us, again.received_us);
        let was_received = !timeline.crashes.may_disturb_webhooks(span.0, span.1);
        (gave_up && was_received && !redriven).then(|| {
            format!(
                "attempt {} came after attempt {} got 410",
                again.attempt, first.delivery.attempt
            )
        })
    })
}

enum Repetition {
    Retry,
    Explained,
    Unexplained(String),
}

/// **Duplicate**: the firing comes again although its receiver had not returned it. It is
/// *explained* by one of these:
///
/// 1. A crash between the two deliveries.
/// 2. A lease that was over.
/// 3. A response that the server may not have received, for example because of a stop.
///
/// The delivery id is the same, because the caller compares only such deliveries.
fn repetition(
    timeline: &Timeline<'_>,
    first: &DeliveryRecord<'_>,
    second: &DeliveryRecord<'_>,
) -> Repetition {
    let (one, two) = (first.delivery, second.delivery);
    let span = (one.received_us.min(two.received_us), two.received_us);
    let explained = match one.via {
        Via::Push { .. } => timeline.crashes.may_disturb_webhooks(span.0, span.1),
        Via::Pull { .. } => timeline.crashes.overlaps(span.0, span.1),
    };
    match one.via {
        Via::Push { reply } => match reply {
            WebhookReply::Rejected => Repetition::Retry,
            WebhookReply::GaveUp if timeline.redriven_before(two.received_us) => Repetition::Retry,
            WebhookReply::Unknown => Repetition::Explained,
            _ if explained => Repetition::Explained,
            _ => Repetition::Unexplained(format!(
                "attempt {} came {} µs after attempt {} was confirmed",
                two.attempt,
                two.received_us.saturating_sub(one.received_us),
                one.attempt
            )),
        },
        Via::Pull { .. } => {
            let sent_back = |verdict: &SettleVerdict| {
                matches!(verdict, SettleVerdict::Retry { .. } | SettleVerdict::Dead)
            };
            let latest_lease_end_ms = first.latest_lease_end_ms(two.received_us);
            if first.has_accepted(sent_back) {
                Repetition::Retry
            } else if explained
                || first.may_have_accepted(sent_back)
                || two.received_us / 1_000 + LEASE_SLACK_MS
                    >= latest_lease_end_ms.min(earliest_lease_end_ms(first))
            {
                Repetition::Explained
            } else {
                Repetition::Unexplained(format!(
                    "attempt {} came {} ms before the end of the lease of attempt {}",
                    two.attempt,
                    latest_lease_end_ms.saturating_sub(two.received_us / 1_000),
                    one.attempt
                ))
            }
        }
    }
}

/// Returns the earliest possible end of the lease: the reported end, or the one that an accepted
/// extension set. An extension in doubt may not have happened.
fn earliest_lease_end_ms(seen: &DeliveryRecord<'_>) -> u64 {
    let Via::Pull { leased_until_ms, .. } = seen.delivery.via else {
        return 0;
    };
    let mut extensions: Vec<(u64, u64)> = seen
        .settles
        .iter()
        .filter(|settle| settle.answer == SettleAnswer::Ok)
        .filter_map(|settle| match settle.verdict {
            SettleVerdict::Extend { lease_ms } => {
                Some((settle.sent_us, settle.sent_us / 1_000 + lease_ms))
            }
            _ => None,
        })
        .collect();
    extensions.sort_unstable();
    extensions.last().map_or(leased_until_ms, |(_, end_ms)| *end_ms)
}

/// **Delivery id changed**, in one of these forms:
///
/// 1. The same content has two delivery ids, though no change by a caller can have begun a new
///    occurrence in between, or both deliveries report the same occurrence.
/// 2. Two contents have one delivery id.
fn check_delivery_ids(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let mut in_time: Vec<&DeliveryRecord<'_>> = timeline.seen.iter().collect();
    in_time.sort_by_key(|seen| seen.delivery.received_us);
    for (i, second) in in_time.iter().enumerate() {
        let two = second.delivery;
        let Some(content) = timeline.content(two.mark) else {
            continue;
        };
        let earlier = || in_time[..i].iter().map(|seen| seen.delivery).rev();
        let same_content = earlier().find(|one| one.mark == two.mark);
        let changed = same_content.filter(|one| {
            let same_occurrence = matches!(
                (one.via, two.via),
                (Via::Pull { occurrence: a, .. }, Via::Pull { occurrence: b, .. }) if a == b
            );
            one.delivery_id != two.delivery_id
                && (same_occurrence || !timeline.may_be_rescheduled(content, two.received_us))
        });
        let used = earlier().find(|one| {
            one.delivery_id == two.delivery_id && one.mark.is_some() && one.mark != two.mark
        });
        if let Some(one) = changed {
            let text = format!(
                "attempts {} and {} of payload {:?} have two delivery ids",
                one.attempt, two.attempt, two.mark
            );
            timeline.add(verdict, Count::DeliveryIdChanged, text);
        } else if let Some(one) = used {
            let text =
                format!("payloads {:?} and {:?} came under one delivery id", one.mark, two.mark);
            timeline.add(verdict, Count::DeliveryIdChanged, text);
        }
    }
}
