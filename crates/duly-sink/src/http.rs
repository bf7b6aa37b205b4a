//! The webhook sink.
//!
//! One pool keeps the connections to all receivers: HTTP/1.1 without TLS, HTTP/1.1 or HTTP/2 with TLS
//! (chosen by ALPN). Redirects are not followed and the environment's proxy settings are ignored. So the
//! sink connects to exactly the address that was checked.
//!
//! * [`address`]: the addresses and ports that may be reached (S5), for hosts written as addresses here
//!   and for names in [`resolve`].
//! * `headers`, `request`, [`signature`]: the request that carries the payload (S2, S3).
//! * `connect` (with `tls`) makes a connection; `connection` sends over it; `pool`
//!   keeps it. `exchange` combines them: time-outs, and the requests that are repeated (P4, S7).
//! * `unsent`: detects whether a request that is already answered was sent completely.
//! * `status`, `reply`, `mask`, `bounded`: interpret the reply, and limit the bytes read of it (S1, S4).
//!
//! The only caller is the node's delivery task.

use std::{sync::Arc, time::Duration};

use ::http::header::{CONNECTION, LOCATION, RETRY_AFTER};
use duly_core::env::Clock;
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::{Delivery, Envelope, Error, Sink};

pub mod address;
mod bounded;
mod connect;
mod connection;
mod exchange;
mod failure;
mod headers;
mod mask;
pub mod options;
mod pool;
mod reply;
mod request;
pub mod resolve;
pub mod signature;
mod socket;
mod status;
mod target;
mod tls;
mod unsent;

#[cfg(test)]
mod tests;

pub use address::{AddressPolicy, Loopback};
pub use options::Options;
pub use tls::check_files;

use self::{
    connect::Connector, exchange::Reply, options::Bounds, options::Timeouts, pool::Pool,
    pool::PooledConnection, resolve::Resolver, status::Answer, target::Target, tls::Tls,
    unsent::FLUSHED_WITHIN,
};

/// Safety margin: an idle connection is closed this long before the receiver's announced time-out.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// The sink that delivers firings to webhooks.
#[derive(Clone)]
pub struct HttpSink {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    timeouts: Timeouts,
    bounds: Bounds,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSink").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

impl HttpSink {
    /// Creates a sink that resolves names by the system.
    ///
    /// # Errors
    /// When a file that the options name cannot be used.
    pub fn new(options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::with_lookup(options, clock, Arc::new(resolve::SystemResolver))
    }

    /// Creates a sink that resolves names by `lookup`.
    ///
    /// # Errors
    /// When a file that the options name cannot be used.
    pub fn with_lookup(
        options: Options,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn resolve::Lookup>,
    ) -> Result<Self, Error> {
        let Options { addresses, timeouts, bounds, tls, proxy } = options;
        let tls = Tls::new(&tls)?;
        let connector = Connector { resolver: Resolver::new(lookup), tls, addresses, proxy };
        let pool = Pool::new(bounds, timeouts);
        Ok(Self { connector: Arc::new(connector), pool, timeouts, bounds, clock })
    }

    /// Reads the files of certificates again, if they have changed. Returns `true` if they are used from now
    /// on, for new connections.
    ///
    /// # Errors
    /// When a file cannot be used; what was read before stays in use.
    pub fn reload(&self) -> Result<bool, Error> {
        self.connector.tls.reload()
    }

    async fn attempt(&self, envelope: Envelope) -> Delivery {
        let started = Instant::now();
        let timeout_at = started + envelope.destination.timeout.to_std();
        let ends_at = timeout_at.min(Instant::from_std(envelope.deadline));
        if ends_at <= started {
            return failure::not_sent("the time of the attempt had ended before it started");
        }
        let url = envelope.destination.url();
        let namespace = &envelope.namespace;
        let is_certified = self.connector.tls.is_shown_by(namespace);
        let Some(target) = Target::of(url, namespace, is_certified) else {
            return failure::not_sent("the URL is neither http:// nor https://");
        };
        let addresses = &self.connector.addresses;
        if let Err(refused) = addresses.check_url(url) {
            return failure::not_sent(refused);
        }
        if let Err(refused) = addresses.check_port(target.port) {
            return failure::not_sent(refused);
        }
        match self.exchange(&envelope, &target, ends_at).await {
            Ok(reply) => self.verdict(reply, &envelope, &target, ends_at).await,
            Err(failed) => failed,
        }
    }

    /// Returns the result for a reply. The status alone decides; the body is only kept as an
    /// explanation, so a slow body changes nothing.
    async fn verdict(
        &self,
        reply: Reply,
        envelope: &Envelope,
        target: &Target<'_>,
        ends_at: Instant,
    ) -> Delivery {
        let Reply { response, pooled, mut unsent } = reply;
        let (head, body) = response.into_parts();
        let until = ends_at.min(Instant::now() + self.timeouts.body);
        let read = reply::read(body, until, self.bounds.response_bytes_max).await;
        let sent_by = ends_at.min(Instant::now() + FLUSHED_WITHIN);
        match pooled {
            PooledConnection::Http1(connection) => {
                if read.is_whole
                    && let Some(for_at_most) = kept_for(&head)
                    && unsent.is_sent_by(sent_by).await
                {
                    self.pool.keep(target.pool_key(), connection, for_at_most);
                }
            }
            pooled @ PooledConnection::Http2(_) => {
                if !unsent.is_sent_by(sent_by).await {
                    self.pool.retire(target.pool_key(), pooled, unsent);
                }
            }
        }
        if head.status.is_success() {
            return Delivery::Confirmed;
        }
        let wait_in = |name: &str| {
            let text = head.headers.get(name).and_then(|value| value.to_str().ok())?;
            status::retry_after(text, self.clock.now())
        };
        let snooze = wait_in(status::SNOOZE).map(|wait| wait.max(status::SNOOZE_MIN));
        let answer = Answer {
            status: head.status.as_u16(),
            retry_after: wait_in(RETRY_AFTER.as_str()),
            snooze,
            has_unread_snooze: snooze.is_none() && head.headers.contains_key(status::SNOOZE),
            location: head
                .headers
                .get(LOCATION)
                .map(|value| mask::masked(status::location(value.as_bytes()), envelope)),
            excerpt: mask::masked(reply::printable(&read.kept), envelope),
        };
        answer.verdict()
    }
}

/// Returns the time for which the receiver keeps the connection, as far as it announces one; `None` if
/// it closes it.
///
/// If a request crosses the receiver's close, it is unknown whether the receiver read it. So a
/// connection that is about to be closed is not used again.
fn kept_for(head: &::http::response::Parts) -> Option<Duration> {
    let values = |name: &str| {
        let values = head.headers.get_all(name).into_iter();
        values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','))
    };
    let closes = values(CONNECTION.as_str()).any(|word| word.trim().eq_ignore_ascii_case("close"));
    if head.status.is_informational() || closes {
        return None;
    }
    let announced = values("keep-alive").find_map(|parameter| {
        let (name, seconds) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| seconds.trim().parse().ok())?
    });
    match announced.map(Duration::from_secs) {
        None => Some(Duration::MAX),
        Some(timeout) => timeout.checked_sub(KEEP_ALIVE_MARGIN).filter(|kept| !kept.is_zero()),
    }
}

impl Sink for HttpSink {
    fn deliver(&self, envelope: Envelope) -> BoxFuture<'_, Delivery> {
        Box::pin(self.attempt(envelope))
    }
}
