//! Chooses the router of a request: the startup router or the real one, each for HTTP and for gRPC.
//!
//! The choice is made for each request. So a connection that was made while the store opened serves
//! calls as soon as the store is open.
//!
//! Each response of HTTP gets the headers that keep it out of caches and browsers: it may hold secrets.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use axum::{Router, extract::Request, response::Response};
use duly_core::Code;
use futures::{FutureExt, future::BoxFuture};
use http::{
    HeaderValue, Method, Version,
    header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

use super::{Connection, ConnectionKind};
use crate::{cors::Cors, operations::probe_paths, problem::Problem, service::App};

type RouterService = TowerToHyperService<Router>;

/// The routers behind one port.
#[derive(Debug, Clone)]
pub(crate) struct Routers {
    /// The router of every request except gRPC.
    http: RouterService,
    /// The router of gRPC requests.
    grpc: RouterService,
    /// The state behind them, once the store is open.
    app: Option<App>,
}

impl Routers {
    /// Creates the routers. Without `app` no key can be looked at.
    pub(crate) fn new(http: Router, grpc: Router, app: Option<App>) -> Self {
        let [http, grpc] = [http, grpc].map(TowerToHyperService::new);
        Self { http, grpc, app }
    }
}

/// The routers that connections pass their requests to; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RouterSwitch(Arc<Inner>);

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
fn too_many_connections() -> Problem {
    let detail = "too many connections: use fewer, or raise server.connections_max (of one address: \
                  server.connections_per_address_max)";
    Problem::temporary(Code::Unavailable, detail)
}

impl ConnectionService {
    /// Returns the router of a request, and the CORS headers that it does not write itself.
    ///
    /// The reserve serves probes and, so that a page sees the refusal of its call, preflight requests.
    fn router_of<'r>(
        &'r self,
        routers: &'r Routers,
        request: &Request<Incoming>,
    ) -> (&'r RouterService, Cors) {
        let is_reserve = self.connection.kind == ConnectionKind::Reserve;
        if is_reserve && !probe_paths().any(|probe| probe == request.uri().path()) {
            let guard = routers.app.as_ref().map(|app| &app.guard);
            let cors = guard.map_or(Cors::Unused, |guard| Cors::of(guard, request.headers()));
            if !cors.is_preflight(request) {
                return (&self.switch.0.refusing, cors);
            }
        }
        let router = if is_grpc(request) { &routers.grpc } else { &routers.http };
        (router, Cors::Unused)
    }
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let inner = &self.switch.0;
        let routers = inner.open.get().unwrap_or(&inner.startup);
        let is_grpc = is_grpc(&request);
        let (mut stream, mut head) = (None, None);
        if request.version() == Version::HTTP_2 {
            match self.connection.admit(&request, routers.app.as_ref()) {
                Ok((open, reserved)) => (stream, head) = (Some(open), Some(reserved)),
                Err(refused) => {
                    let mut response = kept_private(refused.response(is_grpc), is_grpc);
                    if let Some(app) = routers.app.as_ref().filter(|_| !is_grpc) {
                        Cors::of(&app.guard, request.headers()).write_to(&mut response);
                    }
                    return futures::future::ready(Ok(response)).boxed();
                }
            }
        }
        let progress = self.connection.progress.clone();
        let call = progress.begin_call(stream);
        request.extensions_mut().insert(self.connection.clone());
        let (router, cors) = self.router_of(routers, &request);
        let responding = router.call(request);
        async move {
            let mut response = kept_private(responding.await?, is_grpc);
            cors.write_to(&mut response);
            // The request is gone, and its head with it.
            drop(head);
            Ok(progress.watch(response, call))
        }
        .boxed()
    }
}

/// Returns a response that no cache stores and no browser takes for another type. Clients of gRPC have no caches.
fn kept_private(mut response: Response, is_grpc: bool) -> Response {
    if !is_grpc {
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
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
