//! Backoff: the wait after a failed attempt, and the maximum number of attempts.
//!
//! The wait before attempt n+1 is `min(max, min·multiplier^(n-1)) ± jitter`. With a list of k delays it is
//! the n-th of them, and k+1 attempts are made. The jitter is derived from the delivery id, not from a
//! random source, so every store computes the same wait.

use crate::{
    Millis,
    invalid::{Invalid, check_range},
};

/// Largest number of attempts of a policy.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Largest number of delays in a list.
pub const DELAYS_MAX: usize = 100;
/// Longest wait between two attempts.
pub const BACKOFF_MAX: Millis = Millis::from_secs(30 * 86_400);

/// The waits after which a failed firing is tried again.
#[derive(Debug, Clone, PartialEq)]
pub enum RetryPolicy {
    /// Exponential waits.
    Exponential(Exponential),
    /// The waits themselves. There is one more attempt than entries.
    Delays(Vec<Millis>),
}

/// Exponential waits between attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Exponential {
    /// Maximum number of attempts, the first included.
    pub max_attempts: u32,
    /// Wait after the first failed attempt.
    pub min_backoff: Millis,
    /// Longest wait.
    pub max_backoff: Millis,
    /// Factor from one wait to the next, 1 to 100.
    pub multiplier: f64,
    /// Fraction of the wait by which it is randomly longer or shorter, 0 to 1.
    pub jitter: f64,
}

impl Default for Exponential {
    fn default() -> Self {
        Self {
            max_attempts: 16,
            min_backoff: Millis::from_secs(1),
            max_backoff: Millis::from_secs(3_600),
            multiplier: 2.0,
            jitter: 0.2,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::Exponential(Exponential::default())
    }
}

impl RetryPolicy {
    /// Checks every bound. Each error names its field.
    pub fn check(self) -> Result<Self, Invalid> {
        match &self {
            Self::Exponential(policy) => policy.check()?,
            Self::Delays(waits) => {
                if !(1..=DELAYS_MAX).contains(&waits.len()) {
                    let allowed = format!("1 to {DELAYS_MAX} waits");
                    let seen = format!("{} entries", waits.len());
                    return Err(Invalid::new("delays", seen, allowed));
                }
                for (i, wait) in waits.iter().enumerate() {
                    wait.within(Millis::ZERO, BACKOFF_MAX)
                        .map_err(|e| e.within(&format!("[{i}]")).within("delays"))?;
                }
            }
        }
        Ok(self)
    }

    /// Returns the maximum number of attempts, the first included.
    pub fn max_attempts(&self) -> u32 {
        match self {
            Self::Exponential(policy) => policy.max_attempts,
            Self::Delays(waits) => u32::try_from(waits.len()).unwrap_or(ATTEMPTS_MAX) + 1,
        }
    }

    /// Returns the wait after failed attempt number `attempt` (from 1), or `None` if that was the last.
    /// `seed` decides the jitter; the same seed gives the same wait.
    pub fn wait_after(&self, attempt: u32, seed: u64) -> Option<Millis> {
        if attempt >= self.max_attempts() {
            return None;
        }
        let nth = attempt.max(1) - 1;
        Some(match self {
            Self::Delays(waits) => waits.get(nth as usize).copied().unwrap_or(Millis::ZERO),
            Self::Exponential(policy) => policy.wait(nth, seed),
        })
    }

    /// Returns a wait that is `least` or longer by up to the policy's jitter. So firings that a receiver
    /// put off to the same time do not come back at the same time. A list of delays has no jitter.
    pub fn spread(&self, least: Millis, attempt: u32, seed: u64) -> Millis {
        let Self::Exponential(policy) = self else { return least };
        let least_ms = least.ms() as f64;
        let spread_ms =
            (least_ms * policy.jitter).mul_add(random(attempt.max(1) - 1, seed), least_ms);
        Millis::from_ms(spread_ms as u64).max(least)
    }
}

impl Exponential {
    fn check(&self) -> Result<(), Invalid> {
        check_range("max_attempts", self.max_attempts, 1..=ATTEMPTS_MAX)?;
        self.min_backoff.within(Millis::ZERO, BACKOFF_MAX).map_err(|e| e.within("min_backoff"))?;
        self.max_backoff.within(Millis::ZERO, BACKOFF_MAX).map_err(|e| e.within("max_backoff"))?;
        if self.min_backoff > self.max_backoff {
            let allowed = format!("at most max_backoff ({})", self.max_backoff);
            return Err(Invalid::new("min_backoff", self.min_backoff, allowed));
        }
        if !(1.0..=100.0).contains(&self.multiplier) {
            return Err(Invalid::new("multiplier", self.multiplier, "a number from 1 to 100"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(Invalid::new("jitter", self.jitter, "a number from 0 to 1"));
        }
        Ok(())
    }

    fn wait(&self, nth: u32, seed: u64) -> Millis {
        let max_ms = self.max_backoff.ms() as f64;
        let exponent = i32::try_from(nth).unwrap_or(i32::MAX);
        if self.min_backoff == Millis::ZERO {
            // Zero times an infinite power would be NaN.
            return Millis::ZERO;
        }
        let plain_ms = (self.min_backoff.ms() as f64 * self.multiplier.powi(exponent)).min(max_ms);
        let swing = random(nth, seed).mul_add(2.0, -1.0);
        Millis::from_ms((plain_ms * self.jitter).mul_add(swing, plain_ms).max(0.0) as u64)
    }
}

/// Returns a number in [0, 1) from 53 bits of the mixed seed.
fn random(nth: u32, seed: u64) -> f64 {
    let mixed = mix(seed ^ u64::from(nth).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Finaliser of `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
