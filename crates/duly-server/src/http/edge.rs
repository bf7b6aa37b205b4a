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
    App, Problem, Taken, backup,
    body::check_content_encoding,
    budget::{self, IsCounted},
    bulk,
    cors::Cors,
    described::Described,
    front::ConnectionKind,
    health, lease, notice,
    query::Query,
    repair, settle, unread,
};
use duly_api::lease::LEASE_WAIT_MAX;

use crate::telemetry::UNMATCHED;

/// Time limit of a backup or a repair, which may take long.
const BACKUP_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Runs the layer.
pub(super) async fn edge(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let checked = app
        .guard()
        .check_request(&request)
        .and_then(|()| check_content_encoding(request.headers()))
        .and_then(|()| check_query(route, request.method(), request.uri()));
    let cors = Cors::of(app.guard(), request.headers());
    let asked = cors.preflight(route, request.method(), request.headers());
    let taken = request.extensions().get::<Taken>().cloned();
    let under_way = taken.as_ref().map(Taken::begin);
    let made = match request.extensions().get::<ConnectionKind>() {
        // The reserve and the admin listener serve one response at a time on each of a few connections.
        Some(ConnectionKind::Reserve | ConnectionKind::Admin) => Made::Health,
        Some(ConnectionKind::Main) | None => Made::by(route, request.method()),
    };
    let checked = checked.and_then(|()| made.check_room(&app));
    let (mut request, unread) = unread::watch(request);
    let changes_nothing = ChangesNothing::by(made);
    if route == bulk::PATH {
        request.extensions_mut().insert(changes_nothing.clone());
    }
    let response = match (checked, asked) {
        (Ok(()), None) => {
            let limit = time_for(&app, route);
            guarded(limit, route, &changes_nothing, request, next).await
        }
        (Ok(()), Some(answer)) => {
            drop(request);
            answer
        }
        (Err(problem), _) => {
            drop(request);
            problem.into_response()
        }
    };
    let mut response = counted(&app, response, made).await;
    cors.write_to(&mut response);
    unread.settle(&mut response).await;
    app.routes().record(route, response.status(), started.elapsed());
    match taken.zip(under_way) {
        Some((taken, call)) => taken.watch(response, call),
        None => response,
    }
}

/// The kind of call that a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// A call that changed nothing and can still be refused.
    Reading,
    /// A change: once made, it cannot be refused any more.
    Change,
    /// The service's own paths, which must respond even when callers have filled the memory.
    Probe,
    /// Health and readiness: short responses that are never refused.
    Health,
}

impl Made {
    fn by(route: &str, method: &Method) -> Self {
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
    pub(crate) fn check_room(self, app: &App) -> Result<(), Problem> {
        match self {
            Self::Change => app.budget().take(1).map(drop),
            Self::Reading | Self::Probe | Self::Health => Ok(()),
        }
    }
}

/// `true`: a call changes nothing, as known by its method, or as its handler found out. Then its outcome
/// is never in doubt.
#[derive(Debug, Clone)]
pub(crate) struct ChangesNothing(Arc<AtomicBool>);

impl ChangesNothing {
    /// Returns the value that is known before the call is read.
    pub(crate) fn by(made: Made) -> Self {
        Self(Arc::new(AtomicBool::new(made != Made::Change)))
    }

    /// Notes that the call changes nothing.
    pub(crate) fn say(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns the end of the sentence "no answer within …".
    pub(crate) fn outcome(&self) -> &'static str {
        if self.0.load(Ordering::Acquire) {
            "the call changes nothing: repeat it, and ask for less at a time if it lists or counts"
        } else {
            "whether the change was made is not known: repeat the same call"
        }
    }
}

/// Counts the bytes of a response until they are written. A stream counts its own bytes.
async fn counted(app: &App, response: Response, made: Made) -> Response {
    let Some(bytes) = response.body().size_hint().exact().and_then(|n| usize::try_from(n).ok())
    else {
        return response;
    };
    if made == Made::Health || response.extensions().get::<IsCounted>().is_some() {
        return response;
    }
    let share = match made {
        Made::Reading => app.budget().take(bytes),
        Made::Change => {
            let mut share = app.budget().share();
            share.grow_anyway_to(bytes).await;
            Ok(share)
        }
        Made::Probe | Made::Health => app.probes().take(bytes),
    };
    match share {
        Ok(share) => budget::count(response, share),
        Err(problem) => problem.into_response(),
    }
}

async fn guarded(
    limit: Duration,
    route: &str,
    changes_nothing: &ChangesNothing,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let answered = AssertUnwindSafe(notice::noticed(next.run(request))).catch_unwind();
    match timeout(limit, answered).await {
        Ok(Ok(response)) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            method_not_allowed(route, &method)
        }
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => Problem::panicked(&*panic).into_response(),
        Err(_) => too_late(limit, changes_nothing).into_response(),
    }
}

fn time_for(app: &App, route: &str) -> Duration {
    let limit = app.limits().request_timeout;
    match route {
        lease::PATH | settle::PATH => limit.saturating_add(LEASE_WAIT_MAX.to_std()),
        backup::PATH | repair::PATH => BACKUP_MAX,
        _ => limit,
    }
}

fn too_late(limit: Duration, changes_nothing: &ChangesNothing) -> Problem {
    let detail = format!("no answer within {} s; {}", limit.as_secs(), changes_nothing.outcome());
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

/// Returns the problem of a wrong method: the framework responds 405 without a body.
fn method_not_allowed(route: &str, method: &Method) -> Response {
    let allowed = Described::route(route).map_or("", |it| it.methods.as_str());
    let detail = format!("this path knows {allowed}; got {method}");
    let problem = Problem::new(Code::MethodNotAllowed, detail).at(
        "method",
        Some(method.to_string()),
        allowed,
    );
    let mut answer = problem.into_response();
    if let Ok(allow) = HeaderValue::from_str(allowed) {
        answer.headers_mut().insert(ALLOW, allow);
    }
    answer
}

/// Refuses parameters that nothing would read, such as a condition on a call that has none.
///
/// The service's own paths are not checked: probes and scrapers may add any parameter.
fn check_query(route: &str, method: &Method, uri: &Uri) -> Result<(), Problem> {
    let is_plain = || Described::route(route).is_some_and(|it| it.takes_no_parameter(method));
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

    async fn answer(limit: Duration, path: &str, made: Made) -> (StatusCode, serde_json::Value) {
        fn panics() -> Ready<()> {
            panic!("a planted fault")
        }
        let router: Router = Router::new()
            .route("/panics", routing::get(panics))
            .route("/hangs", routing::get(pending::<()>))
            .layer(middleware::from_fn(move |request, next| async move {
                guarded(limit, "/", &ChangesNothing::by(made), request, next).await
            }));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_without_its_text() {
        let (status, problem) = answer(Duration::from_secs(60), "/panics", Made::Change).await;
        assert_eq!((status.as_u16(), &problem["code"]), (500, &"internal".into()));
        assert!(!problem.to_string().contains("planted"), "{problem}");
    }

    #[tokio::test]
    async fn timeouts_are_problems() {
        for (made, is_in_doubt) in
            [(Made::Change, true), (Made::Reading, false), (Made::Probe, false)]
        {
            let (status, problem) = answer(Duration::from_millis(1), "/hangs", made).await;
            assert_eq!(status, 504);
            assert_eq!(problem["code"], "deadline_exceeded");
            assert_eq!(problem["retry_after_ms"], 0);
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(detail.contains("whether the change was made"), is_in_doubt, "{detail}");
            assert_eq!(detail.contains("changes nothing"), !is_in_doubt, "{detail}");
        }
    }
}
