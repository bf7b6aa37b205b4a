//! Consumers of the torture test.
//!
//! 1. Most firings get an ack.
//! 2. Others are retried, dead-lettered or extended, or their lease expires.
//! 3. Some settlements have a token whose lease is lost, or a made-up token.
//! 4. Now and then a consumer stops for longer than its leases.
//! 5. While the run drains, every firing gets an ack.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::caller::Caller;
use super::world::{CONSUMERS_PER_NAMESPACE, NAMESPACES, RunPhase, World};
use crate::api;
use crate::clock::now_us;
use crate::history::{Delivery, DeliveryNumber, Settle, SettleAnswer, SettleVerdict, Via};

/// Most settlements that wait for their time. Further ones are dropped, so their leases expire.
const POSTPONED_MAX: usize = 2_000;

/// Starts all consumers.
pub(super) fn spawn_all(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    let pulls = NAMESPACES.iter().filter(|namespace| namespace.receiver.is_none());
    pulls
        .flat_map(|namespace| [namespace; CONSUMERS_PER_NAMESPACE])
        .enumerate()
        .map(|(number, namespace)| {
            let consumer = Consumer {
                world: Arc::clone(world),
                name: namespace.name,
                number,
                rng: world.rng(100 + number as u64),
                caller: world.caller(300 + number as u64),
                postponed: VecDeque::new(),
            };
            tokio::spawn(consumer.run())
        })
        .collect()
}

/// A settlement to send.
struct PlannedSettlement {
    not_before_us: u64,
    delivery: Option<DeliveryNumber>,
    token: String,
    verdict: SettleVerdict,
}

struct Consumer {
    world: Arc<World>,
    name: &'static str,
    number: usize,
    rng: SmallRng,
    caller: Caller,
    postponed: VecDeque<PlannedSettlement>,
}

impl Consumer {
    async fn run(mut self) {
        while self.world.phase() != RunPhase::Done {
            if !self.world.is_up() {
                self.world.wait_until_up().await;
            }
            let now = self.lease().await;
            self.wait_while_stopped().await;
            self.settle(now).await;
            self.wait_while_stopped().await;
            let now_us = now_us();
            let (due, rest): (VecDeque<_>, VecDeque<_>) =
                self.postponed.drain(..).partition(|planned| planned.not_before_us <= now_us);
            self.postponed = rest;
            self.settle(due.into()).await;
        }
    }

    /// Waits while this consumer is stopped.
    async fn wait_while_stopped(&self) {
        self.world.consumer_gates[self.number].wait_until_open().await;
    }

    /// Leases, records the firings, and returns the settlements to send at once.
    async fn lease(&mut self) -> Vec<PlannedSettlement> {
        let lease_ms = self.rng.random_range(1_000..3_000);
        let wait_ms = if self.rng.random_bool(0.5) { 0 } else { 200 };
        let max = self.rng.random_range(1..60);
        let body =
            json!({ "max": max, "lease": format!("{lease_ms}ms"), "wait": format!("{wait_ms}ms") });
        let path = api::path(self.name, "/lease");
        let lease_sent_us = now_us();
        let result = self.caller.call("POST", &path, &body.to_string().into_bytes()).await;
        // If the consumer is stopped here, its leases are in its socket and it does not know them.
        self.wait_while_stopped().await;
        let received_us = now_us();
        let firings = match &result {
            Ok(response) => response.json(),
            Err(_) => Value::Null,
        };
        let firings = firings["firings"].as_array().cloned().unwrap_or_default();
        if firings.is_empty() && wait_ms == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut planned = Vec::new();
        for firing in &firings {
            let Some((delivery, token)) = self.record_delivery(firing, lease_sent_us, received_us)
            else {
                continue;
            };
            self.plan_settlements(delivery, token, lease_ms, &mut planned);
        }
        planned
    }

