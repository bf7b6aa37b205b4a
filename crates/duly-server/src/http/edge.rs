//! The one layer that every request passes: admission, the time limit, panics, metrics, and the conversion of
//! framework errors into problems.

use std::time::Duration;

use axum::{
    body::HttpBody,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use duly_core::Code;
use http::{HeaderValue, Method, Uri, header::ALLOW};
use tokio::time::Instant;

use super::{Problem, idempotency_key, openapi::takes_query, target::Query, unread};
use crate::{
    admission::{self, Arrival, Decision, admit},
    connection::Connection,
    cors::Cors,
    memory::budget::{self, Budget, IsCounted},
    operations::{self, CallKind, Operation, PREFLIGHT, UNKNOWN_PATH, WRONG_METHOD},
    service::{Admitted, App},
    telemetry::UNMATCHED,
};

/// Runs the layer.
pub(super) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let method = request.method().clone();
    let cors = Cors::of(&app.guard, request.headers());
    let operation = match &matched {
        _ if cors.is_preflight(&request) => &PREFLIGHT,
        Some(route) => operations::of_http(&method, route.as_str()),
        None => &UNKNOWN_PATH,
    };
    let connection = request.extensions_mut().remove::<Connection>();
    let arrival =
        Arrival { protocol: "http", operation, request: &request, connection: connection.as_ref() };
    let form = || check_query(operation, request.uri());
    let Decision { admitted, audited, kind, budget } = admit(&app, arrival, form);
    let (request, unread) = unread::watch(request);
    let mut response = match admitted {
        Ok(_) if *operation == PREFLIGHT => {
            drop(request);
            counted(&app, &budget, cors.preflight(route), kind).await
        }
        // A handler that has no row never runs.
        Ok(_) if *operation == WRONG_METHOD => {
            drop(request);
            counted(&app, &budget, method_not_allowed(route, &method), kind).await
        }
        Ok(admitted) => {
            idempotency_key::notice(&admitted, request.headers());
            let limit = operation.time_limit.within(app.limits.request_timeout);
            let response = guarded(limit, admitted, request, next).await;
            counted(&app, &budget, response, kind).await
        }
        // The short response to a refused call is part of the stream or connection that it is written to.
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    cors.write_to(&mut response);
    unread.settle(&mut response).await;
    app.routes().record(route, response.status(), started.elapsed());
    if let Some(audited) = audited {
        audited.end(response.status());
    }
    response
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
        CallKind::Read => budget.reserve(bytes),
        CallKind::Change => {
            let mut reservation = budget.empty_reservation();
            reservation.grow_past_budget_to(bytes).await;
            Ok(reservation)
        }
        CallKind::Probe | CallKind::Static | CallKind::Health => app.probes().reserve(bytes),
    };
    match reservation {
        Ok(reservation) => budget::count(response, reservation).await,
        Err(problem) => problem.into_response(),
    }
}

/// Runs the handler of an admitted call within its time limit.
async fn guarded(
    limit: Option<Duration>,
    admitted: Admitted,
    request: Request,
    next: Next,
) -> Response {
    let limit = limit.unwrap_or(Duration::MAX);
    admission::run(admitted, limit, None, request, next).await.into_response()
}

/// Returns the problem of a wrong method.
pub(super) fn method_not_allowed(route: &str, method: &Method) -> Response {
    let allowed = operations::methods_of(route).unwrap_or_default();
    let detail = format!("this path supports {allowed}; got {method}");
    let problem = Problem::new(Code::MethodNotAllowed, detail);
    let mut response = problem.at("method", Some(method.to_string()), &allowed).into_response();
    if let Ok(allow) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Refuses parameters that nothing would read, such as a condition on a call that has none.
///
/// The service's own paths are not checked: probes and scrapers may add any parameter.
fn check_query(operation: &Operation, uri: &Uri) -> Result<(), Problem> {
    let is_checked = matches!(operation.kind, CallKind::Read | CallKind::Change);
    if uri.query().is_some() && is_checked && !takes_query(operation.name) {
        Query::read(uri, &[])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending};

    use axum::{Router, body::Body, middleware, routing};
    use http::StatusCode;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::{auth::Caller, operations::of_http, tests::TestServer};

    fn change() -> &'static Operation {
        of_http(&Method::POST, "/v1/keys")
    }

    fn read() -> &'static Operation {
        of_http(&Method::GET, "/v1/keys")
    }

    async fn respond(
        limit: Duration,
        path: &str,
        operation: &'static Operation,
    ) -> (StatusCode, serde_json::Value) {
        fn panics() -> Ready<()> {
            panic!("a planted fault")
        }
        let app = TestServer::start().await.app.clone();
        let admitted = Admitted::new(app, operation, Caller::Anyone, None, None);
        let router: Router = Router::new()
            .route("/panics", routing::get(panics))
            .route("/hangs", routing::get(pending::<()>))
            .layer(middleware::from_fn(move |request, next| {
                let admitted = admitted.clone();
                guarded(Some(limit), admitted, request, next)
            }));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_handler_without_a_row_never_runs() {
        let app = TestServer::start().await.app.clone();
        let router: Router = Router::new()
            .route("/v1/new", routing::get(|| async { "ran" }))
            .layer(middleware::from_fn_with_state(app, edge));
        let request = Request::builder().uri("/v1/new").header("host", "localhost");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_without_its_text() {
        let (status, problem) = respond(Duration::from_secs(60), "/panics", change()).await;
        assert_eq!((status.as_u16(), &problem["code"]), (500, &"internal".into()));
        assert!(!problem.to_string().contains("planted"), "{problem}");
    }

    #[tokio::test]
    async fn timeouts_are_problems() {
        for (operation, is_in_doubt) in [(change(), true), (read(), false)] {
            let (status, problem) = respond(Duration::from_millis(1), "/hangs", operation).await;
            assert_eq!(status, 504);
            assert_eq!(problem["code"], "deadline_exceeded");
            assert_eq!(problem["retry_after_ms"], 0);
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(detail.contains("whether the change was made"), is_in_doubt, "{detail}");
            assert_eq!(detail.contains("changes nothing"), !is_in_doubt, "{detail}");
        }
    }
}
