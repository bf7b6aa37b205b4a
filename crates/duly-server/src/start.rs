//! Starts a server: port, store, node, HTTP, in this order; and stops it in the other one.
//!
//! The port is taken first, so that a second server on one machine fails before it touches any
//! data. A stop takes no new connections, lets requests and attempts finish within
//! `drain.within`, and closes the store last.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::env::Clock;
use duly_node::Node;
use duly_sink::http::{AddressPolicy, HttpSink, Loopback};
use duly_store::{Error, Store};
use duly_store_embedded::{EmbeddedStore, OpenError, SystemClock};
use tokio::{net::TcpListener, task};

use crate::{
    config::{AllowLoopback, Config, Origin},
    http::{App, Parts, router},
    serve::{Serving, Settings},
    telemetry::Metrics,
};

/// Namespaces that are counted for the report in one call.
const NAMESPACES_PAGE: usize = 1_000;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The port cannot be had.
    #[error("cannot listen on {address} (server.listen, from {origin}): {source}{}", hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Where it comes from.
        origin: Origin,
        /// Why.
        source: io::Error,
    },
    /// The data directory cannot be opened.
    #[error("cannot open the data directory {} (store.data, from {origin}): {source}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Why.
        source: OpenError,
    },
    /// The webhook client cannot be made.
    #[error("cannot make the webhook client: {0}")]
    Sink(#[from] duly_sink::Error),
    /// The store was opened and does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] Error),
    /// A thread ended that should not.
    #[error("opening the store was cut off: {0}")]
    Thread(#[from] task::JoinError),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another server has this port: stop it, or choose another with --listen"
        }
        io::ErrorKind::PermissionDenied => "; choose a port from 1024 on with --listen",
        _ => "",
    }
}

/// What a server says when it has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReport {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the data is.
    pub data: String,
    /// Pending timers.
    pub pending: u64,
    /// Due and unclaimed firings.
    pub overdue: u64,
    /// Dead letters.
    pub dead: u64,
    /// Namespaces.
    pub namespaces: u64,
    /// How long opening the store took.
    pub open_time: Duration,
    /// Whether an unfinished write was cut off the end of the journal.
    pub torn_tail: bool,
}

/// A server that runs. Dropped without [`Running::stop`], it ends with the runtime.
#[derive(Debug)]
pub struct Running {
    serving: Serving,
    node: duly_node::Handle,
    store: Arc<EmbeddedStore>,
    report: StartReport,
}

/// Starts a server on the present tokio runtime.
///
/// # Errors
/// One clear reason; what was opened is closed again.
pub async fn start(config: Config) -> Result<Running, StartError> {
    let address = config.server.listen;
    let refuse =
        |source| StartError::Listen { address, origin: config.origin("server.listen"), source };
    let listener = TcpListener::bind(address).await.map_err(refuse)?;
    let listen = listener.local_addr().map_err(refuse)?;
    let metrics = Metrics::install();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sink = HttpSink::new(sink_options(&config, listen), Arc::clone(&clock))?;

    let began = Instant::now();
    let store = open(&config, Arc::clone(&clock)).await?;
    let open_time = began.elapsed();
    let port: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
    let report = match report(&*port, listen, open_time).await {
        Ok(report) => StartReport { torn_tail: store.report().torn_tail, ..report },
        Err(error) => {
            close(store).await?;
            return Err(error.into());
        }
    };
    let node =
        Node::start(Arc::clone(&port), Arc::new(sink), Arc::clone(&clock), node_options(&config));
    let app = App::new(Parts {
        store: port,
        node: node.clone(),
        clock,
        implicit_namespaces: config.defaults.implicit_namespaces,
        guard: config.server.guard(listen.ip()),
        limits: config.server.limits(),
        metrics: metrics.clone(),
    });
    let settings = Settings {
        connections_max: config.server.connections_max,
        header_timeout: config.server.header_timeout,
        drain_within: config.drain.within,
    };
    let serving = Serving::start(listener, router(app), settings, metrics);
    Ok(Running { serving, node, store, report })
}

impl Running {
    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.report.listen
    }

    /// What it found when it started.
    pub const fn report(&self) -> &StartReport {
        &self.report
    }

    /// Runs until `signal` is done, then stops.
    ///
    /// # Errors
    /// As [`Running::stop`].
    pub async fn wait_for_stop(self, signal: impl Future<Output = ()>) -> Result<(), StartError> {
        signal.await;
        self.stop().await
    }

    /// Takes no new connections, drains, closes the store.
    ///
    /// # Errors
    /// When the store's threads end in a way they should not.
    pub async fn stop(self) -> Result<(), StartError> {
        // Together: a drain answers the lease calls that wait, and so lets connections end.
        tokio::join!(self.serving.stop(), self.node.drain());
        close(self.store).await
    }
}

async fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Arc<EmbeddedStore>, StartError> {
    let path = config.store.data.clone();
    let options = store_options(config);
    let opened = {
        let path = path.clone();
        task::spawn_blocking(move || EmbeddedStore::open_dir(&path, options, clock)).await?
    };
    opened.map(Arc::new).map_err(|source| StartError::Open {
        origin: config.origin("store.data"),
        path,
        source,
    })
}

async fn close(store: Arc<EmbeddedStore>) -> Result<(), StartError> {
    Ok(task::spawn_blocking(move || store.close()).await?)
}

async fn report(
    store: &dyn Store,
    listen: SocketAddr,
    open_time: Duration,
) -> Result<StartReport, Error> {
    let mut namespaces = 0;
    let mut after = None;
    loop {
        let page = store.list_namespaces(after, NAMESPACES_PAGE).await?;
        namespaces += page.len() as u64;
        match page.last() {
            Some(last) if page.len() == NAMESPACES_PAGE => after = Some(last.name.clone()),
            _ => break,
        }
    }
    let health = store.health();
    Ok(StartReport {
        listen,
        data: health.location,
        pending: health.pending,
        overdue: health.overdue,
        dead: health.dead,
        namespaces,
        open_time,
        torn_tail: false,
    })
}

fn store_options(config: &Config) -> duly_store_embedded::Options {
    let defaults = duly_store_embedded::Options::default();
    duly_store_embedded::Options {
        segment_bytes: config.store.segment_bytes,
        min_free_bytes: config.store.min_free_bytes,
        min_free_percent: config.store.min_free_percent,
        index_memory_max_bytes: config
            .store
            .index_memory_max_bytes
            .unwrap_or(defaults.index_memory_max_bytes),
        ..defaults
    }
}

fn node_options(config: &Config) -> duly_node::Options {
    duly_node::Options {
        workers_max: config.delivery.workers_max,
        pull_waiters_max: config.delivery.pull_waiters_max,
        drain_within: config.drain.within,
        ..duly_node::Options::default()
    }
}

fn sink_options(config: &Config, listen: SocketAddr) -> duly_sink::http::Options {
    let allows = match config.delivery.allow_loopback {
        AllowLoopback::Auto => listen.ip().is_loopback(),
        AllowLoopback::Always => true,
        AllowLoopback::Never => false,
    };
    duly_sink::http::Options {
        addresses: AddressPolicy {
            loopback: if allows { Loopback::Allowed } else { Loopback::Refused },
            allow: config.delivery.allow_networks.clone(),
        },
    }
}
