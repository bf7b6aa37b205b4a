//! Which router answers a request: one that says the store is being opened, or the real one, each
//! for HTTP and for gRPC.
//!
//! Asked anew for each request, so that a connection made while the store opened serves calls as
//! soon as it is open.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use axum::{Router, extract::Request, response::Response};
use duly_core::{Code, Millis, error_code::Retry};
use http::{Method, Version, header::CONTENT_TYPE};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};

use super::{PROBES, Problem, Taken};

type Served = TowerToHyperService<Router>;

/// What a connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Everything.
    Main,
    /// Health, readiness and metrics: every other connection of the listener is in use.
    Reserve,
    /// What is answered at `server.admin_listen`.
    Admin,
}

/// The routers behind one port.
#[derive(Debug, Clone)]
pub(crate) struct Routers {
    /// For everything but gRPC.
    pub(crate) http: Router,
    /// For requests that speak gRPC.
    pub(crate) grpc: Router,
}

#[derive(Debug)]
struct Doors {
    http: Served,
    grpc: Served,
}

impl From<Routers> for Doors {
    fn from(routers: Routers) -> Self {
        Self {
            http: TowerToHyperService::new(routers.http),
            grpc: TowerToHyperService::new(routers.grpc),
        }
    }
}

/// What connections hand their requests to; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Front(Arc<Inner>);

/// The front as one connection has it.
#[derive(Debug)]
pub(crate) struct Connected {
    front: Front,
    taken: Taken,
    door: Door,
}

#[derive(Debug)]
struct Inner {
    opening: Doors,
    open: OnceLock<Doors>,
    full: Served,
}

impl Front {
    /// Answers with `opening` until [`Front::open`].
    pub(crate) fn new(opening: Routers) -> Self {
        let full =
            TowerToHyperService::new(Router::new().fallback(async || too_many_connections()));
        Self(Arc::new(Inner { opening: opening.into(), open: OnceLock::new(), full }))
    }

    /// From now on `routers` answer.
    pub(crate) fn open(&self, routers: Routers) {
        self.0.open.get_or_init(|| routers.into());
    }

    /// For a connection whose answers `taken` watches.
    pub(crate) fn connected(self, taken: Taken, door: Door) -> Connected {
        Connected { front: self, taken, door }
    }
}

/// The problem of a connection past `server.connections_max`.
pub(crate) fn too_many_connections() -> Problem {
    let detail = "too many connections: use fewer, or raise server.connections_max";
    Problem::new(Code::Unavailable, detail).with_retry(Retry::After(Millis::from_secs(1)))
}

impl Service<Request<Incoming>> for Connected {
    type Response = Response;
    type Error = Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.taken.clone());
        request.extensions_mut().insert(self.door);
        let front = &self.front.0;
        if self.door == Door::Reserve && !PROBES.contains(&request.uri().path()) {
            return front.full.call(request);
        }
        let doors = front.open.get().unwrap_or(&front.opening);
        if is_grpc(&request) { doors.grpc.call(request) } else { doors.http.call(request) }
    }
}

/// Returns whether a request speaks gRPC.
fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2
        && request.method() == Method::POST
        && request.headers().get(CONTENT_TYPE).is_some_and(|kind| {
            let rest = kind.as_bytes().strip_prefix(b"application/grpc");
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| b"+; ".contains(byte)))
        })
}
