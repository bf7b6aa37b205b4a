//! The address of a server: `http://host:port` or `https://host:port`, and nothing else.

use http::{Uri, uri::Scheme};
use tonic::transport::Endpoint;

use crate::error::Invalid;

/// What an address may be.
const ALLOWED: &str = "http://host:port or https://host:port, without path, such as \
                       http://127.0.0.1:3859";

/// Checks an address, and takes it.
pub(super) fn endpoint(url: &str) -> Result<Endpoint, Invalid> {
    // Never shown whole: what stands before the @ may be a password.
    let refuse = |why: &str| Invalid::new("url", hidden(url), format!("{ALLOWED} ({why})"));
    let uri: Uri = url.parse().map_err(|error| refuse(&format!("{error}")))?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => {}
        Some(scheme) if *scheme == Scheme::HTTPS && cfg!(feature = "tls") => {}
        Some(scheme) if *scheme == Scheme::HTTPS => {
            return Err(refuse("https needs the feature \"tls\" of duly-client"));
        }
        Some(scheme) => return Err(refuse(&format!("{scheme} is another protocol"))),
        None => return Err(refuse("it does not begin with http:// or https://")),
    }
    let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refuse("it has a name or password in it: give the builder a token"));
    }
    if authority.host().is_empty() {
        return Err(refuse("it names no host"));
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(refuse("it has a path or query"));
    }
    Endpoint::from_shared(url.to_owned()).map_err(|error| refuse(&error.to_string()))
}

/// Whether it is one of TLS.
#[cfg(feature = "tls")]
pub(super) fn is_https(endpoint: &Endpoint) -> bool {
    endpoint.uri().scheme() == Some(&Scheme::HTTPS)
}

fn hidden(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url.to_owned(),
    }
}
