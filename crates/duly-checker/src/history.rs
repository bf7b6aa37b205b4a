//! History of a run as seen from outside: the only input of the checker.
//!
//! 1. Every time is in Unix microseconds, by the wall clock of the one machine on which the server,
//!    its callers and its receivers run. A due time is in Unix milliseconds, as in the API.
//! 2. A call has a time before it was sent, and a time after its response was read or it failed.
//!    Its effect lies between the two. A call without a response is *in doubt*.
//! 3. Each request that sets a payload puts a **mark**, a number used once, into the payload. So a
//!    delivery names the request that made it, independently of the server.
//!
//! [`Recorder`] writes histories during torture runs, and so does the model of the canaries.
//! [`crate::checker`] reads them, and [`mod@file`] saves the history of a run that fails.

pub mod file;
mod recorder;

pub use recorder::Recorder;

use serde::{Deserialize, Serialize};

/// Index of a timer in [`History::keys`].
pub type KeyNumber = u32;

/// Index of a delivery in [`History::deliveries`].
pub type DeliveryNumber = u32;

/// History of a whole run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct History {
    /// The (namespace, id) of every timer in the history.
    pub keys: Vec<TimerKey>,
    /// Operations of callers, in the order in which they ended.
    pub operations: Vec<Operation>,
    /// Deliveries received by consumers and by the webhook receiver.
    pub deliveries: Vec<Delivery>,
    /// Settlements sent by consumers.
    pub settles: Vec<Settle>,
    /// Kills of the server.
    pub crashes: Vec<Crash>,
    /// Stops of the server, the receiver, a consumer or the run.
    #[serde(default)]
    pub stops: Vec<Stop>,
    /// Result of the last read of each id, after the run.
    pub ends: Vec<End>,
    /// `true`: the run waited until no timer was due, so a timer that is still due is stuck.
    pub drained: bool,
}

impl History {
    /// Removes the timers for which `is_lost` returns `true`, and returns their number.
    pub fn forget(&mut self, is_lost: impl Fn(&TimerKey) -> bool) -> usize {
        let lost: Vec<bool> = self.keys.iter().map(is_lost).collect();
        let stays = |key: KeyNumber| !lost[key as usize];
        self.operations.retain(|operation| operation.key.is_none_or(stays));
        self.ends.retain(|end| stays(end.key));
        let mut numbers = Vec::with_capacity(self.deliveries.len());
        let mut count = 0;
        for delivery in &self.deliveries {
            numbers.push(stays(delivery.key).then_some(count));
            count += DeliveryNumber::from(stays(delivery.key));
        }
        self.deliveries.retain(|delivery| stays(delivery.key));
        self.settles.retain_mut(|settle| {
            let Some(delivery) = &mut settle.delivery else { return true };
            let number = numbers[*delivery as usize];
            *delivery = number.unwrap_or_default();
            number.is_some()
        });
        lost.into_iter().filter(|lost| *lost).count()
    }
}

/// Name of a timer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimerKey {
    /// Namespace.
    pub namespace: String,
    /// Id.
    pub id: String,
}

/// One operation of a caller on one id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Operation {
    /// The timer; `None` if the server was to create the id and its response was lost.
    pub key: Option<KeyNumber>,
    /// Time just before the request was written. If the request was retried because its outcome was
    /// unknown: of the first attempt.
    pub sent_us: u64,
    /// Time just after the response was read or the call failed; of retried requests: of the last
    /// attempt.
    pub ended_us: u64,
    /// The request.
    pub action: Action,
    /// The result.
    pub answer: Answer,
}

/// An operation of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Schedules a timer, with any `if_exists`.
    Schedule {
        /// Mark in the payload.
        mark: u64,
        /// Due time.
        due: Due,
    },
    /// Changes a pending timer.
    Reschedule {
        /// Mark in the new payload, if the payload changes.
        mark: Option<u64>,
        /// Due time, if it changes.
        due: Option<Due>,
    },
    /// Cancels a timer.
    Cancel,
    /// Makes a timer due now, or its next attempt.
    Fire,
    /// Redrives the dead letters of this id.
    Redrive,
}

