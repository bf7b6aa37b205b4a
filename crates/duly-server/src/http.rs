//! The HTTP interface: a file for each resource, with one layer in front of all handlers.
//!
//! ```text
//!   request ──► switch ──► edge (admission, time limit, panics, metrics) ──► handler ──► service
//!                                                                               │
//!   response ◄── JSON, or a Problem for every error ─────────────────────────────┘
//! ```
//!
//! Handlers read a body of [`duly_api`], call a function of the module `service`, and write the response. They decide
//! nothing. Start reading at [`router`], then the module `timers`.
//!
//! Opening the store reads a checkpoint and the journal behind it, which takes seconds with very many pending timers.
//! An operator must not mistake that for a hang, and a caller must not wait without information. So before the store
//! is open, `startup_router` responds:
//!
//! 1. `/healthz` reports that the process is alive.
//! 2. `/readyz` reports the progress, which `start` sends.
//! 3. `/metrics` and `/openapi.json` respond as usual; the gauges of the store are missing.
//! 4. The response to every other call asks the caller to retry.

mod access;
pub(crate) mod batch;
pub(crate) mod body;
mod cluster;
mod dead_letters;
mod edge;
mod idempotency_key;
mod lines;
pub(crate) mod namespaces;
mod openapi;
pub(crate) mod pull;
mod response;
mod target;
pub(crate) mod timers;
mod unknown_path;
mod unread;

pub use openapi::openapi_json;
pub use response::PROBLEM_JSON;

pub use crate::{
    guard::Guard,
    problem::Problem,
    service::{App, BackupLimits, Backups, ImplicitNamespaces, Limits, MakeBackup, Parts},
};

use std::collections::BTreeMap;

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};
use duly_core::Code;
use http::{Method, Uri};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::response::HandlerResult;
use crate::{
    cors::Cors,
    operations::{CallKind, HEALTHZ, METRICS, OPERATIONS, READYZ, probe_paths},
    service::{StartupProgress, StartupState},
    telemetry::UNMATCHED,
};

/// Returns the router of `server.admin_listen`.
pub(crate) fn admin_router(app: App) -> Router {
    Router::new()
        .route(HEALTHZ, routing::get(cluster::healthz))
        .route(READYZ, routing::get(cluster::readyz))
        .route(METRICS, routing::get(cluster::metrics))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(app.clone(), edge::edge))
        .with_state(app)
}

/// Returns the router of the whole service.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(unknown_path::unknown_path)
        .layer(middleware::from_fn_with_state(app.clone(), edge::edge))
        .with_state(app)
}

/// Returns the routes with their descriptions.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::Document::openapi())
        .routes(routes!(timers::schedule_timer, timers::list::list_timers))
        .routes(routes!(timers::get_timer, timers::reschedule_timer, timers::cancel_timer))
        .routes(routes!(timers::fire_timer))
        .routes(routes!(batch::batch))
        .routes(routes!(timers::cancel_by_filter))
        .routes(routes!(pull::lease))
        .routes(routes!(pull::settle))
        .routes(routes!(timers::forget_timer))
        .routes(routes!(dead_letters::redrive))
        .routes(routes!(dead_letters::purge))
        .routes(routes!(dead_letters::dead_letter_overdue))
        .routes(routes!(timers::list::export_timers))
        .routes(routes!(batch::import_timers))
        .routes(routes!(namespaces::list_namespaces))
        .routes(routes!(
            namespaces::get_namespace,
            namespaces::put_namespace,
            namespaces::patch_namespace,
            namespaces::delete_namespace
        ))
        .routes(routes!(namespaces::pause_namespace))
        .routes(routes!(namespaces::resume_namespace))
        .routes(routes!(namespaces::repair_namespace))
        .routes(routes!(namespaces::namespace_stats))
        .routes(routes!(namespaces::namespace_forecast))
        .routes(routes!(cluster::cluster))
        .routes(routes!(cluster::backup))
        .routes(routes!(cluster::repair))
        .routes(routes!(access::create_key, access::list_keys))
        .routes(routes!(access::get_key, access::patch_key, access::delete_key))
        .routes(routes!(access::rotate_key))
        .routes(routes!(access::list_tenants))
        .routes(routes!(access::get_tenant, access::put_tenant, access::delete_tenant))
        .routes(routes!(access::whoami))
        .routes(routes!(access::list_audit))
        .routes(routes!(cluster::healthz))
        .routes(routes!(cluster::readyz))
        .routes(routes!(cluster::metrics))
        .routes(routes!(openapi::openapi))
}

async fn elsewhere(uri: Uri) -> Problem {
    let detail = format!(
        "this address serves {}; call {} at server.listen",
        probe_paths().collect::<Vec<_>>().join(", "),
        duly_core::invalid::shorten(uri.path())
    );
    Problem::new(Code::NotFound, detail)
}

async fn wrong_method(path: MatchedPath, method: Method) -> Response {
    edge::method_not_allowed(path.as_str(), &method)
}

/// Returns the router of `server.admin_listen` while the store opens.
pub(crate) fn startup_admin_router(startup: StartupState) -> Router {
    startup_routes(CallKind::is_probe)
        .fallback(elsewhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(startup.clone(), guarded))
        .with_state(startup)
}

/// Returns the router of the service while the store opens.
pub(crate) fn startup_router(startup: StartupState) -> Router {
    startup_routes(|_| true)
        .fallback(not_yet)
        .method_not_allowed_fallback(not_yet)
        .layer(middleware::from_fn_with_state(startup.clone(), guarded))
        .with_state(startup)
}

/// Returns the routes of these kinds while the store opens. Those of calls that need the store have no handler of
/// their own.
fn startup_routes(has: impl Fn(CallKind) -> bool) -> Router<StartupState> {
    let rows = OPERATIONS.iter().filter(|operation| has(operation.kind));
    let mut paths = BTreeMap::new();
    for (operation, (_, path)) in rows.filter_map(|operation| Some((operation, operation.http?))) {
        let handler = match operation.kind {
            CallKind::Health if path == HEALTHZ => routing::get(cluster::alive),
            CallKind::Health => routing::get(readyz),
            CallKind::Probe => routing::get(scrape),
            CallKind::Static => routing::get(openapi::openapi),
            CallKind::Read | CallKind::Change => routing::any(not_yet),
        };
        paths.insert(path, handler);
    }
    paths.into_iter().fold(Router::new(), |router, (path, handler)| router.route(path, handler))
}

async fn guarded(State(startup): State<StartupState>, request: Request, next: Next) -> Response {
    let cors = Cors::of(&startup.guard, request.headers());
    let checked = startup.guard.check_request(&request);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let is_preflight = cors.is_preflight(&request);
    let (request, unread) = unread::watch(request);
    let mut response = match checked {
        Ok(()) if is_preflight => {
            drop(request);
            cors.preflight(route.as_ref().map_or(UNMATCHED, MatchedPath::as_str))
        }
        Ok(()) => next.run(request).await,
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    cors.write_to(&mut response);
    unread.settle(&mut response).await;
    response
}

async fn readyz(State(startup): State<StartupState>) -> HandlerResult {
    let StartupProgress { sentence, progress } = startup.progress.borrow().clone();
    let reasons = if startup.is_guarded { Vec::new() } else { vec![sentence] };
    cluster::not_ready("recovering", reasons, progress)
}

async fn scrape(State(startup): State<StartupState>) -> Response {
    if startup.is_guarded {
        return startup.not_yet().into_response();
    }
    cluster::metrics_text(startup.metrics.render(None, false))
}

async fn not_yet(State(startup): State<StartupState>) -> Problem {
    startup.not_yet()
}
