//! Payloads: bytes with the form that JSON has a field for each (P11).

use bytes::Bytes;
use duly_core::{Invalid, Payload, payload::Form};
use duly_proto::v1::PayloadForm;
use serde_json::value::RawValue;

use super::{super::payload::check_depth, known};

/// The payload that a caller gives. What is called text or JSON must be it, or no answer over HTTP
/// could show it.
pub(crate) fn payload_in(bytes: Option<Bytes>, form: i32) -> Result<Option<Payload>, Invalid> {
    let form = match known("payload_form", form)? {
        PayloadForm::Unspecified | PayloadForm::Bytes => Form::Binary,
        PayloadForm::Text => Form::Text,
        PayloadForm::Json => Form::Json,
    };
    let Some(bytes) = bytes else { return Ok(None) };
    match form {
        Form::Binary => {}
        Form::Text if std::str::from_utf8(&bytes).is_ok() => {}
        Form::Text => {
            return Err(Invalid::unseen("payload", "UTF-8 where payload_form is text"));
        }
        Form::Json if serde_json::from_slice::<&RawValue>(&bytes).is_ok() => {
            check_depth(&bytes, "payload_form text and bytes take anything")?;
        }
        Form::Json => {
            let allowed = "the text of one JSON value where payload_form is JSON";
            return Err(Invalid::unseen("payload", allowed));
        }
    }
    Ok(Some(Payload { form, bytes }))
}

/// A payload in an answer.
pub(crate) fn payload_out(payload: Option<&Payload>) -> (Option<Bytes>, PayloadForm) {
    let Some(payload) = payload else { return (None, PayloadForm::Unspecified) };
    let form = match payload.form {
        Form::Binary => PayloadForm::Bytes,
        Form::Text => PayloadForm::Text,
        Form::Json => PayloadForm::Json,
    };
    (Some(payload.bytes.clone()), form)
}