impl Action {
    /// Returns the word of the report.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Schedule { .. } => "schedule",
            Self::Reschedule { .. } => "reschedule",
            Self::Cancel => "cancel",
            Self::Fire => "fire",
            Self::Redrive => "redrive",
        }
    }

    /// Returns the mark that this operation puts into the payload.
    pub const fn mark(&self) -> Option<u64> {
        match self {
            Self::Schedule { mark, .. } => Some(*mark),
            Self::Reschedule { mark, .. } => *mark,
            _ => None,
        }
    }
}

/// Due time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// At this Unix time in milliseconds.
    At(u64),
    /// This number of milliseconds after the server received the request.
    In(u64),
}

/// Result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A new timer with this due time.
    Created {
        /// Due time, as reported by the server.
        due_ms: u64,
    },
    /// A new timer that replaced a pending one.
    Replaced {
        /// Due time, as reported by the server.
        due_ms: u64,
    },
    /// The timer was changed or fired, and has this due time.
    Changed {
        /// Due time, as reported by the server.
        due_ms: u64,
    },
    /// The timer is cancelled, now or before.
    Cancelled {
        /// Attempts that began before the cancel.
        attempts: u32,
        /// `true`: the outcome of one of these attempts is unknown.
        maybe_delivered: bool,
    },
    /// The dead letters were redriven.
    Redriven,
    /// The call succeeded and changed nothing.
    Unchanged,
    /// The call was refused and certainly changed nothing.
    Refused,
    /// No response, or one that says that the outcome is unknown.
    InDoubt,
}

/// One delivery as its receiver saw it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    /// The timer.
    pub key: KeyNumber,
    /// Time at which the receiver had read the delivery.
    pub received_us: u64,
    /// Mark in the payload; `None` if no caller sent this payload.
    pub mark: Option<u64>,
    /// Delivery id, as a number that the recorder assigned to its text.
    pub delivery_id: u32,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Due time, as reported by the delivery.
    pub due_ms: u64,
    /// Path of the delivery.
    pub via: Via,
}

/// Path of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A lease.
    Pull {
        /// Time at which the lease call was sent; the claim is not older.
        lease_sent_us: u64,
        /// End of the lease, as reported by the server.
        leased_until_ms: u64,
        /// Occurrence, as reported by the server.
        occurrence: u32,
    },
    /// A webhook.
    Push {
        /// Response of the receiver.
        reply: WebhookReply,
    },
}

/// Response of the webhook receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookReply {
    /// 2xx, at once.
    Confirmed,
    /// Certainly not confirmed: 5xx or 429, an invalid response, an incomplete head, or no
    /// response.
    Rejected,
    /// 410: no further attempts.
    GaveUp,
    /// A confirmation that the server may not have received, because it was late or the connection
    /// ended early.
    Unknown,
}

/// One settlement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settle {
    /// The delivery whose token was sent; `None` for a made-up token.
    pub delivery: Option<DeliveryNumber>,
    /// Time just before the settlement was sent.
    pub sent_us: u64,
    /// Time just after the response was read or the call failed.
    pub ended_us: u64,
    /// The verdict that the consumer sent.
    pub verdict: SettleVerdict,
    /// The result from the server.
    pub answer: SettleAnswer,
}

/// Verdict of a consumer on a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleVerdict {
    /// The firing was handled.
    Ack,
    /// The firing is to be delivered again, not before this many milliseconds. `None`: the policy
    /// decides.
    Retry {
        /// Shortest wait in milliseconds.
        after_ms: Option<u64>,
    },
    /// The firing becomes a dead letter.
    Dead,
    /// The lease ends this many milliseconds from now.
    Extend {
        /// New duration in milliseconds.
        lease_ms: u64,
    },
}

