//! Retry policies.

use duly_core::{Invalid, RetryPolicy};
use duly_proto::v1;

use super::{
    super::{Integer, RetryIn},
    time::{duration_in, duration_out, maybe_duration_in},
};

/// A retry policy as a caller wrote it; an error names the field below `field`.
pub(crate) fn retry_in(field: &str, retry: v1::Retry) -> Result<RetryIn, Invalid> {
    read(retry).map_err(|invalid| invalid.within(field))
}

fn read(retry: v1::Retry) -> Result<RetryIn, Invalid> {
    let waits = retry.delays.into_iter().enumerate();
    let waits = waits.map(|(i, wait)| duration_in(&format!("delays[{i}]"), wait));
    let waits = waits.collect::<Result<Vec<_>, _>>()?;
    Ok(RetryIn {
        max_attempts: retry.max_attempts.map(|count| Integer(count.into())),
        min_backoff: maybe_duration_in("min_backoff", retry.min_backoff)?,
        max_backoff: maybe_duration_in("max_backoff", retry.max_backoff)?,
        multiplier: retry.multiplier,
        jitter: retry.jitter,
        delays: (!waits.is_empty()).then_some(waits),
    })
}

/// A retry policy in an answer.
pub(crate) fn retry_out(retry: &RetryPolicy) -> v1::Retry {
    match retry {
        RetryPolicy::Exponential(policy) => v1::Retry {
            max_attempts: Some(policy.max_attempts),
            min_backoff: Some(duration_out(policy.min_backoff)),
            max_backoff: Some(duration_out(policy.max_backoff)),
            multiplier: Some(policy.multiplier),
            jitter: Some(policy.jitter),
            delays: Vec::new(),
        },
        RetryPolicy::Delays(waits) => v1::Retry {
            delays: waits.iter().copied().map(duration_out).collect(),
            ..v1::Retry::default()
        },
    }
}
