//! Lateness of first attempts: received minus due, without attempts that waited for a restart or a
//! stop.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::crashes::Crashes;
use crate::Percentiles;
use crate::history::{Answer, Delivery, History, KeyNumber, Via};

/// Lateness of first attempts without a crash or a stop meanwhile.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Lateness {
    /// Leased firings. It includes the time until a consumer calls.
    pub pull: Percentiles,
    /// Webhooks.
    pub push: Percentiles,
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  lateness, pull     {}", self.pull)?;
        writeln!(f, "  lateness, webhook  {}", self.push)
    }
}

/// Returns the end of the only operation of each timer; `None` for a timer with other operations, or
/// whose operation did not create it. With `or_in_doubt`, an operation in doubt counts, too.
pub fn timers_with_one_operation(
    history: &History,
    or_in_doubt: bool,
) -> FxHashMap<KeyNumber, Option<u64>> {
    let mut made_us = FxHashMap::default();
    for operation in &history.operations {
        let Some(key) = operation.key else { continue };
        let is_made = match operation.answer {
            Answer::Created { .. } => true,
            Answer::InDoubt => or_in_doubt,
            _ => false,
        };
        let first = is_made.then_some(operation.ended_us);
        made_us.entry(key).and_modify(|known| *known = None).or_insert(first);
    }
    made_us
}

/// Returns the lateness, in one namespace, of first attempts of timers that have exactly one
/// operation, before their due time. Only the server can have delayed these.
pub fn untouched(history: &History, namespace: &str) -> Percentiles {
    let crashes = Crashes::new(&history.crashes, &history.stops);
    let made_us = timers_with_one_operation(history, false);
    let firsts = history.deliveries.iter().filter(|delivery| {
        let due_us = delivery.due_ms.saturating_mul(1_000);
        let made_us = made_us.get(&delivery.key).copied().flatten();
        delivery.attempt == 1
            && history.keys[delivery.key as usize].namespace == namespace
            && made_us.is_some_and(|made_us| made_us <= due_us)
            && !crashes.may_disturb_webhooks(due_us, delivery.received_us)
    });
    Percentiles::of(firsts.map(late_us))
}

fn late_us(delivery: &Delivery) -> u64 {
    delivery.received_us.saturating_sub(delivery.due_ms.saturating_mul(1_000))
}

/// Measures every first attempt of a timer that was scheduled before it was due.
pub(super) fn measure(history: &History, crashes: &Crashes) -> Lateness {
    let made_us: FxHashMap<u64, u64> = history
        .operations
        .iter()
        .filter_map(|operation| Some((operation.action.mark()?, operation.ended_us)))
        .collect();
    let of = |pull: bool| {
        let firsts = history.deliveries.iter().filter(|delivery| {
            let due_us = delivery.due_ms.saturating_mul(1_000);
            let asked_us = delivery.mark.and_then(|mark| made_us.get(&mark));
            delivery.attempt == 1
                && matches!(delivery.via, Via::Pull { .. }) == pull
                && asked_us.is_some_and(|asked_us| *asked_us <= due_us)
                && !crashes.may_disturb_webhooks(due_us, delivery.received_us)
        });
        Percentiles::of(firsts.map(late_us))
    };
    Lateness { pull: of(true), push: of(false) }
}