/// Result of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleAnswer {
    /// Accepted.
    Ok,
    /// Accepted; the retried attempt was the last one.
    Dead,
    /// The same verdict was accepted before.
    AlreadySettled,
    /// The lease was lost; nothing changed.
    LeaseLost,
    /// The token is unknown.
    InvalidToken,
    /// No response, or one that says that the outcome is unknown.
    InDoubt,
}

/// One kill -9.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Crash {
    /// Time just before the signal.
    pub killed_us: u64,
    /// Time at which the process had certainly ended.
    pub reaped_us: u64,
    /// Time just before the next process was started.
    pub spawned_us: u64,
    /// Time at which the next process was ready, or was killed in turn.
    pub ready_us: u64,
}

/// One stop of a process that keeps everything open, as after SIGSTOP.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Stop {
    /// The stopped process.
    pub who: StoppedProcess,
    /// Time just before the stop.
    pub from_us: u64,
    /// Time just after the process resumed or was killed.
    pub to_us: u64,
}

/// A process that can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedProcess {
    /// The server.
    Server,
    /// The webhook receiver.
    Receiver,
    /// A consumer.
    Worker,
    /// All processes except the server, and not by the run itself: the machine was busy, or the
    /// process of the run was stopped from outside.
    Run,
}

/// Result of a read of a timer after the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct End {
    /// The timer.
    pub key: KeyNumber,
    /// Time of the read.
    pub read_us: u64,
    /// State of the timer.
    pub state: EndState,
    /// Due time, if it has one.
    pub due_ms: Option<u64>,
    /// Mark in the payload, if it has one.
    pub mark: Option<u64>,
}

/// State of a timer after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Not due yet.
    Scheduled,
    /// Due, not claimed.
    Due,
    /// Claimed.
    InFlight,
    /// Waiting for the next attempt.
    Retrying,
    /// Delivered and confirmed.
    Finished,
    /// Cancelled.
    Cancelled,
    /// A dead letter.
    Dead,
    /// No such timer.
    NotFound,
}

impl EndState {
    /// Parses the word of the API.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "scheduled" => Self::Scheduled,
            "due" => Self::Due,
            "in_flight" => Self::InFlight,
            "retrying" => Self::Retrying,
            "finished" => Self::Finished,
            "cancelled" => Self::Cancelled,
            "dead" => Self::Dead,
            _ => return None,
        })
    }

    /// Returns `true` if the timer is scheduled, due, in flight or retrying.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Scheduled | Self::Due | Self::InFlight | Self::Retrying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forget_renumbers_the_remaining_deliveries() {
        let key = |id: &str| TimerKey { namespace: "ns".into(), id: id.into() };
        let delivery = |key, delivery_id| Delivery {
            key,
            received_us: 1,
            mark: None,
            delivery_id,
            attempt: 1,
            due_ms: 1,
            via: Via::Push { reply: WebhookReply::Confirmed },
        };
        let settle = |delivery| Settle {
            delivery,
            sent_us: 1,
            ended_us: 2,
            verdict: SettleVerdict::Ack,
            answer: SettleAnswer::Ok,
        };
        let end =
            |key| End { key, read_us: 3, state: EndState::NotFound, due_ms: None, mark: None };
        let mut history = History {
            keys: vec![key("lost"), key("kept")],
            deliveries: vec![delivery(0, 7), delivery(1, 8)],
            settles: vec![settle(Some(0)), settle(Some(1)), settle(None)],
            ends: vec![end(0), end(1)],
            ..History::default()
        };
        assert_eq!(history.forget(|key| key.id == "lost"), 1);
        let settled: Vec<_> = history.settles.iter().map(|settle| settle.delivery).collect();
        assert_eq!(settled, [Some(0), None]);
        assert_eq!(history.deliveries.iter().map(|d| d.delivery_id).collect::<Vec<_>>(), [8]);
        assert_eq!(history.ends.iter().map(|end| end.key).collect::<Vec<_>>(), [1]);
        assert_eq!(history.keys.len(), 2);
    }
}
