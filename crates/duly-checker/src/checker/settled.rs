//! Rules about settlements: a token whose lease is lost must change nothing.

use super::timeline::{DeliveryRecord, Timeline};
use super::verdict::{Count, Finding, Verdict};
use crate::history::{Answer, History, Settle, SettleAnswer, SettleVerdict, Via};

/// Time after the reported end during which a lease may still count. It runs on another clock (boot
/// time) than the caller's (wall time), and the end is reported in whole milliseconds.
const LEASE_SLACK_MS: u64 = 100;

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (i, seen) in timeline.seen.iter().enumerate() {
        for settle in &seen.settles {
            if !matches!(settle.answer, SettleAnswer::Ok | SettleAnswer::Dead) {
                continue;
            }
            let later = &timeline.seen[i + 1..];
            let reason = has_later_attempt(seen, settle, later)
                .or_else(|| lapsed(timeline, seen, settle))
                .or_else(|| settled_before(seen, settle))
                .or_else(|| ended_before(timeline, seen, settle));
            if let Some(reason) = reason {
                let text = format!(
                    "{:?} of attempt {} returned {:?}, though {reason}",
                    settle.verdict, seen.delivery.attempt, settle.answer
                );
                timeline.add(verdict, Count::StaleSettleAccepted, text);
            }
        }
    }
}

/// **Stale** (a): a later attempt of the same firing was received before this settlement was sent,
/// so the token had lost its lease.
fn has_later_attempt(
    seen: &DeliveryRecord<'_>,
    settle: &Settle,
    later: &[DeliveryRecord<'_>],
) -> Option<String> {
    later
        .iter()
        .find(|other| {
            other.delivery.delivery_id == seen.delivery.delivery_id
                && other.delivery.attempt > seen.delivery.attempt
                && other.delivery.received_us <= settle.sent_us
        })
        .map(|other| {
            let attempt = other.delivery.attempt;
            format!("attempt {attempt} had been received before")
        })
}

/// **Stale** (b): the lease was over, including every extension that may have been accepted, and no
/// crash may have lengthened it.
fn lapsed(timeline: &Timeline<'_>, seen: &DeliveryRecord<'_>, settle: &Settle) -> Option<String> {
    let Via::Pull { lease_sent_us, .. } = seen.delivery.via else {
        return None;
    };
    let end_ms = seen.latest_lease_end_ms(settle.sent_us);
    let over = settle.sent_us / 1_000 > end_ms + LEASE_SLACK_MS;
    let disturbed = timeline.crashes.overlaps(lease_sent_us, settle.ended_us);
    (over && !disturbed).then(|| {
        let by_ms = settle.sent_us / 1_000 - end_ms;
        format!("its lease had ended {by_ms} ms before")
    })
}

/// **Stale** (c): another final verdict with the same token was accepted before.
fn settled_before(seen: &DeliveryRecord<'_>, settle: &Settle) -> Option<String> {
    seen.settles
        .iter()
        .find(|before| {
            before.ended_us <= settle.sent_us
                && matches!(before.answer, SettleAnswer::Ok | SettleAnswer::Dead)
                && !matches!(before.verdict, SettleVerdict::Extend { .. })
                && before.verdict != settle.verdict
        })
        .map(|before| format!("{:?} had been accepted before", before.verdict))
}

/// **Stale** (d): a cancel or a replacement that was sent after the claim was acknowledged before.
/// Neither is possible during the lease, so the lease was lost.
fn ended_before(
    timeline: &Timeline<'_>,
    seen: &DeliveryRecord<'_>,
    settle: &Settle,
) -> Option<String> {
    let received_us = seen.delivery.received_us;
    timeline
        .effects
        .iter()
        .find(|effect| {
            matches!(effect.answer, Answer::Cancelled { .. } | Answer::Replaced { .. })
                && effect.from_us >= received_us
                && effect.to_us <= settle.sent_us
        })
        .map(|effect| format!("a {} had been acknowledged before", effect.action.name()))
}

/// **Stale** (e): a made-up token was accepted.
pub(super) fn check_unknown_tokens(history: &History, verdict: &mut Verdict) {
    let made_up = history.settles.iter().filter(|settle| {
        settle.delivery.is_none()
            && !matches!(
                settle.answer,
                SettleAnswer::InvalidToken | SettleAnswer::LeaseLost | SettleAnswer::InDoubt
            )
    });
    for settle in made_up {
        verdict.add(Finding {
            count: Count::StaleSettleAccepted,
            namespace: "-".to_owned(),
            id: "-".to_owned(),
            text: format!("a made-up token returned {:?}", settle.answer),
        });
    }
}
