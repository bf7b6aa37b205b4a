//! The headers of a delivery.
//!
//! 1. The headers of the destination come first, then those of the timer, then those of Duly.
//! 2. A timer's header replaces one of the destination with the same name.
//! 3. Duly's headers replace all others (S3), with one exception: a content type of the timer or the
//!    destination replaces the default of the payload's form.
//! 4. Headers that proxies use to name the original sender are left out. Callers cannot set them now,
//!    but older timers may have them.
//! 5. Values are checked by `HeaderValue`, which refuses line breaks. So no value can inject a header.

use ::http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use duly_core::{
    Timestamp,
    headers::{LOOP, is_forwarded},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::signature;
use crate::Envelope;

/// `ce-type` of every delivery.
pub(super) const EVENT_TYPE: &str = "duly.timer.fired";

/// Value of [`LOOP`]; the name alone counts.
const LOOP_VALUE: &str = "duly";

/// ASCII characters that are percent-encoded in `ce-subject`.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Returns all headers of the delivery of `envelope`, sent at `now`.
///
/// # Errors
/// A sentence for operators, without the invalid value.
pub(super) fn build(envelope: &Envelope, now: Timestamp) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::with_capacity(
        envelope.destination.headers.len() + envelope.spec.headers.len() + 12,
    );
    let timer_has = |name: &str| envelope.spec.headers.get(name).is_some();
    let of_destination = envelope.destination.headers.iter().filter(|(name, _)| !timer_has(name));
    for (name, value) in of_destination.chain(envelope.spec.headers.iter()) {
        if !is_forwarded(name) {
            put(&mut map, name, value)?;
        }
    }
    if let Some(payload) = &envelope.spec.payload
        && !map.contains_key(CONTENT_TYPE)
    {
        put(&mut map, CONTENT_TYPE.as_str(), payload.form.content_type())?;
    }
    cloud_event(&mut map, envelope)?;
    standard_webhook(&mut map, envelope, now)?;
    put(&mut map, LOOP, LOOP_VALUE)?;
    put(&mut map, "duly-attempt", &envelope.attempt.to_string())?;
    put(&mut map, "duly-due-at", &envelope.due_at.to_string())?;
    trace_context(&mut map, envelope);
    Ok(map)
}

/// Adds the trace context of the attempt, and that of the call that scheduled the timer (CloudEvents 1.0,
/// distributed tracing extension). For an attempt that is not traced the two are the same.
fn trace_context(map: &mut HeaderMap, envelope: &Envelope) {
    // The stored context was not checked before: an invalid header value is left out.
    let value = |text: &Option<String>| HeaderValue::from_str(text.as_ref()?).ok();
    let scheduled = value(&envelope.spec.trace_parent);
    let delivered = value(&envelope.delivery_trace_parent).or_else(|| scheduled.clone());
    for (name, value) in [("traceparent", delivered), ("ce-traceparent", scheduled)] {
        if let Some(value) = value {
            map.insert(name, value);
        }
    }
}

/// Adds the headers of the CloudEvents 1.0 HTTP binding, binary content mode (section 3.1).
fn cloud_event(map: &mut HeaderMap, envelope: &Envelope) -> Result<(), String> {
    put(map, "ce-specversion", "1.0")?;
    put(map, "ce-id", &envelope.delivery_id.to_string())?;
    let source = format!("/namespaces/{}", envelope.namespace);
    put(map, "ce-source", &source)?;
    put(map, "ce-type", EVENT_TYPE)?;
    put(map, "ce-time", &envelope.due_at.to_string())?;
    put(map, "ce-subject", &percent_encoded(envelope.id.as_str()))
}

/// Adds the Standard Webhooks headers: id and time always, a signature if there are secrets.
fn standard_webhook(
    map: &mut HeaderMap,
    envelope: &Envelope,
    now: Timestamp,
) -> Result<(), String> {
    let webhook_id = envelope.delivery_id.to_string();
    let timestamp_s = now.unix_ms() / 1_000;
    put(map, "webhook-id", &webhook_id)?;
    put(map, "webhook-timestamp", &timestamp_s.to_string())?;
    if !envelope.signing_secrets.is_empty() {
        let body = envelope.spec.payload.as_ref().map_or(&[][..], |p| &p.bytes);
        let value =
            signature::signatures(&envelope.signing_secrets, &webhook_id, timestamp_s, body)?;
        put(map, "webhook-signature", &value)?;
    }
    Ok(())
}

fn put(map: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let refuse = || format!("header {name:?} cannot be sent");
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
    let value = HeaderValue::from_str(value).map_err(|_| refuse())?;
    map.insert(header, value);
    Ok(())
}

/// Percent-encodes by the CloudEvents HTTP binding, section 3.1.3.2: space, double quote, percent and
/// everything outside U+0021–U+007E, as the bytes of its UTF-8.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests;
