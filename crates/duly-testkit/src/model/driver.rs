//! Seeded run of the model server, recorded as a history.
//!
//! 1. Time is a number.
//! 2. A call is sent, takes effect a little later, and returns a little later still. Other calls
//!    come in between.
//! 3. A crash drops calls that have not taken effect, loses the responses in flight, and lets some
//!    webhooks arrive late.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Bug;
use super::server::{Claim, ModelServer};
use crate::history::{
    Action, Answer, Crash, Delivery, Due, End, History, Operation, Settle, SettleAnswer,
    SettleVerdict, TimerKey, Via, WebhookReply,
};

const START_US: u64 = 1_700_000_000_000_000;
const LOAD_US: u64 = 8_000_000;
const DRAIN_US: u64 = 20_000_000;
const PULL_LEASE_US: u64 = 400_000;
const PUSH_LEASE_US: u64 = 5_000_000;

/// A future event.
#[derive(Debug, Clone)]
enum SimEvent {
    Effect(Operation),
    Returned(Operation),
    Lease { sent_us: u64 },
    Received(Claim, Via),
    PushSettled(Claim, SettleVerdict),
    SettleEffect(Settle, Claim),
    SettleReturned(Settle),
}

struct Driver {
    rng: SmallRng,
    server: ModelServer,
    history: History,
    queue: BTreeMap<(u64, u64), SimEvent>,
    sequence: u64,
    now_us: u64,
    last_mark: u64,
}

/// Simulates one run and returns its history.
pub fn run(seed: u64, bug: Option<Bug>) -> History {
    let mut driver = Driver {
        rng: SmallRng::seed_from_u64(seed),
        server: ModelServer::new(bug),
        history: History::default(),
        queue: BTreeMap::new(),
        sequence: 0,
        now_us: START_US,
        last_mark: 0,
    };
    driver.run_to_end();
    driver.history
}

/// Returns `true` for odd timers, which use webhooks. Even timers are leased.
const fn is_push(key: u32) -> bool {
    key % 2 == 1
}

impl Driver {
    fn run_to_end(&mut self) {
        while self.now_us < START_US + LOAD_US + DRAIN_US {
            let loaded = self.now_us < START_US + LOAD_US;
            let longest_us = if loaded { 6_000 } else { 40_000 };
            let next_us = self.now_us + self.rng.random_range(500..longest_us);
            while let Some(entry) = self.queue.first_entry()
                && entry.key().0 <= next_us
            {
                let ((at_us, _), event) = entry.remove_entry();
                self.now_us = at_us;
                self.handle(event);
            }
            self.now_us = next_us;
            self.claim_webhooks();
            if loaded {
                self.do_random_action();
            } else {
                self.lease();
            }
        }
        self.abandon_calls(self.now_us);
        for key in 0..u32::try_from(self.history.keys.len()).unwrap_or(u32::MAX) {
            let (state, due_ms, mark) = self.server.end(key, self.now_us);
            self.history.ends.push(End { key, read_us: self.now_us, state, due_ms, mark });
        }
        self.history.drained = true;
    }

    fn schedule_event(&mut self, at_us: u64, event: SimEvent) {
        self.sequence += 1;
        self.queue.insert((at_us, self.sequence), event);
    }

    fn soon_us(&mut self) -> u64 {
        self.now_us + self.rng.random_range(100..8_000)
    }

    fn do_random_action(&mut self) {
        match self.rng.random_range(0..1_000) {
            0..330 => {
                let key = self.key_to_schedule();
                let mark = self.mark();
                let due = self.due();
                self.send(key, Action::Schedule { mark, due });
            }
            330..430 => self.send_to_known_key(Action::Cancel),
            430..520 => {
                let mark = self.rng.random_bool(0.5).then(|| self.mark());
                let due_ms = self.now_us / 1_000 + self.rng.random_range(0..3_000);
                self.send_to_known_key(Action::Reschedule { mark, due: Some(Due::At(due_ms)) });
            }
            520..560 => self.send_to_known_key(Action::Fire),
            560..580 => self.send_to_known_key(Action::Redrive),
            580..997 => self.lease(),
            _ => self.crash(),
        }
    }

    fn mark(&mut self) -> u64 {
        self.last_mark += 1;
        self.last_mark
    }

