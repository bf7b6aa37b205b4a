//! Which router answers a request: one that says the store is being opened, or the real one.
//!
//! Asked anew for each request, so that a connection made while the store opened serves calls as
//! soon as it is open.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use axum::{Router, extract::Request, response::Response};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};

type Served = TowerToHyperService<Router>;

/// What connections hand their requests to; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Front(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opening: Served,
    open: OnceLock<Served>,
}

impl Front {
    /// Answers with `opening` until [`Front::open`].
    pub(crate) fn new(opening: Router) -> Self {
        let opening = TowerToHyperService::new(opening);
        Self(Arc::new(Inner { opening, open: OnceLock::new() }))
    }

    /// From now on `router` answers.
    pub(crate) fn open(&self, router: Router) {
        self.0.open.get_or_init(|| TowerToHyperService::new(router));
    }
}

impl Service<Request<Incoming>> for Front {
    type Response = Response;
    type Error = Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.0.open.get().unwrap_or(&self.0.opening).call(request)
    }
}
