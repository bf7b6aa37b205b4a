//! A payload in the field of the form in which it was given.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use duly_client::{Payload, PayloadForm};
use serde_json::value::RawValue;

use crate::failure::Failure;

/// The three fields, of which one is there, or none.
#[derive(Default)]
pub(super) struct PayloadOut {
    pub(super) json: Option<Box<RawValue>>,
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
}

impl PayloadOut {
    /// Fails where the server called something JSON or text that is none.
    pub(super) fn new(payload: Option<&Payload>) -> Result<Self, Failure> {
        let Some(payload) = payload else { return Ok(Self::default()) };
        let bytes = payload.bytes.as_ref();
        let text = || String::from_utf8(bytes.to_vec()).map_err(|_| unreadable());
        Ok(match payload.form {
            PayloadForm::Json => {
                let json = RawValue::from_string(text()?).map_err(|_| unreadable())?;
                Self { json: Some(json), ..Self::default() }
            }
            PayloadForm::Text => Self { text: Some(text()?), ..Self::default() },
            PayloadForm::Bytes => Self { base64: Some(STANDARD.encode(bytes)), ..Self::default() },
        })
    }
}

fn unreadable() -> Failure {
    let what = "the server answered a payload that is not of the form it names: is it a Duly server, \
                and of the same version as this command?";
    Failure::coded("not_duly", what)
}
