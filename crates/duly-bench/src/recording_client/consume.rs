//! Consumers of a run with a full history: they lease, record what they receive, and acknowledge
//! all of it.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use duly_checker::history::{Delivery, DeliveryNumber, Settle, SettleAnswer, SettleVerdict, Via};
use tokio::{task::JoinSet, time::sleep};

use super::{PAUSE, RecordingClient};
use crate::{
    clock::now_us,
    transport::{Taken, Verdict},
};

/// Number of consumers, each with its own connection.
pub(crate) const CONSUMERS: usize = 4;
/// Most firings per call.
const MAX: u32 = 1_000;
/// Longest wait of a lease call.
const WAIT_MS: u32 = 200;
/// Attempts of an acknowledgement without a result; after them its lease expires.
const TRIES: u32 = 1_000;

impl RecordingClient {
    /// Starts consumers on the connections from `first_line` on. They run until [`RecordingClient::is_over`].
    pub(crate) fn consume(self: &Arc<Self>, first_line: usize) -> JoinSet<()> {
        let mut consumers = JoinSet::new();
        for consumer in 0..CONSUMERS {
            let recording = Arc::clone(self);
            consumers.spawn(async move { recording.consume_one(first_line + consumer).await });
        }
        consumers
    }

    async fn consume_one(&self, line: usize) {
        while !self.is_over.load(Relaxed) {
            let (outage, lease_sent_us) = (self.outage(), now_us());
            match self.transport.take(line, &self.namespace, MAX, WAIT_MS).await {
                Ok(taken) if taken.is_empty() => {}
                Ok(taken) => {
                    let numbers = self.note(&taken, lease_sent_us, now_us());
                    self.acknowledge(line, &taken, &numbers).await;
                }
                Err(error) => {
                    self.remark(outage, &error);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn note(&self, taken: &[Taken], lease_sent_us: u64, received_us: u64) -> Vec<DeliveryNumber> {
        let note = |firing: &Taken| {
            let counts = firing.id.parse().is_ok_and(|number: u64| number < self.beside);
            if firing.attempt == 1 && counts {
                self.lateness.record(received_us.saturating_sub(firing.due_ms * 1_000), 1);
            }
            self.history.delivery(Delivery {
                key: self.history.key(&self.namespace, &firing.id),
                received_us,
                mark: firing.mark,
                delivery_id: self.history.delivery_id(&firing.delivery_id),
                attempt: firing.attempt,
                due_ms: firing.due_ms,
                via: Via::Pull {
                    lease_sent_us,
                    leased_until_ms: firing.leased_until_ms,
                    occurrence: firing.occurrence,
                },
            })
        };
        taken.iter().map(note).collect()
    }

    async fn acknowledge(&self, line: usize, taken: &[Taken], numbers: &[DeliveryNumber]) {
        let tokens: Vec<&str> = taken.iter().map(|firing| firing.token.as_str()).collect();
        for _ in 0..TRIES {
            let (outage, sent_us) = (self.outage(), now_us());
            let answers =
                self.target.transport.settle(line, &self.namespace, &tokens, Verdict::Ack).await;
            let ended_us = now_us();
            let is_answered = answers.as_ref().is_ok_and(|answers| answers.len() == numbers.len());
            let answers = match answers {
                Ok(answers) if is_answered => answers,
                Ok(_) => vec![SettleAnswer::InDoubt; numbers.len()],
                Err(error) => {
                    self.remark(outage, &error);
                    vec![SettleAnswer::InDoubt; numbers.len()]
                }
            };
            for (number, answer) in numbers.iter().zip(answers) {
                self.history.settle(Settle {
                    delivery: Some(*number),
                    sent_us,
                    ended_us,
                    verdict: SettleVerdict::Ack,
                    answer,
                });
            }
            if is_answered || self.is_over.load(Relaxed) {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}
