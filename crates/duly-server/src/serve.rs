//! Accepts connections: HTTP/1.1 and HTTP/2, with or without TLS, on every address, one task each, bounded.
//!
//! Connections without a call make way for new ones ([`crate::connection::Slots`]). When all connections are busy,
//! [`Reserve`] still serves health, readiness and metrics. So a busy server is not taken for a dead one.

mod plain_http;
mod timeout_stream;
mod tls;
mod turns;

use std::{
    collections::VecDeque, future::poll_fn, io, net::IpAddr, pin::pin, sync::Arc, time::Duration,
};

use futures::poll;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use ipnet::IpNet;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinHandle},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::either::Either;

pub use self::tls::TlsVersion;
pub(crate) use self::tls::{NamedFile, ReloadTrigger, ReloadTriggers, Tls, TlsOptions};
use self::{
    timeout_stream::{ConnectionTimeouts, TimeoutStream},
    tls::SecureStream,
    turns::{ConnectionTurns, Turns},
};
use crate::{
    auth::{Peer, network_of},
    connection::{
        Connection, ConnectionKind, ConnectionSignals, RouterSwitch, Slot, Slots, WriteProgress,
        streams::{STRANGERS_SHARE, STREAMS_MAX},
    },
    listen::{self, Listener, Stream},
    memory::budget::Budget,
    telemetry::Metrics,
};

/// Wait after the system refused a connection (for want of file descriptors, for instance).
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Interval of the upkeep of histograms.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Bytes of the head of a request. Many slow heads together must not fill the memory (P10).
pub(crate) const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Connections that make way and still end their last calls, at once.
const ENDING_MAX: usize = 16;
/// Longest time of that.
const ENDING_TIME_MAX: Duration = Duration::from_secs(1);

/// Connections of a reserve at once.
const RESERVE_MAX: usize = 64;
/// Longest time of one of them.
const RESERVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Settings of the connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionSettings {
    /// Connections at once.
    pub(crate) connections_max: usize,
    /// Connections from one address at once.
    pub(crate) per_address_max: usize,
    /// Networks of proxies, whose connections stand for many callers.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Bytes of all requests and responses at once.
    pub(crate) request_memory_max: usize,
    /// Time for the head of the next request.
    pub(crate) header_timeout: Duration,
    /// Time in which a caller must read some of its response.
    pub(crate) write_timeout: Duration,
    /// Time that a stop waits for requests to end.
    pub(crate) drain_timeout: Duration,
}

/// Running listeners. If it is dropped, it accepts no more; open connections end with the runtime.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    /// Further tasks: probes get responses until the stop is complete.
    others: Vec<AbortHandle>,
}

impl Serving {
    /// Starts to accept connections. Those of `admin` serve health, readiness and metrics.
    pub(crate) fn start(
        (listeners, switch): (Vec<Listener>, RouterSwitch),
        admin: Option<(Listener, RouterSwitch)>,
        tls: Option<Tls>,
        settings: ConnectionSettings,
        metrics: Metrics,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut others = vec![tokio::spawn(keep_up(metrics)).abort_handle()];
        if let Some((listener, switch)) = admin {
            let settings = ConnectionSettings { connections_max: 0, ..settings.clone() };
            // Probes on this machine need no certificate.
            let tls = tls.clone().filter(|_| !listener.address().is_local());
            let accepting = accept(vec![listener], switch, tls, settings, None);
            others.push(tokio::spawn(accepting).abort_handle());
        }
        others.extend(tls.clone().map(|tls| tokio::spawn(tls.keep_fresh()).abort_handle()));
        let accepting = tokio::spawn(accept(listeners, switch, tls, settings, Some(stopped)));
        Self { stop, accepting, others }
    }

    /// Stops accepting, and waits until every request has its response or `drain_timeout` is over.
    pub(crate) async fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.accepting).await {
            tracing::error!(%error, "accept loop ended with a panic; the stop continues");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
        self.others.iter().for_each(AbortHandle::abort);
    }
}

async fn keep_up(metrics: Metrics) {
    let mut ticks = interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        metrics.upkeep();
    }
}

