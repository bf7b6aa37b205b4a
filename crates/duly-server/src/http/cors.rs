//! What a browser wants to know before it lets a page of another origin call (CORS).
//!
//! [`super::guard`] refuses what comes from a foreign page; this tells the browsers of the allowed
//! ones (`server.allowed_origins`) that they may go on. Only such an origin is ever answered, with
//! its own name and never with `*`; credentials are not asked for, there are none. The server's own
//! origin needs nothing of it.

use axum::response::{IntoResponse, Response};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
        ORIGIN, VARY,
    },
};

use super::{Guard, described::Described};

/// Headers of a request that mean something here.
const READ: HeaderValue = HeaderValue::from_static("accept, content-type, traceparent");
/// Headers of an answer that a script could not read otherwise.
const SHOWN: HeaderValue = HeaderValue::from_static("allow, retry-after");
/// Seconds that a browser may remember what it was told.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// What the answers to one request say about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cors {
    /// No other origin may call this server.
    Unused,
    /// Some may, and this request is of none of them.
    Varies,
    /// It is of this one.
    Allowed(HeaderValue),
}

impl Cors {
    /// What is to be said to whoever sent these headers.
    pub(super) fn of(guard: &Guard, headers: &HeaderMap) -> Self {
        if guard.allowed_origins.is_empty() {
            return Self::Unused;
        }
        match headers.get(ORIGIN) {
            Some(origin) if origin.to_str().is_ok_and(|it| guard.allows_origin(it)) => {
                Self::Allowed(origin.clone())
            }
            _ => Self::Varies,
        }
    }

    /// The answer to the question that a browser asks before a call; nothing for anybody else.
    pub(super) fn preflight(
        &self,
        route: &str,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<Response> {
        let asks = *method == Method::OPTIONS
            && matches!(self, Self::Allowed(_))
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let methods = HeaderValue::from_str(&Described::route(route)?.methods).ok();
        let methods = methods.filter(|_| asks)?;
        let said = [
            (ACCESS_CONTROL_ALLOW_METHODS, methods),
            (ACCESS_CONTROL_ALLOW_HEADERS, READ),
            (ACCESS_CONTROL_MAX_AGE, REMEMBERED),
        ];
        Some((StatusCode::NO_CONTENT, said).into_response())
    }

    /// Says so in an answer.
    pub(super) fn write_to(self, answer: &mut Response) {
        let headers = answer.headers_mut();
        match self {
            Self::Unused => return,
            Self::Varies => {}
            Self::Allowed(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
            }
        }
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}
