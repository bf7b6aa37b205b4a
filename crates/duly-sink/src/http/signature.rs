//! Standard Webhooks signatures: `v1,<base64 of HMAC-SHA256(key, "id.timestamp.body")>`, one for
//! each secret, separated by spaces.
//!
//! The `standardwebhooks` crate signs; its signer takes UTF-8 only, though, while the
//! specification signs the bytes of the body, so a binary payload takes the few lines below. The
//! tests hold both to the same result.

use data_encoding::BASE64;
use duly_core::namespace::SigningSecret;
use standardwebhooks::{Webhook, WebhookError};

/// The value of `webhook-signature`.
///
/// # Errors
/// A sentence without the secret, when one cannot be used.
pub(super) fn signatures(
    secrets: &[SigningSecret],
    webhook_id: &str,
    timestamp_s: i64,
    body: &[u8],
) -> Result<String, String> {
    let mut all = String::new();
    for secret in secrets {
        let one = match Webhook::new(secret.reveal()) {
            Ok(webhook) => webhook.sign(webhook_id, timestamp_s, body),
            Err(error) => Err(error),
        };
        let one = match one {
            Err(WebhookError::InvalidPayload) => sign_bytes(secret, webhook_id, timestamp_s, body),
            other => other.ok(),
        };
        let one = one.ok_or_else(|| {
            format!("not sent: signing secret {} cannot be used", secret.fingerprint())
        })?;
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(&one);
    }
    Ok(all)
}

fn sign_bytes(
    secret: &SigningSecret,
    webhook_id: &str,
    timestamp_s: i64,
    body: &[u8],
) -> Option<String> {
    let encoded = secret.reveal().strip_prefix("whsec_")?;
    let key = BASE64.decode(encoded.as_bytes()).ok()?;
    let mut hmac = hmac_sha256::HMAC::new(&key);
    hmac.update(format!("{webhook_id}.{timestamp_s}."));
    hmac.update(body);
    Some(format!("v1,{}", BASE64.encode(&hmac.finalize())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_both_signers_agree_and_two_secrets_give_two_signatures() {
        let secrets = [
            SigningSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
            SigningSecret::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap(),
        ];
        let body = br#"{"test": 2432232314}"#;
        let both = signatures(&secrets, "msg", 1_614_265_330, body).unwrap();
        let by_bytes: Vec<_> = secrets
            .iter()
            .map(|secret| sign_bytes(secret, "msg", 1_614_265_330, body).unwrap())
            .collect();
        assert_eq!(both, by_bytes.join(" "));
        assert!(signatures(&secrets, "msg", 1, &[0xff, 0x00]).is_ok());
    }
}
