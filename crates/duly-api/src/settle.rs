//! Settlements: each has exactly one verdict.

use duly_core::{
    Invalid, Millis,
    namespace::{LEASE_MAX, LEASE_MIN},
    retry::BACKOFF_MAX,
    settle::{SettleOutcome as CoreOutcome, SettleVerdict},
    timer::{AttemptOutcome, Wait},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{Duration, LeaseRequest, LeaseResponse, Problem, SettleOutcome, words::Word};

/// Most settlements of one call.
pub const SETTLEMENTS_MAX: usize = 10_000;
/// The allowed verdicts, for messages.
const ONE_VERDICT: &str = "one with exactly one of ack, retry, snooze, dead, extend";

/// Verdicts on leased firings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = SettleRequest)]
pub struct Settle<'a> {
    /// The verdicts, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<Settlement>, max_items = 10000)]
    pub settlements: Vec<&'a RawValue>,
    /// The next firings to lease, after the settlements.
    pub lease: Option<LeaseRequest>,
}

/// A verdict on one leased firing: exactly one of `ack`, `retry`, `snooze`, `dead`, `extend`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Settlement {
    /// The token of the lease.
    #[prost(string, tag = "1")]
    pub token: String,
    /// The firing was delivered.
    #[prost(message, optional, tag = "2")]
    pub ack: Option<Ack>,
    /// The firing was not delivered, and is to be tried again.
    #[prost(message, optional, tag = "3")]
    pub retry: Option<RetryVerdict>,
    /// The firing is never to be tried again.
    #[prost(message, optional, tag = "4")]
    pub dead: Option<DeadVerdict>,
    /// The lease is to end later.
    #[prost(message, optional, tag = "5")]
    pub extend: Option<ExtendVerdict>,
    /// The firing cannot be handled yet, and is put off.
    #[prost(message, optional, tag = "6")]
    pub snooze: Option<SnoozeVerdict>,
}

/// The verdict `ack`, which has no fields.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty JSON object")]
pub struct Ack {}

/// The next attempt.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct RetryVerdict {
    /// Exact time to wait, at most 30d; by the retry policy when absent.
    #[prost(message, optional, tag = "1")]
    pub after: Option<Duration>,
    /// The reason, for people; 1024 bytes of it are kept.
    #[prost(string, optional, tag = "2")]
    pub reason: Option<String>,
}

/// The wait of a firing that is put off. The attempt does not count for the retry policy, so a firing can be put
/// off any number of times, until its `expire_after` ends it.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct SnoozeVerdict {
    /// Exact time to wait, at most 30d.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Duration)]
    pub after: Option<Duration>,
}

/// The reason for a dead letter.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct DeadVerdict {
    /// The reason, for people; 1024 bytes of it are kept.
    #[prost(string, tag = "1")]
    pub reason: String,
}

/// The new end of a lease.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct ExtendVerdict {
    /// Time from now to the end, 1s to 12h; the lease ends at most 12h after the claim.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Duration)]
    pub lease: Option<Duration>,
}

impl Settlement {
    /// Returns the verdict, checked.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one verdict.
    pub fn verdict(self) -> Result<SettleVerdict, Invalid> {
        match (self.ack, self.retry, self.snooze, self.dead, self.extend) {
            (Some(Ack {}), None, None, None, None) => Ok(SettleVerdict::Ack),
            (None, Some(retry), None, None, None) => retry.verdict(),
            (None, None, Some(snooze), None, None) => snooze.verdict(),
            (None, None, None, Some(dead), None) => Ok(SettleVerdict::Dead { reason: dead.reason }),
            (None, None, None, None, Some(ExtendVerdict { lease: Some(lease) })) => {
                let lease = lease.check_within("extend.lease", LEASE_MIN, LEASE_MAX)?;
                Ok(SettleVerdict::Extend { lease })
            }
            (None, None, None, None, Some(_)) => Err(Invalid::unseen("extend.lease", "given")),
            _ => Err(Invalid::unseen("", ONE_VERDICT)),
        }
    }
}

impl SnoozeVerdict {
    fn verdict(self) -> Result<SettleVerdict, Invalid> {
        let after = self.after.ok_or_else(|| Invalid::unseen("snooze.after", "given"))?;
        let after = after.check_within("snooze.after", Millis::ZERO, BACKOFF_MAX)?;
        Ok(SettleVerdict::Snooze { after })
    }
}

impl RetryVerdict {
    fn verdict(self) -> Result<SettleVerdict, Invalid> {
        let wait = match &self.after {
            Some(after) => {
                Wait::Exactly(after.check_within("retry.after", Millis::ZERO, BACKOFF_MAX)?)
            }
            None => Wait::Policy,
        };
        let reason = self.reason.unwrap_or_default();
        Ok(SettleVerdict::Retry { wait, outcome: AttemptOutcome::Failed, reason })
    }
}

/// Result of one settlement: exactly one of the two.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct SettleResult {
    /// The outcome of a settlement that was not refused.
    #[prost(enumeration = "SettleOutcome", optional, tag = "1")]
    #[serde(default, with = "Word::<SettleOutcome>")]
    #[schema(value_type = Option<SettleOutcome>)]
    pub outcome: Option<i32>,
    /// The reason for which the settlement was refused.
    #[prost(message, optional, boxed, tag = "2")]
    pub error: Option<Box<Problem>>,
}

impl From<CoreOutcome> for SettleResult {
    fn from(outcome: CoreOutcome) -> Self {
        let outcome = match outcome {
            CoreOutcome::Ok => SettleOutcome::Ok,
            CoreOutcome::Dead => SettleOutcome::Dead,
            CoreOutcome::Cancelled => SettleOutcome::Cancelled,
            CoreOutcome::AlreadySettled => SettleOutcome::AlreadySettled,
            CoreOutcome::LeaseLost => SettleOutcome::LeaseLost,
            CoreOutcome::InvalidToken => SettleOutcome::InvalidToken,
            // The caller of this conversion has returned it as an error of the item.
            CoreOutcome::InDoubt => SettleOutcome::Unspecified,
        };
        Self { outcome: Some(outcome.into()), error: None }
    }
}

impl From<Box<Problem>> for SettleResult {
    fn from(error: Box<Problem>) -> Self {
        Self { outcome: None, error: Some(error) }
    }
}

/// Results of settlements, in their order.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Settled)]
pub struct SettleResponse {
    /// One result for each settlement.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<SettleResult>,
    /// With `lease`: the firings that were granted.
    #[prost(message, optional, tag = "2")]
    pub leased: Option<LeaseResponse>,
}
