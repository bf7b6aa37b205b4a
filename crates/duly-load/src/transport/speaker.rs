//! Client of one server over one protocol: the same connections behind each of the traits.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;

use super::{RecordingTransport, Transport, grpc::Grpc, http::Http};
use crate::options::TransportKind;

/// A client of a server.
#[derive(Clone, Debug)]
pub enum Speaker {
    /// HTTP.
    Http(Arc<Http>),
    /// gRPC.
    Grpc(Arc<Grpc>),
}

impl Speaker {
    /// Creates a client with `lines` lines and payloads of `payload_bytes` bytes. It connects at
    /// the first call.
    pub fn new(
        kind: TransportKind,
        address: SocketAddr,
        lines: usize,
        payload_bytes: usize,
    ) -> Result<Self> {
        let payload = "0123456789abcdef".chars().cycle().take(payload_bytes).collect();
        Ok(match kind {
            TransportKind::Http => Self::Http(Arc::new(Http::new(address, lines, payload))),
            TransportKind::Grpc => Self::Grpc(Arc::new(Grpc::new(address, lines, payload)?)),
        })
    }

    /// Returns the client for load.
    pub fn transport(&self) -> Arc<dyn Transport> {
        match self {
            Self::Http(http) => Arc::clone(http) as _,
            Self::Grpc(grpc) => Arc::clone(grpc) as _,
        }
    }

    /// Returns the gRPC client, for calls that only gRPC has.
    pub(crate) fn grpc(&self) -> Option<Arc<Grpc>> {
        match self {
            Self::Http(_) => None,
            Self::Grpc(grpc) => Some(Arc::clone(grpc)),
        }
    }

    /// Returns the client for the recording client.
    pub fn witness(&self) -> Arc<dyn RecordingTransport> {
        match self {
            Self::Http(http) => Arc::clone(http) as _,
            Self::Grpc(grpc) => Arc::clone(grpc) as _,
        }
    }
}
