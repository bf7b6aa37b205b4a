//! Starts and stops a server.
//!
//! The start opens the port, the store, the node and HTTP, in this order:
//!
//! 1. The port is bound first. A second server on the same machine fails before it touches any data.
//! 2. While the store opens, `/healthz` and `/metrics` respond, `/readyz` reports the progress, and calls
//!    that need the store are told to retry.
//! 3. Then the node starts, and all calls are served.
//!
//! A stop accepts no new connections, lets requests and attempts finish within `drain.timeout`, and
//! closes the store last.

mod error;
mod open;
mod options;
#[cfg(test)]
mod tests;

use std::{
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use duly_core::env::Clock;
use duly_node::Node;
use duly_sink::http::HttpSink;
use duly_store::{Error, Store, Tail};
use duly_store_embedded::SystemClock;
use futures::future::{BoxFuture, try_join_all};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

pub use error::StartError;

use self::open::Adapter;
use crate::{
    audit::Audit,
    auth::{self, Auth},
    config::{Config, files, key},
    connection::{RouterSwitch, Routers},
    counting, grpc,
    http::{admin_router, router, startup_admin_router, startup_router},
    listen::{Address, Listener},
    scheduled_backups,
    serve::{ReloadTrigger, ReloadTriggers, Serving},
    service::{App, ImplicitNamespaces, Parts, StartupProgress, StartupState},
    telemetry::{Metrics, traces::TraceExport},
};

/// Time between two looks at the progress of the store.
const STALLS_EVERY: Duration = Duration::from_secs(1);
/// Time that callers have to read their responses when the store has ended.
const LAST_RESPONSES_WAIT: Duration = Duration::from_secs(1);

/// Namespaces that are counted for the report in one call.
const NAMESPACES_PAGE: usize = 1_000;

/// The report of a server that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReport {
    /// The addresses that the server listens on, at least one.
    pub listen: Vec<Address>,
    /// The additional address for health, readiness and metrics.
    pub admin_listen: Option<Address>,
    /// `true`: IP addresses take HTTPS only, but an additional one on loopback takes HTTP.
    pub is_https: bool,
    /// The location of the data.
    pub data: String,
    /// Pending timers.
    pub pending: u64,
    /// Due and unclaimed firings.
    pub overdue: u64,
    /// Dead letters.
    pub dead: u64,
    /// Namespaces; `None` while too few servers of a shared store reply to count them.
    pub namespaces: Option<u64>,
    /// Time that opening the store took.
    pub open_time: Duration,
    /// The state of the end of the journal; [`Tail::Closed`] for a shared store.
    pub tail: Tail,
    /// What cannot be used yet, each with its remedy: parts of a shared store, a disk with too little free space.
    pub warnings: Vec<String>,
}

/// A running server. If it is dropped without [`Running::stop`], it accepts no more connections, and ends
/// with the runtime.
#[derive(Debug)]
pub struct Running {
    serving: Serving,
    app: App,
    report: StartReport,
    traces: TraceExport,
    /// Background tasks, which end with the server.
    _tasks: JoinSet<()>,
}

/// Starts a server on the current tokio runtime.
///
/// If the future is dropped before it is done, the ports are closed. A store that is still being opened is
/// left to the end of the process, as after a crash.
///
/// # Errors
/// Returns one clear reason; everything that was opened is closed again.
// Boxed, so that the crate of the command does not compile the server again.
pub fn start(config: Config) -> BoxFuture<'static, Result<Running, StartError>> {
    Box::pin(async {
        let listen = config.server.listen.0.iter();
        let listeners = listen.map(|address| bind(&config, key!(server.listen), &address.0));
        let listeners = try_join_all(listeners).await?;
        let adapter = open::adapter(&config);
        start_on(listeners, config, adapter).await
    })
}

/// Opens the store that servers share, for a command that changes it beside servers or without any. Returns
/// `None` if the configuration names a store that belongs to one process.
///
/// # Errors
/// When it cannot be opened now.
pub fn open_shared(config: &Config) -> BoxFuture<'_, Result<Option<Arc<dyn Store>>, StartError>> {
    Box::pin(async { open::adapter(config).open_beside().await.transpose() })
}

async fn bind(
    config: &Config,
    key: &'static str,
    address: &Address,
) -> Result<Listener, StartError> {
    Listener::bind(address).await.map_err(|source| StartError::Listen {
        address: address.clone(),
        key,
        origin: config.origin(key),
        source,
    })
}

