//! The request of a delivery, in the form that its protocol requires.

use bytes::Bytes;
use duly_core::{Timestamp, destination::Method};
use http::{
    HeaderValue, Uri,
    header::{CONTENT_LENGTH, HOST, USER_AGENT},
};
use hyper::Request;

use super::{connection::Body, headers, pool::PooledConnection, target::Target, unsent::Unsent};
use crate::Envelope;

/// Default `User-Agent`; a timer or a destination may replace it.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("Duly/", env!("CARGO_PKG_VERSION")));

/// Creates the request for `envelope`, sent at `now` over `pooled`, and the [`Unsent`] that watches its body.
///
/// # Errors
/// A sentence for operators, without the invalid value.
pub(super) fn build(
    envelope: &Envelope,
    target: &Target<'_>,
    pooled: &PooledConnection,
    now: Timestamp,
) -> Result<(Request<Body>, Unsent), String> {
    let mut headers = headers::build(envelope, now)?;
    headers.entry(USER_AGENT).or_insert(AGENT);
    let text = match pooled {
        PooledConnection::Http1(_) => {
            let host = HeaderValue::from_str(target.authority())
                .map_err(|_| "the URL's host cannot be sent".to_owned())?;
            headers.insert(HOST, host);
            target.path()
        }
        // The pseudo-headers are made from the whole URL.
        PooledConnection::Http2(_) => &target.url[..url::Position::AfterQuery],
    };
    let uri = Uri::try_from(text).map_err(|error| format!("the URL cannot be sent: {error}"))?;
    let payload = envelope.spec.payload.as_ref();
    let body = payload.map_or_else(Bytes::new, |payload| payload.bytes.clone());
    // Sent for an empty body too, because some receivers require it.
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
