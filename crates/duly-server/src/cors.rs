//! CORS headers, which tell browsers the origins whose pages may call.
//!
//! [`crate::guard`] refuses calls of foreign pages. This module tells the browsers of the allowed
//! origins (`server.allowed_origins`) that they may call. Only an allowed origin gets these headers,
//! with its own name and never with `*`. Credentials are not allowed, because there are none. The
//! server's own origin needs no headers.

use axum::response::{IntoResponse, Response};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
        ORIGIN, VARY,
    },
};

use crate::{guard::Guard, operations};

/// Headers of a request that the server reads.
const READ: HeaderValue =
    HeaderValue::from_static("accept, authorization, content-type, idempotency-key, traceparent");
/// Headers of a response that a script could not read otherwise.
const SHOWN: HeaderValue = HeaderValue::from_static("allow, retry-after");
/// Methods of a path that does not exist.
const EVERY_METHOD: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Seconds that a browser may cache a preflight response.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// The CORS headers of the response to one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cors {
    /// No other origin may call this server.
    Unused,
    /// Some origins may call, and this request has none of them.
    Varies,
    /// The request has this allowed origin.
    Allowed(HeaderValue),
}

impl Cors {
    /// Returns the CORS headers for a request with these headers.
    pub(crate) fn of(guard: &Guard, headers: &HeaderMap) -> Self {
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

    /// Returns the CORS headers for a preflight request of an allowed origin; `None` for any other request.
    pub(crate) fn of_preflight<B>(guard: &Guard, request: &Request<B>) -> Option<Self> {
        let is_question = *request.method() == Method::OPTIONS;
        let cors = is_question.then(|| Self::of(guard, request.headers()));
        cors.filter(|cors| cors.is_preflight(request))
    }

    /// Returns `true` for a preflight request of an allowed origin.
    pub(crate) fn is_preflight<B>(&self, request: &Request<B>) -> bool {
        *request.method() == Method::OPTIONS
            && matches!(self, Self::Allowed(_))
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// Returns the response to a preflight request. A path that does not exist has every method, so that a page
    /// sees the response to its call.
    pub(crate) fn preflight(&self, route: &str) -> Response {
        let methods = operations::methods_of(route).and_then(|it| HeaderValue::try_from(it).ok());
        let preflight_headers = [
            (ACCESS_CONTROL_ALLOW_METHODS, methods.unwrap_or(EVERY_METHOD)),
            (ACCESS_CONTROL_ALLOW_HEADERS, READ),
            (ACCESS_CONTROL_MAX_AGE, REMEMBERED),
        ];
        (StatusCode::NO_CONTENT, preflight_headers).into_response()
    }

    /// Adds the headers to a response.
    pub(crate) fn write_to(self, response: &mut Response) {
        let headers = response.headers_mut();
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
