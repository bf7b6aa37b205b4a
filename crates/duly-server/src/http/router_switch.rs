//! Chooses the router of a request: the startup router or the real one, each for HTTP and for gRPC.
//!
//! The choice is made for each request. So a connection that was made while the store opened serves
//! calls as soon as the store is open.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use axum::{Router, extract::Request, response::Response};
use duly_core::Code;
use http::{Method, Version, header::CONTENT_TYPE};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};

use super::{PROBES, Problem, WriteProgress};
use crate::{auth::Peer, tenants::ConnectionSlot};

type RouterService = TowerToHyperService<Router>;

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

/// The routers behind one port.
#[derive(Debug, Clone)]
pub(crate) struct Routers {
    /// The router of every request except gRPC.
    http: RouterService,
    /// The router of gRPC requests.
    grpc: RouterService,
}

impl Routers {
    /// Creates the routers.
    pub(crate) fn new(http: Router, grpc: Router) -> Self {
        let [http, grpc] = [http, grpc].map(TowerToHyperService::new);
        Self { http, grpc }
    }
}

/// The routers that connections pass their requests to; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RouterSwitch(Arc<Inner>);

/// The connection of a request, as an extension of it.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    /// The progress of its responses.
    pub(crate) progress: WriteProgress,
    /// The paths that it may call.
    pub(crate) kind: ConnectionKind,
    /// The address of the caller.
    pub(crate) peer: Peer,
    /// Its place among the connections of a tenant.
    pub(crate) slot: ConnectionSlot,
}

/// The routers of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionService {
    switch: RouterSwitch,
    connection: Connection,
}

#[derive(Debug)]
struct Inner {
    startup: Routers,
    open: OnceLock<Routers>,
    refusing: RouterService,
}

impl RouterSwitch {
    /// Creates the routers; `startup` serves requests until [`RouterSwitch::open`].
    pub(crate) fn new(startup: Routers) -> Self {
        let refusing =
            TowerToHyperService::new(Router::new().fallback(async || too_many_connections()));
        Self(Arc::new(Inner { startup, open: OnceLock::new(), refusing }))
    }

    /// Serves all further requests with `routers`.
    pub(crate) fn open(&self, routers: Routers) {
        self.0.open.get_or_init(|| routers);
    }

    /// Returns the routers for a connection.
    pub(crate) fn for_connection(self, connection: Connection) -> ConnectionService {
        ConnectionService { switch: self, connection }
    }
}

/// Returns the problem of a connection past `server.connections_max`.
pub(crate) fn too_many_connections() -> Problem {
    let detail = "too many connections: use fewer, or raise server.connections_max";
    Problem::temporary(Code::Unavailable, detail)
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.connection.clone());
        let inner = &self.switch.0;
        if self.connection.kind == ConnectionKind::Reserve
            && !PROBES.contains(&request.uri().path())
        {
            return inner.refusing.call(request);
        }
        let routers = inner.open.get().unwrap_or(&inner.startup);
        if is_grpc(&request) { routers.grpc.call(request) } else { routers.http.call(request) }
    }
}

/// Returns `true` for a gRPC request.
fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2
        && request.method() == Method::POST
        && request.headers().get(CONTENT_TYPE).is_some_and(|content_type| {
            let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| b"+; ".contains(byte)))
        })
}
