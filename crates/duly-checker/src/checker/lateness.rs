//! Lateness of first attempts: received minus due, without attempts that waited for a restart or a
//! stop.

use std::fmt;

use serde::Serialize;

use super::crashes::Crashes;
use crate::Percentiles;
use crate::history::{Answer, Delivery, History, Via};

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

/// Returns the lateness, in one namespace, of first attempts of timers that have exactly one
/// operation, before their due time. Only the server can have delayed these.
pub fn untouched(history: &History, namespace: &str) -> Percentiles {
    let crashes = Crashes::new(&history.crashes, &history.stops);
    let mut asked: rustc_hash::FxHashMap<u32, Option<u64>> = rustc_hash::FxHashMap::default();
    for operation in &history.operations {
        let Some(key) = operation.key else { continue };
        let once = matches!(operation.answer, Answer::Created { .. });
        let first = Some(operation.ended_us).filter(|_| once);
        asked.entry(key).and_modify(|known| *known = None).or_insert(first);
    }
    let firsts = history.deliveries.iter().filter(|delivery| {
        let due_us = delivery.due_ms.saturating_mul(1_000);
        let asked_us = asked.get(&delivery.key).copied().flatten();
        delivery.attempt == 1
            && history.keys[delivery.key as usize].namespace == namespace
            && asked_us.is_some_and(|asked_us| asked_us <= due_us)
            && !crashes.may_disturb_webhooks(due_us, delivery.received_us)
    });
    Percentiles::of(firsts.map(late_us))
}

fn late_us(delivery: &Delivery) -> u64 {
    delivery.received_us.saturating_sub(delivery.due_ms.saturating_mul(1_000))
}

/// Measures every first attempt of a timer that was scheduled before it was due.
pub(super) fn measure(history: &History, crashes: &Crashes) -> Lateness {
    let made_us: rustc_hash::FxHashMap<u64, u64> = history
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
