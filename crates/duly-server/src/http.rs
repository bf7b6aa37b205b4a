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

mod audit;
mod backup;
pub(crate) mod batch;
pub(crate) mod body;
mod bulk;
mod cors;
mod dead_letters;
mod edge;
mod forget;
pub(crate) mod health;
mod keys;
mod lines;
pub(crate) mod namespaces;
mod openapi;
mod path;
pub(crate) mod pull;
mod query;
mod response;
mod startup;
mod tenants;
pub(crate) mod text;
pub(crate) mod timers;
mod unread;

pub use openapi::openapi_json;
pub use response::PROBLEM_JSON;
pub(crate) use startup::{admin_router as startup_admin_router, router as startup_router};

pub use crate::{
    guard::Guard,
    problem::Problem,
    service::{App, BackupLimits, Backups, ImplicitNamespaces, Limits, MakeBackup, Parts},
};

use axum::{Router, middleware, routing};
use duly_core::Code;
use http::Uri;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::operations::{HEALTHZ, METRICS, PROBES, READYZ};

/// Returns the router of `server.admin_listen`.
pub(crate) fn admin_router(app: App) -> Router {
    Router::new()
        .route(HEALTHZ, routing::get(health::healthz))
        .route(READYZ, routing::get(health::readyz))
        .route(METRICS, routing::get(health::metrics))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(app.clone(), edge::edge))
        .with_state(app)
}

/// Returns the router of the whole service.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(unknown_path)
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
        .routes(routes!(bulk::cancel_by_filter))
        .routes(routes!(pull::lease))
        .routes(routes!(pull::settle))
        .routes(routes!(forget::forget_timer))
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
        .routes(routes!(namespaces::counts::namespace_stats))
        .routes(routes!(namespaces::counts::namespace_forecast))
        .routes(routes!(health::cluster))
        .routes(routes!(backup::backup))
        .routes(routes!(backup::repair))
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::get_key, keys::patch_key, keys::delete_key))
        .routes(routes!(keys::rotate_key))
        .routes(routes!(tenants::list_tenants))
        .routes(routes!(tenants::get_tenant, tenants::put_tenant, tenants::delete_tenant))
        .routes(routes!(keys::whoami))
        .routes(routes!(audit::list_audit))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(openapi::openapi))
}

async fn elsewhere(uri: Uri) -> Problem {
    let detail = format!(
        "this address serves {}; call {} at server.listen",
        PROBES.join(", "),
        duly_core::invalid::shorten(uri.path())
    );
    Problem::new(Code::NotFound, detail)
}

async fn unknown_path(uri: Uri) -> Problem {
    let detail = format!(
        "there is nothing at {}: GET /openapi.json lists every path",
        duly_core::invalid::shorten(uri.path())
    );
    Problem::new(Code::NotFound, detail)
}
