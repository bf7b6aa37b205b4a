//! The request of a delivery, in the form of the protocol that carries it.

use bytes::Bytes;
use duly_core::{Timestamp, destination::Method};
use http::{
    HeaderValue, Uri,
    header::{CONTENT_LENGTH, HOST, USER_AGENT},
};
use hyper::Request;

use super::{connection::Body, headers, target::Target, unsent::Unsent};
use crate::Envelope;

/// Who sends; a timer or destination may say otherwise.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("Duly/", env!("CARGO_PKG_VERSION")));

/// How a request names its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// HTTP/1.1: path and `Host`.
    Path,
    /// HTTP/2: the whole URL, from which the pseudo-headers are made.
    Whole,
}

/// The request for `envelope`, sent at `now`, and what tells whether its body has left.
///
/// # Errors
/// A sentence for a person, without the value at fault.
pub(super) fn of(
    envelope: &Envelope,
    target: &Target<'_>,
    form: Form,
    now: Timestamp,
) -> Result<(Request<Body>, Unsent), String> {
    let mut headers = headers::of(envelope, now)?;
    headers.entry(USER_AGENT).or_insert(AGENT);
    let text = match form {
        Form::Path => {
            let host = HeaderValue::from_str(target.authority())
                .map_err(|_| "the URL's host cannot be sent".to_owned())?;
            headers.insert(HOST, host);
            target.path()
        }
        Form::Whole => &target.url[..url::Position::AfterQuery],
    };
    let uri = Uri::try_from(text).map_err(|error| format!("the URL cannot be sent: {error}"))?;
    let body = envelope.payload.as_ref().map_or_else(Bytes::new, |payload| payload.bytes.clone());
    // Said also of nothing: some receivers want to be told.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let (body, unsent) = Unsent::watch(body);
    let mut request = Request::new(Body::new(body));
    *request.method_mut() = match envelope.destination.method {
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
    };
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok((request, unsent))
}
