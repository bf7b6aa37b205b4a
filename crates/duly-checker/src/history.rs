//! What happened, as seen from outside: the only thing the judge looks at.
//!
//! Every time is Unix microseconds by the wall clock of the one machine on which the server, its
//! callers and its receivers run; a due time is Unix milliseconds, as the contract has it. A call
//! has a time before it was sent and a time after its answer was read (or it failed), so its
//! effect lies between the two; a call without an answer is *in doubt*.
//!
//! Each request that sets a payload carries a **mark**, a number used once, inside the payload.
//! A delivery therefore names the request that made it, whatever the server says about it.
//!
//! Written by [`Recorder`] under torture and by the model of the canaries, read by
//! [`crate::checker`], kept by [`mod@file`] when a run fails.

pub mod file;
mod recorder;

pub use recorder::Recorder;

use serde::{Deserialize, Serialize};

/// Number of a (namespace, id) in [`History::keys`].
pub type KeyNumber = u32;

/// Number of a delivery in [`History::deliveries`].
pub type DeliveryNumber = u32;

/// A run, whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct History {
    /// Every (namespace, id) that was named.
    pub keys: Vec<Key>,
    /// Callers' operations, in the order in which they ended.
    pub operations: Vec<Operation>,
    /// Deliveries seen by pull consumers and by the webhook receiver.
    pub deliveries: Vec<Delivery>,
    /// Settlements sent by pull consumers.
    pub settles: Vec<Settle>,
    /// Times when the server was killed.
    pub crashes: Vec<Crash>,
    /// Times when somebody stood still.
    #[serde(default)]
    pub stops: Vec<Stop>,
    /// What a read of each id answered after the run.
    pub ends: Vec<End>,
    /// Whether the run waited until nothing was left to do, so that what is still due is stuck.
    pub drained: bool,
}

impl History {
    /// Removes everything about the timers that `is_lost` names, and returns how many they are.
    pub fn forget(&mut self, is_lost: impl Fn(&Key) -> bool) -> usize {
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

/// A timer's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Namespace.
    pub namespace: String,
    /// Id.
    pub id: String,
}

/// One operation of a caller on one id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Operation {
    /// The id; `None` where the server was to make one and its answer was lost.
    pub key: Option<KeyNumber>,
    /// Just before the request was written. Where the same request was repeated because its
    /// outcome was unknown, the first time.
    pub sent_us: u64,
    /// Just after the answer was read or the call failed; of repeated requests, the last time.
    pub ended_us: u64,
    /// What was asked.
    pub action: Action,
    /// What was answered.
    pub answer: Answer,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Schedule, whatever `if_exists` says.
    Schedule {
        /// Mark inside the payload.
        mark: u64,
        /// When.
        due: Due,
    },
    /// Change of a pending timer.
    Reschedule {
        /// Mark inside the new payload, where the payload is changed.
        mark: Option<u64>,
        /// When, where the due time is changed.
        due: Option<Due>,
    },
    /// Cancel.
    Cancel,
    /// Due now, or next attempt now.
    Fire,
    /// Send the dead letters of this id again.
    Redrive,
}

impl Action {
    /// The word of the report.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Schedule { .. } => "schedule",
            Self::Reschedule { .. } => "reschedule",
            Self::Cancel => "cancel",
            Self::Fire => "fire",
            Self::Redrive => "redrive",
        }
    }

    /// The mark that this operation puts into the payload.
    pub const fn mark(&self) -> Option<u64> {
        match self {
            Self::Schedule { mark, .. } => Some(*mark),
            Self::Reschedule { mark, .. } => *mark,
            _ => None,
        }
    }
}

/// When a timer is to be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// At this Unix millisecond.
    At(u64),
    /// This many milliseconds after the server took the request.
    In(u64),
}

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A new timer, due then.
    Created {
        /// As answered.
        due_ms: u64,
    },
    /// A new timer in the place of a pending one.
    Replaced {
        /// As answered.
        due_ms: u64,
    },
    /// Changed or fired; due then.
    Changed {
        /// As answered.
        due_ms: u64,
    },
    /// Cancelled, now or before.
    Cancelled {
        /// Attempts begun before it was cancelled.
        attempts: u32,
        /// Whether the outcome of one of them is unknown.
        maybe_delivered: bool,
    },
    /// Sent again.
    Redriven,
    /// Success without a change.
    Unchanged,
    /// Refused: certainly nothing was changed.
    Refused,
    /// No answer, or one that says the outcome is unknown.
    InDoubt,
}