async fn accept(
    listeners: Vec<Listener>,
    switch: RouterSwitch,
    tls: Option<Tls>,
    settings: ConnectionSettings,
    stopped: Option<watch::Receiver<bool>>,
) {
    let stopped = async {
        match stopped {
            Some(mut stopped) => drop(stopped.wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    };
    let mut stopped = pin!(stopped);
    let builder = Arc::new(builder(&settings));
    let slots = Slots::new(settings.connections_max, settings.per_address_max);
    let strangers = Budget::new(settings.request_memory_max / STRANGERS_SHARE);
    let mut reserve = Reserve::new(&settings, strangers.clone());
    let ending = Arc::new(Semaphore::new(ENDING_MAX));
    let turns = Turns::new(Handle::current().metrics().num_workers());
    let (stop_connections, stopped_connections) = watch::channel(false);
    let timeouts =
        ConnectionTimeouts { idle: settings.header_timeout, write: settings.write_timeout };
    loop {
        let accepted = tokio::select! {
            accepted = listen::accept(&listeners) => accepted,
            () = stopped.as_mut() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                if !is_about_one_connection(&error) {
                    tracing::warn!(%error, "accepting a connection failed, will retry");
                    sleep(ACCEPT_RETRY).await;
                }
                continue;
            }
        };
        let address = listen::peer_of(&stream);
        let is_proxy = settings.is_proxy(address);
        let progress = WriteProgress::new(timeouts.write);
        let limited = address.filter(|_| !is_proxy).map(network_of);
        match slots.take(limited, &progress) {
            Some(slot) => {
                let turns = turns.of(slot.signals().clone(), limited);
                connect(
                    (stream, tls.clone()),
                    (slot, progress, timeouts),
                    (strangers.clone(), is_proxy),
                    (&builder, &ending, turns),
                    switch.clone(),
                    stopped_connections.clone(),
                );
            }
            None => reserve.connect((stream, tls.clone()), &switch),
        }
    }
    drop((listeners, stopped_connections));
    stop_connections.send_replace(true);
    // Each connection holds a receiver while it is open.
    if timeout(settings.drain_timeout, stop_connections.closed()).await.is_err() {
        tracing::warn!("drain time-out reached; calls still under way are cut off");
    }
}

impl ConnectionSettings {
    /// Returns `true` for the address of a proxy. With proxies, callers of a Unix socket are proxies too.
    fn is_proxy(&self, address: Option<IpAddr>) -> bool {
        let mut networks = self.trusted_proxies.iter();
        match address.map(|address| address.to_canonical()) {
            Some(address) => networks.any(|network| network.contains(&address)),
            None => !self.trusted_proxies.is_empty(),
        }
    }
}

fn builder(settings: &ConnectionSettings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.header_timeout)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX);
    builder
}

/// Shakes hands on a connection that has TLS; `None` if it failed or took too long.
async fn secure(stream: Stream, tls: Option<Tls>, time_max: Duration) -> Option<SecureStream> {
    let Some(tls) = tls else { return Some(Either::Left(stream)) };
    match timeout(time_max, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_elapsed) => tracing::debug!("TLS handshake timed out"),
    }
    None
}

