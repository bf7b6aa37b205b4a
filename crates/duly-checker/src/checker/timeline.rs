//! Timeline of one timer, with bounds for the time of each call's effect.

use crate::checker::crashes::Crashes;
use crate::checker::verdict::{Count, Finding, Verdict};
use crate::history::{
    Action, Answer, Delivery, Due, End, History, Settle, SettleAnswer, SettleVerdict, TimerKey, Via,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// An operation that may have had an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    /// Earliest time of the effect.
    pub(super) from_us: u64,
    /// Latest time of the effect.
    pub(super) to_us: u64,
    pub(super) action: Action,
    pub(super) answer: Answer,
    /// The due times that it can have set, in Unix milliseconds, if it sets one.
    pub(super) due: Option<(u64, u64)>,
}

impl Effect {
    /// Returns `true` if the operation certainly took effect.
    pub(super) fn is_definite(&self) -> bool {
        !matches!(self.answer, Answer::InDoubt)
    }

    /// Returns `true` unless the operation certainly took effect before `other`.
    pub(super) fn may_follow(&self, other: &Self) -> bool {
        self.to_us >= other.from_us
    }

    /// Returns `true` if the operation certainly took effect after `other`, if `other` took effect
    /// at all.
    pub(super) fn certainly_follows(&self, other: &Self) -> bool {
        self.from_us >= other.to_us
    }

    pub(super) fn may_set_due(&self, due_ms: u64) -> bool {
        self.due.is_some_and(|(from, to)| (from..=to).contains(&due_ms))
    }
}

/// A delivery with its settlements.
#[derive(Debug)]
pub(super) struct DeliveryRecord<'h> {
    pub(super) delivery: &'h Delivery,
    pub(super) settles: Vec<&'h Settle>,
}

impl DeliveryRecord<'_> {
    pub(super) fn is_pull(&self) -> bool {
        matches!(self.delivery.via, Via::Pull { .. })
    }

    /// Returns `true` if a settlement for which `wanted` holds was certainly accepted.
    pub(super) fn has_accepted(&self, wanted: impl Fn(&SettleVerdict) -> bool) -> bool {
        self.settles.iter().any(|settle| {
            wanted(&settle.verdict)
                && matches!(
                    settle.answer,
                    SettleAnswer::Ok | SettleAnswer::Dead | SettleAnswer::AlreadySettled
                )
        })
    }

    /// Returns `true` if a settlement for which `wanted` holds may have been accepted.
    pub(super) fn may_have_accepted(&self, wanted: impl Fn(&SettleVerdict) -> bool) -> bool {
        self.settles.iter().any(|settle| {
            wanted(&settle.verdict)
                && !matches!(settle.answer, SettleAnswer::LeaseLost | SettleAnswer::InvalidToken)
        })
    }

    /// Returns the latest possible end of the lease in Unix milliseconds, including extensions sent
    /// before `before_us`.
    pub(super) fn latest_lease_end_ms(&self, before_us: u64) -> u64 {
        let Via::Pull { leased_until_ms, .. } = self.delivery.via else {
            return 0;
        };
        let extended = self.settles.iter().filter_map(|settle| {
            let SettleVerdict::Extend { lease_ms } = settle.verdict else {
                return None;
            };
            let refused =
                matches!(settle.answer, SettleAnswer::LeaseLost | SettleAnswer::InvalidToken);
            (!refused && settle.sent_us < before_us)
                .then_some(settle.ended_us.saturating_add(lease_ms * 1_000) / 1_000)
        });
        extended.fold(leased_until_ms, u64::max)
    }
}

/// The part of a history that is about one timer.
#[derive(Debug)]
pub(super) struct Timeline<'h> {
    pub(super) key: &'h TimerKey,
    /// Operations that may have changed something, in the order in which they were sent.
    pub(super) effects: Vec<Effect>,
    /// Deliveries by (attempt, time).
    pub(super) seen: Vec<DeliveryRecord<'h>>,
    pub(super) end: Option<&'h End>,
    pub(super) crashes: &'h Crashes,
}