/// One delivery, as its receiver saw it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    /// Which timer.
    pub key: KeyNumber,
    /// When the receiver had read it.
    pub received_us: u64,
    /// Mark found in the payload; `None` where the payload is not what any caller sent.
    pub mark: Option<u64>,
    /// Delivery id, as a number made up by the recorder for the same text.
    pub delivery_id: u32,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Due time as told by the delivery.
    pub due_ms: u64,
    /// How it came.
    pub via: Via,
}

/// How a delivery came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Leased.
    Pull {
        /// When the lease call was sent; no claim it answers is older.
        lease_sent_us: u64,
        /// End of the lease, as told.
        leased_until_ms: u64,
        /// Occurrence, as told.
        occurrence: u32,
    },
    /// By webhook.
    Push {
        /// What the receiver did with it.
        reply: Reply,
    },
}

/// What the webhook receiver answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// 2xx, at once.
    Confirmed,
    /// Certainly not confirmed: 5xx or 429, garbage, half an answer's head, or none at all.
    Rejected,
    /// 410: never again.
    GaveUp,
    /// A confirmation so late, or broken off so soon, that the server may not have got it.
    Unknown,
}

/// One settlement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settle {
    /// The delivery whose token was sent; `None` for a token that was never handed out.
    pub delivery: Option<DeliveryNumber>,
    /// Just before it was sent.
    pub sent_us: u64,
    /// Just after the answer was read or the call failed.
    pub ended_us: u64,
    /// What was asked.
    pub verdict: SettleVerdict,
    /// What was answered.
    pub answer: SettleAnswer,
}

/// What a consumer says of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleVerdict {
    /// Delivered.
    Ack,
    /// Try again, not before this many milliseconds (`None`: the policy decides).
    Retry {
        /// Shortest wait.
        after_ms: Option<u64>,
    },
    /// Give it up.
    Dead,
    /// Lengthen the lease to now plus this.
    Extend {
        /// New length.
        lease_ms: u64,
    },
}

/// What the server says of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleAnswer {
    /// Taken.
    Ok,
    /// Taken; that retry was the last attempt.
    Dead,
    /// The same verdict was taken before.
    AlreadySettled,
    /// The lease was lost; nothing changed.
    LeaseLost,
    /// No such token.
    InvalidToken,
    /// No answer, or one that says the outcome is unknown.
    InDoubt,
}

/// One kill -9.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Crash {
    /// Just before the signal.
    pub killed_us: u64,
    /// When the process was certainly gone.
    pub reaped_us: u64,
    /// Just before the next process was started.
    pub spawned_us: u64,
    /// When that one was ready (or was killed in turn).
    pub ready_us: u64,
}

/// One time of standing still with everything held open, as after SIGSTOP.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Stop {
    /// Who.
    pub who: Who,
    /// Just before it stopped.
    pub from_us: u64,
    /// Just after it went on (or was killed).
    pub to_us: u64,
}

/// Who can stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The server.
    Server,
    /// The webhook receiver.
    Receiver,
    /// A pull consumer.
    Worker,
    /// Everybody but the server, and nobody asked for it: the machine was busy, or somebody stopped
    /// the process of the run.
    Run,
}

/// What a read of an id answered after the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct End {
    /// Which timer.
    pub key: KeyNumber,
    /// When it was read.
    pub read_us: u64,
    /// In which state it was.
    pub state: EndState,
    /// Its due time, where it has one.
    pub due_ms: Option<u64>,
    /// The mark in its payload, where it has one.
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
    /// Parses the word of the contract.
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

    /// Scheduled, due, in flight or retrying.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Scheduled | Self::Due | Self::InFlight | Self::Retrying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_leaves_the_numbers_of_the_rest_right() {
        let key = |id: &str| Key { namespace: "ns".into(), id: id.into() };
        let delivery = |key, delivery_id| Delivery {
            key,
            received_us: 1,
            mark: None,
            delivery_id,
            attempt: 1,
            due_ms: 1,
            via: Via::Push { reply: Reply::Confirmed },
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
