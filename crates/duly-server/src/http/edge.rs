//! The one layer that every request passes: the guard, unknown query parameters, the time limit, panics,
//! metrics, and the conversion of framework errors into problems.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::HttpBody,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use duly_core::{Code, error_code::Retry};
use futures::FutureExt;
use http::{HeaderValue, Method, StatusCode, Uri, header::ALLOW};
use tokio::time::{Instant, timeout};

use super::{
    App, Problem, backup,
    body::check_content_encoding,
    budget::{self, Budget, IsCounted},
    bulk,
    cors::Cors,
    health,
    openapi::RouteDescription,
    pull,
    query::Query,
    unread,
};
use duly_api::lease::LEASE_WAIT_MAX;

use crate::{
    audit::{AuditedCall, CallFacts},
    auth::{Caller, Peer, Rule, rules},
    call::{self, SharedNotes},
    connection::{Connection, ConnectionKind},
    telemetry::UNMATCHED,
    tenants::ConnectionSlot,
};

/// Time limit of a backup or a repair, which may take long.
const BACKUP_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Runs the layer.
pub(super) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let cors = Cors::of(&app.guard, request.headers());
    let preflight = cors.preflight(route, request.method(), request.headers());
    let connection = request.extensions_mut().remove::<Connection>();
    let (kind, peer, slot) = match &connection {
        Some(it) => (it.kind, it.peer.clone(), it.tenant_slot.clone()),
        None => (ConnectionKind::Main, Peer::default(), ConnectionSlot::default()),
    };
    let peer = app.guard.behind_proxies(peer, request.headers());
    let address = peer.address;
    let checked_origin = app.guard.check_request(&request);
    // A browser sends its preflight request without a key: that is no failure to authenticate.
    if let (Ok(()), Some(mut response)) = (&checked_origin, preflight) {
        let (request, unread) = unread::watch(request);
        drop(request);
        cors.write_to(&mut response);
        unread.settle(&mut response).await;
        app.routes().record(route, response.status(), started.elapsed());
        return response;
    }
    let (caller, admitted) = match checked_origin {
        Ok(()) => admit(&app, route, (kind, peer), &request),
        Err(problem) => (None, Err(problem)),
    };
    if let (Some(connection), Some(known)) =
        (&connection, caller.as_ref().or(admitted.as_ref().ok()))
    {
        connection.note_caller(known);
    }
    let method = request.method().clone();
    let rule = rule_of(&method, route);
    let within = caller.as_ref().map_or(Ok(()), |it| app.check_tenant(rule, it, &slot));
    // A tenant that calls too often gets no lines in the audit log for that.
    let recorded = if within.is_ok() { rule } else { Rule::Open };
    let admitted = within.and(admitted);
    let identity = caller.as_ref().and_then(Caller::identity);
    let audited = app.audit.begin(app.auth.is_required(), recorded, || CallFacts {
        protocol: "http",
        operation: format!("{} {route}", standard(&method)),
        is_admitted: admitted.is_ok(),
        identity,
        is_change: CallKind::of(route, &method) == CallKind::Change,
        address,
        now: app.now(),
    });
    let (audited, unwritable) = match audited {
        Ok(audited) => (audited, None),
        Err(problem) => (None, Some(problem)),
    };
    let admitted = admitted.and_then(|caller| unwritable.map_or(Ok(caller), Err));
    let budget = app.budget_of(caller.as_ref().unwrap_or(&Caller::Unidentified));
    let is_stranger = caller.is_none() && admitted.is_err();
    let checked = admitted.and_then(|caller| {
        check_content_encoding(request.headers())?;
        check_query(route, request.method(), request.uri())?;
        Ok(caller)
    });
    let kind = match kind {
        // The reserve and the admin listener serve one response at a time on each of a few connections.
        ConnectionKind::Reserve | ConnectionKind::Admin => CallKind::Health,
        ConnectionKind::Main => CallKind::of(route, request.method()),
    };
    let checked = checked.and_then(|caller| kind.check_capacity(&budget).map(|()| caller));
    let (mut request, unread) = unread::watch(request);
    let mut changes_nothing = ChangesNothing::of(kind);
    if route == bulk::PATH {
        changes_nothing = ChangesNothing::to_be_found();
        request.extensions_mut().insert(changes_nothing.clone());
    }
    let response = match checked {
        Ok(caller) => {
            let limit = time_limit(&app, route);
            let notes = audited.as_ref().map(AuditedCall::notes);
            let context = (caller, notes, &changes_nothing);
            guarded(limit, route, context, request, next).await
        }
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    // The short response to a stranger is part of the stream or connection that it is written to: strangers use
    // nothing of the request memory.
    let mut response = match is_stranger {
        true => response,
        false => counted(&app, &budget, response, kind).await,
    };
    cors.write_to(&mut response);
    unread.settle(&mut response).await;
    app.routes().record(route, response.status(), started.elapsed());
    if let Some(audited) = audited {
        audited.end(response.status());
    }
    response
}

