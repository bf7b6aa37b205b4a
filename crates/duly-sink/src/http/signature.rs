//! Standard Webhooks signatures: `v1,<base64 of HMAC-SHA256(key, "id.timestamp.body")>`, one for
//! each secret, separated by spaces.
//!
//! * `signatures` signs a delivery. During a rotation of secrets both sign, so a receiver that knows
//!   either accepts it.
//! * [`verify`] is the check for receivers in Rust; `duly receive` uses it. It names the fault, compares
//!   in constant time, and accepts a body of any bytes.
//!
//! The tests compare both with the `standardwebhooks` crate.

use ::http::HeaderMap;
use data_encoding::BASE64;
use duly_core::{Timestamp, namespace::SigningSecret};

/// Largest difference in seconds between the time of a delivery and the receiver's clock (Standard
/// Webhooks).
pub const TOLERANCE_S: u64 = 5 * 60;

/// Names of the headers.
const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";

/// Returns the value of `webhook-signature`.
///
/// # Errors
/// A sentence without the secret, if a secret cannot be used.
pub(super) fn signatures(
    secrets: &[SigningSecret],
    webhook_id: &str,
    timestamp_s: u64,
    body: &[u8],
) -> Result<String, String> {
    let mut all = String::with_capacity(secrets.len() * 48);
    let signed = format!("{webhook_id}.{timestamp_s}.");
    for secret in secrets {
        let key = key(secret)
            .ok_or_else(|| format!("signing secret {} cannot be used", secret.fingerprint()))?;
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str("v1,");
        BASE64.encode_append(&mac(&key, signed.as_bytes(), body), &mut all);
    }
    Ok(all)
}

/// The faults of a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// A header is missing.
    #[error("there is no {0} header; does the namespace have signing_secrets?")]
    Missing(&'static str),
    /// A header cannot be read.
    #[error("the {0} header cannot be read; it must be {1}")]
    Unreadable(&'static str, &'static str),
    /// The delivery is too old: it may be a replay.
    #[error(
        "webhook-timestamp is {by_s} s before this machine's clock, and at most {TOLERANCE_S} s are \
         allowed: an old delivery is repeated, or a clock is wrong"
    )]
    TooOld {
        /// Difference in seconds.
        by_s: u64,
    },
    /// The delivery's time is in the future.
    #[error(
        "webhook-timestamp is {by_s} s after this machine's clock, and at most {TOLERANCE_S} s are \
         allowed: a clock is wrong"
    )]
    TooNew {
        /// Difference in seconds.
        by_s: u64,
    },
    /// There is no signature of a supported version.
    #[error("webhook-signature holds no signature of version v1 (v1,<base64>)")]
    NoVersion1,
    /// The signatures were made with other secrets, or of other bytes.
    #[error(
        "none of the {found} signature(s) was made with {}: the namespace has other signing_secrets, \
         or the body or a webhook header was changed on the way", given(*.secrets)
    )]
    NotMade {
        /// Signatures of version 1 in the header.
        found: usize,
        /// Secrets that were tried.
        secrets: usize,
    },
}

fn given(secrets: usize) -> String {
    match secrets {
        1 => "the secret given here".to_owned(),
        n => format!("one of the {n} secrets given here"),
    }
}

/// Checks that a delivery received at `now` was signed with one of these secrets.
///
/// # Errors
/// The first fault found.
pub fn verify(
    secrets: &[SigningSecret],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureError> {
    let header = |name: &'static str, form| {
        let value = headers.get(name).ok_or(SignatureError::Missing(name))?;
        value.to_str().map_err(|_| SignatureError::Unreadable(name, form))
    };
    let signature = header(SIGNATURE, "signatures separated by spaces")?;
    let id = header(ID, "text")?;
    let timestamp = header(TIMESTAMP, "Unix seconds")?;
    let sent_s: u64 =
        timestamp.parse().map_err(|_| SignatureError::Unreadable(TIMESTAMP, "Unix seconds"))?;
    let now_s = now.unix_ms() / 1_000;
    if now_s.saturating_sub(sent_s) > TOLERANCE_S {
        return Err(SignatureError::TooOld { by_s: now_s - sent_s });
    }
    if sent_s.saturating_sub(now_s) > TOLERANCE_S {
        return Err(SignatureError::TooNew { by_s: sent_s - now_s });
    }
    let given: Vec<Vec<u8>> = signature
        .split_ascii_whitespace()
        .filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?.as_bytes()).ok())
        .collect();
    if given.is_empty() {
        return Err(SignatureError::NoVersion1);
    }
    let signed = format!("{id}.{timestamp}.");
    let made = secrets.iter().filter_map(key).any(|key| {
        let expected = mac(&key, signed.as_bytes(), body);
        given.iter().any(|one| is_same(&expected, one))
    });
    if made {
        Ok(())
    } else {
        Err(SignatureError::NotMade { found: given.len(), secrets: secrets.len() })
    }
}

fn key(secret: &SigningSecret) -> Option<Vec<u8>> {
    BASE64.decode(secret.reveal().strip_prefix("whsec_")?.as_bytes()).ok()
}

fn mac(key: &[u8], signed: &[u8], body: &[u8]) -> [u8; 32] {
    let mut hmac = hmac_sha256::HMAC::new(key);
    hmac.update(signed);
    hmac.update(body);
    hmac.finalize()
}

/// Compares in constant time: the duration does not depend on the content.
fn is_same(expected: &[u8; 32], given: &[u8]) -> bool {
    let different = expected.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
    expected.len() == given.len() && std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests;