    fn due(&mut self) -> Due {
        let delay_ms = match self.rng.random_range(0..10) {
            0..2 => 0,
            2..8 => self.rng.random_range(1..2_000),
            8 => self.rng.random_range(2_000..8_000),
            _ => 3_600_000,
        };
        if self.rng.random_bool(0.5) {
            Due::In(delay_ms)
        } else {
            Due::At(self.now_us / 1_000 + delay_ms)
        }
    }

    fn key_to_schedule(&mut self) -> u32 {
        let known = u32::try_from(self.history.keys.len()).unwrap_or(u32::MAX);
        if known > 0 && self.rng.random_bool(0.2) {
            return self.rng.random_range(0..known);
        }
        self.history.keys.push(TimerKey { namespace: "model".to_owned(), id: known.to_string() });
        known
    }

    fn send_to_known_key(&mut self, action: Action) {
        let known = u32::try_from(self.history.keys.len()).unwrap_or(u32::MAX);
        if known > 0 {
            let key = self.rng.random_range(known.saturating_sub(150)..known);
            self.send(key, action);
        }
    }

    fn send(&mut self, key: u32, action: Action) {
        let at_us = self.soon_us();
        let operation = Operation {
            key: Some(key),
            sent_us: self.now_us,
            ended_us: 0,
            action,
            answer: Answer::InDoubt,
        };
        self.schedule_event(at_us, SimEvent::Effect(operation));
    }

    fn lease(&mut self) {
        let at_us = self.soon_us();
        let sent_us = self.now_us;
        self.schedule_event(at_us, SimEvent::Lease { sent_us });
    }

    fn claim_webhooks(&mut self) {
        for claim in self.server.claim(self.now_us, PUSH_LEASE_US, 50, is_push) {
            let at_us = self.soon_us();
            let reply = match self.rng.random_range(0..100) {
                0..80 => WebhookReply::Confirmed,
                80..92 => WebhookReply::Rejected,
                92..96 => WebhookReply::GaveUp,
                _ => WebhookReply::Unknown,
            };
            self.schedule_event(at_us, SimEvent::Received(claim, Via::Push { reply }));
        }
    }

    fn handle(&mut self, event: SimEvent) {
        let at_us = self.soon_us();
        match event {
            SimEvent::Effect(mut operation) => {
                operation.answer = self.apply(&operation);
                self.schedule_event(at_us, SimEvent::Returned(operation));
            }
            SimEvent::Returned(mut operation) => {
                operation.ended_us = self.now_us;
                self.history.operations.push(operation);
            }
            SimEvent::Lease { sent_us } => {
                let max = self.rng.random_range(1..20);
                let pulled = |key| !is_push(key);
                for claim in self.server.claim(self.now_us, PULL_LEASE_US, max, pulled) {
                    let via = Via::Pull {
                        lease_sent_us: sent_us,
                        leased_until_ms: claim.leased_until_ms,
                        occurrence: claim.occurrence,
                    };
                    self.schedule_event(at_us, SimEvent::Received(claim, via));
                }
            }
            SimEvent::Received(claim, via) => {
                let delivery = self.record_delivery(claim, via);
                match via {
                    Via::Pull { .. } => self.plan_settlements(delivery, claim),
                    Via::Push { reply } => {
                        let verdict = match reply {
                            WebhookReply::Confirmed => SettleVerdict::Ack,
                            WebhookReply::GaveUp => SettleVerdict::Dead,
                            WebhookReply::Rejected | WebhookReply::Unknown => {
                                SettleVerdict::Retry { after_ms: None }
                            }
                        };
                        self.schedule_event(at_us, SimEvent::PushSettled(claim, verdict));
                    }
                }
            }
            SimEvent::PushSettled(claim, verdict) => {
                let answer = self.server.settle(claim.key, claim.token, verdict, self.now_us);
                debug_assert_ne!(answer, SettleAnswer::InDoubt);
            }
            SimEvent::SettleEffect(mut settle, claim) => {
                settle.answer =
                    self.server.settle(claim.key, claim.token, settle.verdict, self.now_us);
                self.schedule_event(at_us, SimEvent::SettleReturned(settle));
            }
            SimEvent::SettleReturned(mut settle) => {
                settle.ended_us = self.now_us;
                self.history.settles.push(settle);
            }
        }
    }

