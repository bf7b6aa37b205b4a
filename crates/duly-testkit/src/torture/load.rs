//! Callers of the torture test: they schedule, change, cancel and fire timers, and record the
//! results.
//!
//! A schedule call with an unknown outcome is often retried with the same request, as the API
//! advises. It then counts as one operation from the first attempt to the last.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::caller::Caller;
use super::plan::{self, OperationKind};
use super::world::{NAMESPACES, RunPhase, World};
use crate::api::{self, IfExists};
use crate::clock::{now_ms, now_us};
use crate::history::{Action, Answer, Operation};

/// Number of callers.
pub(super) const CALLERS: u32 = 4;

/// Most attempts of one request with an unknown outcome.
const ATTEMPTS_MAX: u32 = 3;

struct LoadCaller {
    world: Arc<World>,
    rng: SmallRng,
    caller: Caller,
}

/// One operation to send.
struct PlannedOperation {
    namespace: usize,
    id: Option<String>,
    action: Action,
    if_exists: IfExists,
}

/// Sends `per_second` operations per second until the load ends.
pub(super) async fn run_caller(world: Arc<World>, number: u32, per_second: f64) {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / per_second.max(0.1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut caller_task = LoadCaller {
        rng: world.rng(u64::from(number)),
        caller: world.caller(200 + u64::from(number)),
        world: Arc::clone(&world),
    };
    while world.phase() == RunPhase::Load && !world.recorder.is_full() {
        ticks.tick().await;
        // Now and then a caller ignores that the server is down.
        if !world.is_up() && !caller_task.rng.random_bool(0.02) {
            world.wait_until_up().await;
        }
        caller_task.step(&mut ticks).await;
    }
}

impl LoadCaller {
    async fn step(&mut self, ticks: &mut tokio::time::Interval) {
        match plan::operation_kind(&mut self.rng) {
            OperationKind::Batch => {
                let count = self.rng.random_range(2..20);
                self.send_batch(count).await;
                // A batch counts as many operations as it contains.
                for _ in 1..count {
                    ticks.tick().await;
                }
            }
            kind => {
                if let Some(operation) = self.plan_operation(kind) {
                    self.send(operation).await;
                }
            }
        }
    }

    fn plan_operation(&mut self, kind: OperationKind) -> Option<PlannedOperation> {
        let now_ms = now_ms();
        let world = &self.world;
        if kind == OperationKind::New {
            let mark = world.next_mark();
            return Some(PlannedOperation {
                namespace: plan::namespace(&mut self.rng),
                id: plan::id(&mut self.rng, mark),
                action: Action::Schedule { mark, due: plan::due(&mut self.rng, now_ms) },
                if_exists: IfExists::Fail,
            });
        }
        let (namespace, id) = world.pick_recent_id(self.rng.random(), self.rng.random())?;
        let mut if_exists = IfExists::Fail;
        let action = match kind {
            OperationKind::Again(how) => {
                if_exists = how;
                Action::Schedule { mark: world.next_mark(), due: plan::due(&mut self.rng, now_ms) }
            }
            OperationKind::Reschedule => {
                plan::reschedule(&mut self.rng, now_ms, || world.next_mark())
            }
            OperationKind::Cancel => Action::Cancel,
            OperationKind::Fire => Action::Fire,
            OperationKind::New | OperationKind::Batch => return None,
        };
        Some(PlannedOperation { namespace, id: Some(id), action, if_exists })
    }

    async fn send(&mut self, operation: PlannedOperation) {
        let name = NAMESPACES[operation.namespace].name;
        let of_id = |rest: &str| {
            let id = api::encode_segment(operation.id.as_deref().unwrap_or(""));
            api::path(name, &format!("/timers/{id}{rest}"))
        };
        let (method, path, body) = match operation.action {
            Action::Schedule { .. } => {
                let body = api::schedule_body(
                    operation.id.as_deref(),
                    &operation.action,
                    operation.if_exists,
                );
                ("POST", api::path(name, "/timers"), body)
            }
            Action::Reschedule { .. } => {
                ("PATCH", of_id(""), api::reschedule_body(&operation.action))
            }
            Action::Cancel => ("DELETE", of_id(""), Value::Null),
            Action::Fire | Action::Redrive => ("POST", of_id("/fire"), Value::Null),
        };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        // Without an id the same request would create another timer.
        let may_repeat = matches!(operation.action, Action::Schedule { .. })
            && operation.id.is_some()
            && operation.if_exists == IfExists::Fail
            && self.rng.random_bool(0.5);
        let sent_us = now_us();
        let mut doubt = false;
        for attempt in 1.. {
            let result = self.caller.call(method, &path, &body).await;
            let ended_us = now_us();
            let mut answer = api::call_result(&operation.action, &result);
            if answer == Answer::InDoubt
                && may_repeat
                && attempt < ATTEMPTS_MAX
                && self.world.phase() == RunPhase::Load
            {
                doubt = true;
                self.world.wait_until_up().await;
                continue;
            }
            if doubt && matches!(answer, Answer::Refused | Answer::Unchanged) {
                // The first attempt may have succeeded, and then another caller changed the timer.
                answer = Answer::InDoubt;
            }
            let id = result
                .ok()
                .and_then(|response| Some(response.json().get("id")?.as_str()?.to_owned()));
            self.record(&operation, id, sent_us, ended_us, answer);
            break;
        }
    }

    async fn send_batch(&mut self, count: u32) {
        let namespace = plan::namespace(&mut self.rng);
        let mut planned: Vec<PlannedOperation> = Vec::new();
        for _ in 0..count {
            let kind = match plan::operation_kind(&mut self.rng) {
                OperationKind::Batch => OperationKind::New,
                kind => kind,
            };
            let Some(mut operation) = self.plan_operation(kind) else {
                continue;
            };
            if kind == OperationKind::New {
                operation.namespace = namespace;
            }
            let twice = planned.iter().any(|other| other.id.is_some() && other.id == operation.id);
            if operation.namespace == namespace && !twice {
                planned.push(operation);
            }
        }
        let operations: Vec<Value> = planned
            .iter()
            .map(|operation| {
                api::batch_operation(
                    operation.id.as_deref(),
                    &operation.action,
                    operation.if_exists,
                )
            })
            .collect();
        let body = json!({ "operations": operations }).to_string().into_bytes();
        let path = api::path(NAMESPACES[namespace].name, "/batch");
        let sent_us = now_us();
        let result = self.caller.call("POST", &path, &body).await;
        let ended_us = now_us();
        let json = result.as_ref().map(crate::wire::Response::json).unwrap_or_default();
        for (i, operation) in planned.iter().enumerate() {
            let item = &json["results"][i];
            let answer = if item.is_object() {
                api::item_result(&operation.action, item)
            } else {
                api::call_result(&operation.action, &result)
            };
            let id = item["timer"]["id"].as_str().map(str::to_owned);
            self.record(operation, id, sent_us, ended_us, answer);
        }
    }

    fn record(
        &self,
        operation: &PlannedOperation,
        reported_id: Option<String>,
        sent_us: u64,
        ended_us: u64,
        answer: Answer,
    ) {
        let id = operation.id.clone().or(reported_id);
        let key =
            id.as_ref().map(|id| self.world.recorder.key(NAMESPACES[operation.namespace].name, id));
        self.world.recorder.operation(Operation {
            key,
            sent_us,
            ended_us,
            action: operation.action,
            answer,
        });
        let fresh = matches!(operation.action, Action::Schedule { .. });
        if let Some(id) = id.filter(|_| fresh && answer != Answer::Refused) {
            self.world.add_recent_id(operation.namespace, id);
        }
    }
}

/// Redrives dead letters, a few at a time.
pub(super) async fn redrive(world: Arc<World>) {
    let mut caller = world.caller(901);
    let mut rng = world.rng(900);
    let mut ticks = tokio::time::interval(Duration::from_millis(700));
    while world.phase() == RunPhase::Load {
        ticks.tick().await;
        world.wait_until_up().await;
        let name = NAMESPACES[rng.random_range(0..NAMESPACES.len())].name;
        let path = api::path(name, "/timers?state=dead&limit=100");
        let Ok(page) = caller.call("GET", &path, b"").await else {
            continue;
        };
        let page = page.json();
        let dead = page["timers"].as_array().into_iter().flatten();
        for id in dead.filter_map(|timer| timer["id"].as_str()) {
            if !rng.random_bool(0.3) {
                continue;
            }
            let action = Action::Redrive;
            let key = world.recorder.key(name, id);
            let path = api::path(name, "/dead/redrive");
            let body = json!({ "ids": [id] }).to_string().into_bytes();
            let sent_us = now_us();
            let result = caller.call("POST", &path, &body).await;
            world.recorder.operation(Operation {
                key: Some(key),
                sent_us,
                ended_us: now_us(),
                action,
                answer: api::call_result(&action, &result),
            });
        }
    }
}