    fn record_delivery(
        &self,
        firing: &Value,
        lease_sent_us: u64,
        received_us: u64,
    ) -> Option<(DeliveryNumber, String)> {
        let recorder = &self.world.recorder;
        let small = |name: &str| u32::try_from(firing[name].as_u64()?).ok();
        let delivery = recorder.delivery(Delivery {
            key: recorder.key(self.name, firing["id"].as_str()?),
            received_us,
            mark: api::mark_of(&firing["payload"]),
            delivery_id: recorder.delivery_id(firing["delivery_id"].as_str()?),
            attempt: small("attempt")?,
            due_ms: api::time_ms(&firing["due_at"])?,
            via: Via::Pull {
                lease_sent_us,
                leased_until_ms: api::time_ms(&firing["leased_until"])?,
                occurrence: small("occurrence")?,
            },
        });
        Some((delivery, firing["token"].as_str()?.to_owned()))
    }

    fn plan_settlements(
        &mut self,
        delivery: DeliveryNumber,
        token: String,
        lease_ms: u64,
        planned: &mut Vec<PlannedSettlement>,
    ) {
        let now_us = now_us();
        let plan = |after_ms: u64, verdict| PlannedSettlement {
            not_before_us: now_us + after_ms * 1_000,
            delivery: Some(delivery),
            token: token.clone(),
            verdict,
        };
        let dice =
            if self.world.phase() == RunPhase::Load { self.rng.random_range(0..100) } else { 0 };
        let ack = SettleVerdict::Ack;
        let past_end_ms = lease_ms + self.rng.random_range(150..600);
        let a_while_ms = self.rng.random_range(100..900);
        match dice {
            0..74 => planned.push(plan(0, ack)),
            74..81 => {
                let after_ms = self.rng.random_bool(0.7).then(|| self.rng.random_range(0..1_500));
                planned.push(plan(0, SettleVerdict::Retry { after_ms }));
            }
            81..84 => planned.push(plan(0, SettleVerdict::Dead)),
            84..88 => {
                planned.push(plan(0, SettleVerdict::Extend { lease_ms: 2_500 }));
                self.postpone(plan(2_000, ack));
            }
            88..91 => self.postpone(plan(a_while_ms, ack)),
            91..95 => self.postpone(plan(past_end_ms, ack)),
            95..96 => {
                planned.push(plan(0, SettleVerdict::Retry { after_ms: None }));
                self.postpone(plan(30, ack));
            }
            96..97 => {
                planned.push(plan(0, ack));
                self.postpone(plan(50, ack));
            }
            97..98 => {
                planned.push(plan(0, ack));
                let mut made_up = plan(0, ack);
                made_up.delivery = None;
                made_up.token = token.chars().rev().collect();
                planned.push(made_up);
            }
            _ => {}
        }
    }

    fn postpone(&mut self, planned: PlannedSettlement) {
        if self.postponed.len() < POSTPONED_MAX {
            self.postponed.push_back(planned);
        }
    }

    async fn settle(&mut self, planned: Vec<PlannedSettlement>) {
        if planned.is_empty() {
            return;
        }
        let settlements: Vec<Value> =
            planned.iter().map(|one| api::settlement(&one.token, &one.verdict)).collect();
        let body = json!({ "settlements": settlements }).to_string().into_bytes();
        let path = api::path(self.name, "/settle");
        let sent_us = now_us();
        let result = self.caller.call("POST", &path, &body).await;
        let ended_us = now_us();
        let json = result.as_ref().map(crate::wire::Response::json).unwrap_or_default();
        let nothing_done = match &result {
            Ok(response) => response.status / 100 == 4,
            Err(error) => matches!(error, crate::wire::Error::NotSent(_)),
        };
        for (i, one) in planned.iter().enumerate() {
            let outcome = json["results"][i]["outcome"].as_str();
            let answer = match outcome.and_then(crate::wire::settle_answer) {
                Some(answer) => answer,
                None if nothing_done => continue,
                None => SettleAnswer::InDoubt,
            };
            self.world.recorder.settle(Settle {
                delivery: one.delivery,
                sent_us,
                ended_us,
                verdict: one.verdict,
                answer,
            });
        }
    }
}
