//! The connection to a server, and one call on it.
//!
//! All calls use one HTTP/2 connection. The first call opens it, and it is replaced when it breaks. Each
//! call sends its remaining time, so that the server ends it in time. In any case the call ends here at
//! its deadline.

mod authorized_channel;

use std::{future::Future, sync::Arc, time::Duration};

use duly_api::v1::{
    cluster_client::ClusterClient, namespaces_client::NamespacesClient, timers_client::TimersClient,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

pub(crate) use self::authorized_channel::AuthorizedChannel;
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