    fn apply(&mut self, operation: &Operation) -> Answer {
        let (Some(key), now_us) = (operation.key, self.now_us) else {
            return Answer::Refused;
        };
        match operation.action {
            Action::Schedule { mark, due } => self.server.schedule(key, mark, due, now_us),
            Action::Reschedule { mark, due } => {
                let Some(Due::At(due_ms)) = due else {
                    return Answer::Refused;
                };
                self.server.reschedule(key, mark, due_ms, now_us)
            }
            Action::Cancel => self.server.cancel(key, now_us),
            Action::Fire => self.server.fire(key, now_us),
            Action::Redrive => self.server.redrive(key, now_us),
        }
    }

    fn record_delivery(&mut self, claim: Claim, via: Via) -> u32 {
        self.history.deliveries.push(Delivery {
            key: claim.key,
            received_us: self.now_us,
            mark: Some(claim.mark),
            delivery_id: claim.delivery_id,
            attempt: claim.attempt,
            due_ms: claim.due_ms,
            via,
        });
        u32::try_from(self.history.deliveries.len() - 1).unwrap_or(u32::MAX)
    }

    fn plan_settlements(&mut self, delivery: u32, claim: Claim) {
        let lapse_us = PULL_LEASE_US + 250_000;
        match self.rng.random_range(0..100) {
            0..70 => self.settle(delivery, claim, SettleVerdict::Ack, 500),
            70..80 => {
                let after_ms = Some(self.rng.random_range(0..300));
                self.settle(delivery, claim, SettleVerdict::Retry { after_ms }, 500);
            }
            80..84 => self.settle(delivery, claim, SettleVerdict::Dead, 500),
            84..88 => {
                let extend = SettleVerdict::Extend { lease_ms: 800 };
                self.settle(delivery, claim, extend, 500);
                self.settle(delivery, claim, SettleVerdict::Ack, 600_000);
            }
            88..90 => {
                self.settle(delivery, claim, SettleVerdict::Ack, 500);
                self.settle(delivery, claim, SettleVerdict::Ack, 40_000);
            }
            90..95 => self.settle(delivery, claim, SettleVerdict::Ack, lapse_us),
            _ => {}
        }
    }

    fn settle(&mut self, delivery: u32, claim: Claim, verdict: SettleVerdict, wait_us: u64) {
        let sent_us = self.now_us + wait_us;
        let settle = Settle {
            delivery: Some(delivery),
            sent_us,
            ended_us: 0,
            verdict,
            answer: SettleAnswer::InDoubt,
        };
        let at_us = sent_us + self.rng.random_range(100..5_000);
        self.schedule_event(at_us, SimEvent::SettleEffect(settle, claim));
    }

    fn crash(&mut self) {
        let killed_us = self.now_us;
        let reaped_us = killed_us + self.rng.random_range(100..2_000);
        self.server.crash(killed_us, is_push);
        self.abandon_calls(killed_us + 50);
        self.now_us = reaped_us + self.rng.random_range(1_000..300_000);
        self.history.crashes.push(Crash {
            killed_us,
            reaped_us,
            spawned_us: reaped_us + 500,
            ready_us: self.now_us,
        });
    }

    /// Records all calls in flight when their server is killed.
    fn abandon_calls(&mut self, ended_us: u64) {
        for event in std::mem::take(&mut self.queue).into_values() {
            self.record_in_doubt(event, ended_us);
        }
    }

    /// Records a call that was in flight. A refusal may have been read before.
    fn record_in_doubt(&mut self, event: SimEvent, ended_us: u64) {
        match event {
            SimEvent::Effect(mut operation) | SimEvent::Returned(mut operation) => {
                if operation.answer != Answer::Refused || self.rng.random_bool(0.5) {
                    operation.answer = Answer::InDoubt;
                    operation.ended_us = ended_us.max(operation.sent_us);
                    self.history.operations.push(operation);
                }
            }
            SimEvent::SettleEffect(mut settle, _) | SimEvent::SettleReturned(mut settle) => {
                if settle.sent_us <= ended_us {
                    settle.answer = SettleAnswer::InDoubt;
                    settle.ended_us = ended_us;
                    self.history.settles.push(settle);
                }
            }
            SimEvent::Received(claim, via @ Via::Push { .. }) if self.rng.random_bool(0.5) => {
                self.record_delivery(claim, via);
            }
            SimEvent::Received(..) | SimEvent::Lease { .. } | SimEvent::PushSettled(..) => {}
        }
    }
}
