//! Client of one server over one transport: the same connections behind each of the traits.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result};

use super::{
    RecordingTransport, Transport, TransportKind, grpc::Grpc, http::Http, in_process::InProcess,
};

/// A client of a server, or of a store in this process.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: Option<SocketAddr>,
    calls: Calls,
}

#[derive(Clone, Debug)]
enum Calls {
    Http(Arc<Http>),
    Grpc(Arc<Grpc>),
    InProcess(Arc<InProcess>),
}

impl Client {
    /// Creates a client of a server with `lines` lines and payloads of `payload_bytes` bytes. It
    /// connects at the first call.
    ///
    /// # Errors
    /// When the transport needs no server.
    pub(crate) fn new(
        kind: TransportKind,
        address: SocketAddr,
        lines: usize,
        payload_bytes: usize,
    ) -> Result<Self> {
        let payload = payload(payload_bytes);
        let calls = match kind {
            TransportKind::Http => Calls::Http(Arc::new(Http::new(address, lines, payload))),
            TransportKind::Grpc => Calls::Grpc(Arc::new(Grpc::new(address, lines, payload)?)),
            TransportKind::InProcess => anyhow::bail!("a store in this process has no address"),
        };
        Ok(Self { address: Some(address), calls })
    }

    /// Opens an embedded store in a folder.
    pub(crate) fn in_process(folder: &Path, payload_bytes: usize) -> Result<Self> {
        let store = InProcess::open(folder, payload(payload_bytes))?;
        Ok(Self { address: None, calls: Calls::InProcess(Arc::new(store)) })
    }

    /// Returns another client of the same server, with connections of its own.
    pub(crate) fn separate(&self, lines: usize) -> Result<Self> {
        let kind = match self.calls {
            Calls::Http(_) => TransportKind::Http,
            Calls::Grpc(_) => TransportKind::Grpc,
            Calls::InProcess(_) => return Ok(self.clone()),
        };
        Self::new(kind, self.address.context("a server has an address")?, lines, 0)
    }

    /// Returns `true` if the server can reach a receiver on this machine.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.address.is_some_and(|address| address.ip().is_loopback())
    }

    /// Returns the client for load.
    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        match &self.calls {
            Calls::Http(http) => Arc::clone(http) as _,
            Calls::Grpc(grpc) => Arc::clone(grpc) as _,
            Calls::InProcess(store) => Arc::clone(store) as _,
        }
    }

    /// Returns the gRPC client, for calls that only gRPC has.
    pub(crate) fn grpc(&self) -> Option<Arc<Grpc>> {
        match &self.calls {
            Calls::Grpc(grpc) => Some(Arc::clone(grpc)),
            Calls::Http(_) | Calls::InProcess(_) => None,
        }
    }

    /// Returns the client for the recording client; only servers have one.
    pub(crate) fn recording(&self) -> Option<Arc<dyn RecordingTransport>> {
        match &self.calls {
            Calls::Http(http) => Some(Arc::clone(http) as _),
            Calls::Grpc(grpc) => Some(Arc::clone(grpc) as _),
            Calls::InProcess(_) => None,
        }
    }
}

fn payload(bytes: usize) -> String {
    "0123456789abcdef".chars().cycle().take(bytes).collect()
}
