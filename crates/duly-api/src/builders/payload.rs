//! Payloads: setters of requests, getters of timers and firings.

use bytes::Bytes;
use duly_core::Invalid;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Firing, Reschedule, Schedule, Timer, payload::PayloadFields};

fn json(value: &impl Serialize) -> Result<PayloadFields, Invalid> {
    let text = serde_json::to_vec(value).map_err(|error| {
        Invalid::unseen("payload", format!("a value that can be written as JSON ({error})"))
    })?;
    Ok(PayloadFields { json: Some(text.into()), ..PayloadFields::default() })
}

fn from_json<T: DeserializeOwned>(bytes: Option<&Bytes>) -> Result<T, Invalid> {
    let bytes = bytes.ok_or_else(|| Invalid::unseen("payload", "there"))?;
    serde_json::from_slice(bytes).map_err(|error| {
        let seen = String::from_utf8_lossy(bytes);
        Invalid::new("payload", seen, format!("JSON of the expected shape ({error})"))
    })
}

fn to_text(bytes: Option<&Bytes>) -> Result<&str, Invalid> {
    std::str::from_utf8(bytes.map_or(&[], |bytes| bytes))
        .map_err(|error| Invalid::unseen("payload", format!("UTF-8 text ({error})")))
}

macro_rules! payload_setters {
    ($($message:ty)+) => {$(
        impl $message {
            /// Sets the payload: this value as JSON.
            ///
            /// # Errors
            /// When the value cannot be written as JSON.
            pub fn with_json(self, value: &impl Serialize) -> Result<Self, Invalid> {
                Ok(self.with_forms(json(value)?))
            }

            /// Sets the payload: the text of one JSON value, kept unchanged.
            #[must_use]
            pub fn with_json_text(self, text: impl Into<String>) -> Self {
                let json = Some(text.into().into());
                self.with_forms(PayloadFields { json, ..PayloadFields::default() })
            }

            /// Sets the payload: text.
            #[must_use]
            pub fn with_text(self, text: impl Into<String>) -> Self {
                let text = Some(text.into().into());
                self.with_forms(PayloadFields { text, ..PayloadFields::default() })
            }

            /// Sets the payload: any bytes.
            #[must_use]
            pub fn with_bytes(self, bytes: impl Into<Bytes>) -> Self {
                let base64 = Some(bytes.into());
                self.with_forms(PayloadFields { base64, ..PayloadFields::default() })
            }

            fn with_forms(self, PayloadFields { json, text, base64 }: PayloadFields) -> Self {
                Self { payload: json, payload_text: text, payload_base64: base64, ..self }
            }
        }
    )+};
}

macro_rules! payload_getters {
    ($($message:ty)+) => {$(
        impl $message {
            /// Returns the bytes of the payload in any form.
            pub fn bytes(&self) -> Option<&Bytes> {
                let Self { payload, payload_text, payload_base64, .. } = self;
                payload.as_ref().or(payload_text.as_ref()).or(payload_base64.as_ref())
            }

            /// Reads the payload in any form as JSON.
            ///
            /// # Errors
            /// When there is no payload, or it is not JSON of this type.
            pub fn json<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
                from_json(self.bytes())
            }

            /// Reads the payload in any form as text; empty without a payload.
            ///
            /// # Errors
            /// When it is not UTF-8.
            pub fn text(&self) -> Result<&str, Invalid> {
                to_text(self.bytes())
            }
        }
    )+};
}

payload_setters!(Schedule Reschedule);
payload_getters!(Timer Firing);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn p11_a_later_payload_replaces_an_earlier_one() {
        let forms = |schedule: &Schedule| {
            let Schedule { payload, payload_text, payload_base64, .. } = schedule.clone();
            [payload, payload_text, payload_base64]
        };
        let bytes = |text: &'static str| Some(Bytes::from(text));
        let schedule = Schedule::default().with_json(&[1, 2]).unwrap();
        assert_eq!(forms(&schedule), [bytes("[1,2]"), None, None]);
        let schedule = schedule.with_text("x");
        assert_eq!(forms(&schedule), [None, bytes("x"), None]);
        let schedule = schedule.with_bytes("y");
        assert_eq!(forms(&schedule), [None, None, bytes("y")]);
        assert_eq!(forms(&schedule.with_json_text("{}")), [bytes("{}"), None, None]);
    }

    #[test]
    fn payloads_are_read_in_any_form() {
        let json = Firing { payload: Some("[1,2]".into()), ..Firing::default() };
        assert_eq!((json.json(), json.text()), (Ok([1, 2]), Ok("[1,2]")));
        let text = Timer { payload_text: Some("7".into()), ..Timer::default() };
        assert_eq!((text.json(), text.text()), (Ok(7), Ok("7")));
        let bytes = Firing { payload_base64: Some(vec![0xff].into()), ..Firing::default() };
        assert_eq!(bytes.bytes().map(|bytes| bytes[0]), Some(0xff));
        assert_eq!(bytes.text().unwrap_err().field, "payload");
    }

    #[test]
    fn a_payload_that_does_not_fit_is_an_error() {
        let no_json = HashMap::from([(vec![1], 2)]);
        assert_eq!(Schedule::default().with_json(&no_json).unwrap_err().field, "payload");
        assert_eq!(Firing::default().text(), Ok(""));
        assert!(Firing::default().json::<u8>().is_err());
        let firing = Firing { payload_text: Some("x".into()), ..Firing::default() };
        let invalid = firing.json::<u8>().unwrap_err();
        assert_eq!(invalid.seen.as_deref(), Some("\"x\""));
    }
}
