//! Answers of `duly-client` as JSON: the words, the fields and their order are those of the HTTP
//! interface, so that a program reads the same whichever way an answer came.
//!
//! A test compares them with what HTTP answers, byte for byte (`tests/it/answers.rs`).

mod firing;
mod payload;
pub(crate) mod problem;
mod timer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_client::{Cancelled, Leased, Settled};
use duly_core::{Millis, Timestamp};
use serde::{Serialize, Serializer};

use self::firing::FiringOut;
pub(crate) use self::timer::{scheduled, timer, timers};
use crate::failure::Failure;

/// The answer to a cancel.
#[derive(Serialize)]
struct CancelledOut {
    outcome: &'static str,
    attempts: u32,
    maybe_delivered: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already: bool,
}

/// The answer to a lease.
#[derive(Serialize)]
struct LeasedOut<'a> {
    firings: Vec<FiringOut<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
}

/// A time.
struct TimeOut(SystemTime);

/// A duration.
struct DurationOut(Duration);

/// Headers, in their order.
struct HeadersOut<'a>(&'a [(String, String)]);

impl Serialize for TimeOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&moment(self.0))
    }
}

impl Serialize for DurationOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        serializer.collect_str(&Millis::from_ms(ms))
    }
}

impl Serialize for HeadersOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A time as Duly keeps it.
pub(crate) fn moment(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating_from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The answer to a cancel.
pub(crate) fn cancelled(cancelled: &Cancelled) -> String {
    let Cancelled { attempts, maybe_delivered, already, .. } = *cancelled;
    json(&CancelledOut { outcome: "cancelled", attempts, maybe_delivered, already })
}

/// The firings of a lease, each as a document.
pub(crate) fn firings(leased: &Leased) -> Result<Vec<String>, Failure> {
    leased.firings.iter().map(|firing| Ok(json(&FiringOut::new(firing)?))).collect()
}

/// The answer to a lease.
pub(crate) fn leased(leased: &Leased) -> Result<String, Failure> {
    let firings = leased.firings.iter().map(FiringOut::new).collect::<Result<_, _>>()?;
    Ok(json(&LeasedOut { firings, paused: leased.paused }))
}

/// What became of a settlement, in a word.
pub(crate) const fn settled(settled: Settled) -> &'static str {
    match settled {
        Settled::Done => "ok",
        Settled::Dead => "dead",
        Settled::Already => "already_settled",
        Settled::LeaseLost => "lease_lost",
        Settled::InvalidToken => "invalid_token",
    }
}

/// A document.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names are texts, and nothing here refuses")
}
