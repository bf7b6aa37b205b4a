//! One connection: its caller, its place, its streams and its progress.
//!
//! ```text
//!   accept ──► Slots: a place ──► TLS ──► FrameMeter (bytes) ──► hyper ──► ConnectionService
//!                                                                             │ Streams: may it begin?
//!              response ◄── WriteProgress, until its last byte ◄── router ◄───┘
//! ```
//!
//! Everything that a caller can make a connection hold is counted here, before the router sees a request: places
//! ([`Slots`]), frames without a request ([`FrameMeter`]), streams with their heads ([`streams`]), and responses
//! that wait for their caller ([`WriteProgress`]). `serve` makes the connections.

mod frames;
mod pace;
mod router_switch;
mod slots;
pub(crate) mod streams;
mod write_progress;

use std::{ops::Deref, sync::Arc};

use self::streams::Streams;
#[cfg(test)]
pub(crate) use self::{frames::FRAMES_MAX, pace::PACE};
pub(crate) use self::{
    frames::FrameMeter,
    router_switch::{RouterSwitch, Routers},
    slots::{ConnectionSignals, Slot, Slots},
    write_progress::WriteProgress,
};
use crate::{
    auth::{Caller, Peer},
    memory::budget::Budget,
    tenants::ConnectionSlot,
};

/// The paths that a connection may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// Every path.
    Main,
    /// Health, readiness and metrics: every other connection of the listener is in use.
    Reserve,
    /// The paths of `server.admin_listen`.
    Admin,
}

/// A connection, also as an extension of its requests; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<ConnectionParts>);

/// Parts that a [`Connection`] is made of.
#[derive(Debug)]
pub(crate) struct ConnectionParts {
    /// The progress of its responses.
    pub(crate) progress: WriteProgress,
    /// The paths that it may call.
    pub(crate) kind: ConnectionKind,
    /// The other end.
    pub(crate) peer: Peer,
    /// Its place among the connections of a tenant.
    pub(crate) tenant_slot: ConnectionSlot,
    /// Its place among all connections; those of a reserve have none.
    slot: Option<Slot>,
    streams: Streams,
    signals: ConnectionSignals,
}

impl Deref for Connection {
    type Target = ConnectionParts;

    fn deref(&self) -> &ConnectionParts {
        &self.0
    }
}

impl Connection {
    /// Creates a connection. Streams of callers without a key count against `strangers`.
    pub(crate) fn new(
        (kind, peer): (ConnectionKind, Peer),
        progress: WriteProgress,
        slot: Option<Slot>,
        (strangers, is_proxy): (Budget, bool),
    ) -> Self {
        let signals = slot.as_ref().map(|slot| slot.signals().clone()).unwrap_or_default();
        let streams = Streams::new(strangers, is_proxy);
        let tenant_slot = ConnectionSlot::default();
        Self(Arc::new(ConnectionParts {
            progress,
            kind,
            peer,
            tenant_slot,
            slot,
            streams,
            signals,
        }))
    }

    /// Notes the caller of a request, who has a valid key or needs none.
    pub(crate) fn note_caller(&self, caller: &Caller) {
        let is_known = !matches!(caller, Caller::Unidentified);
        if is_known
            && self.streams.note_caller(caller)
            && let Some(slot) = &self.slot
        {
            slot.note_known();
        }
    }
}
