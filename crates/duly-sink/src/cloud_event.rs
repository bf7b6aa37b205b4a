//! The attributes of CloudEvents 1.0 that a delivery has. Each kind of receiver gives them a form of its own.

use std::borrow::Cow;

use duly_core::headers::Headers;

use crate::Envelope;

/// Content type of the payload.
pub(crate) const DATA_CONTENT_TYPE: &str = "datacontenttype";
/// W3C trace context of the call that scheduled the timer (distributed tracing extension).
pub(crate) const TRACE_PARENT: &str = "traceparent";

/// Returns name and value of each attribute. `of_destination` are the headers of the destination. The trace
/// context is last.
pub(crate) fn attributes<'a, D>(
    envelope: &'a Envelope<D>,
    of_destination: &'a Headers,
) -> Vec<(&'static str, Cow<'a, str>)> {
    let spec = &envelope.spec;
    let own = spec.headers.get("content-type").or_else(|| of_destination.get("content-type"));
    let of_form = || spec.payload.as_ref().map(|payload| payload.form.content_type());
    let attributes = [
        (DATA_CONTENT_TYPE, own.or_else(of_form).map(Cow::from)),
        ("specversion", Some("1.0".into())),
        ("id", Some(envelope.delivery_id.to_string().into())),
        ("source", Some(format!("/namespaces/{}", envelope.namespace).into())),
        ("type", Some("duly.timer.fired".into())),
        ("time", Some(envelope.due_at.to_string().into())),
        ("subject", Some(envelope.id.as_str().into())),
        (TRACE_PARENT, envelope.scheduled_trace_parent().map(Cow::from)),
    ];
    attributes.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests;
