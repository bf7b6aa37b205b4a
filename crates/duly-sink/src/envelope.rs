//! What is delivered: one attempt of one firing, with all that a far side gets to see.

use std::{fmt, time::Instant};

use duly_core::{
    DeliveryId, NamespaceName, Payload, TimerId, Timestamp, destination::HttpDestination,
    headers::Headers, namespace::SigningSecret,
};

/// One attempt of one firing. `Debug` shows its names only, never headers, payload, URL or secrets.
#[derive(Clone)]
pub struct Envelope {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The timer.
    pub id: TimerId,
    /// The receiver's idempotency key.
    pub delivery_id: DeliveryId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub due_at: Timestamp,
    /// The timer's own headers.
    pub headers: Headers,
    /// The body.
    pub payload: Option<Payload>,
    /// Where it goes.
    pub destination: HttpDestination,
    /// What it is signed with: nothing, one secret, or two during a rotation.
    pub signing_secrets: Vec<SigningSecret>,
    /// W3C trace context of the call that scheduled it.
    pub trace_parent: Option<String>,
    /// When the sender's right to send ends (its lease, with a margin). The destination's own
    /// time-out counts as well, whichever is earlier.
    pub deadline: Instant,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("namespace", &self.namespace)
            .field("id", &self.id)
            .field("delivery_id", &self.delivery_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
