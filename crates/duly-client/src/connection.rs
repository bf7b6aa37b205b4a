//! The connection to a server, and one call on it.
//!
//! All calls use one HTTP/2 connection. The first call opens it, and it is replaced when it breaks. Each
//! call sends its remaining time, so that the server ends it in time. In any case the call ends here at
//! its deadline.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use duly_api::v1::{
    cluster_client::ClusterClient, namespaces_client::NamespacesClient, timers_client::TimersClient,
};
use http::{HeaderValue, Uri, header::AUTHORIZATION, uri::PathAndQuery};
use tokio::time::{Instant, timeout_at};
use tonic::{
    Request, Response, Status,
    body::Body,
    transport::{Channel, channel::ResponseFuture},
};
use tower_service::Service;

use crate::error::{Error, Result, of_status};

/// The connection to a server.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) channel: AuthorizedChannel,
    /// The server's address as the caller gave it.
    pub(crate) server: Arc<str>,
    /// Largest response in bytes.
    pub(crate) message_bytes_max: usize,
    /// Called with the notices of responses.
    pub(crate) on_notice: Option<fn(&str)>,
}

impl Connection {
    pub(crate) fn timers(&self) -> TimersClient<AuthorizedChannel> {
        // A request that is too large is refused by the server, whose error names the limit.
        TimersClient::new(self.channel.clone())
            .max_decoding_message_size(self.message_bytes_max)
            .max_encoding_message_size(usize::MAX)
    }

    pub(crate) fn namespaces(&self) -> NamespacesClient<AuthorizedChannel> {
        NamespacesClient::new(self.channel.clone())
            .max_decoding_message_size(self.message_bytes_max)
    }

    pub(crate) fn cluster(&self) -> ClusterClient<AuthorizedChannel> {
        ClusterClient::new(self.channel.clone())
    }

    /// Makes one call. `limit` is the whole time that the caller gave it, for error texts.
    pub(crate) async fn call<Q, A, F>(
        &self,
        request: Q,
        deadline: Instant,
        limit: Duration,
        call: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TooLate { limit, reason: "its time had already passed".to_owned() });
        }
        let mut request = Request::new(request);
        request.set_timeout(left);
        match timeout_at(deadline, call(request)).await {
            Ok(Ok(response)) => {
                let notice = response.metadata().get("duly-notice").and_then(|it| it.to_str().ok());
                if let (Some(on_notice), Some(notice)) = (self.on_notice, notice) {
                    on_notice(notice);
                }
                Ok(response.into_inner())
            }
            Ok(Err(status)) => Err(of_status(&status, &self.server)),
            Err(_elapsed) => Err(Error::no_response(limit)),
        }
    }
}

/// A connection that adds the caller's credentials and a path prefix to each call.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizedChannel {
    pub(crate) channel: Channel,
    /// Value of the `authorization` header. Marked as sensitive, so that no `Debug` shows it.
    pub(crate) authorization: Option<HeaderValue>,
    /// Path prefix of every call, if a proxy serves the server below one: `/duly`.
    pub(crate) path_prefix: Option<Arc<str>>,
}

impl Service<http::Request<Body>> for AuthorizedChannel {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> ResponseFuture {
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
