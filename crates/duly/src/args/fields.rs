//! The fields of a request.

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The fields of a request as a JSON object, in the order in which they were set.
#[derive(Clone, Default)]
pub(crate) struct RequestFields(Vec<(&'static str, Box<RawValue>)>);

impl RequestFields {
    /// Sets a field.
    pub(crate) fn set(&mut self, name: &'static str, value: &impl Serialize) {
        let value = to_raw_value(value).expect("requests are texts, numbers and lists of them");
        self.0.push((name, value));
    }

    /// Sets a field where it is given.
    pub(crate) fn set_some(&mut self, name: &'static str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.set(name, &value);
        }
    }

    /// Returns `true` if no field is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if this field is set.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| *own == name)
    }
}

impl Serialize for RequestFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Names and values as an object in the order in which they were typed. A name typed twice is sent twice,
/// for the server to refuse.
pub(crate) fn pairs(pairs: &[(String, String)]) -> Box<RawValue> {
    let mut fields = serde_json::Serializer::new(Vec::new());
    let written = fields.collect_map(pairs.iter().map(|(name, value)| (name, value)));
    written.expect("names and values are texts");
    let text = String::from_utf8(fields.into_inner()).expect("JSON is UTF-8");
    RawValue::from_string(text).expect("it is JSON")
}