/// The kind of call that a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A call that changed nothing and can still be refused.
    Reading,
    /// A change: once made, it cannot be refused any more.
    Change,
    /// The service's own paths, which must respond even when callers have filled the memory.
    Probe,
    /// Health and readiness: short responses that are never refused.
    Health,
}

impl CallKind {
    fn of(route: &str, method: &Method) -> Self {
        if [health::HEALTHZ, health::READYZ].contains(&route) {
            Self::Health
        } else if !route.starts_with("/v1/") {
            Self::Probe
        } else if method.is_safe() {
            Self::Reading
        } else {
            Self::Change
        }
    }

    /// Refuses a change while the memory is full.
    ///
    /// A small call may have a large response, which would exceed the budget. So unread responses exceed
    /// it only by the changes that were under way when it became full.
    pub(crate) fn check_capacity(self, budget: &Budget) -> Result<(), Problem> {
        match self {
            Self::Change => budget.reserve(1).map(drop),
            Self::Reading | Self::Probe | Self::Health => Ok(()),
        }
    }
}

/// Tells if a call changes nothing, as known by its method, or as its handler finds out. Then its outcome
/// is never in doubt.
#[derive(Debug, Clone)]
pub(crate) enum ChangesNothing {
    /// Known before the call is read.
    Known(bool),
    /// Found out by the handler, as for a dry run.
    Found(Arc<AtomicBool>),
}

impl ChangesNothing {
    /// Returns the value that is known before the call is read.
    pub(crate) fn of(kind: CallKind) -> Self {
        Self::Known(kind != CallKind::Change)
    }

    /// Returns the value of a change that may be a dry run. Its handler gets a copy.
    pub(crate) fn to_be_found() -> Self {
        Self::Found(Arc::default())
    }

    /// Notes that the call changes nothing.
    pub(crate) fn set(&self) {
        if let Self::Found(found) = self {
            found.store(true, Ordering::Release);
        }
    }

    fn get(&self) -> bool {
        match self {
            Self::Known(known) => *known,
            Self::Found(found) => found.load(Ordering::Acquire),
        }
    }

    /// Returns the problem of a call that has no response `within` its time limit.
    pub(crate) fn no_response(&self, within: &str) -> Problem {
        let outcome = if self.get() {
            "the call changes nothing: repeat it, and ask for less at a time if it lists or counts"
        } else {
            "it is not known whether the change was made: repeat the same call"
        };
        let detail = format!("no response {within}; {outcome}");
        Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
    }
}

/// Counts the bytes of a response until they are written. A stream counts its own bytes.
async fn counted(app: &App, budget: &Budget, response: Response, kind: CallKind) -> Response {
    let Some(bytes) = response.body().size_hint().exact().and_then(|n| usize::try_from(n).ok())
    else {
        return response;
    };
    if kind == CallKind::Health || response.extensions().get::<IsCounted>().is_some() {
        return response;
    }
    let reservation = match kind {
        CallKind::Reading => budget.reserve(bytes),
        CallKind::Change => {
            let mut reservation = budget.empty_reservation();
            reservation.grow_past_budget_to(bytes).await;
            Ok(reservation)
        }
        CallKind::Probe | CallKind::Health => app.probes().reserve(bytes),
    };
    match reservation {
        Ok(reservation) => budget::count(response, reservation).await,
        Err(problem) => problem.into_response(),
    }
}

