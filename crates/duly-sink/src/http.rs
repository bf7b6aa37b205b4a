//! The webhook sink.
//!
//! One pooled client for all receivers: connections are kept warm, HTTP/1.1 in the clear, HTTP/1.1
//! or HTTP/2 over TLS by ALPN. Redirects are not followed and the environment's proxy settings are
//! ignored, so the address that was checked is the address that is spoken to.
//!
//! * [`address`]: which addresses may be reached (S5), for literal hosts here and for names in
//!   [`resolve`].
//! * `headers`, `signature`: what is sent with the payload (S2, S3).
//! * `connecting`: how long a connection may take (P4).
//! * `status`, `answer`: what the answer means, and how little of it is read (S1, S4).
//!
//! The only caller is the node's delivery task.

use std::{sync::Arc, time::Duration};

use ::http::HeaderMap;
use duly_core::{env::Clock, timer::AttemptOutcome};
use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::util::MapFutureLayer;

use crate::{Delivery, Envelope, Error, Sink};

pub mod address;
mod answer;
mod connecting;
mod failure;
mod headers;
pub mod resolve;
mod signature;
mod status;

#[cfg(test)]
mod tests;

pub use address::{AddressPolicy, Loopback};

/// Longest time to make a connection, name look-up and TLS included; less where the attempt ends
/// sooner.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long an idle connection is kept for the next delivery.
const IDLE_KEPT_FOR: Duration = Duration::from_secs(90);
/// Idle connections kept per origin.
const IDLE_PER_ORIGIN_MAX: usize = 256;

/// What the webhook sink can be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which addresses may be reached.
    pub addresses: AddressPolicy,
}

/// Delivers firings to webhooks.
#[derive(Debug, Clone)]
pub struct HttpSink {
    client: reqwest::Client,
    addresses: AddressPolicy,
    clock: Arc<dyn Clock>,
}

impl HttpSink {
    /// A sink that resolves names by the system.
    ///
    /// Uses the process's TLS provider, or makes ring that provider when there is none yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::with_lookup(options, clock, Arc::new(resolve::System))
    }

    /// A sink that resolves names by `lookup`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn with_lookup(
        options: Options,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn resolve::Lookup>,
    ) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Fails only when another thread was quicker, and then there is a provider.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let resolver = Arc::new(resolve::Guarded::new(lookup, options.addresses.clone()));
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .dns_resolver(Arc::clone(&resolver))
                .connect_timeout(CONNECT_WITHIN)
                .connector_layer(MapFutureLayer::new(connecting::in_time))
                .pool_idle_timeout(IDLE_KEPT_FOR)
                .pool_max_idle_per_host(IDLE_PER_ORIGIN_MAX)
                .user_agent(concat!("Duly/", env!("CARGO_PKG_VERSION")))
        };
        // A machine without a certificate store can still deliver to http:// receivers: https://
        // ones then fail attempt by attempt, with the reason in their history.
        let client = builder()
            .build()
            .or_else(|error| {
                let reason = failure::causes(&error.without_url());
                tracing::warn!(%reason, "no trusted certificates: https receivers will fail");
                builder().tls_certs_only([]).build()
            })
            .map_err(|error| Error::Client(failure::causes(&error.without_url())))?;
        Ok(Self { client, addresses: options.addresses, clock })
    }

    async fn attempt(&self, envelope: Envelope) -> Delivery {
        let started = Instant::now();
        let timeout_at = started + envelope.destination.timeout.to_std();
        let ends_at = timeout_at.min(Instant::from_std(envelope.deadline));
        if ends_at <= started {
            let reason = "not sent: the time for this attempt was over before it began";
            return Delivery::failed(AttemptOutcome::NotConnected, reason);
        }
        if let Err(refused) = self.addresses.check_url(envelope.destination.url()) {
            return Delivery::failed(AttemptOutcome::NotConnected, refused.to_string());
        }
        let headers = match headers::of(&envelope, self.clock.now()) {
            Ok(headers) => headers,
            Err(reason) => return Delivery::failed(AttemptOutcome::NotConnected, reason),
        };
        match tokio::time::timeout_at(
            ends_at,
            connecting::ending_at(ends_at, self.send(&envelope, headers)),
        )
        .await
        {
            Err(_elapsed) => {
                let waited = started.elapsed().as_millis();
                Delivery::failed(AttemptOutcome::TimedOut, format!("no answer within {waited} ms"))
            }
            Ok(Err(error)) => failure::delivery(error),
            Ok(Ok(response)) => self.judge(response, ends_at).await,
        }
    }

    async fn send(
        &self,
        envelope: &Envelope,
        headers: HeaderMap,
    ) -> Result<reqwest::Response, reqwest::Error> {
        use duly_core::destination::Method;
        let method = match envelope.destination.method {
            Method::Post => ::http::Method::POST,
            Method::Put => ::http::Method::PUT,
            Method::Patch => ::http::Method::PATCH,
        };
        let body = envelope.payload.as_ref().map(|p| p.bytes.clone());
        self.client
            .request(method, envelope.destination.url().clone())
            .headers(headers)
            .body(body.unwrap_or_default())
            .send()
            .await
    }

    /// The status alone decides; the body only explains, so a slow one changes nothing.
    async fn judge(&self, response: reqwest::Response, ends_at: Instant) -> Delivery {
        let status = response.status();
        if status.is_success() {
            answer::drain(response, ends_at).await;
            return Delivery::Confirmed;
        }
        let retry_after = response
            .headers()
            .get(::http::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| status::retry_after(text, self.clock.now()));
        let excerpt = answer::excerpt(response, ends_at).await;
        status::verdict(status.as_u16(), retry_after, &excerpt)
    }
}

impl Sink for HttpSink {
    fn deliver(&self, envelope: Envelope) -> BoxFuture<'_, Delivery> {
        Box::pin(self.attempt(envelope))
    }
}
