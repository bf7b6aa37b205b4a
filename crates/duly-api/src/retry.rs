//! Retry policies: exponential waits, or a list of waits.

use duly_core::{
    Invalid, Millis, RetryPolicy,
    retry::{ATTEMPTS_MAX, BACKOFF_MAX, DELAYS_MAX, Exponential},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Duration,
    number::{ranged, within},
};

/// The waits between attempts: exponential, or `delays` alone.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = RetryPolicy)]
pub struct Retry {
    /// Attempts in all, the first included: 1 to 1000, default 16.
    #[prost(uint32, optional, tag = "1")]
    #[schema(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "ranged::<1, { ATTEMPTS_MAX as u64 }, _, _>")]
    pub max_attempts: Option<u32>,
    /// Wait after the first failed attempt, default 1s.
    #[prost(message, optional, tag = "2")]
    pub min_backoff: Option<Duration>,
    /// Longest wait, default 1h, at most 30d.
    #[prost(message, optional, tag = "3")]
    pub max_backoff: Option<Duration>,
    /// Factor from one wait to the next, 1 to 100, default 2.
    #[prost(double, optional, tag = "4")]
    #[schema(minimum = 1, maximum = 100)]
    pub multiplier: Option<f64>,
    /// Largest random change of a wait, up or down, as a fraction of it: 0 to 1, default 0.2.
    #[prost(double, optional, tag = "5")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
    /// The waits themselves, 1 to 100 of them, each at most 30d; one more attempt than entries.
    #[prost(message, repeated, tag = "6")]
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1, max_items = 100, required = false)]
    pub delays: Vec<Duration>,
}

/// Reads a list that is not empty; `null` is an absent list.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    match Option::<Vec<Duration>>::deserialize(deserializer)? {
        Some(delays) if delays.is_empty() => {
            Err(de::Error::invalid_value(de::Unexpected::Seq, &"1 to 100 waits"))
        }
        delays => Ok(delays.unwrap_or_default()),
    }
}

impl Retry {
    /// Returns the policy; an error names the field below `field`.
    ///
    /// # Errors
    /// When a value is not allowed, or `delays` comes with another field.
    pub fn check(self, field: &str) -> Result<RetryPolicy, Invalid> {
        self.policy().and_then(RetryPolicy::check).map_err(|invalid| invalid.within(field))
    }

    fn policy(self) -> Result<RetryPolicy, Invalid> {
        if !self.delays.is_empty() {
            if (Self { delays: Vec::new(), ..self.clone() }) != Self::default() {
                let allowed = "left out where max_attempts, min_backoff, max_backoff, multiplier \
                               or jitter is given";
                return Err(Invalid::unseen("delays", allowed));
            }
            let count = self.delays.len();
            if count > DELAYS_MAX {
                let allowed = format!("1 to {DELAYS_MAX} waits");
                return Err(Invalid::new("delays", format!("{count} entries"), allowed));
            }
            let waits = self.delays.iter().enumerate().map(|(i, wait)| {
                wait.check_within(&format!("delays[{i}]"), Millis::ZERO, BACKOFF_MAX)
            });
            return Ok(RetryPolicy::Delays(waits.collect::<Result<_, _>>()?));
        }
        let mut policy = Exponential::default();
        if let Some(attempts) = self.max_attempts {
            policy.max_attempts = within("max_attempts", attempts, 1, ATTEMPTS_MAX)?;
        }
        if let Some(wait) = &self.min_backoff {
            policy.min_backoff = wait.check("min_backoff")?;
        }
        if let Some(wait) = &self.max_backoff {
            policy.max_backoff = wait.check("max_backoff")?;
        }
        policy.multiplier = self.multiplier.unwrap_or(policy.multiplier);
        policy.jitter = self.jitter.unwrap_or(policy.jitter);
        Ok(RetryPolicy::Exponential(policy))
    }
}

impl From<&RetryPolicy> for Retry {
    fn from(policy: &RetryPolicy) -> Self {
        match policy {
            RetryPolicy::Exponential(policy) => Self {
                max_attempts: Some(policy.max_attempts),
                min_backoff: Some(policy.min_backoff.into()),
                max_backoff: Some(policy.max_backoff.into()),
                multiplier: Some(policy.multiplier),
                jitter: Some(policy.jitter),
                delays: Vec::new(),
            },
            RetryPolicy::Delays(waits) => {
                let delays = waits.iter().copied().map(Duration::from).collect();
                Self { delays, ..Self::default() }
            }
        }
    }
}
