//! The connection, with the authorization header and the path prefix that it adds to each call.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderValue, Request, Response, Uri, header::AUTHORIZATION, uri::PathAndQuery};
use tonic::{
    body::Body,
    transport::{Channel, Error, channel::ResponseFuture},
};
use tower_service::Service;

/// A connection that adds the caller's credentials and a path prefix to each call.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizedChannel {
    pub(crate) channel: Channel,
    /// Value of the `authorization` header. Marked as sensitive, so that no `Debug` shows it.
    pub(crate) authorization: Option<HeaderValue>,
    /// Path prefix of every call, if a proxy serves the server below one: `/duly`.
    pub(crate) path_prefix: Option<Arc<str>>,
}

impl Service<Request<Body>> for AuthorizedChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> ResponseFuture {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(path_prefix) = &self.path_prefix {
            add_path_prefix(request.uri_mut(), path_prefix);
        }
        Service::call(&mut self.channel, request)
    }
}

fn add_path_prefix(uri: &mut Uri, path_prefix: &str) {
    let mut parts = std::mem::take(uri).into_parts();
    let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
    let path = format!("{path_prefix}{path}");
    parts.path_and_query = Some(path.try_into().expect("a path behind a path is one"));
    *uri = Uri::from_parts(parts).expect("only its path has changed");
}
