//! The headers of a delivery.
//!
//! 1. The headers of the destination come first, then those of the timer, then those of Duly.
//! 2. A timer's header replaces one of the destination with the same name.
//! 3. Duly's headers replace all others (S3), with one exception: a content type of the timer or the
//!    destination replaces the default of the payload's form.
//! 4. Headers that proxies use to name the original sender are left out. Callers cannot set them now,
//!    but older timers may have them.
//! 5. Values are checked by `HeaderValue`, which refuses line breaks. So no value can inject a header.

use std::borrow::Cow;

use ::http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use duly_core::{
    Timestamp,
    headers::{LOOP, is_forwarded},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::signature;
use crate::{
    Envelope,
    cloud_event::{self, DATA_CONTENT_TYPE, TRACE_PARENT},
};

/// Value of [`LOOP`]; the name alone counts.
const LOOP_VALUE: &str = "duly";

/// ASCII characters that are percent-encoded in attributes.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Returns all headers of the delivery of `envelope`, sent at `now`.
///
/// # Errors
/// A sentence for operators, without the invalid value.
pub(super) fn build(envelope: &Envelope, now: Timestamp) -> Result<HeaderMap, String> {
    let Envelope { spec, destination, .. } = envelope;
    let mut map = HeaderMap::with_capacity(destination.headers.len() + spec.headers.len() + 12);
    let timer_has = |name: &str| spec.headers.get(name).is_some();
    let of_destination = destination.headers.iter().filter(|(name, _)| !timer_has(name));
    for (name, value) in of_destination.chain(spec.headers.iter()) {
        if !is_forwarded(name) {
            put(&mut map, name, value)?;
        }
    }
    let mut attributes = cloud_event::attributes(envelope, &destination.headers);
    let scheduled = attributes.pop_if(|(name, _)| *name == TRACE_PARENT);
    for attribute in attributes {
        put_attribute(&mut map, attribute)?;
    }
    standard_webhook(&mut map, envelope, now)?;
    put(&mut map, LOOP, LOOP_VALUE)?;
    put(&mut map, "duly-attempt", &envelope.attempt.to_string())?;
    put(&mut map, "duly-due-at", &envelope.due_at.to_string())?;
    if let Some(context) = envelope.trace_parent() {
        put(&mut map, "traceparent", context)?;
    }
    if let Some(attribute) = scheduled {
        put_attribute(&mut map, attribute)?;
    }
    Ok(map)
}

/// Adds an attribute in the form of the CloudEvents 1.0 HTTP binding, binary content mode (section 3.1).
fn put_attribute(
    map: &mut HeaderMap,
    (name, value): (&'static str, Cow<'_, str>),
) -> Result<(), String> {
    match name {
        DATA_CONTENT_TYPE => put(map, CONTENT_TYPE.as_str(), &value),
        // Passed on as it was stored.
        TRACE_PARENT => put(map, "ce-traceparent", &value),
        _ => put(map, &format!("ce-{name}"), &percent_encoded(&value)),
    }
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
fn percent_encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

#[cfg(test)]
mod tests;