impl Timeline<'_> {
    /// Returns the operation that made this content, if there is one.
    pub(super) fn content(&self, mark: Option<u64>) -> Option<&Effect> {
        let mark = mark?;
        let mut made = self.effects.iter();
        made.find(|effect| effect.action.mark() == Some(mark))
    }

    /// Returns the earliest time at which the claim of this delivery can have been granted.
    ///
    /// * Lease: the time at which the lease call was sent.
    /// * Webhook: a claim lives until its outcome is settled, and the request is read only during
    ///   the claim. A request of a killed server, or to a stopped receiver, may be read later. So
    ///   with a crash or a stop since the timer was made, the bound is 0.
    pub(super) fn claimed_from_us(&self, content: &Effect, delivery: &Delivery) -> u64 {
        match delivery.via {
            Via::Pull { lease_sent_us, .. } => lease_sent_us,
            Via::Push { .. } => {
                let life = (content.from_us, delivery.received_us);
                if self.crashes.may_disturb_webhooks(life.0, life.1) { 0 } else { life.1 }
            }
        }
    }

    /// Returns `true` if a redrive may have affected this timer before the given time.
    pub(super) fn redriven_before(&self, us: u64) -> bool {
        self.effects.iter().any(|e| matches!(e.action, Action::Redrive) && e.from_us <= us)
    }

    /// Returns `true` if a change by a caller may lie between the two times. Then attempts restart
    /// at 0 under a new delivery id.
    pub(super) fn may_be_rescheduled(&self, since: &Effect, until_us: u64) -> bool {
        let changes = |e: &Effect| matches!(e.action, Action::Reschedule { .. });
        self.effects.iter().any(|e| changes(e) && e.may_follow(since) && e.from_us <= until_us)
    }

    /// Returns `true` if a change by a caller, or another timer with this id, may lie between the
    /// two times.
    pub(super) fn may_be_renewed(&self, since: &Effect, until_us: u64) -> bool {
        let another = |e: &Effect| e.action.mark().is_some() && !std::ptr::eq(e, since);
        self.may_be_rescheduled(since, until_us)
            || self
                .effects
                .iter()
                .any(|e| another(e) && e.may_follow(since) && e.from_us <= until_us)
    }

    pub(super) fn add(&self, verdict: &mut Verdict, count: Count, text: String) {
        verdict.add(Finding {
            count,
            namespace: self.key.namespace.clone(),
            id: self.key.id.clone(),
            text,
        });
    }
}

/// Splits a history by timer.
pub(super) fn split<'h>(history: &'h History, crashes: &'h Crashes) -> Vec<Timeline<'h>> {
    let mut timelines: Vec<Timeline<'h>> = history
        .keys
        .iter()
        .map(|key| Timeline { key, effects: Vec::new(), seen: Vec::new(), end: None, crashes })
        .collect();
    let keys_by_mark = timers_of_calls_without_id(history);
    for operation in &history.operations {
        let key = operation.key.or_else(|| keys_by_mark.get(&operation.action.mark()?).copied());
        if let Some(key) = key
            && let Some(effect) = effect(operation, crashes)
        {
            timelines[key as usize].effects.push(effect);
        }
    }
    let mut settles: FxHashMap<u32, Vec<&Settle>> = FxHashMap::default();
    for settle in &history.settles {
        if let Some(delivery) = settle.delivery {
            settles.entry(delivery).or_default().push(settle);
        }
    }
    for (number, delivery) in (0_u32..).zip(&history.deliveries) {
        timelines[delivery.key as usize].seen.push(DeliveryRecord {
            delivery,
            settles: settles.remove(&number).unwrap_or_default(),
        });
    }
    for end in &history.ends {
        timelines[end.key as usize].end = Some(end);
    }
    for timeline in &mut timelines {
        timeline.effects.sort_by_key(|effect| effect.from_us);
        timeline.seen.sort_by_key(|seen| (seen.delivery.attempt, seen.delivery.received_us));
    }
    timelines
}

/// Returns the schedule calls whose server-made id is known only from a delivery: mark → timer.
fn timers_of_calls_without_id(history: &History) -> FxHashMap<u64, u32> {
    let without_id: FxHashSet<u64> = history
        .operations
        .iter()
        .filter(|operation| operation.key.is_none())
        .filter_map(|operation| operation.action.mark())
        .collect();
    let seen = history.deliveries.iter();
    seen.filter_map(|delivery| Some((delivery.mark?, delivery.key)))
        .filter(|(mark, _)| without_id.contains(mark))
        .collect()
}

fn effect(operation: &crate::history::Operation, crashes: &Crashes) -> Option<Effect> {
    let (from_us, to_us) = match operation.answer {
        Answer::Refused | Answer::Unchanged => return None,
        Answer::InDoubt => {
            (operation.sent_us, crashes.latest_effect_us(operation.sent_us, operation.ended_us))
        }
        _ => (operation.sent_us, operation.ended_us),
    };
    let reported = match operation.answer {
        Answer::Created { due_ms } | Answer::Replaced { due_ms } | Answer::Changed { due_ms } => {
            Some((due_ms, due_ms))
        }
        _ => None,
    };
    let span = |delay_ms: u64| {
        let to = (to_us / 1_000).saturating_add(delay_ms).saturating_add(1);
        (from_us / 1_000 + delay_ms, to)
    };
    let due = match operation.action {
        Action::Schedule { due, .. } | Action::Reschedule { due: Some(due), .. } => {
            Some(match due {
                Due::At(ms) => (ms, ms),
                Due::In(delay_ms) => reported.unwrap_or_else(|| span(delay_ms)),
            })
        }
        Action::Fire => Some(reported.unwrap_or_else(|| span(0))),
        Action::Redrive => Some((from_us / 1_000, u64::MAX)),
        Action::Reschedule { due: None, .. } | Action::Cancel => None,
    };
    Some(Effect { from_us, to_us, action: operation.action, answer: operation.answer, due })
}