async fn start_on(
    listeners: Vec<Listener>,
    config: Config,
    adapter: Box<dyn Adapter>,
) -> Result<Running, StartError> {
    let listen: Vec<_> = listeners.iter().map(|listener| listener.address().clone()).collect();
    let admin = match &config.server.admin_listen {
        Some(address) => Some(bind(&config, key!(server.admin_listen), &address.0).await?),
        None => None,
    };
    let admin_listen = admin.as_ref().map(|admin| admin.address().clone());
    let metrics = Metrics::install();
    let tls = options::tls(&config)?;
    let is_https = tls.is_some();
    let auth = options::auth(&config, admin_listen.as_ref())?;
    let (node_options, traces) = options::node_options(&config, &listen)?;
    let reasons = counting::reason_limit(&auth);
    let node_options = duly_node::Options { reasons, ..node_options };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sink_options = options::sink_options(&config, &listen, admin_listen.as_ref())?;
    let addresses = sink_options.addresses.clone();
    let sink = HttpSink::new(sink_options, Arc::clone(&clock))?;
    let guard = options::guard(&config, &listen);
    let (progress_sender, progress) =
        watch::channel(StartupProgress { sentence: adapter.initial_progress(), progress: None });
    let startup = StartupState {
        guard: guard.clone(),
        progress,
        metrics: metrics.clone(),
        is_guarded: auth.is_required() || adapter.has_keys(),
    };
    let startup_routers =
        Routers::new(startup_router(startup.clone()), grpc::startup_router(startup.clone()), None);
    let switch = RouterSwitch::new(startup_routers);
    // The admin listener does not accept HTTP/2, so its gRPC router is never called.
    let probes = |http: Router| Routers::new(http.clone(), http, None);
    let admin_startup = StartupState { is_guarded: auth.guards_admin(), ..startup };
    let admin_switch = RouterSwitch::new(probes(startup_admin_router(admin_startup)));
    let admin = admin.map(|admin| (admin, admin_switch.clone()));
    let serving = Serving::start(
        (listeners, switch.clone()),
        admin,
        tls,
        options::connections(&config),
        metrics.clone(),
    );

    let began = Instant::now();
    for sentence in config.unused() {
        tracing::warn!("{sentence}");
    }
    let store = adapter.open(Arc::clone(&clock), &progress_sender).await?;
    let read = read_at_start(&config, &auth, &store, &progress_sender).await;
    let (namespaces, audit) = match read {
        Ok(read) => read,
        Err(error) => {
            open::close(store).await?;
            return Err(error);
        }
    };
    let open_time = began.elapsed();
    let health = store.health();
    for reason in &health.not_ready {
        tracing::warn!(reason, "started, but not ready");
    }
    let report = StartReport {
        listen,
        admin_listen,
        is_https,
        data: store.location(),
        pending: health.pending,
        overdue: health.overdue,
        dead: health.dead,
        namespaces,
        open_time,
        tail: store.tail(),
        warnings: [health.warnings, health.not_ready].concat(),
    };
    let deliveries = Arc::new(sink.clone());
    let node = Node::start(Arc::clone(&store), deliveries, Arc::clone(&clock), node_options);
    let app = App::new(Parts {
        backups: options::backups(&config, &store),
        store,
        node,
        clock,
        implicit_namespaces: match config.defaults.implicit_namespaces {
            true => ImplicitNamespaces::Create,
            false => ImplicitNamespaces::Refuse,
        },
        defaults: options::namespace_defaults(&config),
        guard,
        auth,
        audit,
        addresses,
        limits: options::http_limits(&config),
        metrics,
    });
    app.warn_of_tenants();
    let tasks = start_tasks(&config, &app, sink);
    admin_switch.open(probes(admin_router(app.clone())));
    switch.open(Routers::new(router(app.clone()), grpc::router(app.clone()), Some(app.clone())));
    Ok(Running { serving, app, report, traces, _tasks: tasks })
}

/// Reads the keys of callers, counts the namespaces, and opens the audit log. Waits for the keys in a shared
/// store, and does without the count.
async fn read_at_start(
    config: &Config,
    auth: &Auth,
    store: &Arc<dyn Store>,
    progress: &watch::Sender<StartupProgress>,
) -> Result<(Option<u64>, Audit), StartError> {
    let read = || async { Ok(store.read_access(0).await?) };
    let (records, namespaces) = match store.deployment() {
        Some(_) => {
            let (records, _) = open::until_available(progress, read).await?;
            (records, count_namespaces(&**store).await.ok())
        }
        None => (read().await?, Some(count_namespaces(&**store).await?)),
    };
    auth.use_records(records.unwrap_or_default());
    Ok((namespaces, options::audit(config, store)?))
}

/// Starts the background tasks of a server.
fn start_tasks(config: &Config, app: &App, sink: HttpSink) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if !files::tls_files(config).is_empty() {
        tasks.spawn(reload(sink, config.tls.reload.to_std()));
    }
    if let Some(tokens) = app.auth.tokens() {
        tasks.spawn(Arc::clone(tokens).keep_fresh());
    }
    if app.store.deployment().is_some() {
        let (auth, store) = (app.auth.clone(), Arc::clone(&app.store));
        tasks.spawn(auth::follow(auth, store, config.auth.cache.to_std()));
    }
    let schedule = options::backup_schedule(config).filter(|_| app.store.backups().is_some());
    if let Some(schedule) = schedule {
        let (backups, clock) = (app.backups.clone(), Arc::clone(&app.clock));
        tasks.spawn(scheduled_backups::run(schedule, backups, clock));
    }
    tasks.spawn(log_stalls(Arc::clone(&app.store)));
    let (auth, clock) = (app.auth.clone(), Arc::clone(&app.clock));
    tasks.spawn(counting::run(auth, Arc::clone(&app.store), clock));
    tasks
}