fn connect(
    (stream, tls): (Stream, Option<Tls>),
    (slot, progress, timeouts): (Slot, WriteProgress, ConnectionTimeouts),
    (strangers, is_proxy): (Budget, bool),
    (builder, ending, mut turns): (
        &Arc<auto::Builder<TokioExecutor>>,
        &Arc<Semaphore>,
        ConnectionTurns,
    ),
    switch: RouterSwitch,
    mut stopped: watch::Receiver<bool>,
) {
    let (builder, ending) = (Arc::clone(builder), Arc::clone(ending));
    let address = listen::peer_of(&stream);
    tokio::spawn(async move {
        let signals = slot.signals().clone();
        let stream = tokio::select! {
            stream = secure(stream, tls, timeouts.idle) => stream,
            _ = stopped.wait_for(|stop| *stop) => None,
            () = signals.requested() => None,
        };
        let Some(stream) = stream else { return };
        let peer = Peer { address, certificate: tls::peer_certificate(&stream) };
        let stream = TimeoutStream::new(stream, timeouts, signals.clone());
        let caller = (ConnectionKind::Main, peer);
        let record = Connection::new(caller, progress.clone(), Some(slot), (strangers, is_proxy));
        let tenant_slot = record.tenant_slot.clone();
        let switch = switch.for_connection(record);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), switch));
        let mut write_timeout = pin!(progress.wait_for_write_timeout());
        let mut from = Instant::now();
        let mut is_stopping = false;
        let makes_way = loop {
            tokio::select! {
                biased;
                // First: a connection that always has something to read must not keep its place.
                () = signals.requested() => {
                    tracing::debug!("connection closed: it makes way for another, or has opened too much");
                    break true;
                }
                ended = poll_fn(|context| turns.poll(context, connection.as_mut())) => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "connection failed");
                    }
                    break false;
                }
                () = write_timeout.as_mut() => {
                    tracing::debug!("connection closed (write timeout): its caller does not read");
                    break false;
                }
                _ = stopped.wait_for(|stop| *stop), if !is_stopping => {}
                () = tenant_slot.refused(), if !is_stopping => {}
                // During a stop, a connection that stays open without a call is closed.
                () = progress.wait_for_idle_timeout(timeouts.idle, from) => if is_stopping {
                    tracing::debug!("connection closed: its graceful shutdown timed out");
                    break false;
                },
            }
            (is_stopping, from) = (true, Instant::now());
            connection.as_mut().graceful_shutdown();
        };
        if makes_way {
            connection.as_mut().graceful_shutdown();
            // Tells the caller, if the socket takes that at once.
            let is_open = poll!(connection.as_mut()).is_pending();
            // A call may have come since the connection was found idle. Its caller gets a response, or over HTTP/2
            // learns that the server has not begun it.
            if is_open
                && signals.is_known()
                && !signals.stops_reading()
                && let Ok(_place) = ending.try_acquire()
            {
                timeout(ENDING_TIME_MAX, connection).await.ok();
            }
        }
        drop(stopped);
    });
}

/// Returns `true` if the error concerns one connection, and not accepting as such.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// The additional connections of listeners, for health, readiness and metrics.
///
/// They are few and short: HTTP/1, one request at a time, at most ten seconds. When all are in use, a
/// new one closes the oldest. So callers that hold these connections do not keep probes out: they would
/// need 64 new connections in the time that one probe takes.
#[derive(Debug)]
struct Reserve {
    kind: ConnectionKind,
    builder: http1::Builder,
    timeouts: ConnectionTimeouts,
    strangers: Budget,
    /// Running connections, oldest first.
    connections: VecDeque<AbortHandle>,
}

impl Reserve {
    /// Creates the reserve. With `connections_max` 0 every connection belongs to it.
    fn new(settings: &ConnectionSettings, strangers: Budget) -> Self {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout.min(RESERVE_TIME_MAX))
            .max_buf_size(HEAD_BYTES_MAX as usize);
        let bounded = |time: Duration| time.min(RESERVE_TIME_MAX);
        let timeouts = ConnectionTimeouts {
            idle: bounded(settings.header_timeout),
            write: bounded(settings.write_timeout),
        };
        let kind = if settings.connections_max == 0 {
            ConnectionKind::Admin
        } else {
            ConnectionKind::Reserve
        };
        Self { kind, builder, timeouts, strangers, connections: VecDeque::new() }
    }

    /// Serves a connection; closes the oldest if there are too many.
    fn connect(&mut self, (stream, tls): (Stream, Option<Tls>), switch: &RouterSwitch) {
        self.connections.retain(|connection| !connection.is_finished());
        if self.connections.len() >= RESERVE_MAX
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        let (builder, timeouts) = (self.builder.clone(), self.timeouts);
        let progress = WriteProgress::new(timeouts.write);
        let (address, kind, switch) = (listen::peer_of(&stream), self.kind, switch.clone());
        let strangers = self.strangers.clone();
        let serving = async move {
            let tls = tls.map(Tls::for_probes);
            let Some(stream) = secure(stream, tls, timeouts.idle).await else { return };
            let peer = Peer { address, certificate: tls::peer_certificate(&stream) };
            let record = Connection::new((kind, peer), progress, None, (strangers, false));
            let switch = switch.for_connection(record);
            let stream = TimeoutStream::new(stream, timeouts, ConnectionSignals::default());
            let connection = builder.serve_connection(TokioIo::new(stream), switch);
            // A connection that lasts longer is cut off; the next probe opens its own.
            timeout(RESERVE_TIME_MAX, connection).await.ok();
        };
        self.connections.push_back(tokio::spawn(serving).abort_handle());
    }
}

#[cfg(test)]
mod tests;
