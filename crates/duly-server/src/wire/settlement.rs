//! Settling on the wire: each settlement has exactly one verdict.

use duly_core::{
    Invalid, Millis, NamespaceName,
    namespace::{LEASE_MAX, LEASE_MIN},
    retry::BACKOFF_MAX,
    timer::{AttemptOutcome, Wait},
};
use duly_store::{SettleVerdict, Settlement, Token};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Duration;

/// Most settlements of one call.
pub const SETTLEMENTS_MAX: usize = 10_000;
/// What a settlement must have.
const ONE_VERDICT: &str = "one with exactly one of ack, retry, dead, extend";

/// Verdicts on leased firings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Settle)]
pub struct SettleIn<'a> {
    /// The verdicts, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<SettlementIn>)]
    pub settlements: Vec<&'a RawValue>,
}

/// A verdict on one leased firing: exactly one of `ack`, `retry`, `dead`, `extend`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Settlement)]
pub struct SettlementIn {
    /// The token of the lease.
    pub(super) token: String,
    /// Delivered.
    pub(super) ack: Option<AckIn>,
    /// Not delivered; to be tried again.
    pub(super) retry: Option<RetryVerdictIn>,
    /// Never to be tried again.
    pub(super) dead: Option<DeadIn>,
    /// The lease is to end later.
    pub(super) extend: Option<ExtendIn>,
}

/// Nothing to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty JSON object")]
#[schema(as = Ack)]
pub(super) struct AckIn {}

/// How to try again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = RetryVerdict)]
pub(super) struct RetryVerdictIn {
    /// Exactly how long to wait, at most 30d; by the retry policy when absent.
    pub(super) after: Option<Duration>,
    /// Why, for a person.
    pub(super) reason: Option<String>,
}

/// Why it is given up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = DeadVerdict)]
pub(super) struct DeadIn {
    /// Why, for a person.
    pub(super) reason: String,
}

/// The new lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = ExtendVerdict)]
pub(super) struct ExtendIn {
    /// How long from now, 1s to 12h; the lease ends at most 12h after the claim.
    pub(super) lease: Duration,
}

impl SettlementIn {
    /// Checks it. `None` for a token that is none at all.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one verdict.
    pub fn check(self, namespace: &NamespaceName) -> Result<Option<Settlement>, Invalid> {
        let verdict = match (self.ack, self.retry, self.dead, self.extend) {
            (Some(AckIn {}), None, None, None) => SettleVerdict::Ack,
            (None, Some(retry), None, None) => retry.verdict()?,
            (None, None, Some(dead), None) => SettleVerdict::Dead { reason: dead.reason },
            (None, None, None, Some(extend)) => SettleVerdict::Extend {
                lease: extend.lease.check_within("extend.lease", LEASE_MIN, LEASE_MAX)?,
            },
            _ => return Err(Invalid::unseen("", ONE_VERDICT)),
        };
        Ok(Token::parse(&self.token).map(|token| Settlement {
            token,
            namespace: Some(namespace.clone()),
            verdict,
        }))
    }
}

impl RetryVerdictIn {
    fn verdict(self) -> Result<SettleVerdict, Invalid> {
        let wait = match &self.after {
            Some(after) => {
                Wait::Exactly(after.check_within("retry.after", Millis::ZERO, BACKOFF_MAX)?)
            }
            None => Wait::Policy,
        };
        Ok(SettleVerdict::Retry {
            wait,
            outcome: AttemptOutcome::Failed,
            reason: self.reason.unwrap_or_default(),
        })
    }
}

/// What became of the settlements, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settled)]
pub struct SettledOut {
    /// One result for each settlement.
    #[schema(value_type = Vec<SettleResultOut>)]
    pub results: Vec<SettleResult>,
}

/// Exactly one of the two.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleResult {
    /// `ok`, `dead`, `already_settled`, `lease_lost` or `invalid_token`.
    Outcome(&'static str),
    /// The settlement was refused.
    Error(Box<super::problem::ProblemOut>),
}

/// What became of one settlement: exactly one of the two.
#[derive(Debug, ToSchema)]
#[schema(as = SettleResult)]
#[expect(dead_code, reason = "describes SettleResult in the OpenAPI document")]
pub struct SettleResultOut {
    /// `ok`, `dead` (that retry was the last attempt), `already_settled`, `lease_lost` or
    /// `invalid_token`.
    outcome: Option<String>,
    /// Why it was refused.
    error: Option<super::problem::ProblemOut>,
}