/// Returns `true` unless timers wait for the disk. A change of the keys that hangs ends no process: its timers go on.
fn makes_progress(store: &dyn Store) -> bool {
    store.health().stalls.is_empty()
}

/// Logs that work of the store hangs, and its end, until it is aborted. A call that hangs logs nothing itself.
async fn log_stalls(store: Arc<dyn Store>) {
    let mut ticks = tokio::time::interval(STALLS_EVERY);
    let mut stalled = false;
    loop {
        ticks.tick().await;
        // `health` may wait for the engine, which must not block the runtime.
        let asked = Arc::clone(&store);
        let Ok(health) = spawn_blocking(move || asked.health()).await else { continue };
        let stall = health.stalls.first().or(health.keys_stall.as_ref());
        match stall {
            Some(stall) if !stalled => tracing::error!(%stall, "the store makes no progress"),
            None if stalled => tracing::warn!("the store makes progress again"),
            _ => {}
        }
        stalled = stall.is_some();
    }
}

/// Reads the certificates of webhooks again at an interval and at each SIGHUP, until it is aborted.
async fn reload(sink: HttpSink, every: Duration) {
    let mut triggers = ReloadTriggers::new(every);
    let mut last_error = None;
    loop {
        if triggers.next().await == ReloadTrigger::HungUp {
            last_error = None;
        }
        let own = sink.clone();
        match spawn_blocking(move || own.reload()).await {
            Ok(Ok(true)) => {
                last_error = None;
                tracing::info!("certificates of webhooks reloaded");
            }
            Ok(Ok(false)) => last_error = None,
            // Files that stay wrong are reported once.
            Ok(Err(error)) if last_error.as_ref() != Some(&error.to_string()) => {
                tracing::warn!(
                    %error,
                    "reading the certificates of webhooks failed; the present ones stay in use"
                );
                last_error = Some(error.to_string());
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

impl Running {
    /// Returns the first IP address and port that the server listens on.
    ///
    /// # Panics
    /// If it listens on Unix sockets only.
    pub fn addr(&self) -> SocketAddr {
        let mut addresses = self.report.listen.iter().filter_map(Address::tcp);
        addresses.next().expect("the server listens on an IP address")
    }

    /// Returns the report of the start.
    pub const fn report(&self) -> &StartReport {
        &self.report
    }

    /// Returns a function that tells whether the store makes progress, for a watchdog.
    pub fn progress(&self) -> impl Fn() -> bool + Send + 'static {
        let store = Arc::clone(&self.app.store);
        move || makes_progress(&*store)
    }

    /// Returns the number of waiting lease calls.
    pub fn waiting(&self) -> usize {
        self.app.node.health().waiters
    }

    /// Runs until `signal` is done or the store has ended, then stops.
    ///
    /// # Errors
    /// The errors of [`Running::stop`].
    pub async fn wait_for_stop(self, signal: impl Future<Output = ()>) -> Result<(), StartError> {
        tokio::select! {
            () = signal => {}
            _reason = self.app.store.ended() => {}
        }
        self.stop().await
    }

    /// Accepts no new connections, drains, and closes the store.
    ///
    /// If the store has ended, there is nothing to drain: callers get a moment to read their responses.
    ///
    /// # Errors
    /// When the store has ended for good, or the task that closes it panics.
    pub fn stop(self) -> BoxFuture<'static, Result<(), StartError>> {
        Box::pin(async {
            let Self { mut serving, app, traces, .. } = self;
            app.stop();
            // Concurrently: the drain ends the waiting lease calls, so their connections can end.
            let drained = async { tokio::join!(serving.stop(), app.node.drain()) };
            let cut_off = async {
                let _reason = app.store.ended().await;
                sleep(LAST_RESPONSES_WAIT).await;
            };
            tokio::select! {
                _ = drained => {}
                () = cut_off => {}
            }
            app.audit.flush().await;
            let closed = open::close(Arc::clone(&app.store)).await;
            traces.stop().await;
            closed
        })
    }
}

async fn count_namespaces(store: &dyn Store) -> Result<u64, Error> {
    let mut namespaces = 0;
    let mut after = None;
    loop {
        let page = store.list_namespaces(after, NAMESPACES_PAGE).await?;
        namespaces += page.len() as u64;
        match page.last() {
            Some(last) if page.len() == NAMESPACES_PAGE => after = Some(last.name.clone()),
            _ => return Ok(namespaces),
        }
    }
}
