//! Probes: a steady stream of timers to the well-behaved receiver, each scheduled well before its
//! due time and never changed. They measure lateness.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::time::MissedTickBehavior;

use crate::api::{self, IfExists};
use crate::clock::{now_ms, now_us};
use crate::history::{Action, Due, Operation};
use crate::torture::world::{RunPhase, WELL_BEHAVED, World};

/// Number of probes. While one waits for a stopped node, the others continue.
pub(super) const PROBES: u32 = 6;

/// Time between two timers of one probe.
const INTERVAL: Duration = Duration::from_millis(150);

/// Delay of the timers, in milliseconds.
const DELAY_MS: std::ops::Range<u64> = 2_000..8_000;

/// Schedules timers until the load ends.
pub(super) async fn run(world: Arc<World>, number: u32) {
    let mut rng = world.rng(500 + u64::from(number));
    let mut caller = world.caller(520 + u64::from(number));
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while world.phase() == RunPhase::Load && !world.recorder.is_full() {
        ticks.tick().await;
        let mark = world.next_mark();
        let id = format!("probe-{mark}");
        let due = Due::At(now_ms() + rng.random_range(DELAY_MS));
        let action = Action::Schedule { mark, due };
        let body = api::schedule_body(Some(&id), &action, IfExists::Fail).to_string().into_bytes();
        let sent_us = now_us();
        let result = caller.call("POST", &api::path(WELL_BEHAVED, "/timers"), &body).await;
        world.recorder.operation(Operation {
            key: Some(world.recorder.key(WELL_BEHAVED, &id)),
            sent_us,
            ended_us: now_us(),
            action,
            answer: api::call_result(&action, &result),
        });
    }
}
