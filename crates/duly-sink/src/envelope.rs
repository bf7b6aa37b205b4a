//! One attempt of one firing, with everything that the receiver gets.

use std::{fmt, sync::Arc, time::Instant};

use duly_core::{
    DeliveryId, NamespaceName, TimerId, TimerSpec, Timestamp, destination::HttpDestination,
    namespace::SigningSecret,
};

/// One attempt of one firing. `Debug` shows only its names, never headers, payload, URL or secrets.
#[derive(Clone)]
pub struct Envelope<D = HttpDestination> {
    /// Namespace of the timer.
    pub namespace: NamespaceName,
    /// Id of the timer.
    pub id: TimerId,
    /// Delivery id: the receiver's idempotency key.
    pub delivery_id: DeliveryId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Due time of the firing.
    pub due_at: Timestamp,
    /// The caller's fields of the timer, whose own destination may have moved to `destination`.
    pub spec: Arc<TimerSpec>,
    /// Destination of the attempt, which may be the fallback.
    pub destination: D,
    /// Secrets that sign the delivery: none, one, or two during a rotation.
    pub signing_secrets: Vec<SigningSecret>,
    /// W3C trace context of the attempt, if it is traced.
    pub delivery_trace_parent: Option<String>,
    /// Time after which the sender may not send (the end of its lease, with a margin). The destination's
    /// own time-out applies too; the earlier one counts.
    pub deadline: Instant,
}

impl<D> Envelope<D> {
    /// Returns the W3C trace context of the call that scheduled the timer. The stored text was not checked
    /// before; what no header can hold is left out.
    pub(crate) fn scheduled_trace_parent(&self) -> Option<&str> {
        let is_sendable = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
        self.spec.trace_parent.as_deref().filter(|text| text.bytes().all(is_sendable))
    }

    /// Returns the W3C trace context that the receiver continues: of the attempt, else of the call.
    pub(crate) fn trace_parent(&self) -> Option<&str> {
        self.delivery_trace_parent.as_deref().or_else(|| self.scheduled_trace_parent())
    }
}

impl<D> fmt::Debug for Envelope<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("namespace", &self.namespace)
            .field("id", &self.id)
            .field("delivery_id", &self.delivery_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