/// Admits the caller of a request, with the right that the operation needs. The namespace in its path is
/// checked where it is read, before the body.
fn admit(
    app: &App,
    route: &str,
    (kind, peer): (ConnectionKind, Peer),
    request: &Request,
) -> (Option<Caller>, Result<Caller, Problem>) {
    let is_admin = kind == ConnectionKind::Admin;
    if !app.auth.is_required() || is_admin && !app.auth.guards_admin() {
        return (None, Ok(Caller::Anyone));
    }
    app.auth.admit(rule_of(request.method(), route), request.headers(), peer, app.now())
}

/// Returns the name of a method; a caller may send any text as one.
fn standard(method: &Method) -> &str {
    const KNOWN: [Method; 7] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "OTHER" }
}

/// Returns the right that an operation needs.
fn rule_of(method: &Method, route: &str) -> Rule {
    match route {
        // The path does not exist: no one needs a right to learn that, but a caller needs a key.
        UNMATCHED => Rule::AnyKey,
        _ => rules::http(method, route),
    }
}

async fn guarded(
    limit: Duration,
    route: &str,
    (caller, notes, changes_nothing): (Caller, Option<SharedNotes>, &ChangesNothing),
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let scope = call::Scope::new(caller, notes, request.headers());
    let handled = AssertUnwindSafe(call::run(scope, next.run(request))).catch_unwind();
    match timeout(limit, handled).await {
        Ok(Ok(response)) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            method_not_allowed(route, &method)
        }
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => Problem::panicked(&*panic).into_response(),
        Err(_) => {
            let within = format!("within {} s", limit.as_secs());
            changes_nothing.no_response(&within).into_response()
        }
    }
}

fn time_limit(app: &App, route: &str) -> Duration {
    let limit = app.limits.request_timeout;
    match route {
        _ if pull::PATHS.contains(&route) => limit.saturating_add(LEASE_WAIT_MAX.to_std()),
        backup::BACKUP | backup::REPAIR => BACKUP_MAX,
        _ => limit,
    }
}

/// Returns the problem of a wrong method: the framework responds 405 without a body.
fn method_not_allowed(route: &str, method: &Method) -> Response {
    let allowed = RouteDescription::route(route).map_or("", |it| it.methods.as_str());
    let detail = format!("this path supports {allowed}; got {method}");
    let problem = Problem::new(Code::MethodNotAllowed, detail);
    let mut response = problem.at("method", Some(method.to_string()), allowed).into_response();
    if let Ok(allow) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Refuses parameters that nothing would read, such as a condition on a call that has none.
///
/// The service's own paths are not checked: probes and scrapers may add any parameter.
fn check_query(route: &str, method: &Method, uri: &Uri) -> Result<(), Problem> {
    let is_plain =
        || RouteDescription::route(route).is_some_and(|it| it.takes_no_parameter(method));
    if uri.query().is_some() && route.starts_with("/v1/") && is_plain() {
        Query::read(uri, &[])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending};

    use axum::{Router, body::Body, middleware, routing};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn respond(
        limit: Duration,
        path: &str,
        kind: CallKind,
    ) -> (StatusCode, serde_json::Value) {
        fn panics() -> Ready<()> {
            panic!("a planted fault")
        }
        let router: Router = Router::new()
            .route("/panics", routing::get(panics))
            .route("/hangs", routing::get(pending::<()>))
            .layer(middleware::from_fn(move |request, next| async move {
                let changes_nothing = ChangesNothing::of(kind);
                guarded(limit, "/", (Caller::Anyone, None, &changes_nothing), request, next).await
            }));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_without_its_text() {
        let (status, problem) = respond(Duration::from_secs(60), "/panics", CallKind::Change).await;
        assert_eq!((status.as_u16(), &problem["code"]), (500, &"internal".into()));
        assert!(!problem.to_string().contains("planted"), "{problem}");
    }

    #[tokio::test]
    async fn timeouts_are_problems() {
        for (kind, is_in_doubt) in
            [(CallKind::Change, true), (CallKind::Reading, false), (CallKind::Probe, false)]
        {
            let (status, problem) = respond(Duration::from_millis(1), "/hangs", kind).await;
            assert_eq!(status, 504);
            assert_eq!(problem["code"], "deadline_exceeded");
            assert_eq!(problem["retry_after_ms"], 0);
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(detail.contains("whether the change was made"), is_in_doubt, "{detail}");
            assert_eq!(detail.contains("changes nothing"), !is_in_doubt, "{detail}");
        }
    }
}
