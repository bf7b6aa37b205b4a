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

use super::Taken;

type Served = TowerToHyperService<Router>;

/// What connections hand their requests to; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Front(Arc<Inner>);

/// The front as one connection has it.
#[derive(Debug)]
pub(crate) struct Connected {
    front: Front,
    taken: Taken,
}

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

    /// For a connection whose answers `taken` watches.
    pub(crate) fn connected(self, taken: Taken) -> Connected {
        Connected { front: self, taken }
    }
}

impl Service<Request<Incoming>> for Connected {
    type Response = Response;
    type Error = Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.taken.clone());
        let front = &self.front.0;
        front.open.get().unwrap_or(&front.opening).call(request)
    }
}
