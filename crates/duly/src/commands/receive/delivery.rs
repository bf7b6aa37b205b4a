//! A received delivery, as read from its headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use duly_core::{Timestamp, namespace::SigningSecret};
use duly_sink::http::signature;
use serde::Serialize;

use crate::output::{
    OutputStream, Tone, text,
    when::{distance, now},
};

/// Longest payload that is printed, in characters.
const PAYLOAD_CHARS_MAX: usize = 120;

/// A delivery, ready to be printed.
#[derive(Serialize)]
pub(super) struct Delivery {
    received_at: String,
    lateness_ms: Option<f64>,
    attempt: Option<u32>,
    id: Option<String>,
    delivery_id: Option<String>,
    source: Option<String>,
    signature: Signature,
    /// `true`: the delivery has a signature.
    is_signed: bool,
    answered: u16,
    content_type: Option<String>,
    payload_bytes: usize,
    payload_preview: String,
}

/// The result of a signature check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Signature {
    /// There is no secret to check the signature with.
    Unchecked,
    /// The signature was made recently, for these bytes, with a known secret.
    Valid,
    /// The signature is wrong, for this reason.
    Wrong(String),
}

impl Signature {
    /// Checks the signature, if there is a secret.
    pub(super) fn check(secrets: &[SigningSecret], headers: &HeaderMap, body: &[u8]) -> Self {
        if secrets.is_empty() {
            return Self::Unchecked;
        }
        match signature::verify(secrets, headers, body, now()) {
            Ok(()) => Self::Valid,
            Err(wrong) => Self::Wrong(wrong.to_string()),
        }
    }

    fn label(&self, is_signed: bool, screen: OutputStream) -> String {
        let (tone, label) = match self {
            Self::Unchecked if !is_signed => return String::new(),
            Self::Unchecked => {
                (Tone::Warning, "signature not checked: no --secret-file".to_owned())
            }
            Self::Valid => (Tone::Good, "signature valid".to_owned()),
            Self::Wrong(why) => (Tone::Bad, text::line(&format!("SIGNATURE WRONG: {why}"))),
        };
        format!("  {}", screen.paint(tone, &label))
    }
}

impl Delivery {
    /// Reads a delivery from its headers.
    pub(super) fn new(
        headers: &HeaderMap,
        body: &[u8],
        signature: Signature,
        answered: u16,
    ) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let due_at = header("duly-due-at").and_then(|text| Timestamp::parse(text).ok());
        let now_ms = since.as_secs_f64() * 1_000.0;
        Self {
            received_at: now().to_string(),
            lateness_ms: due_at.map(|due_at| lateness_ms(now_ms, due_at)),
            attempt: header("duly-attempt").and_then(|text| text.parse().ok()),
            id: header("ce-subject").map(percent_decoded),
            delivery_id: header("webhook-id").map(str::to_owned),
            source: header("ce-source").map(str::to_owned),
            signature,
            is_signed: headers.contains_key("webhook-signature"),
            answered,
            content_type: header("content-type").map(str::to_owned),
            payload_bytes: body.len(),
            payload_preview: text::preview_bytes(body, PAYLOAD_CHARS_MAX),
        }
    }

    /// Returns the text for people: lateness, attempt, ids, signature, payload.
    pub(super) fn line(&self, screen: OutputStream) -> String {
        let signature = self.signature.label(self.is_signed, screen);
        let Self { attempt: Some(attempt), id: Some(id), .. } = self else {
            return format!(
                "{}  not from Duly{signature}  answered {}\n    {}",
                self.received_at, self.answered, self.payload_preview
            );
        };
        let lateness = match self.lateness_ms {
            Some(late_ms) if late_ms >= 1_000.0 => {
                let late = Duration::from_secs_f64(late_ms / 1_000.0).as_millis();
                format!("{} late", distance(u64::try_from(late).unwrap_or(u64::MAX)))
            }
            Some(late_ms) => format!("{late_ms:.1} ms late"),
            None => "lateness unknown".to_owned(),
        };
        format!(
            "{}  {lateness}  attempt {attempt}  {}  delivery {}{}  answered {}\n    {}",
            self.received_at,
            text::line(id),
            text::preview(self.delivery_id.as_deref().unwrap_or("-"), 64),
            signature,
            self.answered,
            self.payload_preview
        )
    }

    /// Returns the delivery as JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the time from the due time to the receipt, to a tenth of a millisecond.
#[expect(clippy::cast_precision_loss, reason = "Unix milliseconds fit an f64")]
fn lateness_ms(now_ms: f64, due_at: Timestamp) -> f64 {
    ((now_ms - due_at.unix_ms() as f64) * 10.0).round() / 10.0
}

/// Returns the text of a percent-encoded header; unchanged if it is not UTF-8.
fn percent_decoded(encoded: &str) -> String {
    let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8();
    decoded.map_or_else(|_| encoded.to_owned(), |text| text.into_owned())
}

#[cfg(test)]
mod tests;
