//! The address of a server: `http://host:port` or `https://host:port`, with a path if a proxy serves
//! Duly below one.

use std::sync::Arc;

use http::{Uri, uri::Scheme};
use tonic::transport::Endpoint;

use crate::error::Invalid;

/// The addresses that are allowed.
const ALLOWED: &str = "http://host:port or https://host:port, such as http://127.0.0.1:3859, with a \
                       path only where a proxy serves Duly below it";

/// Checks an address. Returns its endpoint, and the path prefix of every call.
pub(super) fn endpoint(url: &str) -> Result<(Endpoint, Option<Arc<str>>), Invalid> {
    // Never shown whole: the text before the @ may be a password.
    let refuse =
        |why: &str| Invalid::new("url", without_credentials(url), format!("{ALLOWED} ({why})"));
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
        return Err(refuse(
            "it has a name or password in it: give the builder a token, or use its basic()",
        ));
    }
    if authority.host().is_empty() {
        return Err(refuse("it names no host"));
    }
    if uri.query().is_some() {
        return Err(refuse("it has a query"));
    }
    let path = uri.path().trim_end_matches('/');
    let path_prefix = (!path.is_empty()).then(|| Arc::from(path));
    let endpoint = Endpoint::from_shared(url.to_owned());
    Ok((endpoint.map_err(|error| refuse(&error.to_string()))?, path_prefix))
}

/// Returns `true` if the address is one of TLS.
#[cfg(feature = "tls")]
pub(super) fn is_https(endpoint: &Endpoint) -> bool {
    endpoint.uri().scheme() == Some(&Scheme::HTTPS)
}

fn without_credentials(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url.to_owned(),
    }
}
