//! Settings of a namespace: destination, retry policy, lease, retention, weight, secrets, limits.

use std::fmt;

use crate::{
    Destination, Millis, RetryPolicy,
    invalid::{Invalid, check_range},
    limits::Limits,
};

/// Shortest lease.
pub const LEASE_MIN: Millis = Millis::from_secs(1);
/// Longest lease, and longest time from the claim to the end of an extended lease.
pub const LEASE_MAX: Millis = Millis::from_secs(12 * 3_600);
/// Default lease.
pub const LEASE_DEFAULT: Millis = Millis::from_secs(30);
/// Default retention of tombstones.
pub const RETENTION_DEFAULT: Millis = Millis::from_secs(24 * 3_600);
/// Longest retention of tombstones.
pub const RETENTION_MAX: Millis = Millis::from_secs(3_650 * 86_400);
/// Largest weight.
pub const WEIGHT_MAX: u32 = 1_000;
/// Default for [`Fallback::after_attempts`].
pub const FALLBACK_ATTEMPTS_DEFAULT: u32 = 5;
/// Default for [`Fallback::after_open`].
pub const FALLBACK_OPEN_DEFAULT: Millis = Millis::from_secs(60);
/// Largest [`Fallback::after_open`].
pub const FALLBACK_OPEN_MAX: Millis = Millis::from_secs(86_400);
/// Largest [`Fallback::after_attempts`].
pub const FALLBACK_ATTEMPTS_MAX: u32 = 10_000;
/// Maximum number of signing secrets at once.
pub const SIGNING_SECRETS_MAX: usize = 2;

/// Settings of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Destination of timers that name none.
    pub destination: Destination,
    /// Second receiver for firings that their own receiver does not accept.
    pub fallback: Option<Fallback>,
    /// Retry policy of timers that name none.
    pub retry: RetryPolicy,
    /// Lease of claims that name none.
    pub lease: Millis,
    /// Retention of the tombstones of ended timers.
    pub retention: Millis,
    /// Relative share of the delivery workers while they are scarce.
    pub weight: u32,
    /// Secrets that webhooks are signed with; two during a rotation.
    pub signing_secrets: Vec<SigningSecret>,
    /// Limits.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            destination: Destination::default(),
            fallback: None,
            retry: RetryPolicy::default(),
            lease: LEASE_DEFAULT,
            retention: RETENTION_DEFAULT,
            weight: 1,
            signing_secrets: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// Checks every bound. Each error names its field.
    pub fn check(mut self) -> Result<Self, Invalid> {
        self.retry = self.retry.check().map_err(|e| e.within("retry"))?;
        if let Some(fallback) = &self.fallback {
            fallback.check().map_err(|e| e.within("fallback"))?;
        }
        self.limits = self.limits.check().map_err(|e| e.within("limits"))?;
        self.lease.within(LEASE_MIN, LEASE_MAX).map_err(|e| e.within("lease"))?;
        self.retention.within(Millis::ZERO, RETENTION_MAX).map_err(|e| e.within("retention"))?;
        check_range("weight", self.weight, 1..=WEIGHT_MAX)?;
        if self.signing_secrets.len() > SIGNING_SECRETS_MAX {
            let allowed = format!("at most {SIGNING_SECRETS_MAX} secrets (two during a rotation)");
            return Err(Invalid::unseen("signing_secrets", allowed));
        }
        Ok(self)
    }

    /// Returns the approximate memory that they take besides their own size, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let fallback =
            self.fallback.as_ref().map_or(0, |fallback| fallback.destination.heap_bytes());
        let destination = self.destination.heap_bytes();
        let retry = match &self.retry {
            RetryPolicy::Exponential(_) => 0,
            RetryPolicy::Delays(waits) => waits.capacity() * size_of::<Millis>(),
        };
        let secrets = self.signing_secrets.iter().map(|secret| secret.0.capacity());
        let secrets_bytes = self.signing_secrets.capacity() * size_of::<SigningSecret>();
        fallback + destination + retry + secrets_bytes + secrets.sum::<usize>()
    }
}

/// A second receiver of a namespace's webhooks, which takes over when the first fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallback {
    /// The receiver: not consumers.
    pub destination: Destination,
    /// Number of failed attempts of a firing after which its later attempts go to the fallback.
    pub after_attempts: u32,
    /// Time for which the breaker of a lane must be open before all its firings go to the fallback.
    pub after_open: Millis,
}

impl Fallback {
    /// Returns the refusal of consumers as a fallback.
    pub fn is_no_pull() -> Invalid {
        let allowed = "an http destination: a fallback is a webhook";
        Invalid::new("destination", "pull", allowed)
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.destination.is_pull() {
            return Err(Self::is_no_pull());
        }
        check_range("after_attempts", self.after_attempts, 1..=FALLBACK_ATTEMPTS_MAX)?;
        let open = self.after_open.within(Millis::ZERO, FALLBACK_OPEN_MAX);
        open.map_err(|e| e.within("after_open")).map(|_| ())
    }
}

/// Key that keeps fingerprints of secrets apart from other hashes of them.
const FINGERPRINT_KEY: &[u8] = b"duly signing secret fingerprint";

/// A secret that signs webhooks, in the form of Standard Webhooks (`whsec_` + base64).
///
/// It is never shown: `Debug` prints its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(String);

impl SigningSecret {
    /// Creates a secret from text, after checking it: `whsec_` followed by standard base64 of 24 to 64
    /// bytes.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let decoded = text
            .strip_prefix("whsec_")
            .and_then(|encoded| data_encoding::BASE64.decode(encoded.as_bytes()).ok());
        match decoded {
            Some(key) if (24..=64).contains(&key.len()) => Ok(Self(text.to_owned())),
            _ => Err(Invalid::unseen("", "\"whsec_\" followed by base64 of 24 to 64 random bytes")),
        }
    }

    /// Returns the secret itself, for the signer and the store only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns a short name of the secret that does not reveal it: the first 8 bytes of its HMAC-SHA-256
    /// with a fixed key of Duly.
    pub fn fingerprint(&self) -> String {
        let hash = hmac_sha256::HMAC::mac(self.0.as_bytes(), FINGERPRINT_KEY);
        format!("sha256:{}", data_encoding::HEXLOWER.encode(&hash[..8]))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningSecret({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests;
