//! A firing under a lease.

use duly_client::Firing;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{HeadersOut, TimeOut, payload::PayloadOut};
use crate::failure::Failure;

#[derive(Serialize)]
pub(super) struct FiringOut<'a> {
    token: &'a str,
    delivery_id: &'a str,
    id: &'a str,
    occurrence: u32,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased_until: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<HeadersOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'a> FiringOut<'a> {
    pub(super) fn new(firing: &'a Firing) -> Result<Self, Failure> {
        let PayloadOut { json, text, base64 } = PayloadOut::new(firing.payload.as_ref())?;
        Ok(Self {
            token: &firing.token,
            delivery_id: &firing.delivery_id,
            id: &firing.id,
            occurrence: firing.occurrence,
            attempt: firing.attempt,
            due_at: firing.due_at.map(TimeOut),
            leased_until: firing.leased_until.map(TimeOut),
            headers: (!firing.headers.is_empty()).then_some(HeadersOut(&firing.headers)),
            slot_key: firing.slot_key.as_deref(),
            payload: json,
            payload_text: text,
            payload_base64: base64,
        })
    }
}
