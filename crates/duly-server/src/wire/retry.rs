//! Retry policies on the wire: exponential waits, or the waits themselves.

use duly_core::{
    Invalid, Millis, RetryPolicy,
    retry::{ATTEMPTS_MAX, BACKOFF_MAX, DELAYS_MAX, Exponential},
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use utoipa::ToSchema;

use super::{Duration, DurationOut, Integer};

/// When a failed firing is tried again: exponential waits, or `delays` alone.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Retry)]
pub struct RetryIn {
    /// Attempts in all, the first included: 1 to 1000, default 16.
    pub(super) max_attempts: Option<Integer>,
    /// Wait after the first failed attempt, default 1s.
    pub(super) min_backoff: Option<Duration>,
    /// Longest wait, default 1h, at most 30d.
    pub(super) max_backoff: Option<Duration>,
    /// Factor from one wait to the next, 1 to 100, default 2.
    #[serde(default, deserialize_with = "super::number::real")]
    pub(super) multiplier: Option<f64>,
    /// Share of the wait by which it is moved up or down, 0 to 1, default 0.2.
    #[serde(default, deserialize_with = "super::number::real")]
    pub(super) jitter: Option<f64>,
    /// The waits themselves, 1 to 100 of them; one more attempt than entries.
    pub(super) delays: Option<Vec<Duration>>,
}

impl RetryIn {
    /// Checks it; the error names the field below `field`.
    ///
    /// # Errors
    /// When a value is not allowed, or `delays` stands beside another field.
    pub fn check(self, field: &str) -> Result<RetryPolicy, Invalid> {
        self.policy().and_then(RetryPolicy::check).map_err(|invalid| invalid.within(field))
    }

    fn policy(self) -> Result<RetryPolicy, Invalid> {
        if let Some(waits) = &self.delays {
            if self.has_exponential() {
                let allowed = "left out where max_attempts, min_backoff, max_backoff, multiplier \
                               or jitter is given";
                return Err(Invalid::unseen("delays", allowed));
            }
            if waits.len() > DELAYS_MAX {
                let allowed = format!("1 to {DELAYS_MAX} waits");
                return Err(Invalid::new("delays", format!("{} entries", waits.len()), allowed));
            }
            let waits = waits.iter().enumerate().map(|(i, wait)| {
                wait.check_within(&format!("delays[{i}]"), Millis::ZERO, BACKOFF_MAX)
            });
            return Ok(RetryPolicy::Delays(waits.collect::<Result<_, _>>()?));
        }
        let mut policy = Exponential::default();
        if let Some(attempts) = self.max_attempts {
            policy.max_attempts = attempts.within_u32("max_attempts", 1, ATTEMPTS_MAX)?;
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

    const fn has_exponential(&self) -> bool {
        self.max_attempts.is_some()
            || self.min_backoff.is_some()
            || self.max_backoff.is_some()
            || self.multiplier.is_some()
            || self.jitter.is_some()
    }
}

/// A retry policy in an answer.
#[derive(Debug, Clone, Copy)]
pub struct RetryOut<'a>(pub &'a RetryPolicy);

impl Serialize for RetryOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            RetryPolicy::Exponential(policy) => {
                map.serialize_entry("max_attempts", &policy.max_attempts)?;
                map.serialize_entry("min_backoff", &DurationOut(policy.min_backoff))?;
                map.serialize_entry("max_backoff", &DurationOut(policy.max_backoff))?;
                map.serialize_entry("multiplier", &policy.multiplier)?;
                map.serialize_entry("jitter", &policy.jitter)?;
            }
            RetryPolicy::Delays(waits) => {
                let waits: Vec<DurationOut> = waits.iter().copied().map(DurationOut).collect();
                map.serialize_entry("delays", &waits)?;
            }
        }
        map.end()
    }
}
